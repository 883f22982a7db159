"""The understanding of a table: the kind of every column, what was done with its values, and rows left out."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from salsa.cli.tables.checking import is_text, is_timed, read_dates, read_numbers
from salsa.cli.tables.dialect import FileFacts
from salsa.cli.tables.kinds import House, Verdict, categories, decide
from salsa.cli.tables.messages import column_error
from salsa.cli.tables.profile import NAMELESS, Profile
from salsa.cli.tables.texts import Texts
from salsa.data.column_words import CATEGORY, DATE, LEFT_OUT
from salsa.data.number_format import PLAIN, NumberFormat

POINTS = 1000  # numbers with more than three decimals prove that a point marks decimals, not thousands


class Understood(NamedTuple):
    """One column: a row of the table that is printed."""

    column: str
    kind: str
    missing: int | None  # None for columns that are not looked at
    example: str
    done: str
    levels: int | None = None  # number of categories, if it was counted


class Understanding(NamedTuple):
    """All columns of a table, its number of rows, and the notes on its file."""

    data: str
    rows: int  # rows that are used
    dropped: int  # rows without a target
    file: list[str]  # notes on separators, encoding and lengths of rows
    columns: list[Understood]
    changes: list[str]  # changes of names and values, by column

    def summary(self) -> dict[str, Any]:
        """Return plain values for JSON; changes are in the columns."""
        columns = {"columns": [column._asdict() for column in self.columns]}
        return {name: value for name, value in self._asdict().items() if name != "changes"} | columns


class Interpreter:
    """Decides over all chunks of a table what its columns hold, and turns chunks into plain numbers and categories."""

    def __init__(
        self,
        source: str,
        facts: FileFacts,
        target: str,
        numbers: Collection[str] = (),
        features: Collection[str] = (),
        categories: Collection[str] = (),
        classes: bool = False,
    ) -> None:
        """Take the target, other columns that must be numbers, the features, and features that are categories.

        With ``classes``, the target holds classes, also if it looks like numbers.
        """
        self.source, self.facts, self.target, self.features = source, facts, target, list(features)
        self._numbers, self._labels = [target, *numbers], {target} if classes else set[str]()
        self._free = [name for name in features if name not in categories]
        self._texts: dict[str, Texts] = {}
        self._verdicts: dict[str, Verdict] = {}
        self._profiles: dict[str, Profile] = {}
        self._timed: set[str] = set()  # dates and durations by their type
        self._has_points = False  # a column of plain numbers proves that a point marks decimals
        self.formats: dict[str, NumberFormat] = {}
        self.codes: Collection[str] = ()  # columns of digits with leading zeros
        self.rows = self.dropped = 0

    def add_texts(self, chunk: pd.DataFrame, names: Collection[str] = ()) -> None:
        """Count the texts of a chunk: of all columns of text, or of the columns with these names."""
        for name in names or (*self._numbers, *self._free):
            if name in names or is_text(chunk[name]):
                self._texts.setdefault(name, Texts(name)).add(chunk[name])
        if not names:
            self._timed.update(name for name in self._free if is_timed(chunk[name]))
            self._has_points = self._has_points or any(map(_has_points, self._plain(chunk)))

    def suspects(self, floats: Collection[str]) -> list[str]:
        """Return columns of numbers such as 1.234 whose points may mark thousands, as others have decimal commas."""
        style = self._house.style
        if self.facts.separator is None or style is None or style.decimal == ".":
            return []
        return [name for name in (*self._numbers, *self._free) if name in floats and name not in self._texts]

    def decide(self) -> None:
        """Decide about every column; raise ValueError for the first contradiction, which names further columns."""
        house, problems = self._house, dict[str, str]()
        for name, texts in self._texts.items():
            try:
                is_label, is_number = name in self._labels, name in self._numbers
                self._verdicts[name] = categories(texts) if is_label else decide(texts, house, is_feature=not is_number)
            except ValueError as error:
                problems[name] = str(error)
        if problems:
            first, *others = problems
            also = f" (also look at {', '.join(map(repr, others))})" if others else ""
            raise ValueError(problems[first] + also)
        self.formats = {name: verdict.format for name, verdict in self._verdicts.items() if verdict.format is not None}
        if house.style not in (None, PLAIN):
            decided = {*self._verdicts, *self._labels, *self._timed}
            plain = [name for name in (*self._numbers, *self._free) if name not in decided]
            self.formats |= dict.fromkeys(plain, NumberFormat(*house.style))

    def taken(self, chunk: pd.DataFrame) -> pd.DataFrame:
        """Return the rows with a target, with numbers as float64 and texts of categories without spaces around them."""
        return self._with_target(self._every(chunk))

    def observe(self, chunk: pd.DataFrame) -> pd.DataFrame:
        """Return the chunk as ``taken`` does, and take note of its values."""
        every = self._every(chunk)
        plain = self._with_target(every)
        self.rows += len(plain)
        self.dropped += len(chunk) - len(plain)
        for name in chunk:
            self._profiles.setdefault(str(name), Profile(str(name))).add(plain[name], every[name])
        return plain

    def _every(self, chunk: pd.DataFrame) -> pd.DataFrame:
        """Return all rows, with numbers as float64 and texts of categories without spaces around them."""
        columns = {name: self._converted(chunk[name]) for name in self._texts if name in chunk}
        return chunk.assign(**columns) if columns else chunk

    def _with_target(self, rows: pd.DataFrame) -> pd.DataFrame:
        present = rows[self.target].notna()
        return rows if present.all() else rows[present]

    def used(self, special: Iterable[str]) -> list[str]:
        """Return the features and the special columns, such as the target."""
        return [*self.features, *special]

    def check_target(self) -> None:
        """Raise ValueError if no row has a target."""
        if not self.rows:
            raise column_error(self.target, self.source, "has no values", "; choose another target")

    @property
    def empty(self) -> list[str]:
        """Features without any value."""
        return [name for name in self.features if self._profiles[name].is_empty]

    @property
    def left_out(self) -> list[str]:
        """Features that are left out though they have values: identifiers, and numbers of rows without a name."""
        odd = {name for name, verdict in self._verdicts.items() if verdict.kind == LEFT_OUT}
        return [name for name in self._free if name in odd or self._profiles[name].is_row_number]

    @property
    def notes(self) -> list[str]:
        """Changes of the data: columns without values, columns left out, and rows without a target."""
        notes = [f"column {name!r} has no values and is ignored" for name in self.empty]
        notes += [f"column {name!r} is {'; '.join(self._done(name))}" for name in self.left_out]
        if self.dropped:
            rows = f"{self.dropped} {'row' if self.dropped == 1 else 'rows'}"
            notes.append(f"{rows} without a value in column {self.target!r} left out")
        return notes

    def understanding(self, names: Iterable[str], roles: Mapping[str, str]) -> Understanding:
        """Return the table of all columns; `roles` says what columns are that are no features, or were asked for."""
        columns = [self._understood(name, roles.get(name, "")) for name in names]
        kept = [column.column for column in columns if column.kind != LEFT_OUT]
        done = {name: [*self._renamed(name), *self._verdicts.get(name, Verdict("")).done] for name in kept}
        changes = [f"column {name!r}: {'; '.join(texts)}" for name, texts in done.items() if texts]
        return Understanding(self.source, self.rows, self.dropped, self.facts.notes, columns, changes)

    @property
    def _house(self) -> House:
        return House(self.source, self.facts.separator).of(self._texts.values(), self._has_points)

    def _plain(self, table: pd.DataFrame) -> list[pd.Series[Any]]:
        names = [name for name in (*self._numbers, *self._free) if name not in self._texts]
        return [table[name] for name in names if pd.api.types.is_float_dtype(table[name])]

    def _converted(self, column: pd.Series[Any]) -> pd.Series[Any]:
        verdict = self._verdicts[str(column.name)]
        if verdict.format is not None:
            return read_numbers(column, verdict.format)
        if verdict.kind == DATE:
            return read_dates(column)
        texts = self._texts[str(column.name)]
        plain = trimmed(column) if texts.spaced else column
        is_mixed = texts.dates > 0 and column.name in self._free  # a chunk that holds dates alone has categories, too
        return plain.astype("category") if is_mixed else plain

    def _understood(self, name: str, role: str) -> Understood:
        profile, verdict, texts = self._profiles.get(name), self._verdicts.get(name), self._texts.get(name)
        if profile is None:
            return Understood(name, LEFT_OUT, None, "", role)
        kind = verdict.kind if verdict else profile.kind if name in {*self._free, *self._numbers} else CATEGORY
        if name in self.left_out or profile.is_empty:
            kind = LEFT_OUT
        missing = profile.missing + (self.dropped if name == self.target else 0)
        example = texts.example if texts and texts.example else profile.example
        shown = kind if not role else f"{role}, {kind}" if name in self._numbers else role
        done = "; ".join([*self._renamed(name), *self._done(name)])
        return Understood(name, shown, missing, example, done, verdict.levels if verdict else None)

    def _done(self, name: str) -> list[str]:
        done = list(self._verdicts[name].done) if name in self._verdicts else []
        done += ["as --category says"] if name in self.features and name not in self._free else []
        remarks = self._profiles[name].remarks(name in self._free) if name in self.features else []
        if name in self.codes and name in self._free and name not in self._verdicts:
            remarks.append(f"leading zeros removed: if it is a code, --category {name!r} keeps them")
        if name == self.target and self.dropped:
            remarks.append(f"{self.dropped} {'row' if self.dropped == 1 else 'rows'} without a target left out")
        return [*done, *remarks] if not self._profiles[name].is_empty else remarks

    def _renamed(self, name: str) -> list[str]:
        if name not in self.facts.renamed:
            return []
        raw = self.facts.renamed[name]
        if NAMELESS.fullmatch(name) and not raw.strip():
            return ["it has no name in the file"]
        return ["spaces around its name removed"] if raw.strip() == name else [f"another column is named {raw!r}, too"]


def trimmed(column: pd.Series[Any]) -> pd.Series[Any]:
    """Return texts without spaces around them; None for texts of spaces only."""
    places, distinct = pd.factorize(column)
    texts = np.array([*(str(text).strip() or None for text in distinct), None], dtype=object)[places]
    return pd.Series(texts, column.index, dtype=object, name=column.name)


def _has_points(column: pd.Series[Any]) -> bool:
    scaled = column.dropna() * POINTS
    return bool((scaled.round() != scaled.round(6)).any())
