"""Claims of a fit do not depend on how observations are written down: weights, copies, groups, order."""

from functools import cache

import naive
import numpy as np
import pandas as pd
import pytest
from conftest import additive_truth
from sklearn.model_selection import GroupKFold, KFold, RepeatedKFold, ShuffleSplit, TimeSeriesSplit

from salsa import SalsaRegressor
from salsa.selection import race

KINDS = {
    "learned": {"kernel": "matern52", "order": 2},
    "equal relevances": {"relevance": "equal"},
    "low-rank": {"relevance": "equal", "order": 2, "rank": 40},
    "conjugate gradients": {"relevance": "equal", "order": 2, "rank": 40, "solver": "pcg"},
    "random features": {"relevance": "equal", "order": 2, "rank": 40, "solver": "features"},
    "divide": {"relevance": "equal", "order": 2, "rank": 40, "solver": "divide"},
}
every_kind = pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)


def regressor(**parameters):
    return SalsaRegressor(**{"random_state": 0, "n_jobs": 1} | parameters)


@cache
def plain_model(**kind):
    """Return the fit without weights, copies and groups, once for all tests."""
    return regressor(**kind).fit(*table()[:2])


def table(n=120):
    X, y = additive_truth(n=n, D=4, noise=0.3)
    return X, y, additive_truth(n=40, D=4, seed=1)[0]


def claims(model, new):
    """Return what a model says: predictions, intervals, standard deviations, errors and alpha."""
    found = [model.predict(new), model.search_.table["cv_error"].to_numpy(), np.array([model.alpha_])]
    if model.solver != "divide":
        found += [model.predict_interval(new, 0.8), model.predict(new, return_std=True)[1]]
    return found


def same_bits(one, other, new):
    for found, expected in zip(claims(one, new), claims(other, new), strict=True):
        np.testing.assert_array_equal(found, expected)


def close(one, other, new, rtol=1e-9):
    for found, expected in zip(claims(one, new), claims(other, new), strict=True):
        np.testing.assert_allclose(found, expected, rtol=rtol, atol=rtol * np.abs(expected).max())


def refitted(kernel, X, y, alpha, cv):
    """Return the residuals of all tested rows, by a refit to the training rows of every split."""
    residuals = []
    for train, test in cv.split(X):
        coef, offset = naive.ridge(kernel(X[train]), y[train, None], alpha)
        residuals.append(y[test] - offset - kernel(X[test], X[train]) @ coef[:, 0])
    return np.concatenate(residuals)


class TestWeights:
    @every_kind
    @pytest.mark.parametrize("factor", [3.0, 0.1])
    def test_equal_weights_are_no_weights_to_the_bit(self, kind, factor):
        X, y, new = table()
        same_bits(regressor(**kind).fit(X, y, np.full(120, factor)), plain_model(**kind), new)

    @pytest.mark.parametrize("factor", [2.0, 3.0, 0.1])
    def test_equal_weights_of_blocks_are_no_weights_to_the_bit(self, factor):
        X, y, new = table()
        parts = [slice(0, 50), slice(50, 120)]
        weighted = [(X[rows], y[rows], np.full(len(y[rows]), factor)) for rows in parts]
        plain = regressor(**KINDS["low-rank"]).fit_blocks([(X[rows], y[rows]) for rows in parts])
        same_bits(regressor(**KINDS["low-rank"]).fit_blocks(weighted), plain, new)

    @every_kind
    @pytest.mark.parametrize("factor", [0.3, 1e9])
    def test_only_ratios_of_weights_matter(self, kind, factor):
        X, y, new = table()
        weight = np.random.default_rng(0).uniform(0.5, 3.0, 120)
        tolerance = 1e-5 if "rank" in kind else 1e-8  # low-rank intervals are found by bisection
        close(regressor(**kind).fit(X, y, factor * weight), regressor(**kind).fit(X, y, weight), new, tolerance)

    @every_kind
    def test_powers_of_two_times_the_weights_change_no_bit(self, kind):
        X, y, new = table()
        weight = np.random.default_rng(0).uniform(0.5, 3.0, 120)
        same_bits(regressor(**kind).fit(X, y, 8 * weight), regressor(**kind).fit(X, y, weight), new)

    @every_kind
    def test_a_weight_of_zero_removes_the_row(self, kind):
        X, y, new = table()
        weight = np.random.default_rng(0).choice([0.0, 1.0, 2.5], 120)
        used = weight > 0
        y_with_outliers = np.where(used, y, 1e6)
        model = regressor(**kind).fit(X[used], y[used], weight[used])
        same_bits(regressor(**kind).fit(X, y_with_outliers, weight), model, new)

    @pytest.mark.parametrize("factor", [1.0, 5.0])
    def test_a_given_penalty_is_divided_by_the_weights(self, factor):
        X, y, new = table()
        weight = factor * np.random.default_rng(0).uniform(0.5, 3.0, 120)
        model = regressor(relevance="equal", order=2, alpha=0.7).fit(X, y, weight)
        kernel = model.expansion_.kernel
        coef, offset = naive.ridge(kernel(X), y[:, None], 0.7, np.diag(1 / weight))
        np.testing.assert_allclose(model.predict(new), (offset + kernel(new, X) @ coef)[:, 0], rtol=1e-9)

    def test_true_precisions_beat_equal_weights(self):
        """Noise of standard deviation 0.1 or 3: over five tables, the error with weights is less than half."""
        ratios = []
        for seed in range(5):
            X, truth = additive_truth(n=150, D=4, noise=0.0, seed=seed)
            rng = np.random.default_rng(seed)
            sd = rng.choice([0.1, 3.0], 150)
            y, (new, expected) = truth + sd * rng.normal(size=150), additive_truth(n=300, D=4, noise=0.0, seed=99)
            fits = (regressor(**KINDS["equal relevances"]).fit(X, y, w) for w in (1 / sd**2, None))
            weighted, plain = (np.mean((model.predict(new) - expected) ** 2) for model in fits)
            ratios.append(weighted / plain)
        assert np.median(ratios) < 0.5

    @pytest.mark.parametrize("bad", [-1.0, np.nan, np.inf, 1e60, 1e-60])
    def test_weights_out_of_range_are_refused(self, bad):
        X, y, _ = table()
        weight = np.ones(120)
        weight[7] = bad
        with pytest.raises(ValueError, match=r"[Nn]egative|NaN|infinity|sample_weight"):
            regressor().fit(X, y, weight)

    def test_weights_of_zero_alone_are_refused(self):
        X, y, _ = table()
        with pytest.raises(ValueError, match="every weight is zero; at least one row needs a positive weight"):
            regressor().fit(X, y, np.zeros(120))
        with pytest.raises(ValueError, match="every weight is zero"):
            regressor().fit_blocks([(X[:60], y[:60], np.zeros(60)), (X[60:], y[60:], np.zeros(60))])

    @pytest.mark.parametrize("weight", [np.ones(119), np.ones((120, 2))])
    def test_weights_of_another_shape_are_refused(self, weight):
        X, y, _ = table()
        with pytest.raises(ValueError, match=r"(?i)sample.?weight"):
            regressor().fit(X, y, weight)


class TestCopies:
    @every_kind
    def test_every_row_twice_is_every_row_once_to_the_bit(self, kind):
        X, y, new = table()
        twice = regressor(**kind).fit(np.vstack([X, X]), np.append(y, y))
        assert any("120 of 240 rows are copies" in note for note in twice.search_.notes)
        same_bits(twice, plain_model(**kind), new)

    @pytest.mark.parametrize("kind", ["learned", "equal relevances", "low-rank"])
    def test_repeated_rows_are_weighted_rows(self, kind):
        X, y, new = table()
        often = np.random.default_rng(0).integers(1, 4, 120)
        rows = np.concatenate([np.arange(120), np.repeat(np.arange(120), often - 1)])
        repeated, weighted = regressor(**KINDS[kind]).fit(X[rows], y[rows]), regressor(**KINDS[kind]).fit(X, y, often)
        np.testing.assert_array_equal(repeated.predict(new), weighted.predict(new))
        np.testing.assert_array_equal(repeated.search_.table["cv_error"], weighted.search_.table["cv_error"])

    @pytest.mark.parametrize("kind", ["learned", "low-rank"])
    def test_copies_do_not_judge_themselves(self, kind):
        """Pure noise, half the rows twice: a claim of an error far below 1 would be a copy's."""
        rng = np.random.default_rng(0)
        X, y = rng.normal(size=(150, 3)), rng.normal(size=150)
        X, y = np.vstack([X, X[:75]]), np.append(y, y[:75])
        model = regressor(**KINDS[kind]).fit(X, y)
        assert model.search_.table["cv_error"].min() > 0.9
        inside = model.predict_interval(rng.normal(size=(400, 3)), 0.9)
        target = rng.normal(size=400)
        assert np.mean((inside[:, 0] <= target) & (target <= inside[:, 1])) > 0.84

    def test_copies_in_blocks_do_not_judge_themselves(self):
        rng = np.random.default_rng(0)
        X, y = rng.normal(size=(150, 3)), rng.normal(size=150)
        model = regressor(relevance="equal", order=2, rank=60).fit_blocks([(X, y), (X[:75], y[:75])])
        assert any("75 of 225 rows are copies" in note for note in model.search_.notes)
        assert model.search_.table["cv_error"].min() > 0.9

    @pytest.mark.parametrize("rank", [None, 40])
    def test_copies_across_given_folds_do_not_judge_themselves(self, rank):
        rng = np.random.default_rng(0)
        X, y = rng.normal(size=(150, 3)), rng.normal(size=150)
        X, y = np.vstack([X, X]), np.append(y, y)
        folds = KFold(5, shuffle=True, random_state=0)
        model = regressor(relevance="equal", order=2, rank=rank, cv=folds).fit(X, y)
        assert model.search_.table["cv_error"].min() > 0.9


DOSES = np.repeat(np.arange(6.0), 10)[:, None]
DEATHS = np.concatenate([np.arange(10) < count for count in (1, 3, 4, 7, 8, 9)]).astype(float)


class TestReplicates:
    """Six doses with ten animals each, which die or not: as 60 rows, and as counts of both outcomes."""

    def test_replicates_are_held_out_row_by_row(self):
        model = regressor(relevance="equal", order=1, alpha=0.5).fit(DOSES, DEATHS)
        kernel, found = model.expansion_.kernel, model.leave_one_out()
        X, y = model.expansion_.anchors, found.target
        assert len(y) == 60
        assert not any("copies" in note for note in model.search_.notes)
        expected = [naive.held_out_residuals(kernel(X), y, 0.5, np.array([i]))[0] for i in range(60)]
        np.testing.assert_allclose(y - found.prediction, expected, rtol=1e-8)
        assert np.corrcoef(found.target[:, 0], found.prediction[:, 0])[0, 1] > 0.4

    def test_aggregated_counts_are_held_out_whole(self):
        often = np.column_stack([10 - DEATHS.reshape(6, 10).sum(axis=1), DEATHS.reshape(6, 10).sum(axis=1)])
        X, y = np.repeat(np.arange(6.0), 2)[:, None], np.tile([0.0, 1.0], 6)
        model = regressor(relevance="equal", order=1, alpha=0.5).fit(X, y, often.ravel())
        found, points = model.leave_one_out(), model.expansion_.anchors[:, 0]
        for dose in range(6):
            both = found.prediction[points == dose, 0]
            assert both[0] == pytest.approx(both[1], rel=1e-9)
        weighted = np.cov(found.target[:, 0], found.prediction[:, 0], aweights=found.weight)
        assert weighted[0, 1] > 0

    def test_weights_stay_precisions_if_measurements_are_repeated(self):
        """One pair of rows with equal features must not make every weight a number of observations."""
        rng = np.random.default_rng(0)
        X, variance = rng.uniform(size=(200, 2)), np.where(rng.uniform(size=200) < 0.5, 0.04, 1.0)
        y, once = X[:, 0] + np.sqrt(variance) * rng.normal(size=200), X.copy()
        X[1], variance[:2] = X[0], (0.04, 1.0)
        models = [regressor(relevance="equal", order=1).fit(table, y, 1 / variance) for table in (once, X)]
        one, other = (np.diff(model.predict_interval(X, 0.9)).mean() for model in models)
        assert other == pytest.approx(one, rel=0.05)

    def test_rows_and_counts_predict_the_same_with_a_given_penalty(self):
        often = np.column_stack([10 - DEATHS.reshape(6, 10).sum(axis=1), DEATHS.reshape(6, 10).sum(axis=1)])
        X, y, new = np.repeat(np.arange(6.0), 2)[:, None], np.tile([0.0, 1.0], 6), np.linspace(0, 5, 11)[:, None]
        fixed = {"relevance": "equal", "order": 1, "alpha": 0.5, "bandwidth": [2.0]}
        rows, counts = regressor(**fixed).fit(DOSES, DEATHS), regressor(**fixed).fit(X, y, often.ravel())
        np.testing.assert_allclose(rows.predict(new), counts.predict(new), rtol=1e-9)


def people(n=60, size=6, seed=0, level=1.0):
    """Return rows, targets and truth of people with a level of their own and a feature that tells them apart."""
    rng = np.random.default_rng(seed)
    person = np.repeat(np.arange(n), size)
    X = np.column_stack([rng.normal(size=n)[person], rng.uniform(-1, 1, (n * size, 2))])
    truth = np.sin(3 * X[:, 1]) + 0.5 * X[:, 2]
    y = truth + level * rng.normal(size=n)[person] + 0.3 * rng.normal(size=n * size)
    return X, y, person, truth


class TestGroups:
    @pytest.mark.parametrize("rank", [None, 60])
    def test_groups_tell_levels_from_features(self, rank):
        """A feature is constant within a person: without groups, it explains the levels of people in the table."""
        X, y, person, _ = people()
        new, target, _, truth = people(seed=50)
        grouped, plain = regressor(rank=rank).fit(X, y, groups=person), regressor(rank=rank).fit(X, y)
        error, without = (np.var(model.predict(new) - truth) for model in (grouped, plain))
        assert error < 0.5 * without
        assert 6 < grouped.search_.rho < 20  # the truth is 11
        assert plain.search_.rho == 0.0
        ends = grouped.predict_interval(new, 0.9)
        assert 0.82 < np.mean((ends[:, 0] <= target) & (target <= ends[:, 1])) < 0.97

    def test_leave_one_out_leaves_the_group_out(self):
        X, y, person, _ = people(n=15, size=4)
        model = regressor(relevance="equal", order=1, alpha=0.5).fit(X, y, groups=person)
        found, points, kernel = model.leave_one_out(), model.expansion_.anchors, model.expansion_.kernel
        place = np.array([np.flatnonzero((point == X).all(axis=1))[0] for point in points])
        R = naive.noise_covariance(np.ones(60), person[place], model.search_.rho)
        for g in range(15):
            rows = np.flatnonzero(person[place] == g)
            expected = naive.held_out_residuals(kernel(points), y[place][:, None], 0.5, rows, R)
            np.testing.assert_allclose(y[place][rows, None] - found.prediction[rows], expected, rtol=1e-7, atol=1e-8)

    @every_kind
    def test_groups_of_single_rows_are_no_groups_to_the_bit(self, kind):
        X, y, new = table()
        labels = np.array([f"row {i}" for i in range(120)])
        same_bits(regressor(**kind).fit(X, y, groups=labels), plain_model(**kind), new)

    def test_groups_of_single_rows_in_blocks_are_no_groups_to_the_bit(self):
        X, y, new = table()
        parts = [slice(0, 50), slice(50, 120)]
        options = KINDS["low-rank"]
        grouped = regressor(**options).fit_blocks([(X[p], y[p], np.ones(len(y[p])), np.arange(120)[p]) for p in parts])
        same_bits(grouped, regressor(**options).fit_blocks([(X[p], y[p]) for p in parts]), new)

    @pytest.mark.parametrize("rank", [None, 60])
    def test_names_of_groups_do_not_matter(self, rank):
        X, y, person, _ = people(n=30, size=4)
        names = np.array([f"{(7 * g) % 31:03d}" for g in range(30)], dtype=object)[person]
        options = {"relevance": "equal", "order": 1, "rank": rank}
        one, other = (regressor(**options).fit(X, y, groups=groups) for groups in (person, pd.Series(names)))
        same_bits(one, other, X[:20])

    def test_groups_in_blocks_are_groups_in_memory_to_the_bit(self):
        """Blocks cut people in two."""
        X, y, person, _ = people(n=40, size=5)
        options = {"relevance": "equal", "order": 1, "rank": 50}
        parts = [slice(0, 33), slice(33, 101), slice(101, 200)]
        blocks = [(X[p], y[p], np.ones(len(y[p])), person[p]) for p in parts]
        same_bits(regressor(**options).fit_blocks(blocks), regressor(**options).fit(X, y, groups=person), X[:20])

    def test_copies_in_blocks_are_told_apart_by_their_group(self):
        """Labels are numbered per block: equal rows of different people are no copies, wherever the blocks end."""
        X, y, _ = table()
        groups = np.repeat(np.arange(60), 2)
        X, y, groups = np.vstack([X, X[:10]]), np.append(y, y[:10]), np.append(groups, 100 + np.arange(10) // 2)
        parts = [slice(0, 120), slice(120, 130)]
        model = regressor(**KINDS["low-rank"])
        model.fit_blocks([(X[p], y[p], np.ones(len(y[p])), groups[p]) for p in parts])
        assert not any("copies" in note for note in model.search_.notes)
        groups[120:] = groups[:10]
        model.fit_blocks([(X[p], y[p], np.ones(len(y[p])), groups[p]) for p in parts])
        assert any("10 of 130 rows are copies" in note for note in model.search_.notes)

    @pytest.mark.parametrize("rank", [None, 60])
    def test_all_rows_in_one_group_are_refused(self, rank):
        X, y, _ = table()
        with pytest.raises(ValueError, match="all rows are in the group Anna; at least 2 groups are needed, or none"):
            regressor(rank=rank).fit(X, y, groups=["Anna"] * 120)
        with pytest.raises(ValueError, match="all rows are in the group 3"):
            regressor(rank=rank).fit_blocks([(X[p], y[p], None, [3] * 60) for p in (slice(0, 60), slice(60, 120))])

    def test_rows_of_weight_zero_are_in_no_group(self):
        X, y, _ = table()
        weight = np.where(np.arange(120) < 60, 1.0, 0.0)
        with pytest.raises(ValueError, match="all rows are in the group 0"):
            regressor().fit(X, y, weight, groups=np.arange(120) // 60)

    @pytest.mark.parametrize("groups", [np.zeros(119), np.zeros((120, 1)), [0, 1]])
    def test_groups_of_another_length_are_refused(self, groups):
        X, y, _ = table()
        with pytest.raises(ValueError, match="give one label for each of the 120 rows"):
            regressor().fit(X, y, groups=groups)

    @pytest.mark.parametrize("missing", [np.nan, None, pd.NA, pd.NaT])
    def test_missing_labels_are_refused(self, missing):
        X, y, _ = table()
        groups = pd.Series(np.arange(120) // 4, dtype=object)
        groups[[7, 9]] = missing
        with pytest.raises(ValueError, match=r"row 7 has no label \(2 rows in all\); drop them or name a group"):
            regressor().fit(X, y, groups=groups)

    def test_missing_numbers_and_dates_are_refused(self):
        X, y, _ = table()
        numbers = np.where(np.arange(120) == 7, np.nan, np.arange(120) // 4)
        dates = np.where(np.arange(120) == 7, np.datetime64("NaT"), np.datetime64("2026-01-01"))
        for groups in (numbers, dates, pd.Series(numbers).astype("Int64"), pd.Series(dates)):
            with pytest.raises(ValueError, match="row 7 has no label"):
                regressor().fit(X, y, groups=groups)

    @pytest.mark.parametrize("rank", [None, 60])
    def test_given_splits_that_cut_a_group_are_refused(self, rank):
        X, y, person, _ = people(n=30, size=4)
        with pytest.raises(ValueError, match=r"groups both in training and in test: .*GroupKFold"):
            regressor(rank=rank, cv=KFold(5, shuffle=True, random_state=0)).fit(X, y, groups=person)

    @pytest.mark.parametrize("rank", [None, 60])
    def test_group_splitters_get_the_groups(self, rank):
        X, y, person, _ = people(n=30, size=4)
        model = regressor(relevance="equal", order=1, rank=rank, cv=GroupKFold(5)).fit(X, y, groups=person)
        listed = list(GroupKFold(5).split(X, y, person))
        other = regressor(relevance="equal", order=1, rank=rank, cv=listed).fit(X, y, groups=person)
        same_bits(model, other, X[:20])


class TestSplitters:
    @pytest.mark.parametrize(
        "cv", [RepeatedKFold(n_splits=4, n_repeats=2, random_state=0), ShuffleSplit(3, random_state=0)]
    )
    def test_rows_tested_twice_or_never_are_judged_as_given(self, cv):
        """The reported error is the mean over all tests, by refits; intervals come from the same residuals."""
        X, y, new = table()
        model = regressor(relevance="equal", order=1, alpha=0.5, cv=cv).fit(X, y)
        several = regressor(relevance="equal", order=1, alpha=[0.5, 1e9], cv=cv).fit(X, y)
        residuals = refitted(model.expansion_.kernel, X, y, 0.5, cv)
        path = several.search_.results[0].path
        assert path.errors[0] == pytest.approx(np.mean(residuals**2) / y.var(), rel=1e-8)
        found = model.leave_one_out()
        np.testing.assert_allclose(
            np.sort((found.target - found.prediction)[:, 0]), np.sort(residuals), rtol=1e-6, atol=1e-8
        )
        assert np.isfinite(model.predict_interval(new, 0.8)).all()
        with pytest.raises(ValueError, match=r"test every row exactly once.*solver='exact', which takes any"):
            regressor(relevance="equal", order=1, rank=40, cv=cv).fit(X, y)


class TestLaterRows:
    def test_the_race_learns_from_the_earlier_half_alone(self, monkeypatch):
        X, y, _ = table(160)
        learned = []
        for name in ("learn_kernel", "prune_kernel"):
            original = getattr(race, name)

            def recorded(problem, *arguments, original=original):
                learned.append(problem.X)
                return original(problem, *arguments)

            monkeypatch.setattr(race, name, recorded)
        regressor(cv=TimeSeriesSplit(4)).fit(X, y)
        earlier = [rows for rows in learned if len(rows) == 80]
        assert len(earlier) >= 5
        assert all(np.array_equal(rows, X[:80]) for rows in earlier)
        assert all(len(rows) == 160 for rows in learned if len(rows) != 80)  # the winner is pruned again on all rows

    def test_later_targets_do_not_change_what_earlier_rows_taught(self, monkeypatch):
        X, y, _ = table(160)
        other = np.append(y[:80], np.random.default_rng(0).normal(size=80))
        thetas = []
        for target in (y, other):
            found, original = [], race.learn_kernel

            def recorded(problem, *arguments, original=original, found=found):
                learned = original(problem, *arguments)
                found.append(learned.theta)
                return learned

            monkeypatch.setattr(race, "learn_kernel", recorded)
            regressor(cv=TimeSeriesSplit(4)).fit(X, target)
            monkeypatch.undo()
            thetas.append(found[:3])  # the sum from both starts, and its first term; then judged rows choose a start
        for theta, same in zip(*thetas, strict=True):
            np.testing.assert_array_equal(theta, same)

    def test_errors_and_intervals_come_from_forward_residuals(self):
        X, y, new = table()
        cv = TimeSeriesSplit(5)
        model = regressor(relevance="equal", order=1, alpha=[0.5, 1e6], cv=cv).fit(X, y)
        residuals = refitted(model.expansion_.kernel, X, y, 0.5, cv)
        assert model.alpha_ == 0.5
        assert model.search_.results[0].path.errors[0] == pytest.approx(np.mean(residuals**2) / y.var(), rel=1e-8)
        found = model.leave_one_out()
        np.testing.assert_allclose((found.target - found.prediction)[:, 0], residuals, rtol=1e-6, atol=1e-8)
        ends = model.predict_interval(new, 0.8)
        np.testing.assert_allclose(ends.mean(axis=1), model.predict(new), rtol=1e-9)
        if model.search_.interval_scale == ("constant",):
            half = np.sort(np.abs(residuals))[int(np.ceil(0.8 * 101)) - 1]
            assert np.min(np.diff(ends)) / 2 == pytest.approx(half, rel=1e-6)

    def test_the_order_of_rows_matters_for_ordered_splits_alone(self):
        X, y, new = table()
        back = np.arange(120)[::-1]
        plain = [regressor(relevance="equal", order=1).fit(X[rows], y[rows]) for rows in (slice(None), back)]
        same_bits(*plain, new)
        timed = [
            regressor(relevance="equal", order=1, cv=TimeSeriesSplit(4)).fit(X[rows], y[rows])
            for rows in (slice(None), back)
        ]
        assert timed[0].search_.table["cv_error"].item() != timed[1].search_.table["cv_error"].item()
