"""The values of a text column: how many of them are numbers, in which formats, and how many differ."""

from __future__ import annotations

from collections import Counter
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from salsa.data.number_format import STYLES, Style, anatomy, is_missing_word
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
        self.words: Counter[str] = Counter()  # words for missing values, in columns of numbers
        self.distinct: set[str] = set()  # at most MOST_TEXTS + 1 of them
        self.example = ""
        self.other: Seen | None = None  # the first value that is neither a number nor such a word
        self._others = 0
        self._kinds: Counter[tuple[Unit, frozenset[Style]]] = Counter()  # numbers by unit and fitting styles
        self._first: dict[tuple[Unit, frozenset[Style]], Seen] = {}

    def add(self, column: pd.Series[Any]) -> None:
        """Count the values of a chunk."""
        places, distinct = pd.factorize(column)
        counts = np.bincount(places[places >= 0], minlength=len(distinct))
        for place, (value, count) in enumerate(zip(map(str, distinct), counts.tolist(), strict=True)):
            text = value.strip()
            self.values += count
            self.spaced += count if text and text != value else 0
            if text and len(self.distinct) <= MOST_TEXTS:
                self.distinct.add(text)
            self._take(text, count, lambda place=place: int(column.index[(places == place).argmax()]) + 1)

    def _take(self, text: str, count: int, row: Any) -> None:
        found = anatomy(text)
        if found is None and is_missing_word(text):
            self.words[text] += count
            return
        self.example = self.example or text
        if found is None:
            self._others += count
            self.other = self.other or Seen(row(), text)
            return
        self.bracketed += count if text.startswith("(") else 0
        kind = found.unit(text), found.styles
        self._kinds[kind] += count
        if kind not in self._first:
            self._first[kind] = Seen(row(), text)

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
