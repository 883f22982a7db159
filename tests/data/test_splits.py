"""One set of splits per fit: units are never cut, samples keep the folds, given and ordered splits are respected."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.model_selection import GroupKFold, KFold, LeaveOneGroupOut, RepeatedKFold, ShuffleSplit, TimeSeriesSplit

from salsa.data.splits import (
    Fold,
    Given,
    Splits,
    balanced_folds,
    drawn_splits,
    drawn_table_splits,
    given_splits,
    given_table_splits,
    members,
    parse_cv,
    shuffled_folds,
    systematic_splits,
)


def seeded(seed=0):
    return np.random.RandomState(seed)


@st.composite
def units(draw, most=60):
    """Draw the unit of every row: numbers 0, 1, ... without gaps, of very different sizes."""
    n = draw(st.integers(2, most))
    labels = draw(st.lists(st.integers(0, draw(st.integers(1, n))), min_size=n, max_size=n))
    return np.unique(labels, return_inverse=True)[1]


def by_splitter(cv, n, groups=None, used=None):
    used = np.ones(n, dtype=bool) if used is None else used
    return given_splits(cv, Given(used, groups=groups), seeded())


class TestDrawn:
    @given(units(), st.integers(2, 7), st.integers(0, 99))
    def test_balanced_folds_differ_by_at_most_the_largest_unit(self, unit, count, seed):
        count = min(count, unit.max() + 1)
        number = balanced_folds(unit, count, seed)
        for rows in members(unit):
            assert len(set(number[rows])) == 1
        size = np.bincount(number, minlength=count)
        assert size.max() - size.min() <= np.bincount(unit).max()
        assert size.min() > 0

    @given(units(), st.integers(2, 7), st.integers(0, 99))
    def test_drawn_folds_hold_every_row_out_once_and_cut_no_unit(self, unit, count, seed):
        splits = drawn_splits(len(unit), count, unit, seeded(seed))
        if unit.max() == 0:
            assert splits.folds == ()
            return
        held = np.concatenate([fold.held_out for fold in splits.folds])
        np.testing.assert_array_equal(np.sort(held), np.arange(len(unit)))
        assert len(splits.folds) == min(count, unit.max() + 1)
        for fold in splits.folds:
            assert (np.diff(fold.held_out) > 0).all()
            np.testing.assert_array_equal(fold.tested, fold.held_out)
        number = splits.partition()
        assert all(len(set(number[rows])) == 1 for rows in members(unit))

    @given(units(), st.integers(0, 99))
    def test_halves_cut_no_unit_and_are_halves_of_the_units(self, unit, seed):
        splits = drawn_splits(len(unit), 5, unit, seeded(seed))
        half = splits.halves(np.random.default_rng(seed).normal(size=(len(unit), 1)))
        of_units = np.array([half[rows[0]] for rows in members(unit)])
        assert all(len(set(half[rows])) == 1 for rows in members(unit))
        assert abs(of_units.sum() - len(of_units) / 2) <= 0.5

    @given(units(), st.integers(0, 99))
    def test_a_unit_judges_after_the_fit_without_it(self, unit, seed):
        splits = drawn_splits(len(unit), 5, unit, seeded(seed))
        assert [fold.held_out.tolist() for fold in splits.judges] == [rows.tolist() for rows in members(unit)]
        assert drawn_splits(9, 5, None, seeded()).judges is None

    @given(units(), st.integers(2, 7), st.integers(0, 99))
    def test_systematic_folds_hold_every_row_out_once_and_cut_no_unit(self, unit, count, seed):
        Y = np.random.default_rng(seed).integers(0, 9, (len(unit), 2)).astype(float)
        splits = systematic_splits(Y, count, unit, seeded(seed))
        if unit.max() == 0:
            assert splits.folds == ()
            return
        number = splits.partition()
        assert all(len(set(number[rows])) == 1 for rows in members(unit))
        size = np.bincount(number, minlength=min(count, unit.max() + 1))
        assert size.min() > 0
        assert size.max() - size.min() <= np.bincount(unit).max()
        other = systematic_splits(Y, count, unit, seeded(seed + 1))
        np.testing.assert_array_equal(other.partition(), number)

    @pytest.mark.parametrize("n", [1500, 2000, 2400, 4000])
    def test_samples_of_systematic_folds_keep_all_folds(self, n):
        """Every fifth of 4000 rows in the order of the target could be in one fold."""
        Y = np.random.default_rng(0).normal(size=(n, 1))
        for seed in range(10):
            splits = systematic_splits(Y, 5, None, seeded(seed))
            sample = splits.at(splits.sample(Y, 800))
            assert len(sample.folds) == 5
            assert sum(len(fold.tested) for fold in sample.folds) == 800

    @given(st.integers(2, 40), st.integers(2, 7), st.integers(0, 99))
    def test_systematic_folds_have_a_row_of_every_part_of_the_target(self, n, count, seed):
        Y = np.random.default_rng(seed).normal(size=(n, 1))
        number = systematic_splits(Y, count, None, seeded()).partition()
        ranked = number[np.argsort(Y[:, 0])]
        for start in range(0, n - count + 1, count):
            assert set(ranked[start : start + count]) == set(range(count))

    def test_folds_of_units_are_shuffled_by_the_seed(self):
        unit = np.arange(300) // 3
        one, other = (balanced_folds(unit, 5, seed) for seed in (0, 1))
        np.testing.assert_array_equal(one, balanced_folds(unit, 5, 0))
        assert 0.05 < np.mean(one == other) < 0.4

    def test_no_folds_of_a_single_row(self):
        assert shuffled_folds(1, 5, 0) == []
        assert drawn_splits(3, 5, np.zeros(3, dtype=int), seeded()).folds == ()

    @given(units(), st.integers(2, 5))
    def test_folds_of_large_tables_cut_no_unit(self, unit, count):
        splits = drawn_table_splits(len(unit), count, unit, seeded())
        number = splits.fold(0, len(unit))
        assert all(len(set(number[rows])) == 1 for rows in members(unit))
        assert number.max() < splits.n_folds == min(count, unit.max() + 1)


class TestSamples:
    @given(units(), st.data())
    def test_some_rows_keep_their_folds_and_units(self, unit, data):
        n = len(unit)
        places = np.array(sorted(data.draw(st.sets(st.integers(0, n - 1), min_size=1))))
        splits = drawn_splits(n, 4, unit, seeded())
        some = splits.at(places)
        assert some.n == len(places)
        np.testing.assert_array_equal(unit[places][:, None] == unit[places], some.unit[:, None] == some.unit)
        number = splits.partition()
        if number is None:
            return
        kept = [k for k in range(len(splits.folds)) if 0 < np.sum(number[places] == k) < len(places)]
        found = [places[fold.tested].tolist() for fold in some.folds]
        assert found == [places[number[places] == k].tolist() for k in kept]

    @given(st.integers(6, 40), st.data())
    def test_rows_in_another_order_keep_their_folds(self, n, data):
        order = np.array(data.draw(st.permutations(range(n))))
        splits = by_splitter(TimeSeriesSplit(3), n)
        moved = splits.at(order)
        for fold, again in zip(splits.folds, moved.folds, strict=True):
            assert set(order[again.held_out]) == set(fold.held_out)
            assert set(order[again.tested]) == set(fold.tested)
            assert (np.diff(again.held_out) > 0).all()

    def test_a_mask_selects_rows(self):
        splits = drawn_splits(20, 4, None, seeded())
        mask = np.arange(20) % 3 == 0
        one, other = splits.at(mask), splits.at(np.flatnonzero(mask))
        assert [f.held_out.tolist() for f in one.folds] == [f.held_out.tolist() for f in other.folds]

    @given(st.integers(10, 60), st.integers(2, 5), st.integers(0, 9), st.data())
    def test_samples_of_large_tables_keep_the_folds(self, n, count, seed, data):
        splits = drawn_table_splits(n, count, None, seeded(seed))
        places = np.array(sorted(data.draw(st.sets(st.integers(0, n - 1), min_size=2))))
        number, some = splits.fold(0, n)[places], splits.at(places)
        for fold in some.folds:
            np.testing.assert_array_equal(fold.held_out, np.flatnonzero(number == number[fold.held_out[0]]))


class TestGiven:
    def test_splits_of_the_user_judge(self):
        splits = by_splitter(KFold(3), 12)
        assert splits.given
        assert splits.judges is splits.folds
        assert not splits.ordered
        np.testing.assert_array_equal(splits.partition(), np.arange(12) // 4)
        np.testing.assert_array_equal(splits.halves(np.zeros((12, 1))), np.arange(12) // 4 % 2)

    def test_rows_of_weight_zero_are_left_out(self):
        used = np.arange(12) % 4 != 0
        splits = by_splitter(KFold(3), 12, used=used)
        assert splits.n == 9
        assert [fold.tested.tolist() for fold in splits.folds] == [[0, 1, 2], [3, 4, 5], [6, 7, 8]]

    @pytest.mark.parametrize("cv", [GroupKFold(3), LeaveOneGroupOut()])
    def test_splitters_get_the_groups(self, cv):
        groups = np.arange(12) // 2
        splits = by_splitter(cv, 12, groups).with_units(groups, grouped=True)
        assert all(len(set(splits.partition()[rows])) == 1 for rows in members(groups))

    def test_given_splits_that_cut_a_group_are_refused(self):
        with pytest.raises(
            ValueError, match=r"split 0 has rows of 1 groups both in training and in test: .*GroupKFold"
        ):
            by_splitter(KFold(3), 12).with_units(np.arange(12) // 3, grouped=True)

    def test_untested_rows_of_a_tested_group_are_not_trained_on(self):
        """Rows that a split neither tests nor trains on may be of any group."""
        cv = [(np.array([0, 1, 4, 5]), np.array([2]))]
        unit = np.array([0, 0, 1, 1, 2, 2])
        splits = by_splitter(cv, 6).with_units(unit, grouped=True)
        assert splits.folds[0].held_out.tolist() == [2, 3]
        assert splits.folds[0].tested.tolist() == [2]

    def test_cells_of_counts_leave_the_training_rows(self):
        splits = by_splitter(KFold(3), 6).with_units(np.array([0, 1, 0, 2, 3, 4]), grouped=False)
        assert [fold.held_out.tolist() for fold in splits.folds] == [[0, 1, 2], [0, 2, 3], [4, 5]]
        assert [fold.tested.tolist() for fold in splits.folds] == [[0, 1], [2, 3], [4, 5]]

    @pytest.mark.parametrize(
        ("cv", "message"),
        [
            ([([], [0, 1])], "no training row"),
            ([([0, 0, 1], [2])], "trains on a row more than once"),
            ([([0, 1], [1, 2])], "tests rows that it trains on"),
            ([([0, 1], [])], "no split tests a row"),
        ],
    )
    def test_splits_that_make_no_sense_are_refused(self, cv, message):
        splits = [tuple(np.array(part, dtype=int) for part in pair) for pair in cv]
        with pytest.raises(ValueError, match=message):
            by_splitter(splits, 6)

    @pytest.mark.parametrize("cv", [True, 1, 0, -3])
    def test_fewer_than_two_folds_are_refused(self, cv):
        with pytest.raises(ValueError, match="at least 2 folds are needed"):
            parse_cv(cv)

    @pytest.mark.parametrize(
        "cv", [RepeatedKFold(n_splits=3, n_repeats=2, random_state=0), ShuffleSplit(3, random_state=0)]
    )
    def test_rows_tested_twice_or_never_are_no_partition_and_refused_by_large_fits(self, cv):
        splits = by_splitter(cv, 30)
        assert splits.partition() is None
        with pytest.raises(ValueError, match=r"test every row exactly once.*solver='exact', which takes any"):
            given_table_splits(splits, None, grouped=False)


class TestOrdered:
    def test_later_rows_judge(self):
        splits = by_splitter(TimeSeriesSplit(4), 50)
        assert splits.ordered
        np.testing.assert_array_equal(splits.halves(np.zeros((50, 1))), np.arange(50) >= 25)
        assert splits.partition() is None

    def test_samples_of_ordered_rows_stay_ordered(self):
        splits = by_splitter(TimeSeriesSplit(4), 50).at(np.arange(0, 50, 3))
        assert splits.ordered
        assert splits.halves(np.zeros((17, 1))).tolist() == [0] * 8 + [1] * 9

    @pytest.mark.parametrize(
        "cv", [TimeSeriesSplit(4), TimeSeriesSplit(3, gap=2), TimeSeriesSplit(3, max_train_size=8)]
    )
    def test_any_splitter_whose_training_rows_precede_is_ordered(self, cv):
        assert by_splitter(cv, 50).ordered

    def test_folds_of_large_tables_follow_each_other(self):
        splits = given_table_splits(by_splitter(TimeSeriesSplit(4), 50), None, grouped=False)
        assert splits.forward
        assert splits.n_folds == 5
        np.testing.assert_array_equal(splits.fold(0, 50), np.arange(50) // 10)
        some = splits.at(np.arange(0, 50, 2))
        for k, fold in enumerate(some.folds, start=1):
            np.testing.assert_array_equal(fold.held_out, np.arange(5 * k, 25))
            np.testing.assert_array_equal(fold.tested, np.arange(5 * k, 5 * k + 5))
        assert some.ordered

    @pytest.mark.parametrize("cv", [TimeSeriesSplit(3, gap=2), TimeSeriesSplit(3, max_train_size=8)])
    def test_large_tables_need_all_earlier_rows_in_training(self, cv):
        with pytest.raises(ValueError, match="train on all rows before the tested ones"):
            given_table_splits(by_splitter(cv, 50), None, grouped=False)

    def test_shuffled_folds_are_not_ordered(self):
        assert not drawn_splits(20, 5, None, seeded()).ordered
        folds = (Fold(np.array([0, 1]), np.array([0, 1])),)
        assert not Splits(5, folds, seeded(), given=True).ordered
