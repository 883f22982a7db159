"""Monotone fits: proven everywhere in the box, the free fit where that is monotone, and the optimum of the program."""

import re
import sys

import naive
import numpy as np
import pandas as pd
import pytest
from conftest import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import cho_factor, cho_solve
from sklearn.model_selection import GroupKFold, RepeatedKFold, TimeSeriesSplit

import salsa
from salsa import AdditiveKernel, SalsaRegressor
from salsa.solvers import cutting_planes
from salsa.solvers.cutting_planes import FreeFit, MonotoneFits, nonnegative_program
from salsa.solvers.monotone import monotone_bytes
from salsa.solvers.ridge import solve_once
from salsa.solvers.slopes import Monotone, Proof, Slopes
from salsa.uncertainty.jackknife import ExactUncertainty


def logistic(z):
    return 1 / (1 + np.exp(-z))


#: Truths of five numbers in [-1, 1], and their signs
TRUTHS = {
    "step": (lambda X: logistic(12 * X[:, 0]) + 0.5 * np.sin(3 * X[:, 1]), [1, 0, 0, 0, 0]),
    "kink": (lambda X: np.maximum(X[:, 0], 0) * (1 + 0.5 * X[:, 1]) + X[:, 2] ** 2, [1, 0, 0, 0, 0]),
    "flat": (lambda X: np.sin(3 * X[:, 1]) * np.cos(2 * X[:, 2]), [1, 0, 0, -1, 0]),
    "plateau": (lambda X: np.clip(-3 * X[:, 0], -1, 1) + np.clip(2 * X[:, 3], -1, 0), [-1, 0, 0, 1, 0]),
    "pair": (lambda X: np.exp(X[:, 0]) * logistic(4 * X[:, 1]) + X[:, 2] * X[:, 4], [1, 1, 0, 0, 0]),
}


def simulated(name, n=150, noise=0.7, seed=0):
    f, sign = TRUTHS[name]
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, 5))
    return X, f(X) + noise * rng.normal(size=n), sign


def largest_decrease(model, X, sign, lines=200, seed=0, levels=()):
    """Return the largest step against the signs on random lines through the box, as a share of the range of f.

    Half of the lines go along one monotone feature, the others along all of them at once.
    """
    rng, sign = np.random.default_rng(seed), np.asarray(sign)
    low, high = np.nanmin(X, axis=0), np.nanmax(X, axis=0)
    rows = []
    for number in range(lines):
        start = np.where(
            np.isin(np.arange(len(low)), levels),
            rng.integers(np.floor(low), np.floor(high) + 1),
            rng.uniform(low, high),
        )
        moved = sign != 0 if number % 2 else np.arange(len(sign)) == rng.choice(np.flatnonzero(sign))
        along = np.where(sign > 0, low, high) + np.linspace(0, 1, 101)[:, None] * (high - low) * sign
        rows.append(np.where(moved, along, start))
    f = model.expansion_.predict(np.concatenate(rows)).reshape(lines, 101, -1)
    return float(-np.diff(f, axis=1).min() / np.ptp(f))


@pytest.mark.parametrize("name", TRUTHS)
def test_no_line_through_the_box_goes_the_wrong_way(name):
    X, y, sign = simulated(name)
    model = SalsaRegressor(monotonic_cst=sign).fit(X, y)
    assert largest_decrease(model, X, sign) <= 1e-8


@pytest.mark.parametrize("name", TRUTHS)
def test_free_fit_goes_the_wrong_way_and_the_monotone_one_does_not(name):
    X, y, sign = simulated(name, noise=1.0)
    options = {"relevance": "equal", "order": 2, "bandwidth": 8.0, "kernel": "matern52", "alpha": 0.1}
    free, model = (SalsaRegressor(**options, monotonic_cst=cst).fit(X, y) for cst in (None, sign))
    assert largest_decrease(free, X, sign) > 1e-3
    assert largest_decrease(model, X, sign) <= 1e-8
    assert any("hold the slopes back" in note for note in model.search_.notes)


@settings(max_examples=examples(12))
@given(st.integers(0, 10**6), st.sampled_from(sorted(TRUTHS)), st.floats(0.01, 3.0), st.integers(8, 60))
def test_random_tables_are_fitted_monotonically(seed, name, noise, n):
    X, y, _ = simulated(name, n, noise, seed)
    sign = np.random.default_rng(seed).choice([-1, 0, 1], 5)
    sign[0] = sign[0] or 1
    model = SalsaRegressor(relevance="equal", bandwidth=8.0, kernel="matern52", order=2, monotonic_cst=sign).fit(X, y)
    assert largest_decrease(model, X, sign, lines=60, seed=seed) <= 1e-8


def test_monotone_free_fit_is_kept_bit_for_bit():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (120, 3))
    y = 3 * X[:, 0] + np.sin(X[:, 1]) + 0.1 * rng.normal(size=120)
    options = {"relevance": "equal", "order": 2, "random_state": 0}
    free, kept = (SalsaRegressor(**options, monotonic_cst=cst).fit(X, y) for cst in (None, [1, 0, 0]))
    np.testing.assert_array_equal(kept.expansion_.coef, free.expansion_.coef)
    np.testing.assert_array_equal(kept.predict_interval(X), free.predict_interval(X))
    assert kept.alpha_ == free.alpha_
    assert isinstance(kept._fitted.uncertainty, ExactUncertainty)
    assert any("the free fit is monotone" in note for note in kept.search_.notes)


def test_zeros_mean_no_constraint():
    X, y, _ = simulated("step", 60)
    free, zeros = SalsaRegressor().fit(X, y), SalsaRegressor(monotonic_cst=[0] * 5).fit(X, y)
    np.testing.assert_array_equal(zeros.expansion_.coef, free.expansion_.coef)


@pytest.mark.parametrize("k", [1, 5, 20])
def test_program_satisfies_the_conditions_of_its_optimum(k):
    rng = np.random.default_rng(k)
    A, b = rng.normal(size=(k, k + 3)), rng.normal(size=k)
    A /= np.linalg.norm(A, axis=1, keepdims=True)
    Q = A @ A.T
    u = nonnegative_program(Q, b)
    gradient = Q @ u - b
    assert (u >= 0).all()
    assert gradient.min() >= -1e-6
    assert np.abs(u * gradient).max() <= 1e-6


def fitted_by_cuts(X, y, alpha, sign):
    """Return the kernel, the coefficients (n,) by cutting planes with all rows as anchors, and the fits."""
    kernel = AdditiveKernel(np.full(X.shape[1], 1.5), np.ones(X.shape[1]), [0, 1, 1], "matern52")
    coef, *_ = solve_once(kernel(X), y[:, None], alpha)
    L = np.linalg.cholesky(kernel(X) + 1e-12 * np.eye(len(X)))
    F = L - L.mean(axis=0)
    factor = cho_factor(F.T @ F + alpha * np.eye(len(X)))
    monotone = Monotone(np.array(sign), X.min(axis=0), X.max(axis=0), np.zeros(X.shape[1], dtype=int))
    fits = MonotoneFits(kernel, X, np.arange(len(X)), L, monotone)
    correction = fits.fitted(FreeFit(coef, lambda V: cho_solve(factor, V)), np.ptp(kernel(X) @ coef, axis=0))
    return kernel, correction, fits


def test_cutting_planes_reach_the_optimum_over_a_dense_grid():
    """The objective is that of a general optimiser with the slopes at all corners and points of a dense grid."""
    rng = np.random.default_rng(1)
    X, alpha = rng.uniform(-1, 1, (25, 2)), 0.1
    y = np.maximum(X[:, 0], 0) + 0.5 * rng.normal(size=25)
    kernel, correction, fits = fitted_by_cuts(X, y, alpha, [1, 0])
    assert correction.proven.all()
    assert (correction.d != 0).any()
    slopes, K = fits.slopes[0], kernel(X)
    t, s = np.meshgrid(slopes.grid(25), slopes.points(1, 25), indexing="ij")
    G = slopes.functionals(t.ravel(), s.reshape(-1, 1))
    least = cutting_planes.MARGIN * float(np.ptp(K @ solve_once(kernel(X), y[:, None], alpha)[0])) / slopes.span
    expected, b = naive.constrained_ridge(K, y, alpha, G, least)

    def objective(c, b):
        return float(np.sum((y - b - K @ c) ** 2) + alpha * c @ K @ c)

    c = correction.coef[:, 0]
    assert objective(c, float(np.mean(y - K @ c))) == pytest.approx(objective(expected, b), rel=1e-3)
    np.testing.assert_allclose(K @ c, K @ expected + (b - np.mean(y - K @ c)), atol=5e-3)


def test_correction_of_an_exact_fit_needs_few_anchors(monkeypatch):
    X, y, sign = simulated("kink", 200)
    options = {"relevance": "equal", "order": 2, "alpha": 0.05, "kernel": "matern52", "monotonic_cst": sign}
    all_rows = SalsaRegressor(**options).fit(X, y).predict(X)
    monkeypatch.setattr("salsa.solvers.monotone.BASIS", 60)
    fewer = SalsaRegressor(**options).fit(X, y)
    assert largest_decrease(fewer, X, sign) <= 1e-8
    np.testing.assert_allclose(fewer.predict(X), all_rows, atol=0.02 * np.ptp(all_rows))


def test_low_rank_fit_is_monotone_and_near_the_exact_one():
    X, y, sign = simulated("plateau", 400)
    options = {"relevance": "equal", "order": 2, "kernel": "matern52", "random_state": 0, "monotonic_cst": sign}
    low = SalsaRegressor(**options, solver="lowrank", rank=150).fit(X, y)
    exact = SalsaRegressor(**options).fit(X, y)
    assert len(low.expansion_.anchors) <= 150
    assert largest_decrease(low, X, sign) <= 1e-8
    np.testing.assert_allclose(low.predict(X), exact.predict(X), atol=0.1 * np.ptp(exact.predict(X)))
    low_, high = low.predict_interval(X).T
    assert 0.85 < np.mean((low_ <= y) & (y <= high)) < 0.97


def test_blocks_give_the_low_rank_fit():
    X, y, sign = simulated("step", 300)
    options = {"relevance": "equal", "order": 1, "solver": "lowrank", "rank": 60, "random_state": 0}
    model = SalsaRegressor(**options, monotonic_cst={"x0": 1})
    whole = model.fit(X, y).predict(X)
    blocks = SalsaRegressor(**options, monotonic_cst={"x0": 1})
    blocks.fit_blocks([(X[:100], y[:100]), (X[100:], y[100:])])
    assert largest_decrease(blocks, X, sign) <= 1e-8
    np.testing.assert_allclose(blocks.predict(X), whole, atol=1e-8)


def test_low_rank_free_fit_is_kept():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (200, 2))
    y = 3 * X[:, 0] + 0.1 * rng.normal(size=200)
    options = {"relevance": "equal", "order": 2, "solver": "lowrank", "rank": 50, "random_state": 0}
    free, kept = (SalsaRegressor(**options, monotonic_cst=cst).fit(X, y) for cst in (None, [1, 0]))
    np.testing.assert_array_equal(kept.expansion_.coef, free.expansion_.coef)


def test_monotone_for_every_level_and_for_missing_values():
    rng = np.random.default_rng(0)
    n = 200
    frame = pd.DataFrame({"a": rng.uniform(size=n), "c": rng.choice(list("xyz"), n), "b": rng.uniform(size=n)})
    y = np.where(frame["c"] == "x", 0.0, frame["a"] ** 4) + 0.5 * rng.normal(size=n)
    frame.loc[::7, "a"], frame.loc[::5, "b"], frame.loc[::9, "c"] = np.nan, np.nan, None
    model = SalsaRegressor(monotonic_cst={"a": 1}).fit(frame, y)
    a = np.linspace(frame["a"].min(), frame["a"].max(), 201)
    curves = [
        model.predict(pd.DataFrame({"a": a, "c": pd.Series([c] * 201, dtype=object), "b": [b] * 201}))
        for c in ("x", "y", "z", None)
        for b in (frame["b"].min(), 0.37, frame["b"].max(), np.nan)
    ]
    assert -np.diff(curves).min() <= 1e-8 * np.ptp(curves)


def test_terms_with_a_monotone_feature_have_at_most_order_two():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (200, 4))
    y = X[:, 0] * X[:, 1] * X[:, 2] + np.sign(X[:, 1] * X[:, 2] * X[:, 3]) + 0.1 * rng.normal(size=200)
    model = SalsaRegressor(monotonic_cst=[1, 0, 0, 0]).fit(X, y)
    products = [term for term in model.expansion_.kernel.terms if term.order > 2]
    assert products
    assert all(term.relevance[0] == 0 for term in products)
    assert largest_decrease(model, X, [1, 0, 0, 0]) <= 1e-8


@pytest.mark.parametrize("sets", [[{0, 2}, {1, 3, 4}], [{0, 1, 2}, {1, 2, 3, 4}], [[0], [1]], [{0, 2, 4}, {1, 3}]])
@pytest.mark.parametrize("options", [{}, {"relevance": "equal"}, {"interactions": "exact", "order": 2}])
def test_monotone_within_sets_of_features(sets, options):
    X, y, sign = simulated("pair", 120)
    model = SalsaRegressor(**options, random_state=0, monotonic_cst=sign, interaction_cst=sets).fit(X, y)
    assert largest_decrease(model, X, sign) <= 1e-8
    allowed = [set(S) for S in sets] + [set(range(5)).difference(*sets)]
    for term in model.expansion_.kernel.terms:
        features = set(np.flatnonzero(term.relevance))
        assert term.order == 1 or any(features <= S for S in allowed)
        assert term.order <= 2 or not features & {0, 1}


@pytest.mark.parametrize("sign", [[1, 1, 0], [1, -1, 1]])
def test_one_free_feature_or_none(sign):
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (120, 3))
    y = X[:, 0] + np.sign(X[:, 2]) + rng.normal(size=120)
    assert largest_decrease(SalsaRegressor(monotonic_cst=sign).fit(X, y), X, sign) <= 1e-8


def test_single_column():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (100, 1))
    assert largest_decrease(SalsaRegressor(monotonic_cst=[-1]).fit(X, rng.normal(size=100)), X, [-1]) <= 1e-8


@pytest.mark.parametrize(
    ("options", "fit"),
    [
        ({}, {"sample_weight": True}),
        ({"cv": 4}, {"groups": True}),
        ({"cv": GroupKFold(3)}, {"groups": True}),
        ({"cv": TimeSeriesSplit(3)}, {}),
        ({"alpha": 0.1}, {}),
        ({"alpha": [0.01, 1.0]}, {}),
        ({"interactions": "exact", "order": 2}, {}),
        ({"order": [1, 2], "relevance": "learned"}, {}),
        ({"target_transform": "log"}, {}),
        ({"kernel": "gaussian", "order": 2}, {}),
    ],
)
def test_monotone_with_every_way_to_weigh_and_to_judge(options, fit):
    X, y, sign = simulated("kink", 100)
    y = np.exp(y) if "target_transform" in options else y
    given = {"sample_weight": np.linspace(0.5, 3, 100), "groups": np.arange(100) // 4}
    model = SalsaRegressor(**{"relevance": "equal", "order": 2} | options, monotonic_cst=sign)
    model.fit(X, y, **{name: given[name] for name in fit})
    assert largest_decrease(model, X, sign) <= 1e-8
    assert np.isfinite(model.predict(X, return_std=True)[1]).all()
    low, high = model.predict_interval(X).T
    assert (low < high).all()
    assert model.alpha_ in (0.01, 0.1, 1.0) or options.get("alpha", "auto") == "auto"


def test_every_output_is_monotone():
    X, y, sign = simulated("kink", 100)
    options = {"relevance": "equal", "order": 2, "kernel": "matern52", "alpha": 0.1, "monotonic_cst": sign}
    model = SalsaRegressor(**options).fit(X, np.column_stack([y, -y + X[:, 0], np.ones(100)]))
    one = SalsaRegressor(**options).fit(X, y)
    assert largest_decrease(model, X, sign) <= 1e-8
    np.testing.assert_allclose(model.predict(X)[:, 0], one.predict(X), atol=1e-3 * np.ptp(y))
    np.testing.assert_allclose(model.predict(X)[:, 2], 1.0)


def test_alpha_is_chosen_by_the_error_of_monotone_fits():
    X, y, sign = simulated("flat", 150, noise=2.0)
    options = {"relevance": "equal", "order": 2, "kernel": "matern52", "random_state": 0}
    model = SalsaRegressor(**options, monotonic_cst=sign).fit(X, y)
    path = model.search_.results[-1].path
    assert model.alpha_ == path.alpha
    assert path.error <= path.errors.min() + 0.1 * path.standard_error * 1.1
    residual = model.leave_one_out()
    error = np.mean((residual.target - residual.prediction) ** 2) / y.var()
    assert error == pytest.approx(path.error, rel=1e-6)


def test_true_constraints_lower_the_error_where_noise_is_large():
    ratios = []
    for seed in range(4):
        X, y, sign = simulated("flat", 150, noise=1.5, seed=seed)
        X_new = np.random.default_rng(seed + 100).uniform(-1, 1, (1000, 5))
        options = {"relevance": "equal", "order": 2, "kernel": "matern52", "random_state": 0}
        free, monotone = (SalsaRegressor(**options, monotonic_cst=cst).fit(X, y) for cst in (None, sign))
        truth = TRUTHS["flat"][0](X_new)
        ratios.append(np.mean((monotone.predict(X_new) - truth) ** 2) / np.mean((free.predict(X_new) - truth) ** 2))
    assert np.exp(np.mean(np.log(ratios))) < 1


def test_intervals_hold_new_rows():
    rng = np.random.default_rng(0)
    X, y, sign = simulated("plateau", 300, noise=0.5)
    model = SalsaRegressor(relevance="equal", order=2, kernel="matern52", random_state=0, monotonic_cst=sign)
    model.fit(X, y)
    X_new = rng.uniform(-1, 1, (2000, 5))
    y_new = TRUTHS["plateau"][0](X_new) + 0.5 * rng.normal(size=2000)
    low, high = model.predict_interval(X_new, 0.9).T
    assert 0.86 < np.mean((low <= y_new) & (y_new <= high)) < 0.95


def test_model_file_keeps_the_fit_and_the_parameter(tmp_path):
    X, y, _ = simulated("step", 90)
    model = SalsaRegressor(monotonic_cst={"x0": 1, "x3": -1}).fit(X, y)
    model.save(tmp_path / "model.salsa")
    again = salsa.load(tmp_path / "model.salsa")
    assert again.monotonic_cst == {"x0": 1, "x3": -1}
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    np.testing.assert_array_equal(again.predict_interval(X), model.predict_interval(X))
    assert again.search_.notes == model.search_.notes


def test_function_without_a_proof_is_constant(monkeypatch):
    X, y, sign = simulated("kink", 90)
    monkeypatch.setattr(Slopes, "proof", lambda self, coef, least=0.0: Proof(False, self.grid(3)[:0], 5))
    for solver in ({}, {"solver": "lowrank", "rank": 40}):
        options = {"relevance": "equal", "order": 1, "kernel": "matern52", "random_state": 0}
        model = SalsaRegressor(**options, **solver, monotonic_cst=sign).fit(X, y)
        np.testing.assert_allclose(model.predict(X), y.mean(), rtol=1e-9)
        assert any("the function is constant" in note for note in model.search_.notes)


FRAME = pd.DataFrame({"price": np.arange(100.0), "town": list("ab") * 50})


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"monotonic_cst": {"prize": 1}}, ["there is no column 'prize'", "'price', 'town'"]),
        ({"monotonic_cst": {"town": 1}}, ["'town' holds categories", "give it 0"]),
        ({"monotonic_cst": {"price": 2}}, ["'price' has 2", "1 (increasing), -1 (decreasing) or 0"]),
        ({"monotonic_cst": {"price": True}}, ["'price' has True"]),
        ({"monotonic_cst": {"price": "up"}}, ["'price' has 'up'"]),
        ({"monotonic_cst": {"price": np.nan}}, ["'price' has nan"]),
        ({"monotonic_cst": [1]}, ["each of the 2 columns"]),
        ({"monotonic_cst": [[1, 0]]}, ["each of the 2 columns"]),
        ({"monotonic_cst": 1}, ["monotonic_cst=1", "each of the 2 columns"]),
        ({"monotonic_cst": "price"}, ["monotonic_cst='price'", "{'price': 1}"]),
        ({"monotonic_cst": [1, 1]}, ["'town' holds categories"]),
        ({"monotonic_cst": [0.5, 0]}, ["'price' has 0.5"]),
        ({"monotonic_cst": [1, 0], "kernel": "laplace"}, ["kernel='laplace'", "'matern52' or 'gaussian'"]),
        ({"monotonic_cst": [1, 0], "kernel": "matern32"}, ["kernel='matern32'"]),
        ({"monotonic_cst": [1, 0], "order": 3}, ["order=3", "at most order 2"]),
        ({"monotonic_cst": [1, 0], "solver": "pcg"}, ["solver='pcg'", "'auto', 'exact', 'lowrank'"]),
        ({"monotonic_cst": [1, 0], "solver": "divide"}, ["solver='divide'"]),
        ({"monotonic_cst": [1, 0], "rank": 5000}, ["rank=5000", "at most 3000"]),
        ({"monotonic_cst": [1, 0], "cv": RepeatedKFold(n_splits=2, n_repeats=2)}, ["test every row exactly once"]),
    ],
)
def test_errors_name_the_entry_and_the_way_out_before_any_work(options, words, monkeypatch):
    monkeypatch.setattr("salsa.fitting.make_plan", lambda *_: pytest.fail("work has begun"))
    with pytest.raises(ValueError, match=re.escape(words[0])) as caught:
        SalsaRegressor(**options).fit(FRAME, FRAME["price"])
    assert all(word in str(caught.value) for word in words), str(caught.value)


def test_ordered_category_may_be_monotone():
    size = pd.Categorical(np.array(["s", "m", "l"])[np.arange(90) % 3], categories=["s", "m", "l"], ordered=True)
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"size": size, "x": rng.uniform(size=90)})
    model = SalsaRegressor(monotonic_cst={"size": 1}).fit(frame, rng.normal(size=90))
    new = pd.DataFrame({"size": pd.Categorical(["s", "m", "l"], categories=["s", "m", "l"], ordered=True), "x": 0.5})
    assert (np.diff(model.predict(new)) >= 0).all()


def test_missing_solver_is_an_error_that_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "clarabel", None)
    monkeypatch.setattr("salsa.fitting.make_plan", lambda *_: pytest.fail("work has begun"))
    with pytest.raises(ImportError, match="pip install clarabel"):
        SalsaRegressor(monotonic_cst=[1, 0]).fit(FRAME, FRAME["price"])


def test_free_fits_do_not_need_the_solver(monkeypatch):
    monkeypatch.setitem(sys.modules, "clarabel", None)
    SalsaRegressor(relevance="equal", order=1).fit(FRAME, FRAME["price"])


@pytest.mark.parametrize(("n", "measured"), [(1000, 166), (2000, 231), (3000, 337)])
def test_estimate_of_memory_is_near_the_measured_peak(n, measured):
    """Peaks in MiB above the memory before the fit, of 5 features and the truth "pair"."""
    assert 1.0 <= monotone_bytes(n, 5, n, 5) / 2**20 / measured < 1.2
