"""Monotone fits of classes, counts, amounts, quantiles and centres: proven in the box, and at the optimum."""

import re

import naive
import numpy as np
import pandas as pd
import pytest
from conftest import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.model_selection import KFold, TimeSeriesSplit

import salsa
from salsa import AdditiveKernel, SalsaClassifier, SalsaRegressor
from salsa.losses import Gamma, Huber, Logistic, Poisson, Quantile
from salsa.solvers import constrained, cutting_planes
from salsa.solvers.constrained import PenalisedLoss, minimise
from salsa.solvers.cutting_planes import MonotoneFits
from salsa.solvers.slopes import Monotone, Proof, Slopes
from solvers.test_monotone import TRUTHS, largest_decrease

LOSSES = {
    "log_loss": {},
    "poisson": {"loss": "poisson"},
    "gamma": {"loss": "gamma"},
    "huber": {"loss": "huber"},
    "quantile": {"loss": "quantile", "quantile": 0.8},
}
every_loss = pytest.mark.parametrize("loss", LOSSES)
EQUAL = {"relevance": "equal", "order": 2, "kernel": "matern52", "bandwidth": 8.0, "random_state": 0}


def estimator(loss, **options):
    return (SalsaClassifier if loss == "log_loss" else SalsaRegressor)(**LOSSES[loss], **options)


def targets(loss, f, rng):
    """Return targets for a function f (n,) on the scale of the link."""
    drawn = {
        "log_loss": lambda: (rng.random(len(f)) < 1 / (1 + np.exp(-1.5 * f))).astype(int),
        "poisson": lambda: rng.poisson(np.exp(0.7 * f + 0.5)),
        "gamma": lambda: rng.gamma(2.0, np.exp(f) / 2.0),
    }
    return drawn[loss]() if loss in drawn else f + 0.7 * rng.standard_t(3, len(f))


def simulated(loss, name="kink", n=120, seed=0):
    truth, sign = TRUTHS[name]
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, 5))
    f = truth(X)
    return X, targets(loss, (f - f.mean()) / f.std(), rng), sign


@every_loss
@pytest.mark.parametrize("name", ["kink", "plateau"])
def test_no_line_through_the_box_goes_the_wrong_way(loss, name):
    X, y, sign = simulated(loss, name)
    assert largest_decrease(estimator(loss, monotonic_cst=sign).fit(X, y), X, sign) <= 1e-8


@every_loss
def test_free_fit_goes_the_wrong_way_and_the_monotone_one_does_not(loss):
    X, y, sign = simulated(loss, "pair", seed=1)
    free, model = (estimator(loss, alpha=0.05, **EQUAL, monotonic_cst=cst).fit(X, y) for cst in (None, sign))
    assert largest_decrease(free, X, sign) > 1e-3
    assert largest_decrease(model, X, sign) <= 1e-8
    assert any("hold the slopes back" in note for note in model.search_.notes)


@settings(max_examples=examples(8))
@given(st.integers(0, 10**6), st.sampled_from(sorted(LOSSES)), st.sampled_from(sorted(TRUTHS)), st.integers(20, 50))
def test_random_tables_are_fitted_monotonically(seed, loss, name, n):
    X, y, _ = simulated(loss, name, n, seed)
    sign = np.random.default_rng(seed).choice([-1, 0, 1], 5)
    sign[0] = sign[0] or 1
    y = np.arange(n) % 2 if loss == "log_loss" and len(np.unique(y)) < 2 else y
    model = estimator(loss, **EQUAL | {"order": [1, 2]}, monotonic_cst=sign).fit(X, y)
    assert largest_decrease(model, X, sign, lines=60, seed=seed) <= 1e-8


TWINS = {
    "log_loss": Logistic(),
    "poisson": Poisson(),
    "gamma": Gamma(),
    "huber": Huber(0.5),
    "quantile": Quantile(0.7, 0.2),
}


@every_loss
def test_sequence_of_programs_reaches_the_optimum_over_a_dense_grid(loss):
    """The twin is a general optimiser with the slopes at all points of a dense grid of the box."""
    rng, alpha, kind = np.random.default_rng(1), 0.1, TWINS[loss]
    X = rng.uniform(-1, 1, (40, 2))
    Y = targets(loss, 2 * np.maximum(X[:, 0], 0), rng)[:, None].astype(float)
    kernel = AdditiveKernel(np.full(2, 1.5), np.ones(2), [0, 1, 1], "matern52")
    K = kernel(X)
    L = np.linalg.cholesky(K + 1e-12 * np.eye(40))
    fits = MonotoneFits(
        kernel, X, np.arange(40), L, Monotone(np.array([1, 0]), X.min(axis=0), X.max(axis=0), np.zeros(2, dtype=int))
    )
    J = PenalisedLoss(kind, L, Y, np.ones(40), alpha, 0.0, 0.0)
    start, span = J.function(np.zeros(40), 0.0), np.array([2.0])
    found = minimise(J, L, lambda free: fits.fitted(free, span), start, 1e-9)
    assert found.converged
    assert found.correction.proven.all()
    assert (found.correction.d != 0).any()
    slopes = fits.slopes[0]
    t, s = np.meshgrid(slopes.grid(25), slopes.points(1, 25), indexing="ij")
    G = slopes.functionals(t.ravel(), s.reshape(-1, 1))
    expected = naive.constrained_penalised_fit(
        K,
        lambda f: kind.value(Y, f[:, None]),
        lambda f: kind.slope(Y, f[:, None])[:, 0],
        alpha,
        G,
        cutting_planes.MARGIN * 2.0 / slopes.span,
    )
    np.testing.assert_allclose(found.function.f, expected, atol=1e-2 * np.ptp(expected))


@every_loss
def test_monotone_free_fit_is_kept_bit_for_bit(loss):
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (150, 3))
    y = targets(loss, 3 * X[:, 0], rng)
    options = {"relevance": "equal", "order": 1, "random_state": 0}
    free, kept = (estimator(loss, **options, monotonic_cst=cst).fit(X, y) for cst in (None, [1, 0, 0]))
    np.testing.assert_array_equal(kept.expansion_.coef, free.expansion_.coef)
    np.testing.assert_array_equal(kept.expansion_.offset, free.expansion_.offset)
    assert kept.alpha_ == free.alpha_
    assert any("the free fit is monotone" in note for note in kept.search_.notes)


@pytest.mark.parametrize("loss", ["log_loss", "poisson"])
def test_alpha_has_the_least_held_out_loss_of_monotone_fits(loss):
    X, y, sign = simulated(loss, "flat")
    model = estimator(loss, **EQUAL, monotonic_cst=sign).fit(X, y)
    path, scored = model.search_.results[-1].path, model._fitted.uncertainty
    assert model.alpha_ == path.alpha
    assert path.error <= path.errors.min() + 0.11 * path.standard_error
    if loss == "poisson":  # probabilities are calibrated after alpha is chosen
        losses = scored.loss.judge(scored.target[scored.held_out.row], scored.held_out.f)
        null = scored.loss.judge(scored.target, np.full_like(scored.target, np.log(y.mean())))
        assert losses.mean() / null.mean() == pytest.approx(path.error, rel=1e-6)


def test_held_out_predictions_are_near_monotone_refits_and_not_near_free_ones():
    """Refits have fewer anchors for their corrections; the edges of the box have rows in every fold."""
    X, y, sign = simulated("gamma", "pair", n=90)
    X, splits = np.clip(X, -0.8, 0.8), list(KFold(3).split(X))
    fixed = EQUAL | {"bandwidth": np.full(5, 1.0), "alpha": 0.5}
    found = estimator("gamma", **fixed, cv=splits, monotonic_cst=sign).fit(X, y).leave_one_out()
    held_out = np.empty(90)
    held_out[np.argsort(y)] = np.log(found.prediction[np.argsort(found.target[:, 0]), 0])

    def distance(cst):
        refitted = np.empty(90)
        for train, test in splits:
            refitted[test] = estimator("gamma", **fixed, monotonic_cst=cst).fit(X[train], y[train]).predict(X[test])
        return np.abs(np.log(refitted) - held_out).mean()

    assert distance(sign) < 0.5 * distance(None)


def test_true_constraints_lower_the_log_loss_of_few_rows():
    gains = []
    for seed in range(4):
        X, y, sign = simulated("log_loss", "plateau", n=80, seed=seed)
        X_new, y_new, _ = simulated("log_loss", "plateau", n=2000, seed=seed + 100)
        free, monotone = (estimator("log_loss", **EQUAL, monotonic_cst=cst).fit(X, y) for cst in (None, sign))
        gains.append([np.log(one.predict_proba(X_new)[np.arange(2000), y_new]).mean() for one in (free, monotone)])
    free, monotone = np.mean(gains, axis=0)
    assert monotone >= free - 1e-3


@pytest.mark.parametrize(
    ("options", "fit"),
    [
        ({}, {"sample_weight"}),
        ({"cv": 4}, {"groups"}),
        ({"cv": TimeSeriesSplit(3)}, set()),
        ({"alpha": [0.01, 1.0]}, set()),
        ({"solver": "lowrank", "rank": 40}, set()),
        ({"interactions": "exact"}, set()),
        ({"kernel": "gaussian"}, set()),
        ({"interaction_cst": [{0, 1}, {2, 3, 4}]}, set()),
        ({"interaction_cst": "no_interactions", "order": 1}, set()),
    ],
)
@pytest.mark.parametrize("loss", ["log_loss", "poisson", "quantile"])
def test_monotone_with_every_way_to_weigh_and_to_judge(loss, options, fit):
    X, y, sign = simulated(loss, n=90)
    given_ = {"sample_weight": np.linspace(0.5, 3, 90), "groups": np.arange(90) // 3}
    model = estimator(loss, **EQUAL | options, monotonic_cst=sign).fit(X, y, **{name: given_[name] for name in fit})
    assert largest_decrease(model, X, sign) <= 1e-8
    if loss == "log_loss":
        assert model.predict_set(X, 0.9)[np.arange(90), y].mean() > 0.7
        return
    assert np.isfinite(model.predict(X, return_std=True)[1]).all()
    low, high = model.predict_interval(X).T
    assert (low <= high).all()


def test_intervals_of_counts_hold_new_rows():
    X, y, sign = simulated("poisson", "plateau", n=300)
    model = estimator("poisson", **EQUAL, monotonic_cst=sign).fit(X, y)
    X_new, y_new, _ = simulated("poisson", "plateau", n=2000, seed=7)
    low, high = model.predict_interval(X_new, 0.9).T
    assert 0.86 < np.mean((low <= y_new) & (y_new <= high)) < 0.99


@pytest.mark.parametrize("loss", ["log_loss", "gamma"])
def test_model_file_keeps_the_fit_and_the_constraint(loss, tmp_path):
    X, y, _ = simulated(loss, "pair", n=90)
    model = estimator(loss, **EQUAL, alpha=0.05, monotonic_cst={"x0": 1, "x1": 1}).fit(X, y)
    assert any("hold the slopes back" in note for note in model.search_.notes)
    model.save(tmp_path / "model.salsa")
    again = salsa.load(tmp_path / "model.salsa")
    assert again.monotonic_cst == {"x0": 1, "x1": 1}
    assert again.search_.notes == model.search_.notes
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    if loss == "log_loss":
        np.testing.assert_array_equal(again.predict_set(X), model.predict_set(X))
    else:
        np.testing.assert_array_equal(again.predict_interval(X), model.predict_interval(X))
        np.testing.assert_allclose(again.predict(X, return_std=True)[1], model.predict(X, return_std=True)[1])


def test_second_class_is_the_one_whose_probability_rises():
    X, y, sign = simulated("log_loss")
    labels = np.where(y == 1, "yes", "no")
    model = SalsaClassifier(**EQUAL, monotonic_cst=sign).fit(X, labels)
    line = np.tile(X[0], (50, 1))
    line[:, 0] = np.linspace(X[:, 0].min(), X[:, 0].max(), 50)
    assert (np.diff(model.predict_proba(line)[:, 1]) >= 0).all()
    assert model.classes_.tolist() == ["no", "yes"]


def test_blocks_give_the_monotone_fit():
    X, y, sign = simulated("log_loss", n=100)
    options = EQUAL | {"alpha": 0.05}
    model = SalsaClassifier(**options, monotonic_cst=sign).fit(X, y)
    blocks = SalsaClassifier(**options, monotonic_cst=sign).fit_blocks([(X[:40], y[:40]), (X[40:], y[40:])])
    np.testing.assert_allclose(blocks.decision_function(X), model.decision_function(X), atol=1e-6)


def test_rare_class_in_one_fold():
    X, _, sign = simulated("log_loss", n=60)
    y = np.zeros(60, dtype=int)
    y[:2] = 1
    model = SalsaClassifier(**EQUAL, cv=KFold(3), monotonic_cst=sign).fit(X, y)
    assert np.isfinite(model.decision_function(X)).all()
    assert largest_decrease(model, X, sign) <= 1e-8


def test_function_without_a_proof_is_the_best_constant(monkeypatch):
    X, y, sign = simulated("poisson", n=60)
    monkeypatch.setattr(Slopes, "proof", lambda self, coef, least=0.0: Proof(False, self.grid(3)[:0], 5))
    model = estimator("poisson", **EQUAL | {"order": 1}, monotonic_cst=sign).fit(X, y)
    np.testing.assert_allclose(model.predict(X), y.mean(), rtol=1e-9)
    assert any("the function is constant" in note for note in model.search_.notes)


def test_fit_that_does_not_converge_is_monotone_and_says_so(monkeypatch):
    monkeypatch.setattr(constrained, "MOST_STEPS", 1)
    X, y, sign = simulated("gamma", "pair")
    model = estimator("gamma", **EQUAL, alpha=0.01, monotonic_cst=sign).fit(X, y)
    assert largest_decrease(model, X, sign) <= 1e-8
    assert any("did not converge" in note for note in model.search_.notes)


FRAME = pd.DataFrame({"dose": np.arange(60.0), "town": list("ab") * 30})


@pytest.mark.parametrize("blocks", [False, True])
def test_more_than_two_classes_are_an_error(blocks, monkeypatch):
    monkeypatch.setattr("salsa.fitting.make_plan", lambda *_: pytest.fail("work has begun"))
    model, y = SalsaClassifier(monotonic_cst={"dose": 1}), np.arange(60) % 3
    with pytest.raises(ValueError, match="not supported for multiclass classification; y has 3 classes"):
        model.fit_blocks([(FRAME, y)]) if blocks else model.fit(FRAME, y)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"monotonic_cst": {"doze": 1}}, ["there is no column 'doze'", "'dose', 'town'"]),
        ({"monotonic_cst": {"town": 1}}, ["'town' holds categories"]),
        ({"monotonic_cst": [1]}, ["each of the 2 columns"]),
        ({"monotonic_cst": [2, 0]}, ["'dose' has 2"]),
        ({"monotonic_cst": [1, 0], "kernel": "laplace"}, ["kernel='laplace'", "'matern52' or 'gaussian'"]),
        ({"monotonic_cst": [1, 0], "order": 3}, ["order=3", "at most order 2"]),
        ({"monotonic_cst": [1, 0], "order": 3, "interaction_cst": [{0, 1}]}, ["order=3", "at most order 2"]),
        ({"monotonic_cst": [1, 0], "interaction_cst": [{"doze"}]}, ["set number 0", "'doze'"]),
    ],
)
@pytest.mark.parametrize("loss", ["log_loss", "huber"])
def test_errors_name_the_entry_and_the_way_out_before_any_work(loss, options, words, monkeypatch):
    monkeypatch.setattr("salsa.fitting.make_plan", lambda *_: pytest.fail("work has begun"))
    with pytest.raises(ValueError, match=re.escape(words[0])) as caught:
        estimator(loss, **options).fit(FRAME, np.arange(60) % 2)
    assert all(word in str(caught.value) for word in words), str(caught.value)
