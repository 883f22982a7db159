"""Tests of the functional ANOVA: effects add up and are orthogonal; variances and bands equal a brute-force twin."""

from collections import Counter
from itertools import combinations

import naive
import numpy as np
import pandas as pd
import pytest
from conftest import additive_truth, examples
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import make_friedman1
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import salsa
from salsa import SalsaRegressor, _core, explain
from salsa._utils import memory
from salsa.explain import anova, row_shares, variances
from salsa.fitted import fitted_of


def coarse(n=40, D=4, seed=0, values=5):
    """Return a table with few distinct values per column, whose grid can be enumerated, and a target."""
    rng = np.random.default_rng(seed)
    X = rng.integers(0, values, (n, D)) / 2 + rng.normal(size=D)
    return X, np.sin(2 * X[:, 0]) + X[:, 1] * X[:, -1] + X.prod(axis=1) / 4 + rng.normal(scale=0.1, size=n)


def fixed(X, y, order, relevance, kernel="gaussian", interactions="up_to", **options):
    model = SalsaRegressor(
        order=order, alpha=0.01, relevance=relevance, kernel=kernel, interactions=interactions, bandwidth=2.0, **options
    )
    return model.fit(X, y)


def equal():
    return fixed(*coarse(), 4, "equal")


def paper():
    return fixed(*coarse(), 3, "equal", interactions="exact")


def product():
    return fixed(*coarse(), 4, [2.0, 0.5, 1.0, 1.5], "matern52", interactions="exact")


def removed():
    return fixed(*coarse(D=5), 3, [2.0, 0.0, 1.0, 0.3, 0.0], "laplace")


def learned():
    X, y = coarse(n=120)
    return SalsaRegressor(random_state=0).fit(X, y)


def categories():
    X, y = coarse()
    table = pd.DataFrame(X, columns=list("abcd"))
    table["b"] = pd.Categorical(np.array(["u", "v", "w"])[np.arange(len(X)) % 3])
    return fixed(table, y + (table["b"] == "v") * table["a"], 3, "equal", "matern32")


def missing():
    X, y = coarse()
    X[np.random.default_rng(1).random(X.shape) < 0.2] = np.nan
    table = pd.DataFrame(X, columns=list("abcd"))
    level = np.where(table["c"] > table["c"].median(), "high", "low")
    table["c"] = pd.Categorical(np.where(table["c"].isna(), None, level))
    return fixed(table, y, 3, "equal")


MODELS = [equal, paper, product, removed, learned, categories, missing]


@pytest.fixture(scope="module", params=MODELS, ids=lambda make: make.__name__)
def case(request):
    """Return a model, its decomposition, the training marginals, and the effects by brute force on their grid."""
    model = request.param()
    marginals = [naive.marginal(x) for x in model.expansion_.anchors.T]
    effects = naive.functional_anova(lambda rows: model.expansion_.predict(rows)[:, 0], marginals)
    return model, explain.decompose(model), marginals, effects


class TestAgainstBruteForce:
    def test_every_effect_equals_brute_force(self, case):
        model, anova, marginals, effects = case
        for S, expected in effects.items():
            if S:
                found = anova.effect(*S, points=[values_of(model, j, marginals[j][0]) for j in S], band=False).values
                np.testing.assert_allclose(found.ravel(), expected.ravel(), atol=1e-10)
        assert anova.mean == pytest.approx(effects[()].item(), abs=1e-10)

    def test_effects_add_up_to_the_prediction(self, case):
        model, anova, *_ = case
        table = model_table(model)
        prediction = model.predict(table)
        sets = [S for S in naive.subsets(range(model.n_features_in_)) if S]
        total = anova.mean + sum(anova.evaluate(table, *S) for S in sets)
        np.testing.assert_allclose(total, prediction, atol=1e-9)
        orders = anova.evaluate_orders(table)
        np.testing.assert_allclose(orders.sum(axis=1), prediction, atol=1e-9)
        np.testing.assert_allclose(orders[:, 1], sum(anova.evaluate(table, j) for j in anova.features), atol=1e-9)

    def test_effects_are_centred_and_orthogonal(self, case):
        model, anova, marginals, effects = case
        shape = [len(points) for points, _ in marginals]
        found = {}
        for S in effects:
            if S:
                values = anova.effect(*S, points=[values_of(model, j, marginals[j][0]) for j in S], band=False).values
                place = [shape[j] if j in S else 1 for j in range(len(shape))]
                found[S] = values.reshape(place)
                for j in S:
                    assert np.abs(naive.mean_over(found[S], marginals, [j])).max() < 1e-10
        for S, T in combinations(found, 2):
            both = naive.mean_over(np.broadcast_to(found[S] * found[T], shape), marginals, range(len(shape)))
            assert abs(both.item()) < 1e-10

    def test_variances_equal_brute_force(self, case):
        _, anova, marginals, effects = case
        variance = {S: naive.variance_on_grid(effect, marginals) for S, effect in effects.items() if S}
        total, D = sum(variance.values()), len(marginals)
        assert anova.variance == pytest.approx(total, rel=1e-9)
        sobol, pairs = anova.sobol(), anova.interactions()
        np.testing.assert_allclose(sobol["first_order"], [variance[j,] / total for j in range(D)], atol=1e-10)
        concerning = [sum(v for S, v in variance.items() if j in S) / total for j in range(D)]
        np.testing.assert_allclose(sobol["total"], concerning, atol=1e-10)
        expected = [variance[S] / total for S in combinations(range(D), 2)]
        np.testing.assert_allclose(pairs["variance_share"], expected, atol=1e-10)
        by_order = [sum(v for S, v in variance.items() if len(S) == m) / total for m in range(1, anova.order + 1)]
        np.testing.assert_allclose(anova.orders()["variance_share"], by_order, atol=1e-10)
        for S in combinations(range(D), 3):
            assert anova.effect(*S, band=False).variance_share == pytest.approx(variance[S] / total, abs=1e-10)

    def test_shares_over_rows_equal_brute_force_and_sum_to_one(self, case):
        model, anova, marginals, effects = case
        X, D = model.expansion_.anchors, len(marginals)
        share = naive.shares_over_rows(effects, marginals, X, np.ones(len(X)))
        assert sum(share.values()) == pytest.approx(1.0, abs=1e-10)
        found = anova.importance().set_index("term")["share_over_rows"]
        for S in [*((j,) for j in range(D)), *combinations(range(D), 2)]:
            name = " × ".join(anova.features[j] for j in S)
            assert found.get(name, 0.0) == pytest.approx(share[S], abs=1e-10)
        split = [sum(value / len(S) for S, value in share.items() if j in S) for j in range(D)]
        np.testing.assert_allclose(anova.sobol()["share_over_rows"], split, atol=1e-10)
        assert anova.sobol()["share_over_rows"].sum() == pytest.approx(1.0, abs=1e-10)

    @pytest.mark.parametrize("size", [1, 2])
    def test_bands_equal_the_posterior_standard_deviation(self, case, size):
        model, anova, marginals, _ = case
        for S in list(combinations(range(model.n_features_in_), size))[:3]:
            effect = anova.effect(*S, points=[values_of(model, j, marginals[j][0]) for j in S])
            np.testing.assert_allclose(effect.sd.ravel(), naive_band(model, marginals, S), rtol=1e-5, atol=1e-7)


def test_bands_of_an_iterated_fit_refer_to_the_anchors_of_its_preconditioner():
    """The effect f_j is f minus its mean over the background of j."""
    X, y = additive_truth(300, 3)
    model = SalsaRegressor(1, alpha=1e-3, relevance="equal", solver="pcg", rank=50, random_state=0).fit(X, y)
    uncertainty, rows, points = fitted_of(model).uncertainty, X[:40], np.linspace(-1, 1, 7)
    assert len(uncertainty.sd_points) < len(model.expansion_.anchors)
    shown, background = np.zeros((len(points), 3)), np.zeros((len(rows), 3))
    shown[:, 1], background[:, 1] = points, rows[:, 1]
    K = model.expansion_.kernel
    k = K(shown, uncertainty.sd_points) - K(background, uncertainty.sd_points).mean(axis=0)
    prior = K.diagonal(shown) - 2 * K(shown, background).mean(axis=1) + K(background, background).mean()
    expected = uncertainty.posterior_sd(k, prior, constant=0.0)[:, 0]
    found = explain.decompose(model, rows).effect(1, points=[points]).sd
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def values_of(model, j, codes):
    """Return the labels of the codes of a category; return numbers unchanged."""
    levels = model.columns_.levels[j]
    return codes if levels is None else [None if np.isnan(code) else levels[int(code)] for code in codes]


def model_table(model):
    """Return the training table with labels instead of codes."""
    table = explain.decompose(model).subject.frame(model.expansion_.anchors)
    for name, is_category in zip(table, model.columns_.categorical, strict=True):
        if is_category:
            table[name] = pd.Categorical(table[name].replace("missing", None))
    return table if hasattr(model, "feature_names_in_") else table.to_numpy()


def naive_band(model, marginals, S):
    """Return the sd of an effect, a linear combination of f, from the posterior covariance of f on the whole grid."""
    kernel, X, coef, _ = model.expansion_.parts
    grid = naive.product_grid([points for points, _ in marginals])
    shape = [len(points) for points, _ in marginals]
    identity = np.eye(len(grid)).reshape(*shape, len(grid))
    more = [*marginals, (np.zeros(len(grid)), np.zeros(len(grid)))]  # the last axis is not averaged over
    outside = [j for j in range(len(shape)) if j not in S]
    rows = sum(
        (-1) ** (len(S) - len(T)) * naive.mean_over(identity, more, [j for j in S if j not in T] + outside)
        for T in naive.subsets(S)
    )
    kept = [shape[j] if j in S else 1 for j in range(len(shape))]
    B = np.broadcast_to(rows, [*kept, len(grid)]).reshape(-1, len(grid))
    C_inverse = np.linalg.inv(kernel(X) + model.alpha_ * np.eye(len(X)))
    u = C_inverse.sum(axis=1)
    y = kernel(X) @ coef[:, 0] + model.alpha_ * coef[:, 0]
    amplitude = (y - y.mean()) @ coef[:, 0] / (len(X) - 1)
    k = B @ kernel(grid, X)
    covariance = B @ kernel(grid) @ B.T - k @ C_inverse @ k.T + np.outer(k @ u, k @ u) / u.sum()
    return np.sqrt(np.maximum(amplitude * covariance.diagonal(), 0.0))


@pytest.mark.filterwarnings("ignore:.* far outside the range")
class TestBackground:
    def test_weights_of_the_background_equal_repeated_rows(self):
        model, rng = equal(), np.random.default_rng(3)
        rows, weight = rng.normal(size=(6, 4)), rng.integers(0, 3, 6).astype(float)
        anova = explain.decompose(model, rows, weight)
        repeated = explain.decompose(model, np.repeat(rows, weight.astype(int), axis=0))
        assert anova.mean == pytest.approx(repeated.mean, rel=1e-12)
        pd.testing.assert_frame_equal(anova.importance(), repeated.importance())
        marginals = [naive.marginal(x[weight > 0], weight[weight > 0]) for x in rows.T]
        effects = naive.functional_anova(model.predict, marginals)
        total = sum(naive.variance_on_grid(effect, marginals) for S, effect in effects.items() if S)
        assert anova.variance == pytest.approx(total, rel=1e-9)

    def test_weights_of_the_training_rows_equal_repeated_rows(self):
        X, y = additive_truth(n=40)
        weight = np.arange(40) % 3 + 1.0
        model = SalsaRegressor(order=2, alpha=0.1, relevance="equal", cv=[(np.arange(20), np.arange(20, 40))])
        weighted = model.fit(X, y, weight)
        assert len(weighted.expansion_.anchors) == 40  # given splits keep the rows apart
        once = explain.decompose(weighted).sobol()
        rows = np.repeat(np.arange(40), weight.astype(int))
        twin = SalsaRegressor(order=2, alpha=0.1, relevance="equal").fit(X[rows], y[rows])
        pd.testing.assert_frame_equal(once, explain.decompose(twin).sobol(), rtol=1e-6)

    def test_a_saved_and_loaded_model_has_equal_indices(self, tmp_path):
        X, y = additive_truth(n=40)
        model = SalsaRegressor(order=2, alpha=0.1, relevance="equal", cv=[(np.arange(20), np.arange(20, 40))])
        model.fit(X, y, np.arange(40) % 3 + 1.0).save(tmp_path / "m")
        pd.testing.assert_frame_equal(
            explain.decompose(model).sobol(), explain.decompose(salsa.load(tmp_path / "m")).sobol()
        )

    @pytest.mark.parametrize("draw", ["uniform", "standard_normal", "standard_cauchy", "lognormal"])
    def test_many_values_are_merged_for_variances_of_pairs_only(self, draw):
        rng = np.random.default_rng(0)
        X = np.clip(getattr(rng, draw)(size=(1500, 3)), -1000, 1000)
        model = SalsaRegressor(order=2, alpha=0.1, relevance="equal", bandwidth=5.0).fit(X, X[:, 0] * X[:, 1] + X[:, 2])
        anova, marginals = explain.decompose(model), [naive.marginal(x) for x in X[:, :2].T]
        assert len(anova._roots[0]) < 1500
        values = anova.effect(0, 1, points=[points for points, _ in marginals], band=False).values
        exact = naive.mean_over(values**2, marginals, [0, 1]).item() / anova.variance
        assert anova.interactions()["variance_share"][0] == pytest.approx(exact, rel=2e-3)
        assert abs(naive.mean_over(values, marginals, [0]).max()) < 1e-9 * np.abs(values).max()


def linear(X, coefficients, **options):
    """Return a model of order 1 that is nearly linear: its base kernels are much wider than the data."""
    options = {"order": 1, "alpha": 1e-7, "relevance": "equal", "bandwidth": 30.0, **options}
    return SalsaRegressor(**options).fit(X, X @ coefficients)


def correlated(n, correlation, seed=0):
    """Return two columns of mean 0 and variance 1 with exactly this correlation."""
    white = np.linalg.qr(np.c_[np.ones(n), np.random.default_rng(seed).normal(size=(n, 2))])[0][:, 1:] * np.sqrt(n)
    return white @ np.linalg.cholesky([[1.0, correlation], [correlation, 1.0]]).T


class TestSharesOverRows:
    def test_shares_of_a_full_grid_equal_the_sobol_indices(self):
        """Features of a full grid are independent: a total index is the sum of the shares of its effects."""
        X = naive.product_grid([np.array([-1.0, 0.5, 2.0]), np.array([0.0, 1.0]), np.array([-2.0, 0.0, 1.0, 3.0])])
        anova = explain.decompose(fixed(X, np.sin(X[:, 0]) + X[:, 1] * X[:, 2] + X.prod(axis=1), 2, "equal"))
        importance = anova.importance()
        np.testing.assert_allclose(importance["share_over_rows"], importance["variance_share"], atol=1e-10)
        sobol = anova.sobol()
        middle = (sobol["first_order"] + sobol["total"]) / 2  # pairs are split equally
        np.testing.assert_allclose(sobol["share_over_rows"], middle, atol=1e-10)

    @pytest.mark.parametrize("correlation", [-0.7, 0.0, 0.5, 0.9])
    def test_a_linear_function_of_correlated_features_has_the_known_shares(self, correlation):
        """f = a x + b z with unit variances: Cov(a x, f) / Var f = (a^2 + a b c) / (a^2 + b^2 + 2 a b c)."""
        a, b = 2.0, 1.0
        X = correlated(200, correlation)
        found = explain.decompose(linear(X, [a, b])).sobol()
        both = a * b * correlation
        expected = (a**2 + both) / (a**2 + b**2 + 2 * both)
        np.testing.assert_allclose(found["share_over_rows"], [expected, 1 - expected], atol=2e-3)
        np.testing.assert_allclose(found["total"], [0.8, 0.2], atol=2e-3)

    def test_an_effect_that_offsets_another_has_a_negative_share(self):
        """f = 2 x - z with correlation 0.9: the shares are 2.2 / 1.4 and -0.8 / 1.4."""
        importance = explain.decompose(linear(correlated(200, 0.9), [2.0, -1.0])).importance().set_index("term")
        shares = importance["share_over_rows"]
        np.testing.assert_allclose(shares[["x0", "x1"]], [2.2 / 1.4, -0.8 / 1.4], atol=5e-3)

    def test_a_background_table_and_given_rows_are_the_rows(self):
        model = linear(correlated(200, 0.0), [2.0, 1.0])
        new = correlated(100, 0.8, seed=1)
        expected = np.array([5.6, 2.6]) / 8.2
        for found in (explain.decompose(model, new), explain.decompose(model, rows=new)):
            np.testing.assert_allclose(found.sobol()["share_over_rows"], expected, atol=5e-3)
        both = explain.decompose(model, correlated(50, 0.3), rows=new)
        np.testing.assert_allclose(both.sobol()["share_over_rows"], expected, atol=5e-3)
        twice, weight = np.r_[new, -new], np.repeat([1.0, 0.0], 100)
        weighted = explain.decompose(model, twice, weight).sobol()
        pd.testing.assert_frame_equal(weighted, explain.decompose(model, new).sobol())

    def test_low_rank_models_have_shares_over_given_rows_only(self):
        X, y = additive_truth(n=200)
        model = SalsaRegressor(order=2, alpha=0.1, relevance="equal", solver="lowrank", rank=40).fit(X, y)
        anova = explain.decompose(model)
        assert anova.rows is None
        assert anova.sobol()["share_over_rows"].isna().all()
        assert anova.importance()["share_over_rows"].isna().all()
        known = explain.decompose(model, rows=X)
        assert known.sobol()["share_over_rows"].sum() == pytest.approx(1.0)
        assert known.importance()["share_over_rows"].sum() == pytest.approx(1.0)
        pd.testing.assert_frame_equal(known.sobol().iloc[:, :3], anova.sobol().iloc[:, :3])

    @pytest.mark.parametrize("solver", ["pcg", "divide", "features"])
    def test_other_solvers_use_their_training_rows_if_they_keep_them(self, solver):
        X, y = additive_truth(n=200)
        options = {"order": 2, "alpha": 0.1, "relevance": "equal", "solver": solver, "rank": 100}
        rows = explain.decompose(SalsaRegressor(**options, random_state=0).fit(X, y)).rows
        assert (rows is None) == (solver == "features")
        if rows is not None:
            np.testing.assert_array_equal(np.sort(rows.X, axis=0), np.sort(X, axis=0))

    def test_many_rows_are_drawn_with_a_fixed_seed(self, monkeypatch):
        monkeypatch.setattr(row_shares, "MOST_ROWS", 150)
        X = correlated(400, 0.5)
        model = linear(X, [2.0, 1.0])
        once, again = explain.decompose(model), explain.decompose(model)
        assert len(once.rows.X) == 150
        assert once.rows.weight.sum() == pytest.approx(1.0)
        pd.testing.assert_frame_equal(once.importance(), again.importance())
        np.testing.assert_allclose(once.sobol()["share_over_rows"], [5 / 7, 2 / 7], atol=0.05)
        assert once.sobol()["share_over_rows"].sum() == pytest.approx(1.0)

    def test_shares_do_not_depend_on_the_block_of_anchors(self, monkeypatch):
        model = equal()
        whole = explain.decompose(model).importance()
        monkeypatch.setattr(memory, "BLOCK_NUMBERS", 700)
        parts = explain.decompose(model).importance()
        np.testing.assert_allclose(parts["share_over_rows"], whole["share_over_rows"], atol=1e-12)


class TestKnownFunctions:
    """Sobol indices of models of 1000 rows agree with the known indices for uniform features.

    With the training table as background the tolerance is 0.03, because 1000 draws are not exactly uniform.
    """

    def test_ishigami_indices_are_recovered(self):
        X = np.random.default_rng(0).uniform(-np.pi, np.pi, (600, 3))
        y = np.sin(X[:, 0]) + 7 * np.sin(X[:, 1]) ** 2 + 0.1 * X[:, 2] ** 4 * np.sin(X[:, 0])
        model = SalsaRegressor(random_state=0).fit(X, y)
        first, total = [0.3139, 0.4424, 0.0], [0.5576, 0.4424, 0.2437]
        check_indices(explain.decompose(model, uniform(-np.pi, np.pi, 3)).sobol(), first, total, atol=0.001)
        check_indices(explain.decompose(model).sobol(), first, total, atol=0.03)

    def test_friedman_indices_are_recovered(self):
        X, y = make_friedman1(1000, n_features=10, noise=1.0, random_state=0)
        model = SalsaRegressor(random_state=0).fit(X, y)
        check_indices(explain.decompose(model, uniform(0, 1, 10)).sobol(), *friedman_indices(), atol=0.02)
        check_indices(explain.decompose(model).sobol(), *friedman_indices(), atol=0.03)


def uniform(low, high, D, n=400):
    return np.tile(low + (high - low) * (np.arange(n)[:, None] + 0.5) / n, D)


def check_indices(sobol, first, total, atol):
    np.testing.assert_allclose(sobol["first_order"], first, atol=atol)
    np.testing.assert_allclose(sobol["total"], total, atol=atol)


def friedman_indices():
    """Return the indices of 10 sin(pi x1 x2) + 20 (x3 - 1/2)^2 + 10 x4 + 5 x5 on the unit cube, by quadrature."""
    nodes, weights = np.polynomial.legendre.leggauss(60)
    t, w = (nodes + 1) / 2, weights / 2
    f = 10 * np.sin(np.pi * np.outer(t, t))
    mean, main = w @ f @ w, w @ (f @ w) ** 2
    pair = w @ f**2 @ w
    main, whole = main - mean**2, pair - mean**2
    others = np.array([400 / 180, 100 / 12, 25 / 12])
    variance = whole + others.sum()
    zeros = np.zeros(5)
    return np.r_[main, main, others, zeros] / variance, np.r_[whole - main, whole - main, others, zeros] / variance


class TestRounding:
    def test_a_background_of_one_row_has_no_variance(self):
        X, y = additive_truth(n=60)
        model = SalsaRegressor(order=3, alpha=1e-10, relevance="equal").fit(X, y)
        assert (explain.decompose(model, X[:1]).sobol().iloc[:, 1:].to_numpy() == 0).all()

    @pytest.mark.parametrize("unit", [1e-170, 1e-9, 1e12, 1e100])
    def test_shares_do_not_depend_on_the_unit_of_the_target(self, unit):
        X, y = additive_truth(n=60)
        model = SalsaRegressor(order=3, alpha=0.1, relevance="equal")
        once = explain.decompose(model.fit(X, y)).sobol()
        pd.testing.assert_frame_equal(explain.decompose(model.fit(X, unit * y)).sobol(), once, rtol=1e-6)

    def test_constant_and_empty_columns_have_no_share(self):
        X, y = additive_truth(n=60)
        table = np.column_stack([X, np.ones(60), np.full(60, np.nan)])
        model = SalsaRegressor(order=2, alpha=0.1, relevance="equal").fit(table, y)
        assert (explain.decompose(model).sobol().iloc[6:, 1:].to_numpy() == 0).all()

    def test_shares_lost_to_rounding_give_a_warning(self):
        """The rounding errors of coefficients of 1e13 exceed the variances of the orders 3 and more."""
        X = np.random.default_rng(0).uniform(-np.pi, np.pi, (300, 3))
        y = np.sin(X[:, 0]) + 7 * np.sin(X[:, 1]) ** 2 + 0.1 * X[:, 2] ** 4 * np.sin(X[:, 0])
        model = SalsaRegressor(order=3, alpha=1e-13, relevance="equal").fit(X, y)
        with pytest.warns(UserWarning, match="lost to rounding"):
            explain.decompose(model).orders()


class TestCost:
    """Quick questions are answered without the work that only other questions need."""

    @pytest.fixture
    def calls(self, monkeypatch):
        """Count the calls of the functions that compute variances of interactions."""
        counts = Counter()

        def counted(module, name):
            original = getattr(module, name)

            def function(*arguments):
                counts[name] += 1
                return original(*arguments)

            monkeypatch.setattr(module, name, function)

        counted(anova, "variance_roots")
        counted(variances, "_pair_variances")
        counted(variances, "_higher_variances")
        return counts

    def test_effects_compute_no_variances_of_interactions_until_the_share_is_read(self, calls):
        found = explain.decompose(equal())
        effect, pair = found.effect(0), found.effect(0, 1)
        effect.frame()
        assert not calls
        assert effect.variance_share == found.sobol()["first_order"][0]
        assert pair.variance_share == found.interactions()["variance_share"][0]
        assert calls == {"variance_roots": 1, "_pair_variances": 1, "_higher_variances": 1}

    def test_a_model_of_order_1_factorises_no_feature(self, calls):
        found = explain.decompose(fixed(*coarse(), 1, "equal"))
        assert found.sobol()["first_order"].sum() == pytest.approx(1.0, abs=1e-12)
        assert found.effect(0, 1, 2).variance_share == 0.0
        assert not calls["variance_roots"]


class TestTables:
    def test_tables_have_fixed_columns_and_importance_is_sorted(self):
        anova = explain.decompose(learned())
        importance = anova.importance()
        assert list(importance.columns) == ["term", "order", "variance_share", "share_over_rows"]
        assert importance["variance_share"].is_monotonic_decreasing
        assert list(anova.sobol().columns) == ["feature", "first_order", "total", "share_over_rows"]
        assert list(anova.sobol()["feature"]) == ["x0", "x1", "x2", "x3"]
        assert len(anova.interactions()) == 6
        assert anova.orders()["variance_share"].sum() == pytest.approx(1.0)

    def test_axes_of_effects_end_with_the_missing_value(self):
        anova = explain.decompose(missing())
        effect = anova.effect("c")
        assert effect.axes[0].labels == ("high", "low", "missing")
        assert list(effect.frame()["c"]) == ["high", "low", "missing"]
        curve = anova.effect("a")
        assert curve.axes[0].labels is None
        assert np.isnan(curve.axes[0].points).tolist() == [False] * 5 + [True]  # the grid holds all five values
        surface = anova.effect("a", "c")
        assert surface.values.shape == (6, 3) == surface.sd.shape
        assert list(surface.frame().columns) == ["a", "c", "effect", "sd"]

    def test_a_surface_shows_the_60_most_frequent_levels(self):
        rng = np.random.default_rng(0)
        table = pd.DataFrame({"a": rng.normal(size=300), "b": [f"level {k}" for k in rng.zipf(1.3, 300) % 200]})
        anova = explain.decompose(fixed(table, rng.normal(size=300), 2, "equal"))
        levels = table["b"].value_counts()
        assert len(anova.effect("b", band=False).axes[0].points) == len(levels) > 60
        shown = anova.effect("a", "b", band=False).axes[1].labels
        assert len(shown) == 60
        assert levels[list(shown)].min() >= levels.drop(list(shown)).max()

    def test_reprs_are_shorter_than_120_letters(self):
        anova = explain.decompose(categories())
        texts = [repr(anova), repr(anova.effect("a")), repr(anova.effect("a").axes[0]), repr(anova.subject)]
        assert all(len(text) < 120 for text in texts), texts

    def test_constant_target_has_no_variance_shares(self):
        X, _ = additive_truth(n=30)
        anova = explain.decompose(SalsaRegressor(order=2, alpha=0.1, relevance="equal").fit(X, np.full(30, 3.0)))
        assert anova.mean == pytest.approx(3.0)
        assert (anova.sobol().iloc[:, 1:].to_numpy() == 0).all()  # rounding errors get no share

    def test_zero_relevances_give_zero_effects_and_the_mean(self):
        X, y = additive_truth(n=30)
        anova = explain.decompose(SalsaRegressor(order=2, alpha=0.1, relevance=np.zeros(6)).fit(X, y))
        assert anova.variance == 0
        assert (anova.sobol().iloc[:, 1:].to_numpy() == 0).all()
        assert (anova.importance()[["variance_share", "share_over_rows"]].to_numpy() == 0).all()
        assert (anova.effect("x0").values == 0).all()
        np.testing.assert_allclose(anova.evaluate_orders(X).sum(axis=1), y.mean())

    def test_a_single_feature_has_the_total_share_1(self):
        X, y = additive_truth(n=30)
        anova = explain.decompose(SalsaRegressor(random_state=0).fit(X[:, :1], y))
        assert anova.sobol()["total"].tolist() == [pytest.approx(1.0)]
        assert anova.interactions().empty

    def test_each_output_equals_a_model_of_this_output_alone(self):
        X, y = additive_truth(n=60)
        model = SalsaRegressor(order=3, alpha=0.1, relevance="equal").fit(X, np.column_stack([y, X[:, 5] ** 2]))
        for output, target in enumerate([y, X[:, 5] ** 2]):
            alone = SalsaRegressor(order=3, alpha=0.1, relevance="equal").fit(X, target)
            found = explain.decompose(model, output=output)
            pd.testing.assert_frame_equal(found.sobol(), explain.decompose(alone).sobol(), rtol=1e-6)
            sd = explain.decompose(alone).effect("x5").sd
            np.testing.assert_allclose(found.effect("x5").sd, sd, rtol=1e-6)


class TestErrors:
    def test_invalid_arguments_raise_errors_with_the_way_out(self):
        X, y = additive_truth(n=30)
        model = SalsaRegressor(order=1, alpha=1.0).fit(X, y)
        anova = explain.decompose(model)
        with pytest.raises(ValueError, match="did you mean 'x1'"):
            anova.effect("x11")
        with pytest.raises(ValueError, match="from 0 to 5"):
            anova.effect(6)
        with pytest.raises(ValueError, match="all different"):
            anova.effect("x1", 1)
        with pytest.raises(ValueError, match="all different"):
            anova.effect()
        with pytest.raises(ValueError, match="one list"):
            anova.effect("x1", points=[[1.0], [2.0]])
        for output in (1, -1, "price"):
            with pytest.raises(ValueError, match="numbered from 0"):
                explain.decompose(model, output=output)
        for feature in (1.5, True, ["x0", "x1"]):
            with pytest.raises(ValueError, match="one after the other"):
                anova.effect(feature)
        for points in ([5], [5.0], [["a"]], [[[1.0]]]):
            with pytest.raises(ValueError, match="list"):
                anova.effect("x1", points=points)
        with pytest.raises(ValueError, match="has no level 'Rome'; it has 'u', 'v', 'w'"):
            explain.decompose(categories()).effect("b", points=[["Rome"]])
        with pytest.raises(ValueError, match="1D array"):
            explain.decompose(model, X[0])
        with pytest.raises(ValueError, match="give both"):
            explain.decompose(model, sample_weight=np.ones(30))
        with pytest.raises(ValueError, match="at least one non-zero"):
            explain.decompose(model, X, np.zeros(30))
        with pytest.raises(ValueError, match="features"):
            explain.decompose(model, X[:, :2])
        with pytest.raises(NotFittedError):
            explain.decompose(SalsaRegressor())
        with pytest.raises(TypeError, match="the last step of a pipeline"):
            explain.decompose(make_pipeline(StandardScaler(), model))


class TestCompiled:
    @pytest.mark.parametrize("simd", _core.simd_levels())
    @settings(max_examples=examples(25))
    @given(st.data())
    def test_covariances_equal_the_sum_over_sets(self, simd, data):
        """The naive sum runs over every pair of rows and every set of three or more features."""
        D = data.draw(st.integers(3, 6), "D")
        d, n = data.draw(st.integers(3, D), "d"), data.draw(st.integers(1, 40), "n")
        rng = np.random.default_rng(data.draw(st.integers(0, 99), "seed"))
        means, half = rng.random((D, n)), rng.normal(size=(D, 3, n))
        products, coef, weights = half.transpose(0, 2, 1) @ half, rng.normal(size=n), rng.random(d + 1)
        weights[: data.draw(st.integers(0, d), "lowest")] = 0.0
        first = data.draw(st.integers(0, n - 1), "first")
        rows = _core.covariances(np.ascontiguousarray(products[:, first:]), means, coef, weights, 2, simd)
        expected = np.zeros((n, d - 2 + D))
        for S in naive.subsets(range(D)):
            if 3 <= len(S) <= d:
                others = np.delete(means, S, axis=0)
                r = sum(weights[m] * naive.elementary_symmetric(others, m - len(S)) for m in range(len(S), d + 1))
                pairs = np.prod(products[list(S)], axis=0) * np.outer(r, r) * coef
                part = np.tril(pairs, -1).sum(axis=1) * 2 + pairs.diagonal()
                expected[:, [len(S) - 3, *(d - 2 + j for j in S)]] += part[:, None]
        np.testing.assert_allclose(rows, expected[first:], rtol=1e-9, atol=1e-9 * np.abs(expected).max(initial=1e-300))

    def test_results_are_bit_identical_for_any_number_of_threads(self):
        rng = np.random.default_rng(0)
        half = rng.normal(size=(5, 3, 100))
        arguments = (half.transpose(0, 2, 1) @ half, rng.random((5, 100)), rng.normal(size=100), rng.random(5))
        np.testing.assert_array_equal(_core.covariances(*arguments, 1), _core.covariances(*arguments, 2))

    def test_wrong_shapes_raise_errors(self):
        good = {"products": np.ones((3, 2, 4)), "means": np.ones((3, 5)), "coef": np.ones(5), "weights": np.ones(4)}
        _core.covariances(**good)
        for name, bad in [
            ("weights", np.ones(3)),
            ("weights", np.ones(5)),
            ("means", np.ones((2, 5))),
            ("coef", np.ones(3)),
            ("products", np.ones((3, 5, 4))),
        ]:
            with pytest.raises(ValueError, match=":"):
                _core.covariances(**{**good, name: bad})
        with pytest.raises(ValueError, match="n_threads"):
            _core.covariances(**good, n_threads=0)
