"""Numbers as people write them in files."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from salsa.data.number_format import MISSING_WORDS, PLAIN, STYLES, NumberFormat, Style, anatomy, is_missing_word

UNITS = [("", ""), ("$", ""), ("", "kg"), ("", "%"), ("€", ""), ("", "m2"), ("", "km/h"), ("", "°C")]


def written(number, style, unit):
    """Return a number with two decimals in a style, with a unit."""
    text = f"{number:,.2f}" if style.thousands else f"{number:.2f}"
    marks = {",": style.thousands, ".": style.decimal}
    text = "".join(marks.get(sign, sign) for sign in text)
    return f"{unit[0]}{text} {unit[1]}".strip()


@given(st.integers(-(10**12), 10**12), st.sampled_from(STYLES), st.sampled_from(UNITS))
def test_a_number_in_a_format_is_read_back_exactly(cents, style, unit):
    number = cents / 100
    assert NumberFormat(*style, *unit).value(written(number, style, unit)) == float(f"{number:.2f}")


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_plain_numbers_are_read_as_python_reads_them(number):
    assert NumberFormat().value(repr(number)) == number


@pytest.mark.parametrize(
    ("text", "decimals"),
    [
        ("1,5", {","}),
        ("0,123", {","}),
        ("1,2345", {","}),
        ("1.5", {"."}),
        ("1,234.5", {"."}),
        ("1.234,5", {","}),
        ("1,234,567", {"."}),
        ("12,34,567", {"."}),
        ("1,234", {",", "."}),
        ("1.234", {",", "."}),
        ("1234", {",", "."}),
        ("1 234", {",", "."}),
    ],
)
def test_the_decimal_mark_is_one_that_fits_the_digits(text, decimals):
    assert {style.decimal for style in anatomy(text).styles} == decimals


@pytest.mark.parametrize(
    "text", ["", "-", "abc", "1.2.3", "31.12.2026", "0123 456", "12:30", "inf", "nan", "5-", "٣", "1 2"]
)
def test_other_texts_are_no_numbers(text):
    assert anatomy(text) is None
    assert np.isnan(NumberFormat().value(text))


@pytest.mark.parametrize(("text", "value"), [("(5)", -5), ("($1,234.5)", -1234.5), ("−7", -7), ("-$3", -3), ("+2", 2)])
def test_brackets_and_signs_make_numbers_negative(text, value):
    unit = "$" if "$" in text else ""
    assert NumberFormat(".", ",", unit).value(text) == value


def test_a_unit_must_be_the_one_of_the_format():
    kilograms = NumberFormat(after="kg")
    assert kilograms.value("5kg") == kilograms.value("5 kg") == 5
    assert np.isnan([kilograms.value("5 g"), kilograms.value("5"), NumberFormat(after="m2").value("5 m3")]).all()


def test_words_and_missing_values_become_nan():
    values = NumberFormat(decimal=",").values(["1,5", "?", None, "1.5", np.nan, " 2 "])
    np.testing.assert_array_equal(values, [1.5, np.nan, np.nan, np.nan, np.nan, 2.0])
    assert all(map(is_missing_word, ["N/A", " ? ", "", "#DIV/0!", "Unknown"]))
    assert not any(anatomy(word) for word in MISSING_WORDS)


def test_the_simplest_style_comes_first():
    assert STYLES[0] == PLAIN
    assert Style(",", ".") in STYLES
    assert not any(style.decimal == style.thousands for style in STYLES)
