"""Low-rank ridge regression: its features, its sums over rows, and the exact model at full rank."""

import pickle
from functools import partial

import naive
import numpy as np
import pandas as pd
import pytest
from conftest import additive_truth, examples
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.model_selection import GroupKFold, KFold, TimeSeriesSplit
from sklearn.utils.estimator_checks import parametrize_with_checks

import salsa
from salsa import AdditiveKernel, SalsaRegressor, SumKernel, explain
from salsa._utils.lapack import triangular_solve
from salsa._utils.sums import HeldOutSums, RidgePath, Sums
from salsa.data.noise import Noise
from salsa.data.rows import Observations, array_rows
from salsa.data.splits import drawn_table_splits
from salsa.losses import SquaredError
from salsa.persistence.model_file import uncertainty_from, uncertainty_state
from salsa.solvers import RidgeTask, find_solver
from salsa.solvers.anchors import choose_anchors
from salsa.solvers.lowrank import anchors_for
from salsa.solvers.ridge import solve_once
from salsa.uncertainty.cvplus import KINDS


def problem(n=60, q=2, seed=0):
    X, y = additive_truth(n=n, seed=seed)
    kernel = AdditiveKernel(np.full(6, 1.0), np.ones(6), np.array([0.0, 1.0, 1.0]), "matern52")
    return kernel, X, np.column_stack([y, X[:, 0] ** 2])[:, :q]


def anchors_of(kernel, X, rank, tolerance=0.0, seed=0):
    return choose_anchors(kernel, X, rank, tolerance, np.random.RandomState(seed))


class TestAnchors:
    def test_features_reproduce_the_kernel_at_anchors(self):
        kernel, X, _ = problem()
        anchors = anchors_of(kernel, X, 20)
        assert anchors.points.shape == (20, 6)
        F, at_anchors = anchors.features(X), anchors.features(anchors.points)
        np.testing.assert_allclose(at_anchors @ F.T, kernel(anchors.points, X), atol=1e-10)

    def test_the_unexplained_trace_falls_with_the_rank(self):
        kernel, X, _ = problem(n=200)
        shares = []
        for rank in (10, 40, 120):
            anchors = anchors_of(kernel, X, rank)
            left = 1 - np.sum(anchors.features(X) ** 2) / kernel.diagonal(X).sum()
            assert anchors.left == pytest.approx(left, abs=1e-9)
            shares.append(left)
        assert shares == sorted(shares, reverse=True)
        best = np.linalg.eigvalsh(kernel(X))[::-1]
        assert shares[1] < 4 * best[40:].sum() / best.sum()

    def test_features_reproduce_a_sum_of_kernels_at_anchors(self):
        smooth, X, _ = problem()
        kernel = SumKernel([smooth, AdditiveKernel(np.full(6, 0.5), np.ones(6), [0.1, 1.0], "laplace")])
        anchors = anchors_of(kernel, X, 20)
        F, at_anchors = anchors.features(X), anchors.features(anchors.points)
        expected = sum(term(anchors.points, X) for term in kernel.terms)
        np.testing.assert_allclose(at_anchors @ F.T, expected, atol=1e-10)

    def test_tolerance_and_distinct_rows_limit_the_anchors(self):
        kernel, X, _ = problem(n=30)
        anchors = anchors_of(kernel, np.tile(X, (4, 1)), 100)
        assert len(np.unique(anchors.points, axis=0)) == len(anchors.points) == 30
        assert len(anchors_of(kernel, X, 30, tolerance=0.3).points) < 30

    def test_there_is_always_an_anchor(self):
        _, X, y = problem(n=30, q=1)
        vanishing = AdditiveKernel(np.ones(6), np.zeros(6), np.array([0.0, 1.0]))
        assert len(anchors_of(vanishing, X, 10).points) == 1
        model = SalsaRegressor(order=1, alpha=1.0, relevance=np.zeros(6), rank=10).fit(X, y[:, 0])
        np.testing.assert_allclose(model.predict(X), y.mean())
        assert len(anchors_of(problem()[0], X, 10, tolerance=5.0).points) >= 1

    def test_features_in_float32_are_the_same_up_to_rounding(self):
        kernel, X, _ = problem()
        anchors = anchors_of(kernel, X, 20)
        single = anchors.single
        found = single.features(X)
        assert found.dtype == np.float32
        np.testing.assert_allclose(found + single.mean, anchors.features(X), atol=1e-5)

    def test_a_constant_part_of_the_kernel_costs_no_digits_in_float32(self):
        """All values are near 1000: only their own rounding errors matter, not those of products with them."""
        _, X, _ = problem(n=300)
        kernel = AdditiveKernel(np.ones(6), np.ones(6), np.array([1000.0, 1.0, 1.0]))
        anchors = anchors_of(kernel, X, 200)
        rounded = triangular_solve(anchors.L, kernel.single(X, anchors.points).astype(np.float64).T).T
        single = anchors.single
        found, least = (np.mean((F - anchors.features(X)) ** 2) for F in (single.features(X) + single.mean, rounded))
        assert found < 1.5 * least

    def test_anchors_depend_on_the_seed_alone(self):
        kernel, X, _ = problem(n=200)
        first, same, other = (anchors_of(kernel, X, 30, seed=seed).points for seed in (0, 0, 1))
        np.testing.assert_array_equal(first, same)
        assert not np.array_equal(first, other)


class TestSums:
    @pytest.mark.parametrize("weighted", [False, True])
    def test_full_rank_is_the_exact_fit(self, weighted):
        kernel, X, Y = problem()
        w = np.random.default_rng(0).uniform(0.5, 2, len(X)) if weighted else np.ones(len(X))
        anchors = anchors_of(kernel, X, len(X))
        path = RidgePath(Sums.of(anchors.features(X), Y, w))
        coef, offset, _ = solve_once(kernel(X), Y, 0.1, Noise(w))
        new = additive_truth(n=20, seed=5)[0]
        found = anchors.expansion(*path.solution(0.1)).predict(new)
        np.testing.assert_allclose(found, offset + kernel(new, X) @ coef, atol=1e-7)

    @settings(max_examples=examples(20))
    @given(st.integers(0, 99), st.floats(1e-3, 1e2))
    def test_sums_without_levels_have_the_inverse_covariance_in_the_place_of_weights(self, seed, rho):
        rng = np.random.default_rng(seed)
        F, Y, w, group = rng.normal(size=(30, 4)), rng.normal(size=(30, 2)), rng.uniform(0.5, 2, 30), np.arange(30) % 7
        columns = np.column_stack([np.ones(30), F, Y])
        levels = np.array([w[group == g] @ columns[group == g] for g in range(7)])
        found = Sums.of(F, Y, w).without_levels(levels, rho)
        inverse = np.linalg.inv(naive.noise_covariance(w, group, rho))
        one = np.ones(30)
        expected = {
            "weight": one @ inverse @ one,
            "x": F.T @ inverse @ one,
            "y": Y.T @ inverse @ one,
            "xx": F.T @ inverse @ F,
            "xy": F.T @ inverse @ Y,
            "yy": np.diag(Y.T @ inverse @ Y),
        }
        for name, value in expected.items():
            lower = np.tril if name == "xx" else np.asarray
            np.testing.assert_allclose(lower(getattr(found, name)), lower(value), rtol=1e-8, atol=1e-8)

    def test_moved_sums_are_those_of_moved_features(self):
        rng = np.random.default_rng(0)
        F, Y, w, c = rng.normal(size=(30, 4)), rng.normal(size=(30, 2)), rng.uniform(0.5, 2, 30), rng.normal(size=4)
        found, expected = Sums.of(F, Y, w).moved(c), Sums.of(F + c, Y, w)
        for name, value in vars(expected).items():
            lower = np.tril if name == "xx" else np.asarray
            np.testing.assert_allclose(lower(getattr(found, name)), lower(value), rtol=1e-10, atol=1e-10)

    def test_features_in_float32_are_summed_in_float64(self):
        """The mean of the features is large: sums in float32 would lose the digits that centring needs."""
        rng = np.random.default_rng(0)
        F = (1000.0 + rng.normal(size=(5000, 3))).astype(np.float32)
        Y, w = rng.normal(size=(5000, 1)), np.ones(5000)
        found, expected = Sums.of(F, Y, w), Sums.of(F.astype(np.float64), Y, w)
        np.testing.assert_allclose(found.x, expected.x, rtol=1e-14)
        np.testing.assert_allclose(found.xy, expected.xy, rtol=1e-10)

    @settings(max_examples=examples(20))
    @given(st.integers(0, 99), st.floats(1e-3, 1e3))
    def test_held_out_error_equals_a_refit(self, seed, alpha):
        rng = np.random.default_rng(seed)
        F, Y, w, fold = (
            rng.normal(size=(40, 5)),
            rng.normal(size=(40, 2)) + 3,
            rng.uniform(0.5, 2, 40),
            rng.random(40) < 0.3,
        )
        parts = [Sums.of(F[rows], Y[rows], w[rows]) for rows in (~fold, fold)]
        total = parts[0] + parts[1]
        theta, offset = RidgePath(parts[0]).solution(alpha)
        expected = w[fold] @ (Y[fold] - offset - F[fold] @ theta) ** 2
        np.testing.assert_allclose(HeldOutSums(total - parts[1], parts[1]).squared_error(alpha), expected, rtol=1e-9)

    def test_weights_are_repeated_rows(self):
        rng = np.random.default_rng(0)
        F, Y, w = rng.normal(size=(20, 4)), rng.normal(size=(20, 1)), rng.integers(1, 4, 20)
        rows = np.repeat(np.arange(20), w)
        for one, other in zip(
            RidgePath(Sums.of(F, Y, w.astype(float))).solution(0.3),
            RidgePath(Sums.of(F[rows], Y[rows], np.ones(len(rows)))).solution(0.3),
            strict=True,
        ):
            np.testing.assert_allclose(one, other, rtol=1e-10)

    def test_ridge_solutions_equal_their_definition(self):
        rng = np.random.default_rng(0)
        F, Y = rng.normal(size=(30, 4)), rng.normal(size=(30, 2))
        path = RidgePath(Sums.of(F, Y, np.ones(30)))
        C, c = F - F.mean(axis=0), Y - Y.mean(axis=0)
        theta, offset = path.solution(0.7)
        np.testing.assert_allclose(theta, np.linalg.solve(C.T @ C + 0.7 * np.eye(4), C.T @ c), rtol=1e-10)
        np.testing.assert_allclose(offset, Y.mean(axis=0) - F.mean(axis=0) @ theta, rtol=1e-10)
        smoother = C @ np.linalg.solve(C.T @ C + 0.7 * np.eye(4), C.T)
        assert path.degrees_of_freedom(0.7) == pytest.approx(1 + np.trace(smoother))


def simulated(n, seed=0, D=8):
    """Return rows, targets and truth of order 2 in five of D features, with noise of sd 0.3."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, D))
    truth = np.sin(3 * X[:, 0]) + X[:, 1] * X[:, 2] + X[:, 3] ** 2 + X[:, 4]
    return X, truth + rng.normal(scale=0.3, size=n), truth


def fitted(X, y, weight=None, **options):
    parameters = {"order": 2, "alpha": 0.1, "relevance": "equal", "rank": 60, "random_state": 0, **options}
    return SalsaRegressor(**parameters).fit(X, y, weight)


class TestGroups:
    """Groups in sums over rows: a full-rank fit is the exact fit with the same noise."""

    def task(self, rho=0.8, weighted=True):
        """Return a task with as many anchors as rows, and its rows."""
        kernel, X, Y = problem(n=90)
        rng = np.random.default_rng(4)
        weight = rng.uniform(0.5, 2, 90) if weighted else np.ones(90)
        rows = Observations(X, Y, weight / weight.mean(), rng.permutation(np.repeat(np.arange(12), [5] * 6 + [10] * 6)))
        table = drawn_table_splits(90, 4, rows.group, np.random.RandomState(0))
        one, zero = np.ones(2), np.zeros(2)
        parts = (array_rows(rows, 1), rows, kernel, 0.1, (0.1,), 90, one, zero, np.random.RandomState(0), 1)
        return RidgeTask(*parts, SquaredError(), rho=rho, table=table), rows

    @pytest.mark.parametrize("rho", [0.0, 0.8, 50.0])
    def test_full_rank_equals_the_exact_fit_with_groups(self, rho, monkeypatch):
        monkeypatch.setattr("salsa.solvers.lowrank.LEFT_OF_ALPHA", 0.0)
        monkeypatch.setattr("salsa.solvers.lowrank.LEAST_ROWS", 17)  # groups are spread over many blocks
        monkeypatch.setattr("salsa.solvers.lowrank.BLOCK_NUMBERS", 1)
        task, rows = self.task(rho)
        solution, new = find_solver("lowrank").solve(task), additive_truth(n=20, seed=5)[0]
        R = naive.noise_covariance(rows.weight, rows.group, rho)
        coef, offset = naive.ridge(task.kernel(rows.X), rows.Y, 0.1, R)
        np.testing.assert_allclose(solution.expansion.predict(new), offset + task.kernel(new, rows.X) @ coef, atol=1e-6)
        error, fold = 0.0, task.table.fold(0, 90)
        scale = np.average((rows.Y - rows.weight @ rows.Y / 90) ** 2, axis=0, weights=rows.weight)
        for k in range(4):
            held = np.flatnonzero(fold == k)
            residual = naive.held_out_residuals(task.kernel(rows.X), rows.Y, 0.1, held, R)
            error += np.mean(rows.weight[held] @ residual**2 / scale) / 90
        assert solution.path.error == pytest.approx(error, rel=1e-5)
        t = naive.remainder(task.kernel(rows.X), task.kernel(new, rows.X), task.kernel.diagonal(new), 0.1, R)
        amplitude = np.einsum("ij,ij->j", rows.Y, coef) / 89
        anchors = solution.uncertainty.points
        sd = solution.uncertainty.posterior_sd(task.kernel(new, anchors), task.kernel.diagonal(new))
        np.testing.assert_allclose(sd, np.sqrt(np.outer(t, amplitude)), rtol=1e-4)

    def test_fits_of_sums_equal_the_exact_fit_with_groups(self, monkeypatch):
        monkeypatch.setattr("salsa.solvers.lowrank.LEFT_OF_ALPHA", 0.0)
        task, rows = self.task()
        kernel = SumKernel([task.kernel, AdditiveKernel(np.full(6, 0.5), np.ones(6), [0.1, 1.0], "laplace")])
        solution, new = find_solver("lowrank").solve(task._replace(kernel=kernel)), additive_truth(n=20, seed=5)[0]
        K, k = (sum(term(Z, rows.X) for term in kernel.terms) for Z in (rows.X, new))
        R = naive.noise_covariance(rows.weight, rows.group, 0.8)
        coef, offset = naive.ridge(K, rows.Y, 0.1, R)
        np.testing.assert_allclose(solution.expansion.predict(new), offset + k @ coef, atol=1e-6)
        kept, prior = solution.uncertainty, kernel.diagonal(new)
        sd = kept.posterior_sd(kernel(new, kept.points), prior)
        t, amplitude = naive.remainder(K, k, prior, 0.1, R), np.einsum("ij,ij->j", rows.Y, coef) / 89
        np.testing.assert_allclose(sd, np.sqrt(np.outer(t, amplitude)), rtol=1e-4)

    def test_intervals_of_groups_count_groups(self):
        task, _ = self.task()
        kept = find_solver("lowrank").solve(task).uncertainty
        assert kept.grouped
        assert (kept.cvplus.units, kept.cvplus.rho) == (12, 0.8)
        assert kept.cvplus.new_noise == pytest.approx(0.1 * 1.8)

    @pytest.mark.parametrize("kind", [0, 1], ids=KINDS[:2])
    def test_intervals_with_groups_equal_refits_without_folds_of_groups(self, kind, monkeypatch):
        """The folds hold whole groups out; ranks count the 12 groups; the new row is of a new group."""
        monkeypatch.setattr("salsa.solvers.lowrank.LEFT_OF_ALPHA", 0.0)
        scores = iter([*(np.arange(3) != kind)] * 2)
        monkeypatch.setattr("salsa.uncertainty.cvplus._interval_score", lambda *_: next(scores))
        task, rows = self.task(weighted=False)
        kept, kernel, new = find_solver("lowrank").solve(task).uncertainty, task.kernel, additive_truth(n=20, seed=5)[0]
        assert set(kept.cvplus.scale) == {KINDS[kind]}
        R, fold = naive.noise_covariance(rows.weight, rows.group, 0.8), task.table.fold(0, 90)
        K, k = kernel(rows.X), kernel(new, rows.X)
        without, residual = np.empty((90, 20, 2)), np.empty((90, 2))
        for train, test in ((np.flatnonzero(fold != number), np.flatnonzero(fold == number)) for number in range(4)):
            coef, offset = naive.ridge(K[np.ix_(train, train)], rows.Y[train], 0.1, R[np.ix_(train, train)])
            without[test] = offset + k[:, train] @ coef
            residual[test] = np.abs(rows.Y[test] - offset - K[np.ix_(test, train)] @ coef)
        here, there = (
            np.sqrt(naive.remainder(K, kernel(Z, rows.X), kernel.diagonal(Z), 0.1, R) + 0.18) for Z in (rows.X, new)
        )
        here, there = (here, there) if kind == 1 else (np.ones(90), np.maximum(there / here.max(), 1.0))
        reach = (residual / here[:, None])[:, None, :] * there[:, None]
        rank = int(np.ceil(0.8 * 90 * (1 + 1 / 12)))
        ranked = np.sort(without + reach, axis=0), np.sort(-(without - reach), axis=0)
        expected = np.stack([-ranked[1][rank - 1], ranked[0][rank - 1]], axis=-1)
        coef, offset = naive.ridge(K, rows.Y, 0.1, R)
        k = kernel(new, kept.points)
        found = kept.interval(offset + kernel(new, rows.X) @ coef, k, kernel.diagonal(new), 0.8, new)
        np.testing.assert_allclose(found, expected, atol=0.01)

    def test_too_many_groups_stay_in_the_splits_with_a_note(self, monkeypatch):
        monkeypatch.setattr("salsa.solvers.lowrank.GROUP_NUMBERS", 100)
        task, _ = self.task(weighted=False)
        solution = find_solver("lowrank").solve(task)
        assert any("groups are held out whole, but share no level" in note for note in solution.notes)
        assert solution.uncertainty.cvplus.rho == 0.0


class TestLaterRows:
    """Later rows judge: the fold of a row is held out of the fit to all rows of earlier folds."""

    def test_errors_and_scores_equal_refits_to_earlier_rows(self, monkeypatch):
        monkeypatch.setattr("salsa.solvers.lowrank.LEFT_OF_ALPHA", 0.0)
        X, y, _ = simulated(200)
        model = fitted(X, y, cv=TimeSeriesSplit(4), rank=190)
        kernel, losses, residuals = model.expansion_.kernel, [], []
        for train, test in TimeSeriesSplit(4).split(X):
            residuals.append(naive_forward(kernel, X, y, train, test))
        losses = np.concatenate(residuals) ** 2
        assert model.search_.table["cv_error"].item() == pytest.approx(losses.mean() / y.var(), rel=1e-3)
        kept = model._fitted.uncertainty.cvplus
        assert kept.forward
        assert kept.below.shape[1] == 1
        assert kept.below[0, 0, -1] == pytest.approx(200)
        rank = int(np.ceil(0.9 * 201 / 200 * 160))
        half = np.sort(np.abs(np.concatenate(residuals)))[rank - 1]
        ends, middle = model.predict_interval(X[:50], 0.9), model.predict(X[:50])
        np.testing.assert_allclose(ends.mean(axis=1), middle, atol=1e-6)
        if kept.scale == ("constant",):
            np.testing.assert_allclose(np.diff(ends)[:, 0] / 2, half, rtol=0.02)


def naive_forward(kernel, X, y, train, test):
    coef, offset = naive.ridge(kernel(X[train]), y[train, None], 0.1)
    return y[test] - offset - kernel(X[test], X[train]) @ coef[:, 0]


def anchors_for_alpha(alpha, task, _):
    return anchors_for(task, alpha)


class TestSinglePrecision:
    """Sums in float32: for many rows, and where rounding errors are small relative to alpha."""

    def test_a_model_whose_least_alpha_limits_the_search_is_saved(self, monkeypatch, tmp_path):
        monkeypatch.setattr("salsa.solvers.lowrank.SINGLE_ROWS", 500)
        X, y, _ = simulated(1000)
        model = fitted(X, y + np.random.default_rng(0).normal(size=1000), alpha="auto", kernel="laplace", cv=3)
        assert np.isfinite(model.search_.results[0].path.errors).all()
        model.save(tmp_path / "model.salsa")
        np.testing.assert_array_equal(salsa.load(tmp_path / "model.salsa").predict(X), model.predict(X))

    def test_targets_without_noise_and_weights_of_different_sizes_need_float64(self, monkeypatch):
        """Held-out errors are differences of sums, which have seven digits in float32."""
        monkeypatch.setattr("salsa.solvers.lowrank.SINGLE_ROWS", 500)
        X, y, truth = simulated(1000)
        heavy = np.where(np.arange(1000) < 20, 1e3, 1e-6)
        for target, weight in ((truth, None), (y, heavy)):
            settings = {"alpha": "auto", "kernel": "gaussian", "cv": 3, "rank": 200}
            found = fitted(X, target, weight, **settings)
            with monkeypatch.context() as patch:
                patch.setattr("salsa.solvers.lowrank.SINGLE_ROWS", 10**6)
                np.testing.assert_array_equal(
                    found.expansion_.coef, fitted(X, target, weight, **settings).expansion_.coef
                )

    def used(self, monkeypatch, **options):
        """Return the fit, and the types of the features that were summed."""
        monkeypatch.setattr("salsa.solvers.lowrank.SINGLE_ROWS", 500)
        seen, of = [], Sums.of

        def watched(F, Y, w):
            seen.append(F.dtype)
            return of(F, Y, w)

        monkeypatch.setattr("salsa.solvers.lowrank.Sums.of", watched)
        return fitted(*simulated(1000)[:2], cv=3, **options), seen

    def test_the_fit_is_the_same_up_to_rounding(self, monkeypatch):
        X, y, _ = simulated(1000)
        weight = np.random.default_rng(0).uniform(0.5, 2, 1000)
        settings = {"alpha": [0.01, 0.1, 1.0], "cv": 3}
        double = fitted(X, y, weight, **settings)
        monkeypatch.setattr("salsa.solvers.lowrank.SINGLE_ROWS", 500)
        single = fitted(X, y, weight, **settings)
        assert single.alpha_ == double.alpha_
        difference = np.abs(single.predict(X) - double.predict(X)).max()
        assert 0 < difference < 0.01 * 0.3  # of the noise

    def test_many_rows_are_summed_in_float32(self, monkeypatch):
        _, seen = self.used(monkeypatch, alpha=0.1)
        assert seen[:3] == [np.float32] * 3

    def test_a_small_alpha_needs_float64(self, monkeypatch):
        _, seen = self.used(monkeypatch, alpha=1e-10)
        assert seen[:3] == [np.float64] * 3

    def test_an_error_that_falls_to_the_least_alpha_is_fitted_again_in_float64(self, monkeypatch):
        X = simulated(1000)[0]
        fit = {"alpha": "auto", "order": 1, "cv": 3}
        monkeypatch.setattr("salsa.solvers.lowrank.FAR", np.inf)  # anchors are chosen once
        monkeypatch.setattr("salsa.solvers.lowrank.SINGLE_ERROR", 0.0)
        monkeypatch.setattr("salsa.solvers.lowrank.expected_alpha", lambda task: 0.1)
        double = fitted(X[:, :5], X[:, 0], **fit)  # a target without noise
        monkeypatch.setattr("salsa.solvers.lowrank.SINGLE_ROWS", 500)
        monkeypatch.setattr("salsa.solvers.lowrank.ROUNDED", 1e-9)  # the least alpha is far above the best one
        monkeypatch.setattr("salsa.solvers.lowrank.expected_alpha", lambda task: 1e9)
        monkeypatch.setattr("salsa.solvers.lowrank.anchors_for", partial(anchors_for_alpha, 0.1))
        again = fitted(X[:, :5], X[:, 0], **fit)
        np.testing.assert_array_equal(again.expansion_.coef, double.expansion_.coef)


class TestRegressor:
    def test_a_high_rank_equals_the_exact_model(self, monkeypatch):
        monkeypatch.setattr("salsa.solvers.lowrank.LEFT_OF_ALPHA", 0.0)
        X, y, _ = simulated(300)
        new = simulated(50, seed=1)[0]
        lowrank, exact = fitted(X, y, rank=250), fitted(X, y, rank=None)
        assert len(lowrank.expansion_.anchors) == 250
        np.testing.assert_allclose(lowrank.predict(new), exact.predict(new), atol=1e-4)
        sd = exact.predict(new, return_std=True)[1]
        np.testing.assert_allclose(lowrank.predict(new, return_std=True)[1], sd, rtol=1e-3)

    def test_a_rank_of_all_rows_uses_the_exact_solver(self):
        X, y, _ = simulated(100)
        np.testing.assert_array_equal(fitted(X, y, rank=100).predict(X), fitted(X, y, rank=None).predict(X))

    def test_errors_along_alpha_equal_refits_and_the_least_wins(self):
        X, y, _ = simulated(400)
        splits = list(KFold(4, shuffle=True, random_state=0).split(X))
        model = fitted(X, y, alpha=[0.01, 0.1, 1.0], cv=splits, rank=60)
        path = model.search_.results[0].path
        kernel, points = model.expansion_.kernel, model.expansion_.anchors
        L = np.linalg.cholesky(kernel(points))
        F = np.linalg.solve(L, kernel(points, X)).T
        for alpha, error in zip(path.alphas, path.errors, strict=True):
            losses = np.empty(400)
            for train, test in splits:
                C, c = F[train] - F[train].mean(axis=0), y[train] - y[train].mean()
                theta = np.linalg.solve(C.T @ C + alpha * np.eye(60), C.T @ c)
                losses[test] = y[test] - y[train].mean() - (F[test] - F[train].mean(axis=0)) @ theta
            assert error == pytest.approx(np.mean(losses**2) / y.var(), rel=1e-6)
        assert model.alpha_ == path.alphas[np.argmin(path.errors)]

    def test_splits_must_test_every_row_exactly_once(self):
        X, y, _ = simulated(200)
        groups = np.arange(200) % 10
        assert np.isfinite(fitted(X, y, cv=list(GroupKFold(5).split(X, y, groups))).predict(X)).all()
        with pytest.raises(ValueError, match="every row exactly once"):
            fitted(X, y, cv=[(np.arange(100), np.arange(100, 150))])

    def test_intervals_hold_new_observations(self):
        X, y, _ = simulated(2000)
        new, target, truth = simulated(4000, seed=1)
        model = fitted(X, y, alpha="auto", rank=800)
        for coverage in (0.5, 0.9, 0.99):
            ends = model.predict_interval(new, coverage)
            inside = (ends[:, 0] <= target) & (target <= ends[:, 1])
            assert np.mean(inside) == pytest.approx(coverage, abs=0.03)
        prediction, sd = model.predict(new, return_std=True)
        assert 0.5 < np.std((prediction - truth) / sd) < 2

    @pytest.mark.parametrize("kind", [0, 1, 2], ids=KINDS)
    def test_intervals_equal_cv_plus_by_its_definition(self, kind, monkeypatch):
        """Residuals of all rows and fits without their folds give the intervals, up to the width of a class."""
        monkeypatch.setattr("salsa.solvers.lowrank.LEFT_OF_ALPHA", 0.0)
        scores = iter(np.arange(3) != kind)
        monkeypatch.setattr("salsa.uncertainty.cvplus._interval_score", lambda *_: next(scores))
        X, y, _ = simulated(120)
        splits = list(KFold(4, shuffle=True, random_state=0).split(X))
        model, new = fitted(X, y, cv=splits, rank=110), simulated(20, seed=1)[0]
        found = model._fitted.uncertainty.cvplus
        assert found.scale == (KINDS[kind],)
        kernel, residual, predictions = model.expansion_.kernel, np.empty(120), np.empty((120, 20))
        fold = np.empty(120, dtype=int)
        for train, test in splits:
            coef, offset, _ = solve_once(kernel(X[train]), y[train, None], 0.1)
            residual[test] = np.abs(y[test] - offset - kernel(X[test], X[train]) @ coef[:, 0])
            predictions[test] = offset + kernel(new, X[train]) @ coef[:, 0]
        for number, (_, test) in enumerate(splits):
            fold[test] = number
        here, there = (
            np.sqrt(naive.remainder(kernel(X), kernel(Z, X), kernel.diagonal(Z), 0.1) + 0.1) for Z in (X, new)
        )
        if kind == 0:
            here, there = np.ones(120), np.maximum(there / here.max(), 1.0)
        if kind == 2:
            here, there = here * found.local.held_out(X, fold)[:, 0], there * found.local(new)[:, 0]
        reach = np.outer(residual / here, there)
        upper = np.sort(predictions + reach, axis=0)[int(np.ceil(0.9 * 121)) - 1]
        lower = np.sort(predictions - reach, axis=0)[int(np.floor(0.1 * 121)) - 1]
        np.testing.assert_allclose(model.predict_interval(new, 0.9), np.column_stack([lower, upper]), atol=0.01)

    def test_residual_counts_of_some_rows_are_scaled_up_to_all(self, monkeypatch):
        X, y, _ = simulated(2000)
        new, every = simulated(4000, seed=1)[0], fitted(X, y, rank=800)
        monkeypatch.setattr("salsa.solvers.lowrank.SCORE_ROWS", 500)
        some = fitted(X, y, rank=800)
        assert some._fitted.uncertainty.cvplus.below[0, :, -1].sum() == pytest.approx(2000)
        width = [np.diff(model.predict_interval(new, 0.9)).mean() for model in (every, some)]
        assert width[1] == pytest.approx(width[0], rel=0.1)

    def test_leave_one_out_is_the_fit_without_the_row(self):
        X, y, _ = simulated(150)
        weight = 1.0 + np.arange(150) % 3
        model = fitted(X, 100 * y, weight, rank=40)
        kernel, points, alpha = model.expansion_.kernel, model.expansion_.anchors, model.alpha_
        F = np.linalg.solve(np.linalg.cholesky(kernel(points)), kernel(points, X)).T
        found = model.leave_one_out(X, 100 * y, weight)
        np.testing.assert_allclose(found.weight, weight / 2)
        weight = weight / weight.mean()
        for row in (0, 7, 149):
            keep = np.arange(150) != row
            w, C = weight[keep], F[keep] - np.average(F[keep], axis=0, weights=weight[keep])
            level = np.average(y[keep], weights=w)
            A = (C.T * w) @ C + alpha * np.eye(len(points))
            theta, phi = (
                np.linalg.solve(A, C.T @ (w * (y[keep] - level))),
                F[row] - np.average(F[keep], axis=0, weights=w),
            )
            assert found.prediction[row, 0] == pytest.approx(100 * (level + phi @ theta), rel=1e-6)
            t = kernel.diagonal(X[row : row + 1])[0] - F[row] @ F[row]
            t += alpha * (phi @ np.linalg.solve(A, phi) + 1 / w.sum() + 1 / weight[row])
            amplitude = model._fitted.uncertainty.cvplus.amplitude[0] * model._fitted.uncertainty.unit[0] ** 2
            assert found.sd[row, 0] == pytest.approx(np.sqrt(amplitude * t), rel=1e-6)
        np.testing.assert_allclose(found.target[:, 0], 100 * y)

    def test_a_root_of_earlier_versions_that_is_no_triangle_is_read(self):
        X, y, _ = simulated(150)
        model = fitted(X, y, rank=40)
        kept = model._fitted.uncertainty
        uncertainty = kept.cvplus
        k, prior = model.expansion_.kernel(X, model.expansion_.anchors), model.expansion_.kernel.diagonal(X)
        rotation = np.linalg.qr(np.random.default_rng(0).normal(size=uncertainty.root.shape))[0]
        arrays = uncertainty_state(kept) | {"cv_root": uncertainty.root @ rotation}
        read = uncertainty_from(arrays, model.expansion_, model.alpha_, None).cvplus
        assert not np.triu(read.root, 1).any()
        np.testing.assert_allclose(read.posterior_sd(k, prior), uncertainty.posterior_sd(k, prior), rtol=1e-9)

    def test_too_few_rows_for_the_coverage(self):
        X, y, _ = simulated(20)
        model = fitted(X, y, rank=10)
        with pytest.warns(UserWarning, match="too few training rows for intervals of coverage 0.99"):
            assert np.isinf(model.predict_interval(X, 0.99)).all()

    def test_weights_are_repeated_rows(self, monkeypatch):
        monkeypatch.setattr("salsa.solvers.lowrank.LEFT_OF_ALPHA", 0.0)
        X, y, _ = simulated(200)
        weight = np.arange(200) % 3 + 1
        rows = np.repeat(np.arange(200), weight)
        one, other = fitted(X, y, weight, rank=190), fitted(X[rows], y[rows], rank=190)
        np.testing.assert_allclose(one.predict(X), other.predict(X), atol=2e-3)  # other anchors

    def test_bits_do_not_depend_on_the_number_of_threads(self):
        X, y, _ = simulated(5000)
        one, two = (fitted(X, y, rank=100, n_jobs=jobs) for jobs in (1, 2))
        np.testing.assert_array_equal(one.predict(X[:50]), two.predict(X[:50]))
        np.testing.assert_array_equal(one.predict_interval(X[:50]), two.predict_interval(X[:50]))

    def test_rows_beyond_the_exact_fits_are_low_rank_by_default(self, monkeypatch):
        X, y, _ = simulated(3500)
        settings = {"order": 2, "alpha": 1.0, "relevance": "equal", "random_state": 0}
        assert len(SalsaRegressor(**settings).fit(X, y).expansion_.anchors) == 3500
        monkeypatch.setattr("salsa.fitting.ITERATED_ROWS", 3400)
        assert len(SalsaRegressor(**settings).fit(X, y).expansion_.anchors) < 2000
        assert len(SalsaRegressor(**settings).fit(X[:300], y[:300]).expansion_.anchors) == 300

    def test_a_rank_that_is_too_small_is_noted(self):
        X, y, _ = simulated(500)
        assert any("a larger rank comes closer" in note for note in fitted(X, y, rank=5).search_.notes)

    def test_anchors_are_chosen_again_where_all_rows_lead_to_a_far_smaller_alpha(self, monkeypatch):
        monkeypatch.setattr("salsa.solvers.lowrank.expected_alpha", lambda task: 1e6)
        X, y, _ = simulated(1000)
        with monkeypatch.context() as patch:
            patch.setattr("salsa.solvers.lowrank.FAR", np.inf)
            few = fitted(X, y, alpha="auto", rank=500)
        enough = fitted(X, y, alpha="auto", rank=500)
        assert len(few.expansion_.anchors) < 10 < len(enough.expansion_.anchors) < 500
        assert any("a larger rank comes closer" in note for note in few.search_.notes)
        assert enough.search_.table["cv_error"].item() < 0.5 * few.search_.table["cv_error"].item()

    def test_anchors_suffice_for_the_alpha_of_all_rows(self, monkeypatch):
        """The alpha of a few noisy rows is larger, and would need fewer anchors."""
        monkeypatch.setattr("salsa.fitting.SEARCH_ROWS", 40)
        X, y, _ = simulated(2000)
        model = fitted(X, y + np.random.default_rng(0).normal(size=2000), alpha="auto", rank=1000)
        kernel, points = model.expansion_.kernel, model.expansion_.anchors
        F = np.linalg.solve(np.linalg.cholesky(kernel(points) + 1e-10 * np.eye(len(points))), kernel(points, X))
        assert kernel.diagonal(X).sum() - np.sum(F**2) <= 1.01 * model.alpha_

    def test_only_rows_far_outside_the_range_trigger_a_warning(self, recwarn):
        X, y, _ = simulated(5000)
        model = fitted(X, y, rank=30)
        model.predict(simulated(2000, seed=1)[0])
        assert not recwarn.list
        with pytest.warns(UserWarning, match="1 of 2 rows lies far outside"):
            model.predict(np.vstack([X[0], X[0] + 3]))

    def test_outputs_scale_with_their_units_and_levels(self):
        X, y, _ = simulated(400)
        model = fitted(X, np.column_stack([y, 1e6 + 1e3 * y]))
        prediction, ends = model.predict(X), model.predict_interval(X)
        np.testing.assert_allclose(prediction[:, 1], 1e6 + 1e3 * prediction[:, 0], rtol=1e-9)
        np.testing.assert_allclose(ends[:, 1], 1e6 + 1e3 * ends[:, 0], rtol=1e-6)

    def test_categories_and_missing_values_are_fitted(self):
        X, y, _ = simulated(400)
        table = (
            pd.DataFrame(X).rename(columns=str).assign(c=np.array(["u", "v", None], dtype=object)[np.arange(400) % 3])
        )
        table.iloc[::7, 0] = np.nan
        model = fitted(table, y + (table["c"] == "v"), rank=150)
        assert model.score(table, y + (table["c"] == "v")) > 0.7

    def test_saved_and_pickled_models_predict_the_same(self, tmp_path):
        X, y, _ = simulated(400)
        model = fitted(X, y)
        model.save(tmp_path / "m.salsa")
        for again in (salsa.load(tmp_path / "m.salsa"), pickle.loads(pickle.dumps(model))):
            np.testing.assert_array_equal(again.predict(X), model.predict(X))
            np.testing.assert_array_equal(again.predict_interval(X), model.predict_interval(X))
            np.testing.assert_array_equal(again.predict(X, return_std=True)[1], model.predict(X, return_std=True)[1])

    def test_explanations_add_up_to_the_prediction(self):
        X, y, _ = simulated(400)
        model = fitted(X, y)
        anova = explain.decompose(model)
        np.testing.assert_allclose(anova.evaluate_orders(X).sum(axis=1), model.predict(X), atol=1e-9)
        assert anova.effect("x0").sd.shape == (101,)
        np.testing.assert_allclose(explain.shapley(model, X).predictions, model.predict(X), atol=1e-9)
        with pytest.raises(ValueError, match="keeps no training rows"):
            model.leave_one_out()

    @pytest.mark.slow
    def test_default_rank_is_close_to_exact(self):
        X, y, _ = simulated(4000, D=20)
        lowrank = SalsaRegressor(random_state=0).fit(X, y)
        kernel = lowrank.expansion_.kernel
        coef, offset, _ = solve_once(kernel(X), y[:, None], lowrank.alpha_)
        new = simulated(1000, seed=1, D=20)[0]
        exact = offset + kernel(new, X) @ coef[:, 0]
        assert np.sqrt(np.mean((lowrank.predict(new) - exact) ** 2)) < 1e-3 * exact.std()


@parametrize_with_checks([SalsaRegressor(rank=15, relevance="equal", order=1)])
def test_scikit_learn_estimator_contract(estimator, check, monkeypatch):
    """Fits to more than 15 rows are low-rank; a solver by name would refuse tables of fewer rows than its rank."""
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")  # otherwise one check skips itself
    check(estimator)
