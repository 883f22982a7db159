"""Sets of features that may interact: parsing, positions of features, and layers of disjoint sets."""

from __future__ import annotations

import numbers
from collections.abc import Collection, Iterable, Sequence
from difflib import get_close_matches
from math import comb
from typing import Any, NamedTuple

import numpy as np

from salsa.data.columns import Columns

Sets = tuple[tuple[int, ...], ...]  # positions of features, ascending within a set

PARAMETER = "interaction_cst"
HIGHEST = {"no_interactions": 1, "pairwise": 2}  # the largest order that each word allows
CHOICES = "None, 'pairwise', 'no_interactions' or a list of sets of features, such as [{'area', 'rooms'}, {0, 3}]"


class Allowed(NamedTuple):
    """The interactions that a function may have: up to a largest order, and within sets of features.

    Features are names or positions as the user gives them until ``resolved`` has turned them into positions.
    """

    highest: int | None = None  # None: any order
    sets: tuple[tuple[Any, ...], ...] = ()  # no sets: any features

    def most(self, D: int) -> int:
        """Return the largest order of interaction among D features."""
        largest = max((len(S) for S in self.sets), default=D)
        return min(largest, D if self.highest is None else self.highest)


def parse_allowed(value: Any) -> Allowed:
    """Parse a parameter that is not None; raise ValueError with the wrong value and the valid choices."""
    if isinstance(value, str):
        if value not in HIGHEST:
            raise ValueError(f"{PARAMETER}={value!r} must be {CHOICES}")
        return Allowed(HIGHEST[value])
    if not isinstance(value, list | tuple | np.ndarray):
        raise ValueError(f"{PARAMETER}={value!r} must be {CHOICES}")
    if len(value) == 0:
        raise ValueError(f"{PARAMETER} is empty: give None to allow all interactions, or 'no_interactions'")
    return Allowed(sets=tuple(_parsed(place, given) for place, given in enumerate(value)))


def _parsed(place: int, given: Any) -> tuple[Any, ...]:
    """Return the features of the set at this place of the list."""
    where = f"{PARAMETER}: set number {place} (counted from 0)"
    if not isinstance(given, list | tuple | set | frozenset | np.ndarray):
        raise ValueError(f"{where} is {given!r}: give a set of names or positions, such as {{'area', 'rooms'}}")
    features = tuple(given.tolist() if isinstance(given, np.ndarray) else given)
    if not features:
        raise ValueError(f"{where} is empty: leave it out, or name its features")
    for feature in features:
        if isinstance(feature, bool | np.bool_) or not isinstance(feature, str | numbers.Integral):
            raise ValueError(f"{where} holds {feature!r}: features are names, or positions counted from 0")
    return features


def resolved(allowed: Allowed, columns: Columns) -> Allowed:
    """Return sets of positions of features; features in no set form one additional set.

    A column of dates stands for all of its parts. Sets within other sets are dropped. All sets of k features are the
    same as a largest order k.
    """
    D = len(columns.names)
    sets = [{j for name in S for j in _positions(name, place, columns)} for place, S in enumerate(allowed.sets)]
    others = set(range(D)).difference(*sets)
    found = maximal([*sets, others])
    size = len(found[0])
    if all(len(S) == size for S in found) and len(found) == comb(D, size):
        return Allowed(None if size == D else size)
    return Allowed(sets=found)


def _positions(feature: Any, place: int, columns: Columns) -> list[int]:
    """Return the positions of the features of a column, or of the part of a date that is named."""
    if isinstance(feature, str) and feature in columns.names:
        return [columns.names.index(feature)]
    found: list[int] = np.flatnonzero(columns.source == _position(feature, place, columns.table)).tolist()
    return found


def _position(feature: Any, place: int, names: Sequence[str]) -> int:
    where = f"{PARAMETER}: set number {place} (counted from 0)"
    if not isinstance(feature, str):
        if not 0 <= feature < len(names):
            raise ValueError(f"{where} holds {feature}: positions of this table are 0 to {len(names) - 1}")
        return int(feature)
    if feature not in names:
        near = get_close_matches(feature, names, n=1)
        listed = ", ".join(map(repr, names[:8])) + (", ..." if len(names) > 8 else "")
        advice = f"did you mean {near[0]!r}?" if near else f"columns are {listed}"
        raise ValueError(f"{where} holds {feature!r}, which is no column of this table; {advice}")
    return names.index(feature)


def maximal(sets: Iterable[Collection[int]]) -> Sets:
    """Return the sets that are within no other set, in the order of their features; empty sets are dropped."""
    distinct = sorted({frozenset(S) for S in sets if len(S)}, key=lambda S: (-len(S), sorted(S)))
    holders: dict[int, list[frozenset[int]]] = {}  # kept sets by feature: only these can hold a set with the feature
    kept = []
    for S in distinct:
        if not any(other >= S for other in holders.get(min(S), ())):
            kept.append(S)
            for feature in S:
                holders.setdefault(feature, []).append(S)
    return tuple(sorted(tuple(sorted(S)) for S in kept))


def disjoint_layers(sets: Sets) -> list[Sets]:
    """Cut sets of two or more features into layers: disjoint sets of one size, the largest size first."""
    layers: list[list[tuple[int, ...]]] = []
    for S in sorted((S for S in sets if len(S) > 1), key=lambda S: (-len(S), S)):
        fitting = (layer for layer in layers if len(layer[0]) == len(S) and all(map(set(S).isdisjoint, layer)))
        if (layer := next(fitting, None)) is None:
            layers.append([S])
        else:
            layer.append(S)
    return [tuple(layer) for layer in layers]


def lone_features(sets: Sets) -> tuple[int, ...]:
    """Return the features that form a set by themselves."""
    return tuple(S[0] for S in sets if len(S) == 1)
