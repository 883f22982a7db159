"""Copies and observations: what is merged, what is held out together, and what splits never cut."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.model_selection import KFold

from salsa.data.copies import find_cells, prints_of, row_hashes
from salsa.data.observing import judged
from salsa.data.rows import Observations
from salsa.data.splits import Given, drawn_splits, drawn_table_splits, given_splits, given_table_splits

FEW = st.sampled_from([-1.0, 0.0, -0.0, 2.0, np.nan])


@st.composite
def tables(draw, *, weighted=True, grouped=False):
    """Draw tables of few different values, so that most rows have copies."""
    n = draw(st.integers(2, 40))
    X = draw(arrays(float, (n, 2), elements=FEW))
    Y = draw(arrays(float, (n, 1), elements=st.sampled_from(draw(st.sampled_from([(0.0, 1.0), tuple(range(40))])))))
    weight = draw(arrays(float, n, elements=st.sampled_from([1.0, 2.0, 0.5]))) if weighted else np.ones(n)
    group = np.array(draw(st.lists(st.integers(0, 3), min_size=n, max_size=n))) if grouped else None
    return Observations(X, Y, weight, group)


def keys(values):
    """Return a hashable key of every row, equal for equal rows: -0.0 is 0.0, and NaN equals NaN."""
    return [tuple("nan" if np.isnan(v) else v + 0.0 for v in row) for row in values]


def naive_cells(rows):
    """Return lists of row numbers by equal features and group."""
    groups = [None] * len(rows.X) if rows.group is None else rows.group.tolist()
    cells = {}
    for i, key in enumerate(zip(keys(rows.X), groups, strict=True)):
        cells.setdefault(key, []).append(i)
    return list(cells.values())


def counted_cells(rows):
    """Return the cells of aggregated counts: targets differ, a weight is above the least, and outcomes recur.

    There are none if the weights follow from the targets, as those of classes do.
    """
    cells, targets = naive_cells(rows), keys(rows.Y)
    mixed = [cell for cell in cells if len({targets[i] for i in cell}) > 1]
    weighted = [cell for cell in mixed if (rows.weight[cell] != rows.weight.min()).any()]
    where = {target: {tuple(cell) for cell in cells for i in cell if targets[i] == target} for target in targets}
    if all(len({w for w, t in zip(rows.weight, targets, strict=True) if t == target}) == 1 for target in targets):
        return []
    recurs = [len(where[targets[i]]) > 1 for cell in weighted for i in cell]
    return weighted if recurs and 2 * sum(recurs) >= len(recurs) else []


def held_together(rows, cell):
    """Return whether a cell is held out whole: its targets agree, or its rows are counts."""
    return len({*keys(rows.Y[cell])}) == 1 or cell in counted_cells(rows)


@given(tables(), st.booleans())
def test_hashes_are_equal_exactly_for_equal_rows(rows, negative):
    X = -rows.X if negative else rows.X
    hashes = row_hashes(X)
    same = np.array([[a == b for b in keys(X)] for a in keys(X)])
    np.testing.assert_array_equal(hashes[:, None] == hashes, same)


@given(tables(grouped=True))
def test_cells_are_equal_features_within_a_group(rows):
    cells = find_cells(prints_of(rows))
    if cells is None:
        assert all(len(cell) == 1 for cell in naive_cells(rows))
        return
    for cell in naive_cells(rows):
        assert len(set(cells.cell[cell])) == 1
        agree = len({*keys(rows.Y[cell])}) == 1
        number = cells.cell[cell[0]]
        assert cells.copies[number] == (agree and len(cell) > 1)
        assert cells.counts[number] == (not agree and held_together(rows, cell))
    assert len(set(cells.cell)) == len(naive_cells(rows))


@given(tables())
def test_observations_are_copies_merged_with_the_sum_of_weights(rows):
    found = judged(rows, None)
    expected = {}
    for cell in naive_cells(rows):
        merged = len({*keys(rows.Y[cell])}) == 1
        for i in cell:
            place = cell[0] if merged else i
            expected[place] = expected.get(place, 0.0) + rows.weight[i]
    np.testing.assert_array_equal(found.places, sorted(expected))
    weight = np.array([expected[place] for place in found.places])
    np.testing.assert_allclose(found.rows.weight, weight / weight.mean(), rtol=1e-12)
    assert found.mean_weight == pytest.approx(weight.mean())
    np.testing.assert_array_equal(found.rows.Y, rows.Y[found.places])
    copies = len(rows.X) - len(found.places)
    starts = [f"{copies} of {len(rows.X)} "] * (copies > 0) + ["weights are read as"] * bool(counted_cells(rows))
    assert all(note.startswith(start) for note, start in zip(found.notes, starts, strict=True))


@given(tables())
def test_observations_in_ascending_order_do_not_depend_on_the_order_of_rows(rows):
    order = np.random.default_rng(len(rows.X)).permutation(len(rows.X))
    one, other = (judged(table, None).ascending() for table in (rows, rows.some(order)))
    np.testing.assert_array_equal(np.abs(one.rows.X), np.abs(other.rows.X))  # 0.0 or -0.0
    np.testing.assert_array_equal(one.rows.Y, other.rows.Y)
    np.testing.assert_allclose(one.rows.weight, other.rows.weight, rtol=1e-12)


def sides(folds, n):
    """Yield the training rows and the tested rows of every fold."""
    for fold in folds:
        yield np.setdiff1d(np.arange(n), fold.held_out), fold.tested


@given(tables(), st.integers(2, 6), st.integers(0, 9))
def test_copies_are_never_on_both_sides_of_a_fold_or_half(rows, count, seed):
    """A cell that is held out whole is on one side of every fold and in one half, also in samples of the rows."""
    found = judged(rows, None).ascending()
    n, random_state = len(found.rows.X), np.random.RandomState(seed)
    splits = drawn_splits(n, count, found.unit, random_state)
    several = [cell for cell in naive_cells(found.rows) if len(cell) > 1]
    whole = [cell for cell in several if held_together(rows, _rows_of(rows, found, cell))]
    for places in (np.arange(n), np.sort(np.random.default_rng(seed).permutation(n)[: n // 2 + 1])):
        some = splits.at(places)
        half = some.halves(found.rows.Y[places])
        for cell in whole:
            inside = np.flatnonzero(np.isin(places, cell))
            assert len(set(half[inside])) <= 1
            for trained, tested in sides(some.folds, len(places)):
                assert not (np.isin(inside, trained).any() and np.isin(inside, tested).any())


def _rows_of(rows, found, cell):
    """Return the rows of the table with the features of a cell of observations."""
    key = keys(found.rows.X[cell[:1]])[0]
    return [i for i, other in enumerate(keys(rows.X)) if other == key]


@given(tables(weighted=False), st.integers(0, 9))
def test_ordinary_replicates_are_held_out_row_by_row(rows, seed):
    found = judged(rows, None)
    assert found.unit is None
    assert found.counts is None or found.counts.sum() == len(rows.X)  # copies stand for as many as they are
    splits = drawn_splits(len(found.rows.X), 5, found.unit, np.random.RandomState(seed))
    assert splits.judges is None or len(splits.judges) == len(found.rows.X)


def test_counts_of_aggregated_cells_are_weights_over_the_least():
    X, Y = np.array([[1.0], [1.0], [2.0], [3.0]]), np.array([[1.0], [0.0], [1.0], [0.0]])
    found = judged(Observations(X, Y, np.array([7.0, 3.0, 1.0, 1.0])), None)
    np.testing.assert_array_equal(found.counts, [7, 3, 1, 1])
    np.testing.assert_array_equal(found.unit, [0, 0, 1, 2])
    scaled = judged(Observations(X, Y, 0.1 * np.array([7.0, 3.0, 1.0, 1.0])), None)
    np.testing.assert_allclose(scaled.counts, found.counts)
    np.testing.assert_allclose(scaled.rows.weight, found.rows.weight)


def test_weights_of_classes_count_nothing():
    """They follow from the targets: cells with both classes are replicates."""
    X, Y = np.array([[1.0], [1.0], [2.0], [2.0], [3.0]]), np.array([[1.0], [0.0], [1.0], [0.0], [0.0]])
    assert judged(Observations(X, Y, np.where(Y[:, 0] == 1, 3.0, 1.0)), None).counts is None
    assert judged(Observations(X, Y, np.array([3.0, 1.0, 2.0, 1.0, 1.0])), None).counts is not None


def test_weights_of_repeated_measurements_are_precisions():
    """Targets that no other cell has are no outcomes that were counted."""
    X, Y = np.array([[1.0], [1.0], [2.0], [2.0], [3.0]]), np.array([[1.1], [1.3], [2.2], [2.1], [3.1]])
    found = judged(Observations(X, Y, np.array([25.0, 1.0, 25.0, 1.0, 25.0])), None)
    assert found.counts is None
    assert found.unit is None
    assert not found.notes


@given(tables(), st.integers(0, 9))
def test_copies_that_given_splits_treat_alike_are_merged_and_others_held_out(rows, seed):
    raw = two_given_folds(rows, seed)
    pattern = row_hashes(raw.patterns().astype(float))
    found = judged(rows, pattern)
    number = raw.partition()
    expected = {
        (cell[0], number[i]) if len({*keys(rows.Y[cell])}) == 1 else (i, -1) for cell in naive_cells(rows) for i in cell
    }
    assert len(found.places) == len(expected)
    splits = raw.at(found.places).with_units(found.unit, grouped=False)
    for trained, tested in sides(splits.folds, splits.n):
        unit = np.arange(splits.n) if found.unit is None else found.unit
        inside = np.isin(unit[trained], unit[tested])
        assert not inside.any() or inside.all()  # all: nothing else would be left to train on


@given(tables(), st.integers(0, 9))
def test_folds_of_large_tables_never_cut_copies(rows, seed):
    found = judged(rows, None)
    n, random_state = len(found.rows.X), np.random.RandomState(seed)
    raw, every = two_given_folds(rows, seed).at(found.places), [drawn_table_splits(n, 3, found.unit, random_state)]
    if len(raw.folds) == 2:
        every.append(given_table_splits(raw, found.unit, grouped=False))
    for splits in every:
        number = splits.fold(0, n)
        if found.unit is not None:
            cut = len(set(zip(found.unit, number, strict=True))) > found.unit.max() + 1
            first = np.unique(found.unit, return_index=True)[1]
            assert not cut or len(set(number[first])) == 1  # all first rows in one fold: nothing would train


def two_given_folds(rows, seed):
    used, splitter = np.ones(len(rows.X), dtype=bool), KFold(2, shuffle=True, random_state=seed)
    return given_splits(splitter, Given(used), np.random.RandomState(0))
