"""Targets of text and of objects: numbers are read, and everything else is an error that names value and row."""

import numpy as np
import pandas as pd
import pytest

from salsa import SalsaRegressor

X = np.random.default_rng(0).uniform(size=(30, 2))
NUMBERS = [str(round(x, 3)) for x in X[:, 0]]


@pytest.mark.parametrize("kind", [list, np.array, pd.Series, lambda y: pd.Series(y, dtype="string")])
def test_numbers_as_text_are_read(kind):
    model = SalsaRegressor(random_state=0)
    expected = model.fit(X, np.array(NUMBERS, dtype=np.float64)).predict(X)
    np.testing.assert_array_equal(model.fit(X, kind(NUMBERS)).predict(X), expected)


@pytest.mark.parametrize("kind", [list, np.array, pd.Series])
def test_other_text_is_an_error_that_names_value_row_and_classes(kind):
    with pytest.raises(ValueError, match=r"y has '132,5 €' in row 29 .* not a number: .*SalsaClassifier"):
        SalsaRegressor().fit(X, kind([*NUMBERS[:-1], "132,5 €"]))


@pytest.mark.parametrize("dtype", ["Int64", "string", object])
def test_missing_values_of_pandas_are_missing(dtype):
    with pytest.raises(ValueError, match=r"y contains NaN: row 2 \(counted from 0\) has no value \(10 rows in all\)"):
        SalsaRegressor().fit(X, pd.Series(["1", "2", None] * 10).astype(dtype))
