"""Records and plain values: the numbers of a data frame, and errors that name the field."""

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from salsa.data.records import FEW, encode_plain
from salsa.data.table_columns import learn_columns

TABLE = pd.DataFrame(
    {
        "area": [1.5, np.nan, 3.0, -2.0],
        "rooms": [3, 1, 4, 2],
        "garden": [True, False, False, True],
        "town": ["Rome", "Oslo", None, "Rome"],
        "plan": [7, 9, 7, 9],
    }
)
COLUMNS, ENCODED = learn_columns(TABLE, ["plan", "town"])
RECORDS = TABLE.to_dict("records")
ROW = RECORDS[0]


def without(record, *names):
    return {name: value for name, value in record.items() if name not in names}


class TestRecords:
    def test_records_encode_like_their_data_frame(self):
        np.testing.assert_array_equal(COLUMNS.encode(RECORDS), ENCODED)
        np.testing.assert_array_equal(COLUMNS.encode(tuple(RECORDS)), ENCODED)

    def test_a_dict_is_one_row(self):
        np.testing.assert_array_equal(COLUMNS.encode(ROW), ENCODED[:1])

    def test_the_order_of_fields_does_not_matter(self):
        np.testing.assert_array_equal(COLUMNS.encode(dict(reversed(ROW.items()))), ENCODED[:1])

    @pytest.mark.parametrize("missing", [None, np.nan, pd.NA, pd.NaT])
    @pytest.mark.parametrize("name", ["area", "town"])
    def test_missing_values_of_any_kind_become_nan(self, name, missing):
        found = COLUMNS.encode({**ROW, name: missing})
        np.testing.assert_array_equal(np.isnan(found[0]), TABLE.columns == name)

    def test_keys_that_are_numbers_count_as_texts(self):
        columns, encoded = learn_columns(pd.DataFrame([[1.0, 2.0]], columns=[0, 7]))
        np.testing.assert_array_equal(columns.encode({0: 1.0, 7: 2.0}), encoded)

    def test_unnamed_columns_are_called_x0_x1(self):
        columns, encoded = learn_columns([[1.0, 2.0]])
        np.testing.assert_array_equal(columns.encode({"x1": 2.0, "x0": 1.0}), encoded)

    def test_an_unknown_level_counts_as_missing_with_a_warning(self):
        with pytest.warns(UserWarning, match="'town' has values not seen in training, such as 'Bonn'"):
            found = COLUMNS.encode([ROW, {**ROW, "town": "Bonn"}])
        assert np.isnan(found[1, 3])

    @pytest.mark.parametrize(
        ("records", "message"),
        [
            (without(ROW, "rooms"), "field 'rooms' is absent: give a value, or None"),
            ([ROW, without(ROW, "rooms")], r"field 'rooms' is absent in row 1 \(counted from 0\)"),
            (
                {**ROW, "colour": 1},
                "field 'colour' is not a feature of this model: leave it out; the fields are 'area'",
            ),
            ({**without(ROW, "rooms"), "room": 1}, "field 'room' .* did you mean 'rooms'"),
            ({}, "field 'area' is absent"),
            ({**ROW, "rooms": "three"}, "'rooms' has 'three' in row 0 .* give a number"),
            ([ROW, {**ROW, "rooms": "3"}], "'rooms' has '3' in row 1"),
            ({**ROW, "area": np.inf}, "'area' has an infinite value"),
            ({**ROW, "area": 10**400}, "'area' has an infinite value"),
            ({**ROW, "area": pd.Timestamp(0)}, "'area' holds dates"),
            ({**ROW, "area": np.datetime64("NaT")}, "'area' holds dates"),
            ({**ROW, "area": [1, 2]}, "field 'area' holds a list: a dict is one row"),
            (TABLE.to_dict("list"), "field 'area' holds a list: a dict is one row"),
            ({**ROW, "town": {"name": "Rome"}}, "'town'.* not 'dict'"),
            ([ROW, list(ROW.values())], "X has a list in row 1 .*: give all rows as dicts"),
        ],
    )
    def test_errors_are_one_line_and_name_the_field(self, records, message):
        with pytest.raises((ValueError, TypeError), match=message) as failure:
            COLUMNS.encode(records)
        assert "\n" not in str(failure.value)

    def test_a_fit_refuses_records_with_advice(self):
        with pytest.raises(TypeError, match=r"give pandas.DataFrame\(rows\)"):
            learn_columns(RECORDS)


GUISES = {
    "frame": lambda frame: frame,
    "text dtype": lambda frame: frame.convert_dtypes(),
    "objects": lambda frame: frame.to_numpy(dtype=object),
    "lists": lambda frame: frame.to_numpy(dtype=object).tolist(),
    "polars": pl.from_pandas,
    "categories": lambda frame: frame.astype({"town": "category"}),
}


class TestPlainValues:
    @pytest.mark.parametrize("guise", GUISES)
    def test_few_rows_give_the_numbers_of_many(self, guise):
        many = pd.concat([TABLE] * FEW, ignore_index=True)
        few, long = (COLUMNS.encode(GUISES[guise](frame)) for frame in (TABLE, many))
        np.testing.assert_array_equal(few, ENCODED)
        np.testing.assert_array_equal(long, np.tile(ENCODED, (FEW, 1)))

    def test_large_codes_beside_floats_are_not_rounded(self):
        frame = TABLE.assign(plan=[10**17 + 1, 10**17 + 3, 10**17 + 1, 10**17 + 3])
        columns, encoded = learn_columns(frame, ["plan", "town"])
        np.testing.assert_array_equal(columns.encode(frame), encoded)
        np.testing.assert_array_equal(columns.encode(frame.to_dict("records")), encoded)
        assert columns.encode({**frame.to_dict("records")[0], "rooms": pd.NA})[0, 4] == 0.0

    @pytest.mark.parametrize("dtype", ["bool", "int8", "uint64", "float16", "float32", "longdouble", ">f8", "O"])
    def test_arrays_of_numbers_keep_their_values_and_are_copied(self, dtype):
        X = np.array([[0, 1], [1, 0]], dtype=dtype)
        columns, encoded = learn_columns(X)
        found = columns.encode(X)
        np.testing.assert_array_equal(found, encoded)
        assert found.dtype == np.float64
        assert found.flags.c_contiguous
        assert not np.shares_memory(found, X)

    @pytest.mark.parametrize(
        "table", [[1.0, 2.0], ["ab", "cd"], [[1.0, np.inf]], [[1.0], [1.0, 2.0]], [], np.zeros((0, 2)), [[1j, 1.0]]]
    )
    def test_tables_that_are_not_plain_take_the_long_way(self, table):
        assert encode_plain(table, (None, None)) is None

    @given(st.lists(st.one_of(st.none(), st.floats(allow_infinity=False), st.integers(), st.booleans()), min_size=1))
    def test_any_numbers_are_encoded_like_a_column_of_objects(self, values):
        columns, _ = learn_columns([[1.0]])
        column = pd.DataFrame({"x0": np.array(values, dtype=object)})
        with warnings.catch_warnings(action="ignore"):
            try:
                expected = columns.encode(pd.concat([column] * FEW))[: len(values)] if len(values) > 1 else None
            except ValueError:  # an integer beyond float64
                return
        found = columns.encode([{"x0": value} for value in values])
        if expected is not None:
            np.testing.assert_array_equal(found, expected)
