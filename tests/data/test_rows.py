"""Rows in pieces: every row once, in blocks and folds that do not depend on where pieces end."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from salsa.data.rows import Observations, StreamedRows, Total, array_rows, batches
from salsa.data.splits import ShuffledFolds


def pieces_of(n, ends):
    X = np.arange(2.0 * n).reshape(n, 2)
    ends = sorted({0, n, *(end % n for end in ends)})
    whole = Observations(X, X[:, :1], 1 + X[:, 0], np.arange(n) // 3)
    return whole, [whole.some(slice(a, b)) for a, b in pairwise(ends)]


@given(st.integers(1, 60), st.lists(st.integers(0, 59), max_size=5), st.integers(1, 20), st.integers(1, 7))
def test_blocks_do_not_depend_on_pieces(n, ends, size, every):
    whole, pieces = pieces_of(n, ends)
    blocks = list(batches(pieces, lambda start, stop: np.arange(start, stop), size, every))
    np.testing.assert_array_equal(np.concatenate([block.fold for block in blocks]), np.arange(0, n, every))
    np.testing.assert_array_equal(np.concatenate([block.X for block in blocks]), whole.X[::every])
    assert [len(block.X) for block in blocks[:-1]] == [size] * (len(blocks) - 1)
    assert 1 <= len(blocks[-1].X) <= size


@given(st.integers(1, 60), st.integers(0, 60), st.integers(1, 7))
def test_a_partition_continues_the_count_of_rows(n, start, every):
    whole, _ = pieces_of(n, [])
    blocks = list(batches([whole], lambda start, stop: np.arange(start, stop), 100, every, start))
    numbers = np.arange(start, start + n)
    np.testing.assert_array_equal([f for block in blocks for f in block.fold], numbers[numbers % every == 0])


@given(st.integers(1, 60), st.lists(st.integers(0, 59), max_size=5), st.data())
def test_rows_are_taken_by_number_from_any_pieces(n, ends, data):
    whole, pieces = pieces_of(n, ends)
    places = np.array(sorted(data.draw(st.sets(st.integers(0, n - 1), min_size=1))))
    taken = StreamedRows(lambda: pieces, n, 1).take(places)
    for part, expected in zip(taken, whole, strict=True):
        np.testing.assert_array_equal(part, expected[places])


@pytest.mark.parametrize("threads", [1, 3])
def test_totals_sum_over_all_rows(threads):
    X = np.random.default_rng(0).normal(size=(1000, 3))
    rows = array_rows(Observations(X, X, np.ones(1000)), threads)
    total = rows.total(Total(lambda block: block.X.sum(axis=0), np.add, ShuffledFolds(5, 0), 64))
    np.testing.assert_allclose(total, X.sum(axis=0))


@given(st.integers(2, 9), st.integers(0, 5), st.integers(1, 400_000), st.data())
def test_folds_are_of_equal_size_and_answer_for_any_rows(count, seed, n, data):
    folds = ShuffledFolds(count, seed)
    every = folds(0, n)
    sizes = np.bincount(every, minlength=count)
    assert sizes.max() - sizes.min() <= 1
    start = data.draw(st.integers(0, n))
    stop = data.draw(st.integers(start, n))
    np.testing.assert_array_equal(folds(start, stop), every[start:stop])


def test_folds_are_shuffled_by_the_seed():
    one, other = ShuffledFolds(5, 0)(0, 1000), ShuffledFolds(5, 1)(0, 1000)
    assert 0.1 < np.mean(one == other) < 0.3
    assert abs(np.corrcoef(one[:-1], one[1:])[0, 1] + 0.2) < 0.1  # neighbours differ, else independent
