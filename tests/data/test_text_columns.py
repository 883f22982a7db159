"""Columns of text that are not likely to hold categories."""

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest

from salsa import SalsaRegressor
from salsa.data.blocks import RawBlock, survey
from salsa.data.table_columns import learn_table
from salsa.data.targets import target_values
from salsa.data.text_columns import count_values, doubts, empty_columns

ROWS = 60
RNG = np.random.default_rng(0)
NUMBERS = RNG.normal(size=ROWS)
DIRTY = [*map(str, NUMBERS[:-1]), "n/k"]
NAMES = [f"customer {i}" for i in range(ROWS)]
DATES = [f"{1 + i % 28:02}/{1 + i % 12:02}/2026" for i in range(ROWS)]
AREAS = [f"{40 + i} m2" for i in range(ROWS)]
PRICES = [f"$1,{i:03}.50" for i in range(ROWS)]
CITIES = ["Rome", "Oslo", "Bern"] * (ROWS // 3)

FRAMES = {
    "pandas": pd.DataFrame,
    "objects": lambda columns: pd.DataFrame(columns, dtype=object),
    "polars": pl.DataFrame,
    "array": lambda columns: np.array(list(columns.values()), dtype=object).T,
}


def found(table, categorical_features="from_dtype"):
    columns, X, is_text = learn_table(table, categorical_features)
    return list(doubts(columns, count_values(columns, X, is_text)))


@pytest.mark.parametrize("frame", FRAMES.values(), ids=FRAMES)
@pytest.mark.parametrize(
    ("texts", "says"),
    [
        (DIRTY, "59 of its 60 values are numbers, 'n/k' is not"),
        (NAMES, "60 different texts in 60 rows"),
        (DATES, "holds dates or times"),
        ([date.replace("/", ".") for date in DATES], "holds dates or times"),
        ([f"{date[:2]} Feb {2000 + i}" for i, date in enumerate(DATES)], "holds dates or times"),
        ([f"January {date[:2]}, {2000 + i}" for i, date in enumerate(DATES)], "holds dates or times"),
        (AREAS, "numbers with a unit or separators, such as '40 m2'"),
        (PRICES, "numbers with a unit or separators, such as '$1,000.50'"),
    ],
    ids=["dirty", "names", "dates", "points", "day_first", "month_first", "areas", "prices"],
)
def test_unlikely_categories_are_reported_for_every_kind_of_table(frame, texts, says):
    (doubt,) = found(frame({"fine": NUMBERS, "odd": texts, "city": CITIES}))
    assert says in doubt
    assert "'odd'" in doubt or "'x1'" in doubt


def test_names_of_versions_and_streets_are_no_dates():
    assert "60 different texts" in found(pd.DataFrame({"a": [f"{i}.1.{i % 7}" for i in range(ROWS)]}))[0]
    assert "60 different texts" in found(pd.DataFrame({"a": [f"Broadway 12, {1000 + i}" for i in range(ROWS)]}))[0]


def test_numbers_as_text_are_reported_unless_they_are_codes():
    assert "holds numbers as text" in found(pd.DataFrame({"a": [str(i / 7) for i in range(ROWS)]}))[0]
    assert "holds numbers as text" in found(pd.DataFrame({"a": [str(i % 15) for i in range(ROWS)]}))[0]
    assert not found(pd.DataFrame({"a": [f"{i % 15:02}" for i in range(ROWS)]}))


def test_booleans_do_not_count_as_numbers():
    assert not found([[value] for value in [True] * 57 + ["x"] * 3])


def test_blocks_of_text_and_of_categories_are_not_reported():
    texts = pd.DataFrame({"a": [str(i % 5) for i in range(ROWS)]})
    blocks = [RawBlock(texts, NUMBERS), RawBlock(texts[:5].astype("category"), NUMBERS[:5])]
    seen = survey(blocks, "from_dtype")
    assert not list(doubts(seen.columns, seen.counts))


def test_a_part_of_a_table_is_not_reported_if_the_whole_is_not():
    table = pd.DataFrame({"a": [f"n{i % 27}" for i in range(ROWS)]})
    assert not found(table)
    assert not found(table[:51])


def test_numbers_among_texts_of_an_object_column_count_too():
    (doubt,) = found([[value] for value in [*NUMBERS[:-1], "?"]])
    assert "59 of its 60 values are numbers, '?' is not" in doubt


@pytest.mark.parametrize("texts", [DIRTY, NAMES, DATES], ids=["dirty", "names", "dates"])
def test_declared_categories_are_not_reported(texts):
    assert not found(pd.DataFrame({"odd": pd.Categorical(texts)}))
    assert not found(pl.DataFrame({"odd": pl.Series(texts, dtype=pl.Categorical)}))
    assert not found(pd.DataFrame({"odd": texts}), ["odd"])
    assert not found(np.array([texts], dtype=object).T, [0])


@pytest.mark.parametrize(
    "texts",
    [
        CITIES,
        ["1", "2", "x"] * 20,  # a third is no number
        ["1", "2"] * 30,  # all are
        [f"n{i % 30}" for i in range(ROWS)],  # every text twice
        NAMES[:50],  # few rows
        ["2026-01-31", "soon"] * 30,
        ["5 mg", "10 mg", "20 mg"] * 20,  # few
        [f"{i % 30}{'ab'[i % 2]}" for i in range(ROWS)],  # house numbers
        [None] * ROWS,
    ],
)
def test_likely_categories_are_not_reported(texts):
    assert not found(pd.DataFrame({"a": pd.Series(texts, dtype="string")}))


@pytest.mark.parametrize("size", [1, 7, ROWS])
def test_blocks_are_judged_together(size):
    table = pd.DataFrame({"fine": NUMBERS, "odd": DIRTY, "who": NAMES, "city": CITIES, "none": np.nan})
    blocks = [RawBlock(table[i : i + size], NUMBERS[i : i + size]) for i in range(0, ROWS, size)]
    seen = survey(blocks, "from_dtype")
    assert list(doubts(seen.columns, seen.counts)) == found(table)
    assert len(found(table)) == 2
    assert empty_columns(seen.columns, seen.counts) == ["column 'none' has no values"]


@pytest.mark.parametrize(
    ("y", "note"),
    [
        ([5, 5, 5, 5], "constant"),
        ([0, 1, 1, 0], "two values"),
        ([0, 1, 2, 0], None),
        ([[0, 1], [1, 3], [0, 3]], "two"),
        ([0, 1], None),
    ],
)
def test_targets_with_one_or_two_values_are_noted(y, note):
    notes = target_values(np.asarray(y, dtype=float).reshape(len(y), -1)).notes
    assert len(notes) == (note is not None)
    assert all(note in found for found in notes)


class TestFit:
    TABLE = pd.DataFrame({"fine": NUMBERS, "odd": DIRTY, "none": np.nan})
    WEIGHT = np.r_[0, np.ones(ROWS - 1)]
    MODEL = SalsaRegressor(order=1, alpha=1.0, relevance="equal")

    def check(self, fit):
        with pytest.warns(UserWarning, match="'odd' is text and counts as categories.*categorical_features") as told:
            model = fit()
        assert len(told) == 1
        assert told[0].filename == __file__
        assert str(told[0].message) in model.search_.notes
        assert "column 'none' has no values" in model.search_.notes

    def test_fit_warns_and_notes(self):
        self.check(lambda: self.MODEL.fit(self.TABLE, NUMBERS))

    def test_rows_without_weight_do_not_count(self):
        table = self.TABLE.assign(none=[1.0, *[np.nan] * (ROWS - 1)])
        self.check(lambda: self.MODEL.fit(table, NUMBERS, sample_weight=self.WEIGHT))

    def test_fit_of_blocks_warns_and_notes(self):
        table = self.TABLE.assign(y=NUMBERS)
        self.check(lambda: self.MODEL.fit_blocks([table[:20], table[20:]], target="y"))

    def test_fit_notes_targets_of_two_values(self):
        model = SalsaRegressor(order=1, alpha=1.0, relevance="equal").fit(NUMBERS[:, None], NUMBERS > 0)
        assert any("two values" in note for note in model.search_.notes)

    def test_fit_is_silent_about_columns_named_as_categories(self):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            model = SalsaRegressor(order=1, alpha=1.0, relevance="equal", categorical_features=["odd"])
            assert not any("odd" in note for note in model.fit(self.TABLE, NUMBERS).search_.notes)
