"""Linear models that minimise the same loss as the model: what a kernel model has to beat."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import GammaRegressor, HuberRegressor, LogisticRegression, PoissonRegressor, QuantileRegressor
from threadpoolctl import threadpool_limits

from salsa._utils.arrays import Floats, Places
from salsa.data.columns import Columns
from salsa.data.splits import members
from salsa.explain.report.held_out_rows import FEWEST_ROWS, table_encoder
from salsa.explain.report.scored_rows import ScoredRows
from salsa.losses import Gamma, Huber, Likelihood, Poisson, Quantile

PENALTIES = (1e-4, 1e-2, 1.0)  # the best of these on the held-out rows counts, which favours the linear model
MOST_QUANTILE_ROWS = 1000  # linear programs of more rows take too long
UNSEEN = -30.0  # log probability of a class that the training rows of a fold do not have
STEPS = 1000


def linear_cross_validated(columns: Columns, X: Floats, rows: ScoredRows, fold: Places) -> ScoredRows | None:
    """Return the rows with functions of a linear model without their folds (n,); None for too few rows."""
    if not _has_rival(rows):
        return None
    tests = members(fold)
    trains = [np.setdiff1d(np.arange(len(X)), test) for test in tests]
    if any(len(np.unique(rows.observed[train])) < 2 for train in trains):
        return None
    f = np.empty((len(PENALTIES), *rows.f.shape))
    for train, test in zip(trains, tests, strict=True):
        f[:, test] = _predictions(columns, X[train], _some(rows, train), X[test])
    return _best(rows, f)


def linear_on_new(
    columns: Columns, X: Floats, training: ScoredRows, new_X: Floats, new: ScoredRows
) -> ScoredRows | None:
    """Return the new rows with functions of the linear model of the training rows; None for too few rows."""
    return _best(new, _predictions(columns, X, training, new_X)) if _has_rival(training) else None


def _has_rival(rows: ScoredRows) -> bool:
    many = isinstance(rows.loss, Quantile) and len(rows.f) > MOST_QUANTILE_ROWS
    return len(rows.f) >= FEWEST_ROWS and rows.varies and not many


def _some(rows: ScoredRows, places: Places) -> ScoredRows:
    return replace(rows, target=rows.target[places], f=rows.f[places], weight=rows.weight[places], unit=None)


def _best(rows: ScoredRows, f: Floats) -> ScoredRows:
    """Return the rows with the functions f[p] (n, q) of the penalty p of least loss."""
    tried = [replace(rows, f=values) for values in f]
    return min(tried, key=lambda found: found.mean(found.losses)[0])


def _predictions(columns: Columns, X: Floats, rows: ScoredRows, new: Floats) -> Floats:
    """Return the functions (P, m, q) of new rows, one for each penalty."""
    encoder = table_encoder(columns).fit(X)
    table, new_table = encoder.transform(X), encoder.transform(new)
    centre, unit = _units(rows)
    y = rows.code if rows.is_classes else (rows.observed - centre) / unit
    found = []
    with warnings.catch_warnings(), threadpool_limits(1, "openmp"):  # threads that spin are slow beside other programs
        warnings.simplefilter("ignore", ConvergenceWarning)
        for alpha in PENALTIES:
            model = _linear(rows.loss, alpha, len(y)).fit(table, y, sample_weight=rows.weight)
            found.append(_function(model, rows, new_table, centre, unit))
    return np.stack(found)


def _units(rows: ScoredRows) -> tuple[float, float]:
    """Return centre and scale of the targets of losses whose function is the target itself; else 0 and 1."""
    if not isinstance(rows.loss, Huber | Quantile):
        return 0.0, 1.0
    return float(rows.observed.mean()), float(rows.observed.std())


def _linear(loss: Likelihood, alpha: float, n: int) -> Any:
    if isinstance(loss, Poisson):
        return PoissonRegressor(alpha=alpha, solver="newton-cholesky", max_iter=STEPS)
    if isinstance(loss, Gamma):
        return GammaRegressor(alpha=alpha, solver="newton-cholesky", max_iter=STEPS)
    if isinstance(loss, Huber):
        return HuberRegressor(alpha=n * alpha, max_iter=STEPS)
    if isinstance(loss, Quantile):
        return QuantileRegressor(quantile=loss.level, alpha=0.1 * alpha)
    return LogisticRegression(C=1.0 / (n * alpha), max_iter=STEPS)


def _function(model: Any, rows: ScoredRows, table: Floats, centre: float, unit: float) -> Floats:
    """Return the function (m, q) of a linear model, on the scale of the link."""
    if not rows.is_classes:
        predicted = model.predict(table)
        f: Floats = np.log(predicted) if isinstance(rows.loss, Poisson | Gamma) else centre + unit * predicted
        return f[:, None]
    if rows.f.shape[1] == 1:
        odds: Floats = model.decision_function(table)[:, None]
        return odds
    log = np.full((len(table), rows.f.shape[1]), UNSEEN)
    log[:, model.classes_] = np.maximum(model.predict_log_proba(table), UNSEEN)
    return log
