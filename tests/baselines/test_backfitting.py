"""Back-fitting with smoothing splines, against the joint problem, scipy's smoothing spline and known answers."""

import numpy as np
import pytest
from scipy.interpolate import CubicSpline, make_smoothing_spline
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LinearRegression
from sklearn.utils.estimator_checks import parametrize_with_checks

from salsa.baselines.methods.backfitting import BackfittingEquations, SplineBackfittingRegressor
from salsa.baselines.methods.smoothing import AdditiveBasis, SplineBasis, standardise


def additive(n=200, D=5, seed=0, noise=0.3):
    """A truth that is a sine, a square and a line in the first three features, with noise."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, D))
    return X, truth(X) + noise * rng.normal(size=n)


def truth(X):
    return np.sin(2 * X[:, 0]) + X[:, 1] ** 2 + X[:, 2]


def natural_splines(x, knots):
    """Return cardinal natural splines at x, and the matrix of int f''^2: f'' is linear between the knots."""
    spline = CubicSpline(knots, np.eye(len(knots)), bc_type="natural")
    curvature, h = spline(knots, 2), np.diff(knots)
    W = np.diag(np.append(h, 0) / 3) + np.diag(np.append(0, h) / 3) + np.diag(h / 6, 1) + np.diag(h / 6, -1)
    return spline(x), curvature.T @ W @ curvature


def penalty_of(feature, df):
    """Return the penalty of int f''^2 that belongs to df, for f on the feature's range scaled to [0, 1]."""
    S, mu = feature.shrinkage(df)[1:], feature.mu[1:]
    return mu[0] * (1 / S[0] - 1)


def joint_solution(X, y, df, n_knots):
    """Solve min |y - mean - sum_j f_j|^2 / n + sum_j penalty_j int f_j''^2 as one least-squares problem."""
    columns, rows = [], []
    features = [SplineBasis.of(x, n_knots) for x in X.T]
    for x, feature in zip(X.T, features, strict=True):
        u = (x - x.min()) / np.ptp(x)
        knots = np.quantile(np.unique(u), np.linspace(0, 1, min(n_knots, len(np.unique(u)))))
        C, Omega = natural_splines(u, knots)
        columns.append(C - C.mean(axis=0))
        values, V = np.linalg.eigh(Omega)
        rows.append(np.sqrt(len(y) * penalty_of(feature, df) * np.maximum(values, 0))[:, None] * V.T)
    B = np.hstack(columns)
    P = np.zeros((sum(len(r) for r in rows), B.shape[1]))
    at = 0
    for r in rows:
        P[at : at + len(r), at : at + len(r)] = r
        at += len(r)
    target = np.concatenate([y - y.mean(), np.zeros(len(P))])
    return y.mean() + B @ np.linalg.lstsq(np.vstack([B, P]), target, rcond=1e-12)[0]


class TestBasis:
    def test_functions_are_uncorrelated_and_ordered_by_roughness(self):
        x = np.random.default_rng(0).exponential(size=300)
        basis = SplineBasis.of(x, 12)
        B = basis(x)
        assert B.shape == (300, 11)
        np.testing.assert_allclose(B.mean(axis=0), 0, atol=1e-10)
        np.testing.assert_allclose(B.T @ B / 300, np.eye(11), atol=1e-8)
        assert (np.diff(basis.mu) < 0).all()

    def test_roughness_is_one_over_mu(self):
        x = np.random.default_rng(1).uniform(size=200)
        basis = SplineBasis.of(x, 8)
        grid = np.linspace(x.min(), x.max(), 20001)
        step = (grid[1] - grid[0]) / np.ptp(x)
        second = np.diff(basis(grid), 2, axis=0) / step**2
        np.testing.assert_allclose(np.sum(second**2, axis=0)[1:] * step * basis.mu[1:], 1, rtol=1e-3)

    def test_degrees_of_freedom_are_the_trace(self):
        basis = SplineBasis.of(np.random.default_rng(2).normal(size=100), 20)
        for df in (1.0, 1.2, 4.0, 11.5, 19.0):
            assert basis.shrinkage(df).sum() == pytest.approx(df, rel=1e-9)
        assert (basis.shrinkage(50) == 1).all()

    def test_functions_continue_as_lines_beyond_the_data(self):
        x = np.random.default_rng(3).normal(size=100)
        basis = SplineBasis.of(x, 10)
        for end, way in ((x.min(), -1), (x.max(), 1)):
            values = basis(end + way * np.array([0.0, 1.0, 2.0, 5.0]))
            np.testing.assert_allclose(values[2:] - values[0], np.outer([2, 5], values[1] - values[0]), atol=1e-9)
            inside = (basis(np.array([end])) - basis(np.array([end - way * 1e-6]))) / 1e-6
            np.testing.assert_allclose(values[1] - values[0], inside[0], rtol=1e-3, atol=1e-3)

    @pytest.mark.parametrize(("x", "functions"), [([2.0] * 9, 0), ([0.0, 1.0] * 5, 1), ([0.0, 1.0, 5.0] * 4, 2)])
    def test_n_distinct_values_allow_n_minus_1_functions(self, x, functions):
        assert SplineBasis.of(np.array(x), 30)(np.array(x)).shape == (len(x), functions)

    def test_functions_of_a_cauchy_feature_are_uncorrelated(self):
        x = np.random.default_rng(4).standard_cauchy(size=500) * 1e6
        B = SplineBasis.of(x, 30)(x)
        np.testing.assert_allclose(B.T @ B / 500, np.eye(B.shape[1]), atol=1e-6)

    def test_numbers_near_the_largest_float64_do_not_overflow(self):
        x = np.array([-1.7e308, 0.0, 1e307, 1.7e308])
        assert np.isfinite(SplineBasis.of(x, 4)(x)).all()
        z = standardise(np.array([1e300, -1e300, 2e299])).z
        assert np.mean(z**2) == pytest.approx(1)


class TestFit:
    @pytest.mark.parametrize("df", [1.5, 3.0, 6.0])
    def test_one_feature_equals_the_smoothing_spline(self, df):
        rng = np.random.default_rng(0)
        x = np.sort(rng.uniform(size=25))
        y = np.sin(6 * x) + 0.2 * rng.normal(size=25)
        model = SplineBackfittingRegressor(df=df, tol=1e-12).fit(x[:, None], y)
        penalty = penalty_of(SplineBasis.of(x, 30), df)
        # scipy minimises |y - f|^2 + lam int f''^2 in the units of x
        spline = make_smoothing_spline(x, y, lam=len(x) * penalty * np.ptp(x) ** 3)
        new = np.linspace(x[0], x[-1], 200)
        np.testing.assert_allclose(model.predict(new[:, None]), spline(new), atol=1e-6)

    @pytest.mark.parametrize("df", [1.5, 4.0])
    @pytest.mark.parametrize("correlated", [False, True])
    def test_several_features_equal_the_joint_solution(self, df, correlated):
        X, y = additive(n=120, D=4)
        if correlated:
            X[:, 3] = X[:, 1] + 0.1 * X[:, 3]
        model = SplineBackfittingRegressor(df=df, n_knots=9, tol=1e-12).fit(X, y)
        np.testing.assert_allclose(model.predict(X), joint_solution(X, y, df, 9), atol=1e-6)

    def test_every_curve_smooths_its_partial_residuals(self):
        X, y = additive()
        model = SplineBackfittingRegressor(df=4, tol=1e-10).fit(X, y)
        B, b, z = model._basis(X), model._coef, standardise(y).z
        for block, feature in zip(model._basis.blocks, model._basis.features, strict=True):
            left = z - B @ b + B[:, block] @ b[block]
            np.testing.assert_allclose(b[block], feature.shrinkage(4) * (B[:, block].T @ left) / len(z), atol=1e-8)

    def test_one_degree_of_freedom_equals_linear_regression(self):
        X, y = additive()
        new = additive(seed=1)[0] * 3
        expected = LinearRegression().fit(X, y).predict(new)
        np.testing.assert_allclose(SplineBackfittingRegressor(df=1).fit(X, y).predict(new), expected, atol=1e-6)

    def test_strongly_correlated_features_converge(self):
        rng = np.random.default_rng(0)
        X = rng.normal(size=(300, 1)) + 0.2 * rng.normal(size=(300, 12))
        y = truth(X) + rng.normal(size=300)
        basis = AdditiveBasis.of(X, 15)
        solved = BackfittingEquations.of(basis, X, standardise(y).z).solve(5.0, tol=1e-8, max_iter=300)
        assert solved.residual < 2e-8

    def test_too_few_rounds_give_a_convergence_warning(self):
        X, y = additive()
        with pytest.warns(ConvergenceWarning, match="max_iter=1 rounds"):
            SplineBackfittingRegressor(df=5, max_iter=1, tol=1e-12).fit(X, y)

    def test_duplicated_and_constant_columns_do_not_change_linear_fits(self):
        X, y = additive()
        twice = np.column_stack([X, X[:, 0], np.full(len(X), 7.0)])
        model = SplineBackfittingRegressor(df=1).fit(twice, y)
        np.testing.assert_allclose(model.predict(twice), LinearRegression().fit(X, y).predict(X), atol=1e-6)
        curved = SplineBackfittingRegressor(df=4).fit(twice, y)
        assert np.isfinite(curved.predict(twice)).all()

    def test_duplicating_all_rows_does_not_change_the_fit(self):
        X, y = additive(n=40)
        once = SplineBackfittingRegressor(df=3, tol=1e-10).fit(X, y).predict(X)
        twice = SplineBackfittingRegressor(df=3, tol=1e-10).fit(np.tile(X, (2, 1)), np.tile(y, 2)).predict(X)
        np.testing.assert_allclose(once, twice, atol=1e-7)

    def test_units_do_not_matter(self):
        X, y = additive()
        model = SplineBackfittingRegressor(df=3).fit(X, y)
        other = SplineBackfittingRegressor(df=3).fit(X * 1e6 - 3e5, y * 1e-5 + 2)
        np.testing.assert_allclose(other.predict(X * 1e6 - 3e5), model.predict(X) * 1e-5 + 2, rtol=1e-8)


class TestChoice:
    def test_additive_truth_is_recovered(self):
        X, y = additive(n=400, D=10)
        new = additive(n=1000, D=10, seed=1)[0]
        model = SplineBackfittingRegressor(random_state=0).fit(X, y)
        error = np.mean((model.predict(new) - truth(new)) ** 2)
        linear = np.mean((LinearRegression().fit(X, y).predict(new) - truth(new)) ** 2)
        assert error < 0.1 < 2 < linear
        assert model.df_ >= 3
        assert model.cv_errors_[0] > 2 * model.cv_errors_.min()

    def test_a_linear_truth_chooses_few_degrees_of_freedom(self):
        X, _ = additive(n=150)
        y = X @ np.arange(5.0) + np.random.default_rng(0).normal(size=150)
        assert SplineBackfittingRegressor(random_state=0).fit(X, y).df_ <= 1.5

    def test_the_same_seed_gives_the_same_result(self):
        X, y = additive()
        first, same = (SplineBackfittingRegressor(random_state=3).fit(X, y) for _ in range(2))
        np.testing.assert_array_equal(first.predict(X), same.predict(X))
        np.testing.assert_array_equal(first.cv_errors_, same.cv_errors_)

    def test_a_huge_target_scales_the_predictions(self):
        X, y = additive(n=40)
        model, huge = (SplineBackfittingRegressor(random_state=0).fit(X, target) for target in (y, y * 2.0**700))
        np.testing.assert_allclose(huge.predict(X) / 2.0**700, model.predict(X), rtol=1e-9)

    def test_a_constant_target_is_predicted_exactly(self):
        X, _ = additive(n=20)
        np.testing.assert_array_equal(SplineBackfittingRegressor().fit(X, np.full(20, 3.3)).predict(X), 3.3)

    @pytest.mark.parametrize(
        ("parameters", "message"),
        [({"df": 0.5}, "df=0.5"), ({"df": "few"}, "df='few'"), ({"df": []}, "df="), ({"n_knots": 1}, "n_knots=1"),
         ({"cv": 1}, "cv=1")],
    )  # fmt: skip
    def test_errors_name_the_invalid_parameter(self, parameters, message):
        with pytest.raises(ValueError, match=message):
            SplineBackfittingRegressor(**parameters).fit(*additive(n=20))


@parametrize_with_checks([SplineBackfittingRegressor()])
def test_scikit_learn_contract(estimator, check):
    check(estimator)
