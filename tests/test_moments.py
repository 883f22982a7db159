"""Weighted moments and the merging of equal rows."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from salsa.moments import mean_and_standard_error, merge_rows, target_variance

SMALL = st.sampled_from([-1.0, 0.0, -0.0, 2.0])


@given(st.data())
def test_merged_rows_are_the_rows_counted(data):
    n = data.draw(st.integers(1, 12))
    X, Y = data.draw(arrays(float, (n, 2), elements=SMALL)), data.draw(arrays(float, (n, 1), elements=SMALL))
    weight = data.draw(st.none() | arrays(float, n, elements=st.integers(1, 3)))
    rows, targets, count = merge_rows(X, Y, weight)
    counted = {}
    for x, y, w in zip(X.tolist(), Y.tolist(), np.ones(n) if weight is None else weight, strict=True):
        counted[(*x, *y)] = counted.get((*x, *y), 0) + w
    found = np.column_stack([rows, targets]).tolist()
    assert found == sorted(found)
    assert {
        tuple(row): w for row, w in zip(found, np.ones(len(rows)) if count is None else count, strict=True)
    } == counted


def test_weights_count_rows():
    rng = np.random.default_rng(0)
    y, w = rng.normal(size=(20, 2)), rng.integers(1, 4, 20)
    repeated = np.repeat(y, w, axis=0)
    np.testing.assert_allclose(target_variance(y, w.astype(float)), repeated.var(axis=0))
    mean, _ = mean_and_standard_error(y[:, 0], w.astype(float))
    assert abs(mean - repeated[:, 0].mean()) < 1e-15


def test_a_constant_output_has_no_variance_to_divide_by():
    assert target_variance(np.full((5, 1), 0.1), np.ones(5)).tolist() == [1.0]
