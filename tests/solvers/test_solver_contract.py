"""One contract for all solvers: on the same splits, they agree on predictions, errors along alpha, and intervals.

Each tolerance is of the solver, not of chance: "pcg" is exact, "lowrank" has nearly as many anchors as rows, "features"
and "divide" are approximations.
"""

import numpy as np
import pytest
from conftest import additive_truth
from sklearn.model_selection import KFold

from salsa import SalsaRegressor

N, ALPHAS = 600, [0.01, 0.1, 1.0, 10.0]


class Tolerance:
    """Allowed root mean square differences, relative to the exact fit.

    Predictions are relative to their spread, errors to the exact error at the same alpha, interval widths to the mean
    exact width.
    """

    def __init__(self, predictions, errors, widths):
        self.predictions, self.errors, self.widths = predictions, errors, widths


SOLVERS = {  # rank and tolerance
    "pcg": (500, Tolerance(1e-6, 1e-3, 0.01)),
    "lowrank": (590, Tolerance(1e-8, 1e-8, 0.01)),
    "features": (590, Tolerance(0.2, 0.3, 0.2)),
    "divide": (300, Tolerance(0.05, 0.15, None)),  # it has no intervals
}


@pytest.fixture(scope="module", params=["plain", "weighted"])
def fits(request):
    """Return rows, weights, and a function from solver and rank to the fit."""
    X, y = additive_truth(n=N, D=4, noise=0.3)
    weight = np.random.default_rng(0).uniform(0.5, 2.0, N) if request.param == "weighted" else np.ones(N)
    weight /= weight.mean()
    splits = list(KFold(5, shuffle=True, random_state=1).split(X))

    def fit(solver, rank=None, alpha=ALPHAS):
        settings = {"order": 2, "relevance": "equal", "cv": splits, "random_state": 0}
        return SalsaRegressor(solver=solver, rank=rank, alpha=alpha, **settings).fit(X, y, weight)

    return fit, fit("exact")


@pytest.mark.parametrize("solver", SOLVERS)
def test_solvers_agree(solver, fits, monkeypatch):
    monkeypatch.setattr("salsa.solvers.lowrank.LEFT_OF_ALPHA", 0.0)
    rank, tolerance = SOLVERS[solver]
    fit, exact = fits
    found, new = fit(solver, rank), additive_truth(n=200, D=4, seed=5)[0]
    assert found.order_ == exact.order_
    paths = [model.search_.results[0].path for model in (found, exact)]
    np.testing.assert_allclose(paths[0].alphas, paths[1].alphas)
    np.testing.assert_allclose(paths[0].errors, paths[1].errors, rtol=tolerance.errors)
    if tolerance.errors < 0.1:
        assert found.alpha_ == pytest.approx(exact.alpha_)
    same = fit(solver, rank, exact.alpha_)
    expected = exact.predict(new)
    difference = np.sqrt(np.mean((same.predict(new) - expected) ** 2)) / expected.std()
    assert difference < tolerance.predictions
    if tolerance.widths is not None:
        widths = [np.diff(model.predict_interval(new, 0.9))[:, 0] for model in (same, exact)]
        assert np.sqrt(np.mean((widths[0] - widths[1]) ** 2)) / widths[1].mean() < tolerance.widths
