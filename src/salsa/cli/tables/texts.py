"""The values of a text column: how many of them are numbers, in which formats, and how many differ."""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from salsa._utils.arrays import Places
from salsa.data.number_format import STYLES, Anatomy, Style, by_anatomy, is_missing_word
from salsa.data.stamps import are_iso
from salsa.data.text_columns import MOST_TEXTS

Unit = tuple[str, str]  # what stands before and after the digits


class Seen(NamedTuple):
    """A value and the row in which it was seen first, counted from 1."""

    row: int
    text: str

    def __str__(self) -> str:
        return f"{self.text!r} in row {self.row}"


class Texts:
    """The values of a text column, counted over all chunks of a table."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.values = self.spaced = self.bracketed = 0
        self.words: Counter[str] = Counter()  # words for missing values, in columns of numbers or dates
        self.distinct: set[str] = set()  # at most MOST_TEXTS + 1 of them
        self.example = ""
        self.other: Seen | None = None  # the first value that is neither a number nor such a word
        self.dates = 0  # dates of ISO 8601
        self.no_date: Seen | None = None  # the first value that is neither a date nor such a word
        self._others = 0
        self._kinds: Counter[tuple[Unit, frozenset[Style]]] = Counter()  # numbers by unit and fitting styles
        self._first: dict[tuple[Unit, frozenset[Style]], Seen] = {}

    def add(self, column: pd.Series[Any]) -> None:
        """Count the values of a chunk."""
        places, distinct = pd.factorize(column)
        values = list(map(str, distinct.to_numpy(object)))
        texts = [value.strip() for value in values]
        counts = np.bincount(places[places >= 0], minlength=len(texts))
        self.values += int(counts.sum())
        self.spaced += sum(int(counts[i]) for i, text in enumerate(texts) if text and text != values[i])
        if len(self.distinct) <= MOST_TEXTS:
            self.distinct.update(islice(filter(None, texts), MOST_TEXTS + 1))
        rows = _first_rows(column.index, places, len(texts))
        found: list[int] = []  # places of values that are no words for missing values
        for parts, where in by_anatomy(texts):
            if parts is None:
                found += self._add_words(texts, where, counts, rows)
            else:
                self._add_numbers(parts, texts, where, counts, rows)
                found.append(where[0])
        self._add_dates(texts, found, counts, rows)
        if not self.example and found:
            self.example = texts[min(found)]

    def _add_words(self, texts: list[str], where: list[int], counts: Any, rows: Places) -> list[int]:
        """Count texts that are no numbers; return the places of texts that are no words for missing values."""
        others = []
        for place in where:
            if is_missing_word(texts[place]):
                self.words[texts[place]] += int(counts[place])
            else:
                others.append(place)
                self._others += int(counts[place])
        if others:
            seen = Seen(int(rows[others[0]]), texts[others[0]])
            self.other = seen if self.other is None else min(self.other, seen)
        return others

    def _add_numbers(self, parts: Anatomy, texts: list[str], where: list[int], counts: Any, rows: Places) -> None:
        """Count numbers with the same parts, by their unit."""
        units: defaultdict[Unit, list[int]] = defaultdict(list)
        for place in where:
            units[parts.unit(texts[place])].append(place)
        for unit, own in units.items():
            kind, count = (unit, parts.styles), int(counts[own].sum())
            self._kinds[kind] += count
            self.bracketed += count if texts[own[0]].startswith("(") else 0
            seen = Seen(int(rows[own[0]]), texts[own[0]])
            self._first[kind] = min(self._first.get(kind, seen), seen)

    def _add_dates(self, texts: list[str], where: list[int], counts: Any, rows: Places) -> None:
        """Count dates among texts that are no words for missing values; chunks come in the order of the rows."""
        dates = {place for place in where if are_iso([texts[place]])}
        self.dates += int(counts[list(dates)].sum())
        if self.no_date is None and (others := set(where) - dates):
            first = min(others)
            self.no_date = Seen(int(rows[first]), texts[first])

    @property
    def total(self) -> int:
        """The number of values that are not words for missing values."""
        return self.values - self.words.total()

    @property
    def has_only_numbers(self) -> bool:
        """Whether all values are numbers, perhaps of several units and styles."""
        return not self._others

    @property
    def unit(self) -> Unit:
        """The most frequent unit of the numbers."""
        units: Counter[Unit] = Counter()
        for (unit, _), count in self._kinds.items():
            units[unit] += count
        return units.most_common(1)[0][0] if units else ("", "")

    @property
    def units(self) -> int:
        return len({unit for unit, _ in self._kinds})

    @property
    def numbers(self) -> int:
        """The number of values that the most frequent unit and a best style can read."""
        return max(self._counts().values())

    @property
    def styles(self) -> list[Style]:
        """The styles that read the most values, simple ones first."""
        counts = self._counts()
        best = max(counts.values())
        return [style for style in STYLES if counts[style] == best]

    @property
    def proof(self) -> str:
        """The decimal mark, if the column is all numbers and only one mark can be meant; otherwise empty."""
        decimals = {style.decimal for style in self.styles}
        return decimals.pop() if len(decimals) == 1 and self.total and self.numbers == self.total else ""

    @property
    def has_marks(self) -> bool:
        """Whether values have marks for decimals or thousands."""
        return len(self.styles) < len(STYLES)

    @property
    def telling(self) -> str:
        """The first number with marks for decimals or thousands; the first value if there is none."""
        marked = (seen for (_, styles), seen in self._first.items() if len(styles) < len(STYLES))
        return min(marked, default=Seen(0, self.example)).text

    def unlike(self, style: Style) -> Seen | None:
        """Return the first value that is no number of the most frequent unit and of this style."""
        unit = self.unit
        wrong = [seen for kind, seen in self._first.items() if kind[0] != unit or style not in kind[1]]
        return min([*wrong, *([self.other] if self.other else [])], default=None)

    def like(self, style: Style) -> Seen | None:
        """Return the first value that is a number of the most frequent unit and of this style."""
        unit = self.unit
        return min((seen for kind, seen in self._first.items() if kind[0] == unit and style in kind[1]), default=None)

    def _counts(self) -> dict[Style, int]:
        """Return how many numbers of the most frequent unit every style can read."""
        unit, counts = self.unit, dict.fromkeys(STYLES, 0)
        for (own, styles), count in self._kinds.items():
            if own == unit:
                for style in styles:
                    counts[style] += count
        return counts


def _first_rows(index: pd.Index[Any], places: Places, count: int) -> Places:
    """Return the first row (count,) of every distinct value, counted from 1; places (n,) are -1 where missing."""
    rows = np.empty(count + 1, dtype=np.intp)
    rows[places[::-1]] = index.to_numpy()[::-1] + 1  # the last assignment counts: the first row
    return rows[:-1]
