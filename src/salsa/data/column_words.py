"""The words for the kind of a column, and for what is done with its values: one set for files, reports and checks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from salsa.data.date_parts import DATE_PARTS, TREND

NUMBER, DATE, DURATION, CATEGORY, LEFT_OUT = "number", "date", "duration", "category", "left out"
CONSTANT = "the same value in all rows: it has no effect"
EXAMPLE = "{:.15g}"  # a number as an example of its column
MARKS = {",": "comma", ".": "point", " ": "space", "'": "apostrophe"}


def parts_words(parts: Sequence[str] | None = None) -> str:
    """Say which parts of a date are features; None: which parts can become features, before all rows are known."""
    if parts is None:
        parts = [
            f"{TREND}, and where the dates tell them apart",
            ", ".join(DATE_PARTS[1:-1]) + f" and {DATE_PARTS[-1]}",
        ]
    return f"its parts become features: {', '.join(parts)}"


def marks_words(decimal: str, thousands: str) -> str:
    """Say what the marks within numbers mean; an empty mark is left out."""
    roles = {decimal: "decimals", thousands: "thousands"}
    return " and ".join(f"{MARKS[mark]} marks {role}" for mark, role in roles.items() if mark)


def unit_words(before: str, after: str) -> Iterator[str]:
    """Say which signs before and after numbers were removed."""
    for mark, place in ((before, "before"), (after, "after")):
        if mark:
            yield f"{mark!r} {place} the number removed"
