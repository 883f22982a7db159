"""The kind of a text column: numbers, dates, identifiers or categories, by one function for each kind."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from salsa.cli.tables.messages import DROP, column_error
from salsa.cli.tables.texts import Texts
from salsa.data.column_words import (
    CATEGORY,
    DATE,
    LEFT_OUT,
    MARKS,
    NUMBER,
    marks_words,
    parts_words,
    unit_words,
)
from salsa.data.number_format import PLAIN, NumberFormat, Style, alike
from salsa.data.text_columns import FEW_LEVELS, MISTAKE_PERCENT, MOST_TEXTS, are_dates, are_identifiers, are_mistakes

CORRECT = "; correct the cell, empty it if the value is missing, or take all as categories: --category {0!r}"
DOUBT = "in doubt: no value of the file tells whether {0!r} marks thousands or decimals"


class House(NamedTuple):
    """What the columns of a file have in common."""

    source: str
    separator: str | None = ","  # None if the file declares types
    style: Style | None = None  # the marks of numbers, if columns prove them and agree

    def of(self, columns: Iterable[Texts], has_points: bool) -> House:
        """Return the house with the style that columns prove; `has_points`: a column of plain numbers proves points."""
        proven = [column for column in columns if column.proof]
        decimals = {column.proof for column in proven} | ({"."} if has_points else set())
        if len(decimals) != 1:
            return self
        (decimal,) = decimals
        marks = {style.thousands for column in proven if (style := column.styles[0]).thousands}
        thousands = marks.pop() if len(marks) == 1 else "." if decimal == "," else ""
        return self._replace(style=Style(decimal, thousands))


class Verdict(NamedTuple):
    """The kind of a column, what is done with its values, and how its numbers are written."""

    kind: str
    done: tuple[str, ...] = ()
    format: NumberFormat | None = None
    levels: int | None = None  # number of categories


Kind = Callable[[Texts, House], Verdict | None]


def decide(texts: Texts, house: House, *, is_feature: bool = True) -> Verdict:
    """Return the kind of a text column; raise ValueError with row and advice if its values contradict each other.

    Texts of a target are classes, which other rules check.
    """
    kinds: tuple[Kind, ...] = (numbers, mistakes, dates, identifiers) if is_feature else (numbers, odd_formats)
    for find in kinds:
        if (verdict := find(texts, house)) is not None:
            return _with_alternative(verdict, texts) if is_feature else verdict
    return categories(texts)


def numbers(texts: Texts, house: House) -> Verdict | None:
    """Return the verdict on a column all of whose values are numbers of one unit and one style, or missing."""
    if texts.numbers < texts.total or (house.separator is None and _may_be_codes(texts)):
        return None
    style, is_doubtful = _style(texts, house)
    before, after = texts.unit
    found = NumberFormat(style.decimal, style.thousands, before, after)
    return Verdict(NUMBER, tuple(_changes(texts, found, is_doubtful)), found)


def mistakes(texts: Texts, house: House) -> Verdict | None:
    """Raise ValueError if nearly all values are numbers, or if all are numbers of several units or styles."""
    values, count = texts.total, texts.numbers
    style, _ = _style(texts, house)
    wrong, like = texts.unlike(style), texts.like(style)
    if are_mistakes(values, count):
        raise column_error(texts.name, house.source, _mistake(texts, style), CORRECT)
    if texts.has_only_numbers and 0 < count < values and len(texts.distinct) > FEW_LEVELS:
        what = "units" if texts.units > 1 else "decimal and thousands marks"
        advice = ": write all values alike, or take them as categories: --category {0!r}"
        raise column_error(texts.name, house.source, f"has {like} and {wrong}, numbers with different {what}", advice)
    return None


def odd_formats(texts: Texts, house: House) -> Verdict | None:
    """Raise ValueError if nearly all values of a target are numbers of one format; plain numbers are checked later."""
    style, _ = _style(texts, house)
    if are_mistakes(texts.total, texts.numbers) and (texts.unit != ("", "") or style != PLAIN):
        advice = "; correct the cell, or give --classes to take the target as classes"
        raise column_error(texts.name, house.source, _mistake(texts, style), advice)
    return None


def dates(texts: Texts, house: House) -> Verdict | None:
    """Return the verdict on a column of dates of ISO 8601.

    Raise ValueError if nearly all values are such dates, or if all are dates that are written in another way.
    """
    if 0 < texts.total == texts.dates:
        return Verdict(DATE, (parts_words(), *_missing_words(texts)))
    if are_mistakes(texts.total, texts.dates):
        rule = f"with {MISTAKE_PERCENT} % dates or more, other text counts as a mistake"
        problem = f"has {texts.no_date}, but {texts.dates} of its {texts.total} values are dates ({rule})"
        raise column_error(texts.name, house.source, problem, CORRECT)
    if texts.total and are_dates(texts.distinct):
        problem = f"holds dates or times such as {min(texts.distinct)!r}: write them as 2026-01-31 or 2026-01-31T12:00"
        raise column_error(texts.name, house.source, problem, DROP)
    return None


def identifiers(texts: Texts, house: House) -> Verdict | None:
    """Return the verdict on a column of names or identifiers, which is left out."""
    values, distinct = texts.values, len(texts.distinct)
    if not are_identifiers(values, distinct):
        return None
    count = f"more than {MOST_TEXTS}" if distinct > MOST_TEXTS else f"{distinct}"
    why = f"left out: {count} different texts in {values} rows, like names or identifiers"
    return Verdict(LEFT_OUT, (f"{why}; --category {texts.name!r} keeps it",))


def categories(texts: Texts) -> Verdict:
    """Return the verdict on a column of categories."""
    done = []
    if texts.spaced:
        done.append(f"spaces around {_count(texts.spaced, 'value')} removed")
    if blank := texts.words[""]:
        done.append(f"{_count(blank, 'cell')} of spaces {'counts' if blank == 1 else 'count'} as missing")
    return Verdict(CATEGORY, tuple(done), levels=len(texts.distinct))


def _mistake(texts: Texts, style: Style) -> str:
    """Describe the first value that is no number of this style, among many that are."""
    wrong, like = texts.unlike(style), texts.like(style)
    written = "numbers" if texts.unit == ("", "") and style == PLAIN else f"numbers like {like and like.text!r}"
    rule = f"with {MISTAKE_PERCENT} % numbers or more, text counts as a mistake"
    return f"has {wrong}, but {texts.numbers} of its {texts.total} values are {written} ({rule})"


def _may_be_codes(texts: Texts) -> bool:
    """Whether plain numbers that the file declares as text may be codes or categories: few, or with leading zeros."""
    if texts.unit != ("", "") or PLAIN not in texts.styles or texts.words:
        return False
    zeros = any(len(text) > 1 and text[0] == "0" and text.isdigit() for text in texts.distinct)
    return zeros or len(texts.distinct) <= FEW_LEVELS


def _style(texts: Texts, house: House) -> tuple[Style, bool]:
    """Return the style of the numbers, and whether nothing proves it.

    Only styles that fit all values count. If they leave both decimal marks open, other columns decide; otherwise a
    point marks decimals, and a comma thousands, or decimals if semicolons separate the columns.
    """
    fits, own = texts.styles, texts.proof
    if house.style in fits and own in ("", house.style.decimal):
        return house.style, False
    if own or not texts.has_marks:
        return fits[0], False
    if house.style is not None:
        decimal = house.style.decimal
    elif PLAIN in fits:
        return PLAIN, False
    else:
        decimal = "," if house.separator == ";" else "."
    return next((style for style in fits if style.decimal == decimal), fits[0]), house.style is None


def _changes(texts: Texts, found: NumberFormat, is_doubtful: bool) -> Iterable[str]:
    """Yield what was done to make numbers of the texts."""
    text = texts.telling
    if PLAIN not in texts.styles or (found.decimal == "," and texts.has_marks):
        used = [mark if _uses(texts, mark) else "" for mark in (found.decimal, found.thousands)]
        yield f"{marks_words(*used)}: {text!r} is {found.value(text):.15g}"
    if is_doubtful:
        yield DOUBT.format(next(mark for mark in MARKS if mark in text))
    yield from unit_words(found.before, found.after)
    if texts.bracketed:
        yield f"{_count(texts.bracketed, 'value')} in brackets are negative"
    yield from _missing_words(texts)


def _missing_words(texts: Texts) -> Iterable[str]:
    """Yield how many cells hold words for missing values, if there are any."""
    if texts.words:
        word = next(iter(texts.words))
        count = texts.words.total()
        yield f"{_count(count, 'cell')} such as {word!r} {'counts' if count == 1 else 'count'} as missing"


def _with_alternative(verdict: Verdict, texts: Texts) -> Verdict:
    """Return the verdict; for few different numbers with a unit, it tells how to take them as categories."""
    distinct = len(texts.distinct.difference(texts.words))
    if texts.unit == ("", "") or verdict.kind != NUMBER or distinct > FEW_LEVELS:
        return verdict
    values = _count(distinct, "different value")
    return verdict._replace(done=(*verdict.done, f"only {values}: --category {texts.name!r} takes them as categories"))


def _uses(texts: Texts, mark: str) -> bool:
    """Whether a mark, or one that is used like it, occurs in the values that are remembered."""
    return bool(mark) and any(sign in text for sign in alike(mark) for text in texts.distinct)


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}{'' if number == 1 else 's'}"
