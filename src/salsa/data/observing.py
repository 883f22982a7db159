"""Observations from rows: copies are merged, weights are one on average, and units say what is held out together."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from salsa._utils.arrays import Floats, Places
from salsa.data.blocks import Survey
from salsa.data.copies import Cells, Hashes, find_cells, merged, prints_of
from salsa.data.rows import Observations, mean_weight


class Judgeable(NamedTuple):
    """Observations with weights that are one on average, and what is held out together."""

    rows: Observations
    places: Places  # (n,) of the observations among the rows of the table
    unit: Places | None  # (n,) of groups, or of cells of aggregated counts; None: every row by itself
    counts: Floats | None  # (n,) how many new observations a row stands for; None: one
    mean_weight: float  # the mean of the weights as given
    notes: tuple[str, ...]

    def ascending(self) -> Judgeable:
        """Return the observations in ascending order: then their order in the table does not matter."""
        order = self.rows.ascending()
        rows, unit = self.rows.some(order), None if self.unit is None else numbered(self.unit[order])
        rows = rows._replace(group=None if rows.group is None else numbered(rows.group))
        return self._replace(rows=rows, places=self.places[order], unit=unit, counts=_at(self.counts, order))


def judged(kept: Observations, pattern: Hashes | None) -> Judgeable:
    """Return the observations of rows with positive weights; pattern (n,): how given splits treat each row."""
    cells = find_cells(prints_of(kept))
    rows, places, unit, counts = kept, np.arange(len(kept.X)), _units(kept, cells), _counts(kept, cells)
    if cells is not None and cells.copies.any():
        rows, places = merged(kept, cells, pattern)
        unit, counts = _at(unit, places), _at(counts, places)
    mean = mean_weight(rows.weight)
    rows = rows._replace(weight=rows.weight / mean, group=None if rows.group is None else numbered(rows.group))
    return Judgeable(rows, places, _numbered_units(unit), counts, mean, _notes(cells, len(kept.X)))


class Streamed(NamedTuple):
    """What is held out together in a table that is read in blocks; copies are not merged."""

    unit: Places | None  # (n,) as in ``Judgeable``
    counts: Floats | None  # (n,) as in ``Judgeable``
    notes: tuple[str, ...]


def judged_stream(seen: Survey) -> Streamed:
    """Return what is held out together in a table that is read in blocks, and notes on copies."""
    cells = find_cells(seen.prints if seen.groups is None else seen.prints.within(seen.groups.code))
    unit = (None if cells is None else cells.units()) if seen.groups is None else seen.groups.code
    weight = seen.prints.weight
    counts = weight / weight.min() if cells is not None and cells.counts.any() else None
    return Streamed(_numbered_units(unit), counts, _notes(cells, seen.rows))


def _at(values: Any, places: Any) -> Any:
    return None if values is None else values[places]


def _units(rows: Observations, cells: Cells | None) -> Places | None:
    if rows.group is not None:
        return rows.group
    return None if cells is None else cells.units()


def _counts(rows: Observations, cells: Cells | None) -> Floats | None:
    """Return how many new observations a row stands for; None: one.

    If a table has aggregated counts, all its weights are counts, in units of the least. Otherwise weights are
    precisions, and copies stand for as many as they are.
    """
    if cells is None or not cells.together.any():
        return None
    if cells.counts.any():
        counts: Floats = rows.weight / rows.weight.min()
        return counts
    return np.where(cells.copies[cells.cell], np.bincount(cells.cell)[cells.cell], 1.0)


def _notes(cells: Cells | None, n: int) -> tuple[str, ...]:
    notes: tuple[str, ...] = ()
    if cells is not None and cells.repeated:
        copies = cells.repeated
        what = "is a copy of another" if copies == 1 else "are copies of others"
        meaning = "copies count as one observation with the sum of their weights"
        notes += (f"{copies} of {n} rows {what}, target included: {meaning}",)
    if cells is not None and cells.counts.any():
        notes += (
            "weights are read as numbers of observations, because rows with equal features have different targets that "
            "recur in other rows; if weights are precisions, merge such rows into their weighted mean",
        )
    return notes


def numbered(labels: Places) -> Places:
    """Return numbers 0, 1, ... of the labels in the order of their first rows: their names do not matter."""
    _, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[inverse]


def _numbered_units(unit: Places | None) -> Places | None:
    """Return units by number; None if every row is a unit by itself."""
    if unit is None:
        return None
    number = numbered(unit)
    return None if int(number.max()) + 1 == len(number) else number
