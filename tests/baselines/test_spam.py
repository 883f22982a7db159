"""SpAM: the conditions of its minimum, the lasso, a slow twin of the group lasso, and selected features."""

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import Lasso, LinearRegression
from sklearn.utils.estimator_checks import parametrize_with_checks

from salsa.baselines.methods.smoothing import AdditiveBasis, standardise
from salsa.baselines.methods.spam import GroupLasso, SpAMRegressor


def truth(X):
    return np.sin(2 * X[:, 0]) + X[:, 1] ** 2 + X[:, 2]


def additive(n=200, D=8, seed=0, noise=0.3):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, D))
    return X, truth(X) + noise * rng.normal(size=n)


def proximal_gradient(bases, y, alpha, steps=20000):
    """Fit min 1/2 |y - sum_j B_j b_j|^2 / n + alpha sum_j |B_j b_j| / sqrt(n) by proximal gradient steps."""
    n = len(y)
    Qs = [np.linalg.qr(B - B.mean(axis=0))[0] * np.sqrt(n) for B in bases]
    length = 1 / np.linalg.norm(np.hstack(Qs) / np.sqrt(n), 2) ** 2
    bs = [np.zeros(Q.shape[1]) for Q in Qs]
    for _ in range(steps):
        r = y - sum(Q @ b for Q, b in zip(Qs, bs, strict=True))
        moved = [b + length * Q.T @ r / n for Q, b in zip(Qs, bs, strict=True)]
        bs = [max(0, 1 - length * alpha / np.linalg.norm(b)) * b for b in moved]
    return sum(Q @ b for Q, b in zip(Qs, bs, strict=True))


class TestGroupLasso:
    @pytest.mark.parametrize("share", [0.02, 0.2, 0.7])
    def test_the_solution_satisfies_the_conditions_of_the_minimum(self, share):
        X, y = additive(D=12)
        X[:, 5] = X[:, 0] + 0.3 * X[:, 5]
        basis = AdditiveBasis.of(X, 7)
        B, z = basis(X), standardise(y).z
        lasso = GroupLasso.of(basis, X, z)
        alpha = share * lasso.largest_alpha
        b = lasso.solve(alpha, tol=1e-12, max_iter=100000).coef
        slope = B.T @ (z - B @ b) / len(z)
        for block in basis.blocks:
            if b[block].any():
                np.testing.assert_allclose(slope[block], alpha * b[block] / np.linalg.norm(b[block]), atol=1e-9)
            else:
                assert np.linalg.norm(slope[block]) <= alpha * (1 + 1e-9)

    def test_predictions_equal_the_slow_twin(self):
        """The fit does not depend on the basis of the splines: the twin uses truncated powers."""
        X, y = additive(n=80, D=4)
        z = standardise(y).z
        model = SpAMRegressor(alpha=0.1, n_functions=3, tol=1e-11).fit(X, y)
        bases = []
        for x in X.T:
            knots = np.quantile(x, np.linspace(0, 1, 4))
            cubes = [
                (np.maximum(x - k, 0) ** 3 - np.maximum(x - knots[-1], 0) ** 3) / (knots[-1] - k) for k in knots[:-1]
            ]
            bases.append(np.column_stack([x, cubes[0] - cubes[-1], cubes[1] - cubes[-1]]))
        fit = proximal_gradient(bases, z, 0.1)
        np.testing.assert_allclose(standardise(y).mean + standardise(y).scale * fit, model.predict(X), atol=1e-6)

    def test_straight_lines_equal_the_lasso(self):
        X, y = additive()
        new = additive(seed=1)[0]
        model = SpAMRegressor(alpha=0.1, n_functions=1, tol=1e-11).fit(X, y)
        mean, sd = X.mean(axis=0), X.std(axis=0)
        lasso = Lasso(alpha=0.1 * y.std(), tol=1e-12).fit((X - mean) / sd, y)
        np.testing.assert_allclose(model.predict(new), lasso.predict((new - mean) / sd), atol=1e-6)
        np.testing.assert_allclose(model.sizes_, np.abs(lasso.coef_), atol=1e-6)
        assert (model.sizes_ == 0).any()

    def test_alpha_shrinks_the_curve_of_a_single_feature_by_alpha(self):
        X, y = additive(D=3)
        x = X[:, [0]]
        full = SpAMRegressor(alpha=0, n_functions=5).fit(x, y)
        size = full.sizes_[0]
        shrunk = SpAMRegressor(alpha=0.3 * size / y.std(), n_functions=5).fit(x, y)
        np.testing.assert_allclose(shrunk.predict(x) - y.mean(), 0.7 * (full.predict(x) - y.mean()), atol=1e-8)

    def test_the_largest_alpha_predicts_the_mean_and_a_smaller_one_does_not(self):
        X, y = additive()
        lasso = GroupLasso.of(AdditiveBasis.of(X, 7), X, standardise(y).z)
        nothing = SpAMRegressor(alpha=lasso.largest_alpha * (1 + 1e-12), n_functions=6).fit(X, y)
        np.testing.assert_allclose(nothing.predict(X), y.mean())
        assert not nothing.sizes_.any()
        something = SpAMRegressor(alpha=lasso.largest_alpha * 0.99, n_functions=6).fit(X, y)
        assert (something.sizes_ > 0).sum() == 1

    def test_the_start_does_not_change_the_solution(self):
        X, y = additive()
        lasso = GroupLasso.of(AdditiveBasis.of(X, 7), X, standardise(y).z)
        start = np.random.default_rng(0).normal(size=len(lasso.c))
        cold, warm = (lasso.solve(0.1, b, tol=1e-12, max_iter=10000).coef for b in (None, start))
        np.testing.assert_allclose(cold, warm, atol=1e-10)

    def test_too_few_rounds_give_a_convergence_warning(self):
        with pytest.warns(ConvergenceWarning, match="max_iter=1 rounds"):
            SpAMRegressor(alpha=0.01, n_functions=3, max_iter=1).fit(*additive())


class TestChoice:
    def test_additive_truth_is_recovered_and_noise_dropped(self):
        X, y = additive(n=400, D=40)
        new = additive(n=1000, D=40, seed=1)[0]
        model = SpAMRegressor(random_state=0).fit(X, y)
        error = np.mean((model.predict(new) - truth(new)) ** 2)
        linear = np.mean((LinearRegression().fit(X, y).predict(new) - truth(new)) ** 2)
        assert error < 0.1 < 2 < linear
        assert (model.sizes_[:3] > 0.5).all()
        assert (model.sizes_[3:] == 0).sum() > 18
        assert model.sizes_[3:].max() < 0.1
        assert model.cv_errors_.shape == (3, 40)

    def test_a_larger_alpha_drops_all_noise(self):
        X, y = additive(n=400, D=40)
        model = SpAMRegressor(alpha=0.15, n_functions=6).fit(X, y)
        np.testing.assert_array_equal(np.flatnonzero(model.sizes_), [0, 1, 2])

    def test_noise_alone_is_hardly_fitted(self):
        X, _ = additive(n=200)
        y = np.random.default_rng(5).normal(size=200)
        assert np.std(SpAMRegressor(random_state=0).fit(X, y).predict(X)) < 0.3

    def test_constant_and_duplicated_columns_do_not_change_predictions(self):
        X, y = additive()
        model = SpAMRegressor(alpha=0.05, n_functions=4, tol=1e-10).fit(X, y)
        more = np.column_stack([X, X[:, 0], np.full(len(X), 7.0)])
        other = SpAMRegressor(alpha=0.05, n_functions=4, tol=1e-10).fit(more, y)
        np.testing.assert_allclose(other.predict(more), model.predict(X), atol=1e-6)
        assert other.sizes_[0] + other.sizes_[-2] == pytest.approx(model.sizes_[0], rel=1e-6)
        assert other.sizes_[-1] == 0

    def test_duplicating_all_rows_does_not_change_the_fit(self):
        X, y = additive(n=40)
        once, twice = (
            SpAMRegressor(alpha=0.1, n_functions=4, tol=1e-10).fit(np.tile(X, (k, 1)), np.tile(y, k)) for k in (1, 2)
        )
        np.testing.assert_allclose(once.predict(X), twice.predict(X), atol=1e-7)

    def test_the_same_seed_gives_the_same_result_in_any_units(self):
        X, y = additive()
        first, same = (SpAMRegressor(random_state=3).fit(X, y) for _ in range(2))
        np.testing.assert_array_equal(first.predict(X), same.predict(X))
        other = SpAMRegressor(random_state=3).fit(X * 1e-4, y * 1e6)
        np.testing.assert_allclose(other.predict(X * 1e-4), first.predict(X) * 1e6, rtol=1e-4)

    def test_a_huge_target_scales_the_predictions(self):
        X, y = additive(n=40)
        model, huge = (SpAMRegressor(random_state=0).fit(X, target) for target in (y, y * 2.0**700))
        np.testing.assert_allclose(huge.predict(X) / 2.0**700, model.predict(X), rtol=1e-9)

    def test_a_constant_target_is_predicted_exactly(self):
        X, _ = additive(n=20)
        np.testing.assert_array_equal(SpAMRegressor().fit(X, np.full(20, 3.3)).predict(X), 3.3)

    @pytest.mark.parametrize(
        ("parameters", "message"),
        [({"alpha": -1}, "alpha=-1"), ({"alpha": []}, "alpha="), ({"n_functions": 0}, "n_functions=0"),
         ({"n_functions": 2.5}, "whole numbers"), ({"cv": True}, "cv=True")],
    )  # fmt: skip
    def test_errors_name_the_invalid_parameter(self, parameters, message):
        with pytest.raises(ValueError, match=message):
            SpAMRegressor(**parameters).fit(*additive(n=20))


@parametrize_with_checks([SpAMRegressor()])
def test_scikit_learn_contract(estimator, check):
    check(estimator)
