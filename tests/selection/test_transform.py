"""The note that suggests a logarithm: given where held-out rows speak for it, and only there."""

import naive
import numpy as np
import pytest

from salsa import AdditiveKernel, SalsaRegressor
from salsa.data.noise import Noise
from salsa.data.splits import drawn_splits
from salsa.learning import Problem
from salsa.selection.transform import log_density_gain
from salsa.solvers.alpha import LOG10_GRID


def skewed(n=300, seed=0, noise=0.5):
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(n, 3))
    return X, np.exp(1.5 * X[:, 0] + X[:, 1] + noise * rng.normal(size=n))


def notes_of(y, X, **parameters):
    model = SalsaRegressor(order=1, relevance="equal", random_state=0, **parameters).fit(X, y)
    return [note for note in model.search_.notes if "target_transform" in note]


def test_the_gain_is_that_of_refits():
    X, y = skewed(60)
    kernel = AdditiveKernel(np.full(3, 0.5), np.ones(3), np.array([0.0, 1.0]), "matern52")
    weight = np.linspace(0.5, 1.5, 60)
    problem = Problem(
        X, y[:, None], Noise(weight), drawn_splits(60, 5, None, np.random.RandomState(0)), ("matern52",) * 3
    )
    K, Z = kernel(X), np.column_stack([y, np.log(y)])
    errors = []
    for alpha in np.mean(K.diagonal()) * 10.0**LOG10_GRID:
        error = np.zeros(2)
        for fold in problem.splits.folds:
            rows = fold.held_out
            error += weight[rows] @ naive.held_out_residuals(K, Z, alpha, rows, np.diag(1 / weight)) ** 2
        errors.append(error / weight.sum())
    raw, log = np.min(errors, axis=0)
    expected = 0.5 * np.log(raw / log) - np.average(np.log(y), weights=weight)
    assert log_density_gain(problem, kernel)[0] == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("parameters", [{}, {"rank": 60}])
def test_noise_that_grows_with_the_level_speaks_for_a_logarithm(parameters):
    X, y = skewed()
    (note,) = notes_of(y, X, **parameters)
    gain = float(note.split("held-out rows is ")[1].split(" ")[0])
    assert 0.1 < gain < 0.6


def test_a_skewed_target_with_constant_noise_gets_no_note():
    X, _ = skewed()
    rng = np.random.default_rng(1)
    y = np.exp(4 * X[:, 0]) + 5 + rng.normal(size=len(X))
    assert y.min() > 0
    assert not notes_of(y, X)


@pytest.mark.parametrize("change", [lambda y: -y, lambda y: y - 3 * y.min(), np.log])
def test_targets_that_are_not_positive_or_not_skewed_get_no_note(change):
    X, y = skewed()
    assert not notes_of(change(y), X)


def test_a_chosen_transform_is_not_suggested_again():
    X, y = skewed()
    assert not notes_of(y, X, target_transform="log")
