"""The choice of kernels by held-out losses other than the squared error."""

import numpy as np
import pytest
from conftest import additive_truth

from salsa import AdditiveKernel, SalsaRegressor
from salsa.selection.deviance import OVERRULED
from salsa.selection.order import given
from salsa.selection.plan import Appeal, Plan

N, D = 120, 4
EQUAL = AdditiveKernel(np.full(D, 0.8), np.ones(D), [0, 1.0])
ALONE = AdditiveKernel(np.full(D, 0.8), np.eye(D)[D - 1], [0, 1.0])  # of the last feature, which does not matter


def doubtful_plan(learned):
    """Return a function in the place of ``make_plan``: a kernel has won the race against EQUAL, but not clearly."""
    other = Plan(lambda order: EQUAL, given([1]))
    appeal = Appeal(np.arange(N), np.arange(N) % 2, (learned, learned), EQUAL, other)
    return lambda *_: Plan(lambda order: learned, given([1]), appeal=appeal)


@pytest.mark.parametrize(("loss", "options"), [("poisson", {}), ("gamma", {}), ("quantile", {"quantile": 0.5})])
@pytest.mark.parametrize(("learned", "overruled"), [(ALONE, True), (EQUAL, False)])
def test_equal_relevances_with_a_lower_loss_on_all_rows_overrule_a_doubtful_race(
    monkeypatch, loss, options, learned, overruled
):
    X, f = additive_truth(n=N, D=D, noise=0.0)
    X[:, D - 1] = np.random.default_rng(0).uniform(-1, 1, N)
    y = np.random.default_rng(1).poisson(np.exp(1.0 + f)) + (loss == "gamma")
    monkeypatch.setattr("salsa.fitting.make_plan", doubtful_plan(learned))
    model = SalsaRegressor(loss=loss, random_state=0, **options).fit(X, y)
    assert (OVERRULED in model.search_.notes) == overruled
    np.testing.assert_array_equal(model.expansion_.kernel.relevance, EQUAL.relevance)


def test_without_a_doubt_equal_relevances_are_not_fitted(monkeypatch):
    X, f = additive_truth(n=N, D=D, noise=0.0)
    y = np.random.default_rng(1).poisson(np.exp(1.0 + f))
    monkeypatch.setattr("salsa.fitting.make_plan", lambda *_: Plan(lambda order: ALONE, given([1])))
    model = SalsaRegressor(loss="poisson", random_state=0).fit(X, y)
    np.testing.assert_array_equal(model.expansion_.kernel.relevance, ALONE.relevance)
