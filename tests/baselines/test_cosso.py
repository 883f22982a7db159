"""COSSO: its kernels, its two steps compared with direct solutions, and the components that it selects."""

from itertools import combinations, pairwise

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.linear_model import LinearRegression
from sklearn.utils.estimator_checks import parametrize_with_checks

from salsa.baselines.methods import splineanova
from salsa.baselines.methods.cosso import Alternation, COSSORegressor
from salsa.baselines.methods.garrote import GarrotePath
from salsa.baselines.methods.splineanova import AnovaKernel, Ridge, spline_kernel


def friedman(n=200, D=8, seed=0, noise=0.5):
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(n, D))
    return X, truth(X) + noise * rng.normal(size=n)


def truth(X):
    """Return a truth with two main effects and the interaction of one pair."""
    return 4 * np.sin(3 * X[:, 0]) + 10 * (X[:, 1] - 0.5) ** 2 + 12 * (X[:, 2] - 0.5) * (X[:, 3] - 0.5)


def naive_components(X, Z, order):
    """Compute the kernels R_a (p, n, m) one by one; X and Z are on [0, 1]."""
    single = [spline_kernel(X[:, [j]], Z[:, j]) for j in range(X.shape[1])]
    pairs = [a * b for a, b in combinations(single, 2)] if order == 2 else []
    return np.array(single + pairs)


def unit(X):
    return (X - X.min(axis=0)) / np.ptp(X, axis=0)


def random_garrote(n=40, p=8, seed=0):
    rng = np.random.default_rng(seed)
    G = rng.normal(size=(n, p))
    return G, G @ np.maximum(rng.normal(size=p), 0) + rng.normal(size=n)


class TestKernel:
    grid = (np.arange(20000) + 0.5) / 20000

    @pytest.mark.parametrize("t", [0.0, 0.3, 0.9])
    def test_functions_have_mean_zero(self, t):
        assert np.mean(spline_kernel(self.grid, np.array(t))) == pytest.approx(0, abs=1e-9)

    @pytest.mark.parametrize(("s", "t"), [(0.2, 0.2), (0.1, 0.7), (1.0, 0.4)])
    def test_the_kernel_reproduces_itself(self, s, t):
        """The inner product <k_s, k_t> = int k_s' int k_t' + int k_s'' k_t'' is k(s, t)."""
        f, g = (spline_kernel(self.grid, np.array(point)) for point in (s, t))
        step = self.grid[1] - self.grid[0]
        slopes = [np.diff(spline_kernel(np.array([0.0, 1.0]), np.array(point)))[0] for point in (s, t)]
        curved = np.sum(np.diff(f, 2) * np.diff(g, 2)) / step**3
        assert slopes[0] * slopes[1] + curved == pytest.approx(spline_kernel(np.array(s), np.array(t)), abs=2e-4)

    @pytest.mark.parametrize("order", [1, 2])
    def test_sums_and_components_equal_the_naive_ones(self, order, monkeypatch):
        monkeypatch.setattr(splineanova, "BLOCK", 150)  # several blocks of rows
        X, _ = friedman(n=20, D=4)
        basis = np.array([1, 4, 9, 11, 18])
        kernel = AnovaKernel.of(X, basis, order)
        R = naive_components(unit(X), unit(X)[basis], order)
        assert len(kernel.terms) == len(R)
        rng = np.random.default_rng(0)
        theta, c = np.where(rng.random(len(R)) < 0.5, rng.random(len(R)), 0.0), rng.normal(size=5)
        np.testing.assert_allclose(kernel(X, theta), np.tensordot(theta, R, 1), atol=1e-14)
        np.testing.assert_allclose(kernel.components(X, c), (R @ c).T, atol=1e-14)
        assert not kernel(X, np.zeros(len(R))).any()

    def test_constant_features_have_no_function_and_predictions_beyond_the_range_are_constant(self):
        X = friedman(n=20)[0][:, :3]
        X[:, 1] = 5.0
        kernel = AnovaKernel.of(X, np.arange(6), 2)
        parts = kernel.components(X, np.ones(6))
        assert [term for term, part in zip(kernel.terms, parts.T, strict=True) if part.any()] == [(0,), (2,), (0, 2)]
        beyond = np.vstack([X.max(axis=0), X.max(axis=0) + 3])
        np.testing.assert_array_equal(*kernel(beyond, np.ones(6)))


class TestRidge:
    def problem(self, m):
        X, y = friedman(n=40, D=4)
        basis = np.arange(m)
        return AnovaKernel.of(X, basis, 2)(X, np.ones(10)), basis, y

    @pytest.mark.parametrize("m", [12, 40])
    def test_the_fit_solves_the_normal_equations(self, m):
        H, basis, y = self.problem(m)
        c, b = Ridge.of(H, basis, y).solve(0.3)
        Z = np.column_stack([H, np.ones(40)])
        P = np.zeros((m + 1, m + 1))
        P[:m, :m] = 0.3 * H[basis]
        direct = Z @ np.linalg.lstsq(Z.T @ Z + P, Z.T @ y, rcond=1e-13)[0]
        np.testing.assert_allclose(b + H @ c, direct, atol=1e-6)

    def test_with_all_basis_rows_it_equals_kernel_ridge_regression(self):
        H, basis, y = self.problem(40)
        c, b = Ridge.of(H, basis, y).solve(0.3)
        np.testing.assert_allclose(0.3 * c, y - b - H @ c, atol=1e-6)
        assert c.sum() == pytest.approx(0, abs=1e-6)

    @pytest.mark.parametrize("alpha", [1e-3, 0.3, 30.0])
    def test_generalised_error_equals_its_definition(self, alpha):
        H, basis, y = self.problem(12)
        fits = [Ridge.of(H, basis, e).solve(alpha) for e in np.eye(40)]
        smoother = np.column_stack([b + H @ c for c, b in fits])
        r = y - smoother @ y
        expected = r @ r / 40 / (1 - np.trace(smoother) / 40) ** 2
        assert Ridge.of(H, basis, y).generalised_error(alpha) == pytest.approx(expected, rel=1e-7)


class TestGarrote:
    @pytest.mark.parametrize("M", [0.05, 0.5, 2.0, 100.0])
    @pytest.mark.parametrize("seed", range(3))
    def test_weights_solve_the_quadratic_program(self, M, seed):
        G, z = random_garrote(seed=seed)
        theta = GarrotePath.of(G, z).weights(M)
        found = minimize(
            lambda t: np.sum((z - G @ t) ** 2),
            np.full(8, min(M, 1) / 8),
            jac=lambda t: -2 * G.T @ (z - G @ t),
            bounds=[(0, None)] * 8,
            constraints={"type": "ineq", "fun": lambda t: M - t.sum(), "jac": lambda t: -np.ones(8)},
            options={"ftol": 1e-12, "maxiter": 500},
        )
        assert theta.min() >= 0
        assert theta.sum() <= M * (1 + 1e-12)
        np.testing.assert_allclose(theta, found.x, atol=1e-3)  # the path ends at 1e-4 of its largest penalty

    def test_duplicated_components_do_not_change_the_fit(self):
        G, z = random_garrote()
        path, twins = GarrotePath.of(G, z), GarrotePath.of(np.hstack([G, G]), z)
        for M in (0.1, 1.0, 3.0):
            np.testing.assert_allclose(np.hstack([G, G]) @ twins.weights(M), G @ path.weights(M), atol=1e-8)

    @pytest.mark.parametrize(("n", "p"), [(200, 30), (50, 120)])
    def test_every_corner_satisfies_the_conditions_of_the_minimum(self, n, p):
        """G'(z - G theta) equals the penalty if theta > 0, and is at most the penalty otherwise; some thetas vanish."""
        rng = np.random.default_rng(1)
        G = rng.normal(size=(n, p)) + 2 * rng.normal(size=(n, 1))
        z = G @ np.maximum(rng.normal(size=p), 0) + rng.normal(size=n)
        path = GarrotePath.of(G, z)
        slope = (z - path.corners @ G.T) @ G
        above = (slope - path.penalties[:, None]) / path.penalties[0]
        assert above.max() < 1e-9
        assert np.abs(above[path.corners > 0]).max() < 1e-9
        assert (np.diff(path.penalties) <= 0).all()
        assert ((path.corners[:-1] > 0) & (path.corners[1:] == 0)).any()

    def test_weights_are_zero_if_no_component_reduces_the_error(self):
        G, _ = random_garrote()
        path = GarrotePath.of(np.abs(G), -np.ones(40))
        assert not path.weights(3.0).any()


class TestAlternation:
    @pytest.mark.parametrize("n_basis", [30, 80])
    def test_more_turns_do_not_raise_the_objective(self, n_basis):
        X, y = friedman(n=80, D=5)
        basis = np.arange(n_basis)
        steps = Alternation(AnovaKernel.of(X, basis, 2), X, y - y.mean(), basis, 0.05)
        R = naive_components(unit(X), unit(X)[basis], 2)

        def objective(fitted):
            """Return |y - f|^2 + alpha sum_a |f_a|^2 / theta_a with f_a = theta_a R_a c."""
            penalty = fitted.theta @ np.einsum("i,aij,j->a", fitted.c, R[:, basis], fitted.c)
            return np.sum((steps.y - fitted.predict(X)) ** 2) + steps.alpha * penalty

        values = [objective(steps.fit(5.0, turns)) for turns in range(1, 6)]
        assert all(later <= value * (1 + 1e-6) for value, later in pairwise(values))
        assert values[-1] < values[0]


class TestRegressor:
    def test_true_components_are_selected_and_noise_features_dropped(self):
        X, y = friedman(n=300, noise=0.3)
        model = COSSORegressor(order=2, random_state=0).fit(X, y)
        selected = {term for term, theta in zip(model.terms_, model.theta_, strict=True) if theta > 0.1}
        assert selected == {(0,), (1,), (2, 3)}
        assert (model.theta_ == 0).sum() > 25
        new = friedman(n=1000, seed=1)[0]
        assert np.mean((model.predict(new) - truth(new)) ** 2) < 0.05

    def test_additive_truth_is_recovered(self):
        X, _ = friedman(n=150, D=12)
        y = truth(np.column_stack([X[:, :2], np.full((150, 2), 0.5)])) + 0.3 * np.random.default_rng(0).normal(size=150)
        new = friedman(n=1000, D=12, seed=1)[0]
        expected = truth(np.column_stack([new[:, :2], np.full((1000, 2), 0.5)]))
        model = COSSORegressor(random_state=0).fit(X, y)
        error, linear = (
            np.mean((found.predict(new) - expected) ** 2) for found in (model, LinearRegression().fit(X, y))
        )
        assert error < 0.03 < 0.5 < linear
        assert (model.theta_[:2] > 0.5).all()
        assert (model.theta_[2:] == 0).sum() >= 6

    def test_budget_bounds_the_weights(self):
        X, y = friedman()
        for M in (0.0, 0.7, 2.0):
            model = COSSORegressor(budget=M, random_state=0).fit(X, y)
            assert model.theta_.sum() == pytest.approx(M)
            assert model.cv_errors_ is None
            if M == 0:
                np.testing.assert_allclose(model.predict(X), y.mean())

    def test_60_basis_rows_are_enough_for_main_effects(self):
        X, y = friedman(n=400, D=4)
        few, all_rows = (COSSORegressor(budget=3.0, n_basis=m, random_state=0).fit(X, y) for m in (60, 400))
        assert np.std(few.predict(X) - all_rows.predict(X)) < 0.15 * np.std(all_rows.predict(X))

    def test_duplicated_and_constant_columns_give_finite_predictions(self):
        X, y = friedman(n=100, D=4)
        more = np.column_stack([X, X[:, 0], np.full(100, 7.0)])
        model = COSSORegressor(order=2, random_state=0).fit(more, y)
        assert np.isfinite(model.predict(more)).all()
        assert all(theta == 0 for term, theta in zip(model.terms_, model.theta_, strict=True) if 5 in term)

    def test_duplicated_rows_give_accurate_predictions(self):
        X, y = friedman(n=40, D=4)
        model = COSSORegressor(random_state=0).fit(np.tile(X, (3, 1)), np.tile(y, 3))
        assert np.isfinite(model.predict(X)).all()
        assert np.corrcoef(model.predict(X), y)[0, 1] > 0.5

    def test_the_same_seed_gives_the_same_result_in_any_units(self):
        X, y = friedman(n=100)
        first, same = (COSSORegressor(random_state=3, n_turns=2, n_basis=50).fit(X, y) for _ in range(2))
        np.testing.assert_array_equal(first.predict(X), same.predict(X))
        other = COSSORegressor(random_state=3, n_turns=2, n_basis=50).fit(X * 1e5, y * 1e-3)
        np.testing.assert_allclose(other.predict(X * 1e5), first.predict(X) * 1e-3, rtol=1e-5)

    def test_a_huge_target_scales_the_predictions(self):
        X, y = friedman(n=40)
        model, huge = (COSSORegressor(random_state=0).fit(X, target) for target in (y, y * 2.0**700))
        np.testing.assert_allclose(huge.predict(X) / 2.0**700, model.predict(X), rtol=1e-9)

    def test_a_constant_target_is_predicted_exactly(self):
        X, _ = friedman(n=20)
        np.testing.assert_array_equal(COSSORegressor().fit(X, np.full(20, 3.3)).predict(X), 3.3)

    @pytest.mark.parametrize(
        ("parameters", "message"),
        [({"order": 3}, "order=3"), ({"budget": -1}, "budget=-1"), ({"n_basis": 0}, "n_basis=0"),
         ({"n_basis": "all"}, "n_basis='all'"), ({"n_turns": 0}, "n_turns=0"), ({"cv": 1}, "cv=1")],
    )  # fmt: skip
    def test_errors_name_the_invalid_parameter(self, parameters, message):
        with pytest.raises(ValueError, match=message):
            COSSORegressor(**parameters).fit(*friedman(n=20))


@parametrize_with_checks([COSSORegressor(), COSSORegressor(order=2, budget=5.0)])
def test_scikit_learn_contract(estimator, check):
    check(estimator)
