"""Weighted moments and the merging of equal rows."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from salsa._utils.weighted import mean_and_standard_error, target_variance
from salsa.data.rows import Observations

SMALL = st.sampled_from([-1.0, 0.0, -0.0, 2.0])


@given(st.data())
def test_whole_weights_are_written_out_and_rows_sorted(data):
    n = data.draw(st.integers(1, 12))
    X, Y = data.draw(arrays(float, (n, 2), elements=SMALL)), data.draw(arrays(float, (n, 1), elements=SMALL))
    weight = data.draw(st.none() | arrays(float, n, elements=st.integers(1, 3)))
    rows, targets, left = Observations(X, Y, np.ones(n) if weight is None else weight).sorted()
    counts = np.ones(n, dtype=int) if weight is None else weight.astype(int)
    assert (left == 1).all()
    assert np.column_stack([rows, targets]).tolist() == sorted(
        np.repeat(np.column_stack([X, Y]), counts, axis=0).tolist()
    )


def test_fractional_or_large_weights_are_kept_as_weights():
    X, Y = np.array([[2.0], [1.0]]), np.zeros((2, 1))
    for weight in ([1.5, 1.0], [1e6, 1.0]):
        rows, _, left = Observations(X, Y, np.array(weight)).sorted()
        assert rows.tolist() == [[1.0], [2.0]]
        assert left.tolist() == weight[::-1]


def test_weights_count_rows():
    rng = np.random.default_rng(0)
    y, w = rng.normal(size=(20, 2)), rng.integers(1, 4, 20)
    repeated = np.repeat(y, w, axis=0)
    np.testing.assert_allclose(target_variance(y, w.astype(float)), repeated.var(axis=0))
    mean, _ = mean_and_standard_error(y[:, 0], w.astype(float))
    assert abs(mean - repeated[:, 0].mean()) < 1e-15


def test_a_constant_output_has_no_variance_to_divide_by():
    assert target_variance(np.full((5, 1), 0.1), np.ones(5)).tolist() == [1.0]
