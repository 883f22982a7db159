"""Numbers as people write them in files: decimal commas, thousands separators, units, signs of currencies, brackets."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from salsa._utils.arrays import Floats

#: words for a missing value in a column of numbers or dates, in small letters; readers of CSV know some of them already
MISSING_WORDS = frozenset(
    {
        *("?", "??", "???", "-", "--", "---", ".", "..", "..."),
        *("n/a", "n.a.", "n/a.", "na", "nan", "null", "none"),
        *("nil", "n/d", "n.d.", "nd", "k.a.", "n.v."),
        *("missing", "unknown", "empty", "void"),
        *("#n/a", "#div/0!", "#value!", "#ref!", "#num!", "#name?", "#null!", "#na"),
        *("(null)", "(blank)", "(empty)", "<na>"),
        *("\\n", "", "not available", "not applicable", "no data"),
    }
)
SPACES = " \u00a0\u2009\u202f"  # between thousands: space, no-break space, thin space, narrow no-break space
QUOTES = "'\u2019"  # between thousands in Switzerland

_CURRENCY = r"[$€£¥₹₽]|(?:CHF|EUR|USD|GBP|US\$)(?=[\s\d.,+-])"
_UNIT = r"%|‰|[$€£¥₹₽]|[^\W\d_]{1,12}\.?(?:[/·*^-]?[^\W\d_]{1,8}){0,3}[9²³]?|°[A-Za-z]?|[\"']"
_NUMBER = re.compile(
    rf"(?P<open>\()?(?P<before>{_CURRENCY})?\s*(?P<sign>[-+−]?)\s*(?P<inner>{_CURRENCY})?\s*"
    rf"(?P<digits>[09.,](?:[09.,]|[{SPACES}{QUOTES}](?=[09]))*)(?P<exponent>[eE][-+]?[09]+)?"
    rf"\s*(?P<after>{_UNIT})?(?(open)\))"
)
_NINES = str.maketrans("0123456789", "9999999999")


class Style(NamedTuple):
    """The marks within numbers: what separates decimals, and what separates thousands ("" if nothing may)."""

    decimal: str = "."
    thousands: str = ""


PLAIN = Style()
#: simpler styles first; of two styles that fit all values of a column, the first one is taken
STYLES = tuple(Style(decimal, thousands) for thousands in ("", ",", ".", " ", "'") for decimal in ".,")
STYLES = tuple(style for style in STYLES if style.decimal != style.thousands)


class Anatomy(NamedTuple):
    """The places of the parts of a text that is a number, and the styles that its digits agree with."""

    before: slice
    digits: slice  # with the exponent
    after: slice
    is_negative: bool
    styles: frozenset[Style]

    def unit(self, text: str) -> tuple[str, str]:
        """Return what stands before and after the digits."""
        return text[self.before], text[self.after]


@dataclass(frozen=True)
class NumberFormat:
    """The way in which a file writes the numbers of a column; the default is plainly."""

    decimal: str = "."
    thousands: str = ""
    before: str = ""
    after: str = ""

    def __str__(self) -> str:
        """Return an example of a number that is written so."""
        digits = f"{self.before}1{self.thousands}234{self.decimal}5"
        return digits + (f" {self.after}" if self.after else "")

    @property
    def style(self) -> Style:
        return Style(self.decimal, self.thousands)

    @property
    def unit(self) -> str:
        """The unit or the currency; empty if there is none."""
        return " ".join(filter(None, (self.before, self.after)))

    @property
    def is_plain(self) -> bool:
        return self == NumberFormat()

    def value(self, text: str) -> float:
        """Return the number that a text stands for; NaN if the text is not written in this format."""
        return float(self.values([text])[0])

    def values(self, texts: Iterable[Any]) -> Floats:
        """Return the numbers (n,) of texts; NaN for missing values, words for them, and texts in another format."""
        stripped = [text.strip() if isinstance(text, str) else "" for text in texts]
        values, own = np.full(len(stripped), np.nan), (self.before, self.after)
        plain = str.maketrans(dict.fromkeys(alike(self.thousands), "") | {self.decimal: "."})
        for found, places in by_anatomy(stripped):
            if found is not None and self.style in found.styles:
                sign = -1.0 if found.is_negative else 1.0
                for place in places:
                    text = stripped[place]
                    if found.unit(text) == own:
                        values[place] = sign * float(text[found.digits].translate(plain))
        return values


def is_missing_word(text: str) -> bool:
    """Whether a text in a column of numbers or dates stands for a missing value."""
    return text.strip().lower() in MISSING_WORDS


def by_anatomy(texts: Sequence[str]) -> Iterator[tuple[Anatomy | None, list[int]]]:
    """Yield the parts of numbers (None: no number, whatever its style), and the places of the texts with these parts.

    A text with 9 for every digit is its shape. A column of numbers has few shapes, so their parts are found once.
    """
    places: defaultdict[str, list[int]] = defaultdict(list)
    for place, text in enumerate(texts):
        places[text.translate(_NINES)].append(place)
    for nines, found in places.items():
        first = nines.find("9")
        zeros = [place for place in found if texts[place][first] == "0"] if first >= 0 else []
        if zeros:  # thousands do not begin with 0
            yield _anatomy(f"{nines[:first]}0{nines[first + 1 :]}"), zeros
            found = [place for place in found if texts[place][first] != "0"]
        if found:
            yield _anatomy(nines), found


def anatomy(text: str) -> Anatomy | None:
    """Return the parts of one number."""
    ((found, _),) = by_anatomy([text])
    return found


@lru_cache(maxsize=4096)
def _anatomy(shape: str) -> Anatomy | None:
    """Return the parts of a text that has 9 for digits, but for a first digit of 0."""
    match = _NUMBER.fullmatch(shape)
    if match is None or (match["before"] and match["inner"]):
        return None
    styles = frozenset(style for style in STYLES if _pattern(style).fullmatch(match["digits"]))
    if not styles:
        return None
    before = slice(*match.span("before" if match["before"] is not None else "inner"))
    end = match.end("digits" if match["exponent"] is None else "exponent")
    is_negative = match["open"] is not None or match["sign"] in ("-", "−")
    return Anatomy(
        before if before.start >= 0 else slice(0, 0),
        slice(match.start("digits"), end),
        slice(0, 0) if match["after"] is None else slice(*match.span("after")),
        is_negative,
        styles,
    )


@lru_cache
def _pattern(style: Style) -> re.Pattern[str]:
    """Return the digits of a style: thousands are in groups of three (India: of two, but for the last one)."""
    fraction = rf"(?:{re.escape(style.decimal)}[09]*)?"
    plain = rf"[09]+{fraction}|{re.escape(style.decimal)}[09]+"
    if not style.thousands:
        return re.compile(plain)
    mark = rf"[{re.escape(alike(style.thousands))}]"
    groups = rf"9[09]{{0,2}}(?:{mark}[09]{{3}})+|9[09]?(?:{mark}[09]{{2}})+{mark}[09]{{3}}"
    return re.compile(rf"{plain}|(?:{groups}){fraction}")


def alike(mark: str) -> str:
    """Return the marks that are used like this one between thousands."""
    return next((marks for marks in (SPACES, QUOTES) if mark and mark in marks), mark)
