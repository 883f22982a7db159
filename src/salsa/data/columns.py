"""The features of a table as floats: numbers, codes of categories, parts of dates, and NaN for missing values.

This module reads plain values and describes features; ``table_columns`` reads everything else. It imports neither
pandas nor scikit-learn, so that a service starts quickly.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from salsa._utils.arrays import Floats
from salsa._utils.cached import cached_property
from salsa._utils.listing import some_of
from salsa.data.date_parts import DURATION, DURATION_UNITS, TREND, Part, duration_unit, reasons_against
from salsa.data.records import PlainTable, are_records, encode_plain, values_of_records

Level = str | int | float | bool

SPAN_LIMITS = (1e-130, 1e130)  # spans whose squared differences over bandwidths stay within float64


@dataclass(frozen=True, repr=False)
class Columns:
    """The D features that a training table gives, which encode any table with its columns as floats.

    A column is one feature, except that a column of dates is one feature for each of its parts.
    """

    names: tuple[str, ...]
    levels: tuple[tuple[Level, ...] | None, ...]  # levels of categories, coded 0..L-1; None for numbers
    ordered: tuple[bool, ...]  # whether codes are ranks, so that the feature counts as numbers
    parts: tuple[Part | None, ...] = ()  # parts of dates and durations, None for other features; empty: there are none

    def __repr__(self) -> str:
        held = [name for name, is_category in zip(self.names, self.categorical, strict=True) if is_category]
        categories = f", categories: {some_of(held)}" if held else ""
        return f"Columns {some_of(self.names)} ({len(self.names)}{categories})"

    @cached_property
    def table(self) -> tuple[str, ...]:
        """The names of the columns of the table."""
        return tuple(run[0].column if isinstance(run[0], Part) else run[0] for run in self._runs)

    @property
    def source(self) -> NDArray[np.intp]:
        """The number of the table's column (D,) that each feature comes from."""
        runs = self._runs
        return np.repeat(np.arange(len(runs)), [len(run) for run in runs])

    @property
    def first(self) -> NDArray[np.intp]:
        """The number of the first feature of each of the table's columns: of a date, its trend."""
        return np.searchsorted(self.source, np.arange(len(self.table)))

    @property
    def cyclic(self) -> NDArray[np.bool_]:
        """The mask (D,) of features that are places on a circle, such as the time of year."""
        return np.array([part is not None and part.is_cyclic for part in self.all_parts], dtype=bool)

    @property
    def all_parts(self) -> tuple[Part | None, ...]:
        """The part of a date, or the duration, of every feature (D,); None for other features."""
        return self.parts or (None,) * len(self.names)

    @property
    def _runs(self) -> list[list[str | Part]]:
        """Neighbouring features that come from one column of the table: the name of a column, or parts of a date."""
        runs: list[list[str | Part]] = []
        for name, part in zip(self.names, self.all_parts, strict=True):
            last = runs[-1][-1] if runs else None
            if part is not None and isinstance(last, Part) and last.column == part.column and last.name != DURATION:
                runs[-1].append(part)
            else:
                runs.append([name if part is None else part])
        return runs

    @property
    def categorical(self) -> NDArray[np.bool_]:
        """The mask (D,) of columns that hold categories without an order."""
        pairs = zip(self.levels, self.ordered, strict=True)
        return np.array([levels is not None and not ordered for levels, ordered in pairs], dtype=bool)

    @cached_property
    def codes(self) -> tuple[dict[Level, float] | None, ...]:
        """The codes of the levels of every column; None for numbers."""
        return tuple(
            None if known is None else {level: float(number) for number, level in enumerate(known)}
            for known in self.levels
        )

    def encode(self, X: Any) -> Floats:
        """Return the table as floats (n, D); levels not seen in training become NaN, with a warning.

        X may also be a dict, which is one row, or a list of dicts. Plain values take a short way, which dates and
        durations do not have.
        """
        records = values_of_records(X, self.table) if are_records(X) else None
        if not self.parts:
            plain = encode_plain(X if records is None else PlainTable(records), self.codes)
            if plain is not None:
                return plain
        from salsa.data.table_columns import encode_table  # here, because it imports pandas and scikit-learn

        return encode_table(X, records, self)

    def __getstate__(self) -> dict[str, Any]:
        """Return the fields alone: pickles do not depend on cached values."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def settled(self, low: Floats, high: Floats) -> Settled:
        """Leave out parts of dates that the ranges (D,) of all parts do not allow, and choose units of durations."""
        source, parts = self.source, list(self.all_parts)
        keep, notes, unit = np.ones(len(parts), dtype=bool), [], np.ones(len(parts))
        for first in np.flatnonzero([part is not None and part.name in (TREND, DURATION) for part in parts]).tolist():
            part = parts[first]
            assert part is not None
            if part.name == DURATION:
                name = duration_unit(low[first], high[first])
                parts[first], unit[first] = part._replace(detail=name), DURATION_UNITS[name]
            else:
                run = np.flatnonzero(source == source[first])
                reasons = reasons_against(low[run], high[run])
                keep[run] = [not reason for reason in reasons.values()]
                notes += [f"column {part.column!r}: no {name}, because {why}" for name, why in reasons.items() if why]
        columns = gathered([_feature(self, j)._replace(part=parts[j]) for j in np.flatnonzero(keep).tolist()])
        return Settled(columns, np.flatnonzero(keep), unit[keep], tuple(notes))

    def check_spans(self, X: Floats) -> None:
        """Raise ValueError if a column of encoded rows (n, D) spans too much, or too little, for squares in float64."""
        self.check_limits(np.fmin.reduce(X, axis=0), np.fmax.reduce(X, axis=0))

    def check_limits(self, low: Floats, high: Floats) -> None:
        """Check spans as ``check_spans`` does, from the least and largest values (D,); NaN if all are missing."""
        with np.errstate(over="ignore"):
            span = high - low
        beyond = (span > SPAN_LIMITS[1]) | ((span > 0) & (span < SPAN_LIMITS[0]))  # False for NaN: all are missing
        if beyond.any():
            j = int(beyond.argmax())
            limits = f"a span between {SPAN_LIMITS[0]:.0e} and {SPAN_LIMITS[1]:.0e} can be squared in float64"
            raise ValueError(f"column {self.names[j]!r} goes from {low[j]:.3g} to {high[j]:.3g}; {limits}: rescale it")

    def check_codes(self, X: Floats) -> None:
        """Raise ValueError if encoded rows (n, D) have codes without a level."""
        for name, levels, codes in zip(self.names, self.levels, X.T, strict=True):
            if levels is not None and not np.isin(codes[~np.isnan(codes)], np.arange(len(levels))).all():
                raise ValueError(f"column {name!r} has codes other than those of its {len(levels)} levels")


class Settled(NamedTuple):
    """The features of a table whose ranges are known: which were kept, and the units of durations in seconds."""

    columns: Columns
    keep: NDArray[np.intp]
    unit: Floats  # of the kept features; 1 for all that are no durations
    notes: tuple[str, ...]  # why parts of dates were left out

    def of(self, values: Floats) -> Floats:
        """Return the kept features of rows (n, D), or of ranges (D,)."""
        return values if len(self.keep) == values.shape[-1] and (self.unit == 1).all() else self._taken(values)

    def _taken(self, values: Floats) -> Floats:
        return np.ascontiguousarray(values[..., self.keep] / self.unit)


class Feature(NamedTuple):
    """One feature: an entry of each field of ``Columns``."""

    name: str
    levels: tuple[Level, ...] | None = None
    ordered: bool = False
    part: Part | None = None


def gathered(features: Sequence[Feature]) -> Columns:
    """Return these features, one after the other."""
    names, levels, ordered, parts = zip(*features, strict=True)
    return Columns(names, levels, ordered, parts if any(parts) else ())


def merged_columns(one: Columns, other: Columns, *empty: NDArray[np.bool_]) -> Columns:
    """Merge the columns of two tables with the same names; `empty` are two masks (D,) of columns without values."""
    kinds = [
        _merged_kind(name, *kinds) for name, *kinds in zip(one.names, _kinds(one), _kinds(other), *empty, strict=True)
    ]
    parts = [_merged_part(*pair) for pair in zip(one.all_parts, other.all_parts, *empty, strict=True)]
    levels, ordered = tuple(levels for levels, _ in kinds), tuple(ordered for _, ordered in kinds)
    return Columns(one.names, levels, ordered, tuple(parts) if any(parts) else ())


def adopted_parts(one: Columns, other: Columns, empty: NDArray[np.bool_]) -> tuple[Columns, NDArray[np.intp]]:
    """Give columns of `one` without values, by the mask `empty` (D,), the parts that they have in `other`.

    Also return the feature of `one` that each feature of the result comes from.
    """
    features: list[Feature] = []
    places: list[int] = []
    for mine, theirs in zip(_runs_of(one), _runs_of(other), strict=True):
        adopts = empty[mine].all() and one.all_parts[mine[0]] is None and other.all_parts[theirs[0]] is not None
        features += [_feature(other, j) for j in theirs] if adopts else [_feature(one, j) for j in mine]
        places += [mine[0]] * len(theirs) if adopts else mine
    return gathered(features), np.array(places, dtype=np.intp)


def _runs_of(columns: Columns) -> list[list[int]]:
    """Return the numbers of the features of every column of the table."""
    return [np.flatnonzero(columns.source == place).tolist() for place in range(len(columns.table))]


def _feature(columns: Columns, j: int) -> Feature:
    return Feature(columns.names[j], columns.levels[j], columns.ordered[j], columns.all_parts[j])


def _merged_part(one: Part | None, other: Part | None, one_empty: bool, other_empty: bool) -> Part | None:
    """Merge a part of a date, or a duration, of two tables; a table without values takes the zone of the other."""
    if one == other or other_empty:
        return one
    if one_empty:
        return other
    if one is None or other is None:
        name = (one or other or Part("", "", None)).column
        raise ValueError(f"column {name!r} holds durations in some blocks and numbers in others; give it one dtype")
    problem = "has stamps of different time zones, or of none, in different blocks"
    raise ValueError(f"column {one.column!r} {problem}; convert all to one zone")


_Kind = tuple[tuple[Level, ...] | None, bool]  # levels, and whether they have an order


def _kinds(columns: Columns) -> list[_Kind]:
    return list(zip(columns.levels, columns.ordered, strict=True))


def _merged_kind(name: str, one: _Kind, other: _Kind, one_empty: bool, other_empty: bool) -> _Kind:
    """Merge the kinds of a column in two tables; a column without values takes the kind of the other."""
    if one == other or (other_empty and not other[0]):
        return one
    if one_empty and not one[0]:
        return other
    if one[0] is None or other[0] is None or one[1] or other[1]:
        problem = "holds numbers in some blocks and categories in others, or categories in another order"
        raise ValueError(f"column {name!r} {problem}; give it the same dtype in all blocks")
    return sorted_levels({*one[0], *other[0]}), False


def sorted_levels(levels: Iterable[Level]) -> tuple[Level, ...]:
    """Return levels in the order of their codes: numbers first."""
    return tuple(sorted(levels, key=lambda level: (isinstance(level, str), level)))
