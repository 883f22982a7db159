"""Local polynomial regression, compared with polynomials, naive least squares and closed formulas; distant queries."""

from itertools import combinations_with_replacement
from math import comb, factorial, prod

import numpy as np
import pytest
from conftest import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.model_selection import GroupKFold, KFold
from sklearn.utils.estimator_checks import parametrize_with_checks

from salsa.baselines.methods import localfits, localpoly
from salsa.baselines.methods.localfits import LocalFits
from salsa.baselines.methods.localpoly import LocalPolynomialRegressor
from salsa.baselines.methods.monomials import monomials, products
from salsa.kernels.bandwidths import rule_of_thumb_bandwidth


def sets(D, degree):
    """Return for every monomial the list of variables that it multiplies."""
    return [list(s) for k in range(degree + 1) for s in combinations_with_replacement(range(D), k)]


def design(u, degree):
    return np.column_stack([u[:, s].prod(axis=1) for s in sets(u.shape[1], degree)])


def naive(X, y, queries, h, degree, weight=None):
    """Compute the definition, query by query."""
    weight = np.ones(len(X)) if weight is None else weight
    out = []
    for x in queries:
        u = (X - x) / h
        root = np.sqrt(weight * np.exp(-np.sum(u**2, axis=1) / 2))
        out.append(np.linalg.lstsq(root[:, None] * design(u, degree), root * y, rcond=None)[0][0])
    return np.array(out)


def naive_ridge(X, y, x, h, degree, ridge, rounds=4):
    """Compute the definition of the ridge: every round fits the residuals; the constant term is not penalised."""
    w = np.exp(-np.sum(((X - x) / h) ** 2, axis=1) / 2)
    u = (X - x) / np.minimum(h, X.std(axis=0) * X.shape[1] ** 0.5)
    norms = [multinomial(s, degree) ** 0.5 for s in sets(X.shape[1], degree)]
    F = design(u, degree) * norms
    G = F.T @ (w[:, None] * F)
    penalty = ridge * np.trace(G) * np.diag([0.0] + [1.0] * (len(norms) - 1))
    theta = np.zeros(len(norms))
    for _ in range(rounds):
        theta += np.linalg.solve(G + penalty, F.T @ (w * (y - F @ theta)))
    return theta[0]


def multinomial(variables, degree):
    counts = [variables.count(v) for v in set(variables)] + [degree - len(variables)]
    return factorial(degree) / prod(factorial(count) for count in counts)


def polynomial(rng, D, degree):
    coef = rng.normal(size=len(sets(D, degree)))
    return lambda X: design(X, degree) @ coef


def noisy(n=150, D=2, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, D))
    return X, np.sin(4 * X[:, 0]) + X[:, -1] ** 2 + 0.1 * rng.normal(size=n)


@pytest.fixture
def one_by_one(monkeypatch):
    """Solve every query separately, without shared moments."""
    monkeypatch.setattr(localfits, "MOST_MOMENTS", 0)


@parametrize_with_checks(
    [LocalPolynomialRegressor(degree) for degree in (0, 1, 2)] + [LocalPolynomialRegressor(1, 1.0)]
)
def test_scikit_learn_estimator_contract(estimator, check, monkeypatch):
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")  # without this, one check skips itself
    check(estimator)


class TestMonomials:
    @pytest.mark.parametrize(("D", "degree"), [(1, 0), (1, 5), (3, 2), (4, 3), (6, 1)])
    def test_values_are_products_of_powers(self, D, degree):
        z, table = np.random.default_rng(0).normal(size=(D, 7)), monomials(D, degree)
        assert len(np.unique(table.exponents, axis=0)) == len(table.exponents) == comb(D + degree, degree)
        expected = np.prod(z.T[:, None, :] ** table.exponents, axis=2).T
        np.testing.assert_allclose(table.values(z), expected, rtol=1e-13)

    def test_lower_degrees_come_first(self):
        np.testing.assert_array_equal(monomials(4, 4).exponents[: comb(6, 2)], monomials(4, 2).exponents)

    def test_norms_make_the_polynomial_kernel(self):
        rng, table = np.random.default_rng(0), monomials(3, 4)
        u, v = rng.normal(size=(3, 5)), rng.normal(size=(3, 5))
        kernel = (table.values(u) * table.norms[:, None] ** 2).T @ table.values(v)
        np.testing.assert_allclose(kernel, (1 + u.T @ v) ** 4, rtol=1e-9)

    def test_products_are_found_among_monomials_of_twice_the_degree(self):
        z = np.random.default_rng(0).normal(size=(3, 4))
        low, high = monomials(3, 2).values(z), monomials(3, 4).values(z)
        np.testing.assert_allclose(high[products(3, 2)], low[:, None] * low, rtol=1e-12)

    def test_recentred_moments_equal_moments_about_the_new_centre(self):
        rng, table = np.random.default_rng(0), monomials(3, 4)
        z, x, W = rng.normal(size=(20, 3)), rng.normal(size=(5, 3)), rng.uniform(size=(5, 20))
        moments = table.values(z.T) @ W.T
        unit = np.array([0.5, 1.0, 3.0])
        table.recentre(moments, x, unit)
        expected = [table.values(((z - centre) / unit).T) @ w for centre, w in zip(x, W, strict=True)]
        np.testing.assert_allclose(moments.T, expected, rtol=1e-9, atol=1e-9)


class TestPolynomials:
    @settings(max_examples=examples(60))
    @given(st.integers(1, 4), st.integers(0, 2), st.integers(0, 999), st.floats(0.9, 30), st.floats(-3, 3))
    def test_polynomials_are_reproduced(self, D, degree, seed, c, log_unit):
        rng = np.random.default_rng(seed)
        X, queries, f = rng.uniform(-1, 1, (200, D)), rng.uniform(-0.9, 0.9, (30, D)), polynomial(rng, D, degree)
        unit, offset = 10**log_unit * rng.uniform(1, 3, D), 10**log_unit * rng.normal(size=D)
        model = LocalPolynomialRegressor(degree, c).fit(unit * X + offset, f(X))
        np.testing.assert_allclose(model.predict(unit * queries + offset), f(queries), atol=1e-8)

    @pytest.mark.parametrize(("D", "degree"), [(1, 3), (1, 5), (2, 4), (20, 1), (12, 2)])
    def test_polynomials_of_high_degree_or_many_features_are_reproduced(self, D, degree):
        rng = np.random.default_rng(0)
        X, queries, f = rng.uniform(-1, 1, (400, D)), rng.uniform(-0.9, 0.9, (30, D)), polynomial(rng, D, degree)
        model = LocalPolynomialRegressor(degree, 2.0).fit(X, f(X))
        np.testing.assert_allclose(model.predict(queries), f(queries), atol=1e-8)

    @pytest.mark.usefixtures("one_by_one")
    @pytest.mark.parametrize("c", [0.3, 1.0, 10.0])
    def test_separately_solved_queries_reproduce_polynomials(self, c):
        rng = np.random.default_rng(0)
        X, f = rng.uniform(-1, 1, (800, 2)), polynomial(rng, 2, 2)
        model = LocalPolynomialRegressor(2, c).fit(X, f(X))
        np.testing.assert_allclose(model.predict(X[:50] * 0.9), f(X[:50] * 0.9), atol=1e-9)

    @pytest.mark.parametrize("degree", [0, 1, 2, 3])
    @pytest.mark.parametrize("c", [0.01, 1.0])
    def test_a_constant_target_is_always_reproduced(self, degree, c):
        X, _ = noisy(60, 4)
        model = LocalPolynomialRegressor(degree, c).fit(X, np.full(60, 7.5))
        np.testing.assert_allclose(model.predict(3 * X), 7.5, rtol=1e-12)


class TestDefinition:
    @pytest.mark.parametrize("degree", [0, 1, 2, 3])
    @pytest.mark.parametrize("c", [0.7, 3.0])
    def test_predictions_equal_naive_least_squares(self, degree, c):
        X, y = noisy()
        weight = np.random.default_rng(1).uniform(0.5, 2, len(X))
        model = LocalPolynomialRegressor(degree, c).fit(X, y, sample_weight=weight)
        expected = naive(X, y, 0.8 * X[:40], model.bandwidth_, degree, weight)
        np.testing.assert_allclose(model.predict(0.8 * X[:40]), expected, atol=1e-8)

    @pytest.mark.usefixtures("one_by_one")
    @pytest.mark.parametrize("degree", [0, 1, 2, 3])
    def test_separately_solved_queries_equal_naive_least_squares(self, degree):
        X, y = noisy()
        model = LocalPolynomialRegressor(degree, 1.0).fit(X, y)
        expected = naive(X, y, 0.8 * X[:40], model.bandwidth_, degree)
        np.testing.assert_allclose(model.predict(0.8 * X[:40]), expected, atol=1e-8)

    def test_degree_0_equals_the_nadaraya_watson_formula(self):
        X, y = noisy()
        h = np.array([0.2, 0.5])
        W = np.exp(-np.sum(((X[:, None] - X) / h) ** 2, axis=2) / 2)
        found = LocalPolynomialRegressor(0, h).fit(X, y).predict(X)
        np.testing.assert_allclose(found, W @ y / W.sum(axis=1), rtol=1e-12)

    def test_degree_1_in_one_feature_equals_its_closed_formula(self):
        """The formula is sum_i (S2 - S1 u_i) w_i y_i / (S2 S0 - S1^2), with S_k = sum_i w_i u_i^k."""
        X, y = noisy(D=1)
        u = (X[:, 0] - X) / 0.3
        w = np.exp(-(u**2) / 2)
        S0, S1, S2 = (np.sum(w * u**k, axis=1) for k in range(3))
        expected = np.sum((S2[:, None] - S1[:, None] * u) * w * y, axis=1) / (S2 * S0 - S1**2)
        np.testing.assert_allclose(LocalPolynomialRegressor(1, [0.3]).fit(X, y).predict(X), expected, rtol=1e-9)

    @pytest.mark.parametrize("degree", [1, 2])
    def test_a_wide_bandwidth_equals_one_global_polynomial(self, degree):
        X, y = noisy(D=3)
        coef = np.linalg.lstsq(design(X, degree), y, rcond=None)[0]
        found = LocalPolynomialRegressor(degree, np.full(3, 1e6)).fit(X, y).predict(X)
        np.testing.assert_allclose(found, design(X, degree) @ coef, atol=1e-8)

    @pytest.mark.parametrize("degree", [1, 2, 3])
    @pytest.mark.parametrize("n", [6, 14, 80])
    @pytest.mark.parametrize("c", [1.0, 4.0])
    @pytest.mark.parametrize("ridge", [1e-4, 0.1])
    def test_the_ridge_equals_its_definition(self, degree, n, c, ridge):
        """Some cases have fewer rows than terms; their queries are solved in rows."""
        X, y = noisy(n, D=3)
        model = LocalPolynomialRegressor(degree, c, ridge=ridge).fit(X, y)
        expected = [naive_ridge(X, y - y.mean(), x, model.bandwidth_, degree, ridge) + y.mean() for x in X]
        np.testing.assert_allclose(model.predict(X), expected, rtol=1e-8)

    def test_solutions_in_rows_and_in_terms_agree(self):
        rng = np.random.default_rng(0)
        u, t, Y = rng.normal(size=(9, 2)), rng.uniform(0.1, 1, (9, 1)), rng.normal(size=(9, 2))
        fits = LocalFits(u, Y, None, np.ones(2), 2, 1e-8)
        np.testing.assert_allclose(fits._by_rows(u, t, t * Y), fits._by_terms(u, t, t * Y), rtol=1e-5)

    def test_bandwidths_follow_the_rule_of_thumb(self):
        X, y = noisy(D=3)
        expected = 0.7 * X.std(axis=0, ddof=1) * len(X) ** (-1 / 7)
        np.testing.assert_allclose(LocalPolynomialRegressor(1, 0.7).fit(X, y).bandwidth_, expected)
        np.testing.assert_allclose(
            LocalPolynomialRegressor(0, 1.0).fit(X[:, :1], y).bandwidth_, rule_of_thumb_bandwidth(X[:, :1], 1.0)
        )

    @pytest.mark.parametrize("degree", [0, 1, 2])
    def test_an_infinite_bandwidth_leaves_a_feature_out(self, degree):
        X, y = noisy(D=3)
        found = LocalPolynomialRegressor(degree, [0.5, np.inf, 0.5]).fit(X, y).predict(X)
        without = LocalPolynomialRegressor(degree, [0.5, 0.5]).fit(X[:, [0, 2]], y).predict(X[:, [0, 2]])
        np.testing.assert_allclose(found, without, atol=1e-9)


class TestWeightsAndOutputs:
    @pytest.mark.parametrize("degree", [0, 1, 2])
    @pytest.mark.parametrize("bandwidth", [0.5, "auto"])
    def test_weights_equal_repeated_rows(self, degree, bandwidth):
        X, y = noisy(60)
        weight = np.random.default_rng(0).integers(0, 4, 60)
        model = LocalPolynomialRegressor(degree, bandwidth, random_state=0)
        found = model.fit(X, y, sample_weight=weight).predict(X)
        again = model.fit(np.repeat(X, weight, axis=0), np.repeat(y, weight)).predict(X)
        np.testing.assert_allclose(found, again, atol=1e-8)

    @pytest.mark.parametrize("degree", [0, 1, 2])
    def test_only_ratios_of_weights_matter_with_given_bandwidths(self, degree):
        X, y = noisy(60)
        weight = np.random.default_rng(0).uniform(0.1, 3, 60)
        found, scaled = (
            LocalPolynomialRegressor(degree, [0.5, 0.5]).fit(X, y, sample_weight=c * weight).predict(X)
            for c in (1.0, 1e30)
        )
        np.testing.assert_allclose(found, scaled, rtol=1e-9)

    @pytest.mark.parametrize("D", [2, 12])
    def test_several_outputs_equal_separate_fits(self, D):
        X, y = noisy(60, D)
        Y = np.column_stack([y, X[:, 0], 1e6 * y**2])
        found = LocalPolynomialRegressor(2, 1.0).fit(X, Y).predict(X[:9])
        for k in range(3):
            single = LocalPolynomialRegressor(2, 1.0).fit(X, Y[:, k]).predict(X[:9])
            np.testing.assert_allclose(found[:, k], single, rtol=1e-6)

    @pytest.mark.parametrize("degree", [1, 2])
    def test_units_do_not_change_predictions(self, degree):
        X, y = noisy(100)
        model = LocalPolynomialRegressor(degree, random_state=0)
        found, other = (
            model.fit(X, y).predict(X),
            model.fit(X * [1e-9, 1e9] + [5e-9, 0], y).predict(X * [1e-9, 1e9] + [5e-9, 0]),
        )
        np.testing.assert_allclose(found, other, atol=1e-7)

    def test_blocks_and_threads_do_not_change_predictions(self, monkeypatch):
        X, y = noisy(200, 3)
        model = LocalPolynomialRegressor(2, 1.0).fit(X, y)
        expected = model.predict(X)
        np.testing.assert_allclose(model.set_params(n_jobs=2).predict(X), expected, rtol=1e-10)
        monkeypatch.setattr(localfits, "BLOCK_NUMBERS", 1)
        monkeypatch.setattr(localfits, "EQUATION_NUMBERS", 3000)
        np.testing.assert_allclose(model.predict(X), expected, rtol=1e-9)


class TestFewRowsNear:
    @pytest.mark.parametrize("degree", [0, 1, 2, 3])
    @pytest.mark.parametrize("c", [0.02, 1.0, 30.0])
    def test_distant_queries_predict_the_target_of_the_nearest_rows(self, degree, c):
        X, y = noisy(80, 3)
        model = LocalPolynomialRegressor(degree, c).fit(X, y)
        distances = np.array([10.0, 1e3, 1e6, 1e9, 1e100, 1e300, -1e300])
        far = model.predict(np.outer(distances, np.ones(3)))
        assert np.isfinite(far).all()
        corner = y[np.argmax(X.sum(axis=1))]
        np.testing.assert_allclose(far[2:6], corner, rtol=1e-4)

    @pytest.mark.parametrize("degree", [0, 1, 2, 3])
    def test_a_narrow_bandwidth_predicts_the_nearest_neighbour(self, degree):
        X, y = noisy(80, 3)
        queries = np.random.default_rng(1).uniform(-1, 1, (20, 3))
        nearest = np.argmin(np.sum((queries[:, None] - X) ** 2, axis=2), axis=1)
        model = LocalPolynomialRegressor(degree, np.full(3, 1e-3)).fit(X, y)
        np.testing.assert_allclose(model.predict(queries), y[nearest], rtol=1e-6)
        np.testing.assert_allclose(model.predict(X), y, rtol=1e-6)

    @pytest.mark.parametrize("degree", [1, 2])
    def test_rows_on_a_line_in_three_features_are_fitted(self, degree):
        """Rows are repeated and one feature is constant, so that the plane is not determined."""
        line = np.linspace(-1, 1, 40).repeat(2)
        X = np.column_stack([line, 2 * line, np.full(80, 3.0)])
        model = LocalPolynomialRegressor(degree, 2.0).fit(X, line)
        np.testing.assert_allclose(model.predict(X), line, atol=1e-7)
        assert np.isinf(model.bandwidth_[2])
        assert np.isfinite(model.predict(X + np.random.default_rng(0).normal(size=X.shape))).all()

    def test_one_row_predicts_its_target_everywhere(self):
        model = LocalPolynomialRegressor(2).fit([[1.0, 2.0]], [3.0])
        np.testing.assert_allclose(model.predict([[1.0, 2.0], [1e9, -5.0]]), 3.0)

    def test_a_large_ridge_predicts_the_local_mean(self):
        X, y = noisy()
        smooth = LocalPolynomialRegressor(2, 1.0, ridge=1e9).fit(X, y).predict(X)
        np.testing.assert_allclose(smooth, LocalPolynomialRegressor(0, 1.0).fit(X, y).predict(X), atol=1e-6)

    def test_degree_2_predicts_well_with_fifty_features(self):
        rng = np.random.default_rng(0)
        X = rng.normal(size=(260, 50))
        y = X[:, 0] - X[:, 1] + 0.1 * rng.normal(size=260)
        model = LocalPolynomialRegressor(2, random_state=0).fit(X[:160], y[:160])
        assert model.score(X[160:], y[160:]) > 0.5

    def test_a_sample_of_rows_chooses_the_bandwidth_if_predictions_are_expensive(self, monkeypatch):
        X, y = noisy(100, 15)
        model = LocalPolynomialRegressor(2, random_state=0)
        all_rows = model.fit(X, y).cv_errors_
        monkeypatch.setattr(localpoly, "MOST_SCORED", 20)
        some, same = model.fit(X, y).cv_errors_, model.fit(X, y).cv_errors_
        assert some == same
        assert some[1.0] != all_rows[1.0]
        assert some[1.0] == pytest.approx(all_rows[1.0], rel=1.0)


class TestChoiceOfBandwidth:
    def test_cv_errors_equal_the_errors_of_refits(self):
        X, y = noisy(60)
        folds = list(KFold(4, shuffle=True, random_state=0).split(X))
        model = LocalPolynomialRegressor(1, cv=folds).fit(X, y)
        unit = model.bandwidth_ / model.multiple_
        assert len(model.cv_errors_) == 13
        assert model.cv_errors_[model.multiple_] == min(model.cv_errors_.values())
        for c in (1.0, 4.0):
            squares = [(naive(X[a], y[a], X[b], c * unit, 1) - y[b]) ** 2 for a, b in folds]
            expected = np.concatenate(squares).mean() / y.var()
            assert model.cv_errors_[c] == pytest.approx(expected, rel=1e-6)

    @pytest.mark.parametrize("degree", [0, 1, 2, 3])
    def test_an_oscillating_truth_chooses_a_narrow_bandwidth(self, degree):
        x = np.linspace(0, 10, 400)[:, None]
        y = np.sin(8 * x[:, 0])
        model = LocalPolynomialRegressor(degree, random_state=0).fit(x, y)
        assert model.multiple_ < 0.5
        assert model.score(x[:-1] + 0.0125, np.sin(8 * (x[:-1, 0] + 0.0125))) > 0.97

    @pytest.mark.parametrize("degree", [1, 2])
    def test_a_noisy_polynomial_chooses_a_wide_bandwidth(self, degree):
        rng = np.random.default_rng(0)
        X = rng.normal(size=(300, 3))
        y = X[:, 0] + X[:, 1] ** degree + rng.normal(size=300)
        assert LocalPolynomialRegressor(degree, random_state=0).fit(X, y).multiple_ >= 2

    def test_degree_zero_smooths_noise_away(self):
        rng = np.random.default_rng(0)
        X, y = rng.normal(size=(200, 2)), rng.normal(size=200)
        model = LocalPolynomialRegressor(0, random_state=0).fit(X, y)
        assert np.ptp(model.predict(X)) < 0.5

    def test_the_seed_decides_the_folds(self):
        X, y = noisy(80)
        first, same, other = (LocalPolynomialRegressor(random_state=s).fit(X, y).cv_errors_ for s in (0, 0, 1))
        assert first == same != other

    def test_given_splits_refer_to_rows_including_zero_weights(self):
        X, y = noisy(60)
        groups, weight = np.arange(60) // 10, np.ones(60)
        weight[:5] = 0.0
        splits = list(GroupKFold(3).split(X, y, groups))
        model = LocalPolynomialRegressor(cv=splits).fit(X, y, sample_weight=weight)
        left = [(a[a >= 5] - 5, b[b >= 5] - 5) for a, b in splits]
        assert model.cv_errors_ == pytest.approx(LocalPolynomialRegressor(cv=left).fit(X[5:], y[5:]).cv_errors_)


class TestBadInput:
    @pytest.mark.parametrize(
        ("parameters", "message"),
        [
            ({"degree": -1}, "degree=-1 must be an integer"),
            ({"degree": 1.5}, "degree=1.5 must be an integer"),
            ({"degree": True}, "degree=True must be an integer"),
            ({"bandwidth": 0}, "c must be positive"),
            ({"bandwidth": np.nan}, "c must be positive"),
            ({"bandwidth": "wide"}, "bandwidth='wide' must be"),
            ({"bandwidth": [1.0]}, "array of 2 numbers"),
            ({"bandwidth": [1.0, -1.0]}, "must be positive"),
            ({"bandwidth": [1.0, 1e-12]}, "give larger bandwidths"),
            ({"ridge": 0.0}, "ridge=0.0 must be"),
            ({"ridge": "none"}, "ridge='none' must be"),
            ({"cv": 1}, "at least 2 folds"),
        ],
    )
    def test_errors_name_the_invalid_parameter(self, parameters, message):
        with pytest.raises(ValueError, match=message):
            LocalPolynomialRegressor(**parameters).fit(*noisy())

    def test_zero_or_negative_weights_are_refused(self):
        X, y = noisy()
        with pytest.raises(ValueError, match="zero"):
            LocalPolynomialRegressor().fit(X, y, sample_weight=np.zeros(len(X)))
        with pytest.raises(ValueError, match="Negative"):
            LocalPolynomialRegressor().fit(X, y, sample_weight=-np.ones(len(X)))
