"""One table, many guises: the same numbers from each of them, and errors that name the column."""

import datetime
import json
import warnings
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from sklearn.utils import check_array

from salsa.data.columns import Columns
from salsa.data.table_columns import learn_columns
from salsa.persistence.function_state import columns_from, columns_state

NAN = np.nan
needs_text_dtype = pytest.mark.skipif(pd.__version__ < "3", reason="pandas has no dtype str of its own")
TABLE = {
    "area": [1.5, None, 3.0, -2.0],
    "rooms": [3, 1, None, 2],
    "garden": [True, None, False, True],
    "city": ["Rome", "Oslo", None, "Rome"],
    "price": [Decimal("1.25"), None, Decimal(2), Decimal(0)],
    "code": ["10", "9", "10", None],
}
ENCODED = [[1.5, 3, 1, 1, 1.25, 0], [NAN, 1, NAN, 0, NAN, 1], [3, NAN, 0, NAN, 2, 0], [-2, 2, 1, 1, 0, NAN]]


def nullable(table):
    with np.errstate(invalid="ignore"):  # older pandas looks whether infinity is an integer
        return pd.DataFrame(table).convert_dtypes()


GUISES = {
    "pandas": lambda table: pd.DataFrame(table),
    "pandas objects": lambda table: pd.DataFrame(table, dtype=object),
    "pandas nullable": lambda table: nullable(table),
    "pandas arrow": lambda table: pa.table(table).to_pandas(types_mapper=pd.ArrowDtype),
    "polars": lambda table: pl.DataFrame(table),
    "arrow": lambda table: pa.table(table),
    "arrow, string views": lambda table: pa.table(
        {name: pa.array(values, pa.string_view()) if name == "city" else values for name, values in table.items()}
    ),
    "objects": lambda table: np.array(list(zip(*table.values(), strict=True)), dtype=object),
    "rows": lambda table: [list(row) for row in zip(*table.values(), strict=True)],
    "masked": lambda table: np.ma.array(
        np.array([[0 if value is None else value for value in column] for column in table.values()], dtype=object).T,
        mask=np.array([[value is None for value in column] for column in table.values()]).T,
    ),
}
TEXT_DTYPES = {
    "pandas category": lambda texts: pd.DataFrame({"city": pd.Categorical(texts)}),
    "pandas string": lambda texts: pd.DataFrame({"city": pd.array(texts, dtype="string")}),
    "pandas objects": lambda texts: pd.DataFrame({"city": pd.Series(texts, dtype=object)}),
    "polars category": lambda texts: pl.DataFrame({"city": pl.Series(texts, dtype=pl.Categorical)}),
    "polars enum": lambda texts: pl.DataFrame({"city": pl.Series(texts, dtype=pl.Enum(["Rome", "Oslo", "Bern"]))}),
    "arrow dictionary": lambda texts: pa.table({"city": pa.array(texts).dictionary_encode()}),
    "arrow chunks": lambda texts: pa.table(
        {"city": pa.chunked_array([pa.array(texts[:1]).dictionary_encode(), pa.array(texts[1:]).dictionary_encode()])}
    ),
    "pandas arrow dictionary": lambda texts: pa.table({"city": pa.array(texts).dictionary_encode()}).to_pandas(
        types_mapper=pd.ArrowDtype
    ),
    "rows": lambda texts: [[text] for text in texts],
}


def one(values, name="size", **options):
    """A pandas table of one column."""
    return pd.DataFrame({name: pd.Series(values, **options)})


class TestGuises:
    @pytest.mark.parametrize("guise", GUISES)
    def test_every_kind_of_table_gives_the_same_numbers(self, guise):
        columns, encoded = learn_columns(GUISES[guise](TABLE))
        np.testing.assert_array_equal(encoded, ENCODED)
        assert encoded.dtype == np.float64
        assert encoded.flags.c_contiguous
        assert columns.levels == (None, None, None, ("Oslo", "Rome"), None, ("10", "9"))
        assert columns.categorical.tolist() == [False, False, False, True, False, True]

    @pytest.mark.parametrize("seen", GUISES)
    @pytest.mark.parametrize("later", GUISES)
    def test_training_and_prediction_tables_may_be_of_different_kinds(self, seen, later):
        columns, _ = learn_columns(GUISES[seen](TABLE))
        np.testing.assert_array_equal(columns.encode(GUISES[later](TABLE)), ENCODED)

    @pytest.mark.parametrize("dtype", TEXT_DTYPES)
    def test_text_of_every_dtype_is_a_category(self, dtype):
        columns, encoded = learn_columns(TEXT_DTYPES[dtype](["Rome", None, "Oslo", "Rome"]))
        assert columns.levels == (("Oslo", "Rome"),)
        np.testing.assert_array_equal(encoded[:, 0], [1, NAN, 0, 1])

    def test_levels_of_a_dtype_that_do_not_occur_are_left_out(self):
        missing_first = pa.DictionaryArray.from_arrays(pa.array([None, 1]), pa.array(["z", "a"]))
        assert learn_columns(pa.table({"city": missing_first}))[0].levels == (("a",),)

    @pytest.mark.parametrize("dtype", ["bool", "int8", "uint64", "float16", "float32", "float64", "longdouble", "O"])
    def test_arrays_of_every_numeric_dtype_are_numbers(self, dtype):
        X = np.array([[0, 1], [1, 1], [1, 0]], dtype=dtype)
        columns, encoded = learn_columns(X)
        assert columns == Columns(("x0", "x1"), (None, None), (False, False))
        np.testing.assert_array_equal(encoded, X.astype(float))

    def test_encoded_is_a_copy(self):
        X = np.zeros((2, 2))
        learn_columns(X)[1][:] = 1
        assert not X.any()

    @pytest.mark.parametrize("missing", [None, NAN, np.float32("nan"), pd.NA, pd.NaT, Decimal("NaN")])
    @pytest.mark.parametrize(("value", "encoded"), [(2, 2), (2.5, 2.5), (True, 1), ("a", 0)])
    def test_every_missing_object_becomes_nan(self, missing, value, encoded):
        np.testing.assert_array_equal(learn_columns([[value], [missing]])[1], [[encoded], [NAN]])

    @pytest.mark.parametrize(
        "table",
        [one([None, None], dtype=object), pl.DataFrame({"size": [None, None]}), pa.table({"size": pa.nulls(2)})],
    )
    def test_an_untyped_column_of_missing_values_counts_as_numbers(self, table):
        columns, encoded = learn_columns(table)
        assert columns.levels == (None,)
        assert np.isnan(encoded).all()

    @pytest.mark.parametrize(
        "table",
        [
            one([None, None], dtype="string"),
            pytest.param(one([None, None], dtype="str"), marks=needs_text_dtype),
            pl.DataFrame({"size": [None, None]}, schema={"size": pl.String}),
            pa.table({"size": pa.nulls(2, pa.string())}),
            pa.table({"size": pa.nulls(2, pa.dictionary(pa.int32(), pa.string()))}),
        ],
    )
    def test_text_that_is_all_missing_is_a_category_without_levels(self, table):
        columns, encoded = learn_columns(table)
        assert columns.levels == ((),)
        assert np.isnan(encoded).all()

    def test_columns_of_text_arrays_are_categories(self):
        columns, encoded = learn_columns(np.array([["b", "1"], ["a", "2"]]))
        assert columns.levels == (("a", "b"), ("1", "2"))
        np.testing.assert_array_equal(encoded, [[1, 0], [0, 1]])

    def test_numbers_come_before_text(self):
        assert learn_columns([["b"], [2.5], ["a"], [1], [True]])[0].levels == ((1, 2.5, "a", "b"),)

    def test_sparse_columns_of_pandas_are_numbers(self):
        np.testing.assert_array_equal(learn_columns(one(pd.arrays.SparseArray([0.0, 2.0])))[1], [[0], [2]])

    def test_128_bit_integers_of_polars_are_numbers(self):
        assert learn_columns(pl.DataFrame({"n": pl.Series([1, 2**100], dtype=pl.Int128)}))[1][1, 0] == 2.0**100

    def test_names_are_texts_and_default_to_x0_x1(self):
        assert learn_columns(pd.DataFrame([[1, 2]], columns=["a", 7]))[0].names == ("a", "7")
        assert learn_columns([[1, 2]])[0].names == ("x0", "x1")

    def test_one_row_is_encoded_like_many(self):
        columns, _ = learn_columns(GUISES["pandas"](TABLE))
        np.testing.assert_array_equal(columns.encode(pd.DataFrame(TABLE).head(1)), ENCODED[:1])


class TestOrdered:
    SIZES = pd.CategoricalDtype(["S", "M", "L", "XL"], ordered=True)

    def test_ranks_in_the_order_of_the_dtype(self):
        columns, encoded = learn_columns(one(["L", None, "S"], dtype=self.SIZES))
        assert columns == Columns(("size",), (("S", "M", "L", "XL"),), (True,))
        assert not columns.categorical.any()
        np.testing.assert_array_equal(encoded, [[2], [NAN], [0]])
        np.testing.assert_array_equal(columns.encode(pl.DataFrame({"size": ["XL", None]})), [[3], [NAN]])

    def test_the_order_of_numbers_counts_only_by_dtype(self):
        table = one([10, 5, 10], dtype=pd.CategoricalDtype([10, 5], ordered=True))
        np.testing.assert_array_equal(learn_columns(table)[1][:, 0], [0, 1, 0])
        np.testing.assert_array_equal(learn_columns(table, None)[1][:, 0], [10, 5, 10])

    def test_chosen_as_category_it_has_no_order(self):
        columns, _ = learn_columns(one(["L", "S"], dtype=self.SIZES), ["size"])
        assert columns == Columns(("size",), (("L", "S"),), (False,))

    def test_intervals_of_pandas_are_ranked(self):
        columns, encoded = learn_columns(one(pd.cut([1, 5, 9], [0, 3, 6, 9])))
        assert columns == Columns(("size",), (("(0, 3]", "(3, 6]", "(6, 9]"),), (True,))
        np.testing.assert_array_equal(encoded[:, 0], [0, 1, 2])
        np.testing.assert_array_equal(columns.encode(one(pd.cut([9, 1], [0, 3, 6, 9])))[:, 0], [2, 0])


class TestCategoricalFeatures:
    TABLE = pd.DataFrame({"a": [3, 1, 3], "b": [0.5, 2.0, None], "c": pd.Categorical([7, 5, 7]), "d": ["u", "v", "u"]})

    @pytest.mark.parametrize(
        ("features", "categorical"),
        [
            ("from_dtype", "cd"),
            (None, "d"),
            ([], "d"),
            ([0], "ad"),
            (np.array([1, 2]), "bcd"),
            (["a", "b"], "abd"),
            (pd.Index(["c"]), "cd"),
            ([True, False, False, False], "ad"),
            ((), "d"),
        ],
    )
    def test_categories_are_chosen_by_dtype_number_name_or_mask(self, features, categorical):
        columns, _ = learn_columns(self.TABLE, features)
        assert [name for name, is_one in zip("abcd", columns.categorical, strict=True) if is_one] == list(categorical)

    def test_levels_are_sorted_numbers(self):
        columns, encoded = learn_columns(self.TABLE, ["a", "b", "c"])
        assert columns.levels == ((1, 3), (0.5, 2), (5, 7), ("u", "v"))
        np.testing.assert_array_equal(encoded, [[1, 0, 1, 0], [0, 1, 0, 1], [1, NAN, 1, 0]])

    def test_numbers_of_category_dtype_count_as_numbers_without_it(self):
        np.testing.assert_array_equal(learn_columns(self.TABLE, None)[1][:, 2], [7, 5, 7])
        dictionary = pa.table({"c": pa.array([7, None, 5]).dictionary_encode()})
        np.testing.assert_array_equal(learn_columns(dictionary, None)[1][:, 0], [7, NAN, 5])

    def test_large_integers_stay_apart(self):
        assert learn_columns(one([2**60, 2**60 + 1]), [0])[0].levels == ((2**60, 2**60 + 1),)

    @pytest.mark.parametrize("dtype", ["int64", "float64", "Int64", "object", "category", "bool"])
    def test_numbers_match_by_value(self, dtype):
        columns, expected = learn_columns(one([0, 1, 1], dtype=dtype), [0])
        for other in ("int8", "float32", "Float64", "object", "category", "bool"):
            np.testing.assert_array_equal(columns.encode(one([0, 1, 1], dtype=other)), expected)
        np.testing.assert_array_equal(columns.encode([[1.0], [None], [0]]), [[1], [NAN], [0]])

    @pytest.mark.parametrize("features", ["a", "auto", 3, 2.5, [0.5], [[0]], [True], {"a"}, [True, False]])
    def test_categorical_features_of_another_kind_are_refused(self, features):
        with pytest.raises(
            ValueError, match='must be "from_dtype", None, a list of column numbers or names, or a mask'
        ):
            learn_columns(self.TABLE, features)

    @pytest.mark.parametrize(("features", "name"), [(["e"], "'e'"), ([4], "4"), ([-1], "-1"), (["a", "e"], "'e'")])
    def test_unknown_categorical_features_are_refused(self, features, name):
        columns = "0, 1, 2, 3" if isinstance(features[0], int) else "'a', 'b', 'c', 'd'"
        with pytest.raises(ValueError, match=f"there is no column {name}; columns are {columns}"):
            learn_columns(self.TABLE, features)

    def test_many_columns_are_not_all_listed(self):
        with pytest.raises(ValueError, match=r"'x7', \.\.\.$"):
            learn_columns(np.zeros((2, 9)), ["y"])


class TestUnseen:
    def test_unseen_values_become_nan_with_a_warning(self):
        columns, _ = learn_columns([["Rome", 1.0], ["Bern", 2.0]])
        message = (
            r"^column 'x0' has values not seen in training, such as 'Oslo' \(2 rows in 1 column\); they count as mis"
        )
        with pytest.warns(UserWarning, match=message) as caught:
            encoded = columns.encode([["Oslo", 1.0], ["Rome", 2.0], ["Paris", 3.0], [None, 4.0]])
        np.testing.assert_array_equal(encoded, [[NAN, 1], [1, 2], [NAN, 3], [NAN, 4]])
        assert len(caught) == 1
        assert caught[0].filename == __file__

    def test_several_columns_give_one_warning(self):
        columns, _ = learn_columns(pl.DataFrame({"city": ["Rome"], "street": ["Via"], "size": [1]}), ["size"])
        message = r"^columns 'street', 'size' have values not seen in training, such as 'Rue' \(1 row in 2 columns\)"
        with pytest.warns(UserWarning, match=message) as caught:
            columns.encode(pl.DataFrame({"city": ["Rome", None], "street": ["Rue", None], "size": [2, None]}))
        assert len(caught) == 1

    def test_numbers_in_a_column_of_text_are_unseen(self):
        columns, _ = learn_columns([["1"], ["2"]])
        with pytest.warns(UserWarning, match=r"such as 1 \(2 rows"):
            assert np.isnan(columns.encode([[1], [2]])).all()

    def test_unseen_ranks_become_nan_with_a_warning(self):
        columns, _ = learn_columns(one(["S", "M"], dtype=pd.CategoricalDtype(["S", "M"], ordered=True)))
        with pytest.warns(UserWarning, match="such as 'XXL'"):
            np.testing.assert_array_equal(columns.encode(one(["M", "XXL"])), [[1], [NAN]])

    def test_missing_values_do_not_warn(self):
        columns, _ = learn_columns([["Rome"], ["Oslo"]])
        assert np.isnan(columns.encode([[None], [NAN]])).all()


class TestRefused:
    @pytest.mark.parametrize("guise", GUISES)
    def test_text_in_a_column_of_numbers_is_refused(self, guise):
        columns, _ = learn_columns(GUISES[guise](TABLE))
        wrong = TABLE | {"area": [None, None, "2", "x"]}
        name = columns.names[0]
        with pytest.raises(ValueError, match=rf"^column '{name}' has '2' in row 2 \(counted from 0\); it held numbers"):
            columns.encode(GUISES[guise](wrong))

    def test_missing_text_in_a_column_of_numbers_becomes_nan(self):
        columns, _ = learn_columns(one([1.0, 2.0]))
        assert np.isnan(columns.encode(pl.DataFrame({"size": [None]}, schema={"size": pl.String}))).all()

    @pytest.mark.parametrize("infinity", [np.inf, -np.inf])
    @pytest.mark.parametrize("guise", GUISES)
    def test_infinite_values_are_refused(self, guise, infinity):
        table = TABLE | {"area": [1.0, None, infinity, infinity]}
        with pytest.raises(ValueError, match=r"column '(area|x0)' has an infinite value in row 2 .*infinity"):
            learn_columns(GUISES[guise](table))
        columns, _ = learn_columns(GUISES[guise](TABLE), [0])
        with pytest.raises(ValueError, match=r"column '(area|x0)' has an infinite value in row 2 .*infinity"):
            columns.encode(GUISES[guise](table))

    def test_infinite_values_among_text_are_refused(self):
        with pytest.raises(ValueError, match=r"'x0' has an infinite value in row 1"):
            learn_columns([["a"], [np.inf], ["b"]])

    @pytest.mark.parametrize("value", [datetime.time(12), pd.Period("2020-02")])
    def test_times_without_a_date_are_refused_with_advice(self, value):
        tables = [one([None, value], "day"), one([value, value], "day", dtype="category"), [[1.0, value]]]
        if isinstance(value, datetime.time):
            tables += [pl.DataFrame({"day": [None, value]}), pa.table({"day": [None, value]})]
        for table in tables:
            with pytest.raises(
                ValueError, match=r"column '(day|x1)' holds times without a date, or periods; give dates"
            ):
                learn_columns(table)

    @pytest.mark.parametrize("value", [datetime.date(2020, 2, 1), datetime.timedelta(hours=3)])
    def test_dates_beside_numbers_are_refused(self, value):
        for other in (1, 1.5, np.float64(1.5), "soon"):
            with pytest.raises(ValueError, match="column 'day' holds dates or durations beside other values"):
                learn_columns(one([other, value], "day", dtype=object))
        for missing in (None, np.nan, np.float64("nan"), pd.NaT, pd.NA):
            table = one([missing, value], "day", dtype=object)
            assert np.isnan(learn_columns(table)[1][0]).all()
            assert table["day"].iloc[0] is missing  # the caller's table is as it was

    @pytest.mark.parametrize(
        "table",
        [
            one([[1, 2], [3]]),
            one([np.zeros(2), None]),
            pl.DataFrame({"size": [[1, 2], [3]]}),
            pl.DataFrame({"size": [{"a": 1}, None]}),
            pa.table({"size": [[1, 2], [3]]}),
            pa.table({"size": [{"a": 1}, None]}),
        ],
    )
    def test_nested_values_are_refused_with_advice(self, table):
        with pytest.raises(ValueError, match="column 'size' holds lists or structures; make a column of each"):
            learn_columns(table)

    @pytest.mark.parametrize("values", [[b"a", b"b"], [None, b"b"]])
    def test_bytes_are_refused_with_advice(self, values):
        for table in (one(values), pl.DataFrame({"size": values}), pa.table({"size": values}), np.array([values]).T):
            with pytest.raises(ValueError, match=r"column '(size|x0)' holds bytes; decode"):
                learn_columns(table)

    @pytest.mark.parametrize("table", [one([1j, 2]), np.array([[1j]]), [[1j]], [["a", 1j]]])
    def test_complex_numbers_are_refused(self, table):
        with pytest.raises(ValueError, match="Complex data not supported"):
            learn_columns(table)

    @pytest.mark.parametrize("value", [{"a": 1}, object(), np.void(b"a")])
    def test_other_objects_are_refused(self, value):
        for table in (one([1.0, value]), one(["a", value]), one([*["a"] * 200, value]), [[2.0], [value]]):
            with pytest.raises(TypeError, match=r"column '(size|x0)': argument must be a string or a number, not '"):
                learn_columns(table)

    @pytest.mark.parametrize(
        "X",
        [
            np.zeros(3),
            np.zeros((0, 2)),
            np.zeros((2, 0)),
            np.zeros((1, 1, 1)),
            [],
            [1, 2],
            sparse.csr_array([[1.0]]),
            3.0,
        ],
    )
    def test_wrong_shapes_give_the_errors_of_scikit_learn(self, X):
        with pytest.raises((TypeError, ValueError)) as expected:
            check_array(X, estimator="SalsaRegressor", input_name="X")
        with pytest.raises(expected.type) as error:
            learn_columns(X)
        assert str(error.value) == str(expected.value)

    @pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame, pa.table])
    def test_a_table_without_rows_is_refused(self, frame):
        with pytest.raises(ValueError, match=r"Found array with 0 sample\(s\) \(shape=\(0, 1\)\) while a minimum of 1"):
            learn_columns(frame({"a": []}))

    def test_a_table_without_columns_is_refused(self):
        with pytest.raises(
            ValueError, match=r"Found array with 0 feature\(s\) \(shape=\(2, 0\)\) while a minimum of 1"
        ):
            learn_columns(pd.DataFrame(index=[0, 1]))

    def test_lazy_frames_are_refused_with_advice(self):
        with pytest.raises(ValueError, match=r"call its collect\(\) first"):
            learn_columns(pl.LazyFrame({"a": [1]}))

    def test_two_columns_of_one_name_are_refused(self):
        with pytest.raises(ValueError, match="unique column names"):
            learn_columns(pd.DataFrame([[1, 2]], columns=["a", "a"]))

    def test_rows_of_different_lengths_are_refused(self):
        with pytest.raises(ValueError, match="inhomogeneous"):
            learn_columns([[1, 2], [3]])


class TestState:
    def test_columns_survive_json(self):
        table = pd.DataFrame(TABLE).assign(size=pd.Categorical(["S", "M", "S", None], ["S", "M"], ordered=True))
        columns, encoded = learn_columns(table, ["area", "garden", "rooms"])
        copy = columns_from(json.loads(json.dumps(columns_state(columns))))
        assert copy == columns
        assert list(map(type, copy.levels[0])) == list(map(type, columns.levels[0]))
        np.testing.assert_array_equal(copy.encode(table), encoded)


numbers = st.none() | st.floats(allow_infinity=False, width=32) | st.integers(-1000, 1000)
booleans = st.none() | st.booleans()
# NumPy's fixed-width text drops NUL characters at the end; surrogates cannot be written in UTF-8
texts = st.none() | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=3)


@st.composite
def mixed_columns(draw):
    """Columns of numbers, booleans or text, with missing values."""
    n = draw(st.integers(1, 8))
    kinds = draw(st.lists(st.sampled_from([numbers, booleans, texts]), min_size=1, max_size=4))
    return {f"c{j}": draw(st.lists(kind, min_size=n, max_size=n)) for j, kind in enumerate(kinds)}


def is_missing(value):
    return value is None or value != value


@given(mixed_columns())
def test_encoding_keeps_every_value(table):
    objects = GUISES["objects"](table)
    columns, encoded = learn_columns(objects)
    for j, (values, levels) in enumerate(zip(table.values(), columns.levels, strict=True)):
        for value, code in zip(values, encoded[:, j], strict=True):
            if is_missing(value):
                assert np.isnan(code)
            else:
                assert value == (code if levels is None else levels[int(code)])
    restored = columns_from(json.loads(json.dumps(columns_state(columns))))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for guise in ("pandas objects", "objects", "rows"):
            np.testing.assert_array_equal(restored.encode(GUISES[guise](table)), encoded)


@given(mixed_columns())
def test_data_frames_agree(table):
    typed = {
        name: [float(value) if type(value) is int else value for value in values] for name, values in table.items()
    }
    expected, encoded = learn_columns(pl.DataFrame(typed))
    for frame in (pl.DataFrame(typed).to_arrow(), pl.DataFrame(typed).to_pandas()):
        columns, same = learn_columns(frame)
        assert columns.names == expected.names
        np.testing.assert_array_equal(same, encoded)


@given(mixed_columns(), st.randoms())
def test_levels_do_not_depend_on_the_order_of_rows(table, random):
    n = len(next(iter(table.values())))
    shuffled = random.sample(range(n), n)
    columns, encoded = learn_columns(GUISES["objects"](table), range(len(table)))
    again, permuted = learn_columns(GUISES["objects"](table)[shuffled], range(len(table)))
    assert again == columns
    np.testing.assert_array_equal(permuted, encoded[shuffled])
