"""Copies of rows: what counts as one observation.

Rows that agree in all features, and in their group if there are groups, form a cell.

- All targets of the cell agree: the rows are copies of one observation, whose weight is the sum of theirs.
- The targets differ: the rows are ordinary replicates, each an observation.
- The targets differ and recur in other cells with other weights, and a weight is above the least (aggregated counts):
  the rows are observations that are held out together.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from salsa._utils.arrays import Floats, Places
from salsa.data.rows import Observations

Hashes = NDArray[np.uint64]
_MIX = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_NAN = np.uint64(0x7FF8000000000000)
RECURRING = 0.5  #: the share of targets in weighted cells that must recur in other cells, for weights to be counts


class Cells(NamedTuple):
    """The cell of every row (n,), and per cell whether its rows are copies, and whether they are aggregated counts."""

    cell: Places
    copies: NDArray[np.bool_]
    counts: NDArray[np.bool_]

    @property
    def repeated(self) -> int:
        """The number of rows that are copies of others."""
        return int(np.sum((np.bincount(self.cell) - 1)[self.copies]))

    @property
    def together(self) -> NDArray[np.bool_]:
        """Whether the rows of each cell are held out together."""
        return self.copies | self.counts

    def units(self) -> Places | None:
        """Return numbers (n,) that are equal for rows that are held out together; None if all rows are alone."""
        alone = ~self.together[self.cell]
        if alone.all():
            return None
        unit = np.where(alone, len(self.copies) + np.arange(len(self.cell)), self.cell)
        return np.unique(unit, return_inverse=True)[1]


class Prints(NamedTuple):
    """Fingerprints of rows: hashes of features with the group (n,) and of targets (n,), and weights (n,)."""

    x: Hashes
    y: Hashes
    weight: Floats

    def __add__(self, other: Prints) -> Prints:  # type: ignore[override]
        """Return the fingerprints of the rows of both."""
        return Prints(*(np.concatenate(pair) for pair in zip(self, other, strict=True)))

    def within(self, group: Places) -> Prints:
        """Return the fingerprints with the groups (n,) of the rows: rows of different groups differ."""
        return self._replace(x=_mixed(self.x ^ _mixed(group.astype(np.uint64))))

    @classmethod
    def none(cls) -> Prints:
        return cls(np.empty(0, dtype=np.uint64), np.empty(0, dtype=np.uint64), np.empty(0))


def prints_of(rows: Observations) -> Prints:
    """Return the fingerprints of rows."""
    prints = Prints(row_hashes(rows.X), row_hashes(rows.Y), rows.weight)
    return prints if rows.group is None else prints.within(rows.group)


def find_cells(prints: Prints) -> Cells | None:
    """Return the cells of rows; None if no two rows have the same features.

    Only ratios of weights matter: in a cell of aggregated counts, some weight is not the least of the table. Outcomes
    that are counted recur from cell to cell, and not with the same weight everywhere: repeated measurements with a
    precision each do not recur, and weights of classes follow from the target.
    """
    x, y, weight = prints
    _, first, cell = np.unique(x, return_index=True, return_inverse=True)
    if len(first) == len(x):
        return None
    size = np.bincount(cell)
    differs = np.bincount(cell, y != y[first[cell]]) > 0
    weighted = np.bincount(cell, weight != weight.min()) > 0
    counts = differs & weighted
    if counts.any():
        _, first, target = np.unique(y, return_index=True, return_inverse=True)
        varies = bool((weight != weight[first[target]]).any())  # among the rows of a target
        counts &= varies and float(_recurring(cell, target)[counts[cell]].mean()) >= RECURRING
    return Cells(cell, (size > 1) & ~differs, counts)


def _recurring(cell: Places, target: Places) -> NDArray[np.bool_]:
    """Return whether the target of every row (n,) is that of a row in another cell, too, from numbers of targets."""
    cells = int(cell.max()) + 1
    recurs: NDArray[np.bool_] = np.bincount(np.unique(target * cells + cell) // cells)[target] > 1
    return recurs


def row_hashes(X: Floats) -> Hashes:
    """Return numbers (n,) that are equal for equal rows of X (n, D), and differ for all but 2^-64 of other pairs."""
    found = np.full(len(X), X.shape[1], dtype=np.uint64)
    for x in X.T:
        bits = np.where(np.isnan(x), _NAN, (x + 0.0).view(np.uint64))  # -0.0 equals 0.0, and every NaN any other
        found = _mixed(found ^ bits)
    return found


def merged(rows: Observations, cells: Cells, pattern: Hashes | None) -> tuple[Observations, Places]:
    """Return every observation once, copies with the sum of their weights, and the places of their first rows.

    Copies with different patterns (n,), which given splits treat differently, stay apart.
    """
    copied, alone = cells.copies[cells.cell], len(cells.copies) + np.arange(len(cells.cell))
    key = np.where(copied, cells.cell, alone).astype(np.uint64)
    key = key if pattern is None else np.where(copied, _mixed(_mixed(key) ^ pattern), _mixed(key))
    _, first, place = np.unique(key, return_index=True, return_inverse=True)
    places = np.sort(first)
    weight = np.bincount(place, rows.weight).astype(np.float64)
    return rows._replace(weight=weight[place]).some(places), places


def _mixed(values: Hashes) -> Hashes:
    """Return well mixed bits of every number, one to one (the finaliser of SplitMix64)."""
    values = values + _MIX[0]
    values = (values ^ (values >> np.uint64(30))) * _MIX[1]
    values = (values ^ (values >> np.uint64(27))) * _MIX[2]
    return values ^ (values >> np.uint64(31))
