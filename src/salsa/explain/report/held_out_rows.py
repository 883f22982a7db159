"""The quality of a model on held-out rows: R2, predicted against observed values, coverage of intervals."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import RidgeCV
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.utils import _safe_indexing

from salsa._utils.arrays import Floats, Places
from salsa._utils.weighted import mean_and_standard_error, target_variance
from salsa.data.columns import Columns
from salsa.data.splits import members
from salsa.explain.report.held_out_groups import training_groups
from salsa.explain.report.scored_rows import ScoredRows
from salsa.explain.subject import interval_ends
from salsa.fitted import fitted_of
from salsa.uncertainty.jackknife import ExactUncertainty

NOMINAL = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99)
NEW_NOMINAL = (0.5, 0.7, 0.8, 0.9, 0.95)
INTERVAL_ROWS = 1000  # intervals are computed for at most this many new rows
FEWEST_ROWS = 10  # a linear model and a coverage need at least this many rows
ROUNDING = 1e-13  # relative rounding error of a target
MOST_LEVELS = 100  # one-hot columns per category, at most


class HeldOutRows(NamedTuple):
    """Targets and predictions (n,) of rows that the predicting model did not see."""

    observed: Floats
    predicted: Floats
    weight: Floats
    sd: Floats | None = None  # standard deviation of the prediction, noise included
    unit: Places | None = None  # (n,) rows of a unit, such as a group, may depend on each other

    @property
    def varies(self) -> bool:
        """Whether targets vary by more than rounding: targets of training rows are recomputed from the fit."""
        return bool(np.ptp(self.observed) > ROUNDING * np.abs(self.observed).max())


class R2(NamedTuple):
    """R2 and its standard error."""

    r2: float
    error: float


def score(rows: HeldOutRows | None) -> R2 | None:
    """Return R2 of the predictions of these rows; None if there are fewer than two rows or targets do not vary."""
    if rows is None or len(rows.observed) < 2 or not rows.varies:
        return None
    unit = np.abs(rows.observed - rows.observed[0]).max()
    y, f = ((values - rows.observed[0]) / unit for values in (rows.observed, rows.predicted))
    error, standard_error = mean_and_standard_error((y - f) ** 2, rows.weight, rows.unit)
    variance = float(target_variance(y[:, None], rows.weight)[0])
    return R2(1.0 - error / variance, standard_error / variance)


def training_rows(model: Any, output: int) -> HeldOutRows:
    """Return the leave-one-out predictions of the training rows.

    Raises MemoryError if there are too many rows, and ValueError if the model keeps no training rows.
    """
    loo, kept = model.leave_one_out(), fitted_of(model).uncertainty
    target, prediction, sd = (one_output(values, output) for values in (loo.target, loo.prediction, loo.sd))
    unit = training_groups(kept)
    if unit is not None and isinstance(kept, ExactUncertainty) and kept.judged.forward is not None:
        unit = unit[kept.judged.forward.row]
    return HeldOutRows(target, prediction, loo.weight, sd, unit)


def one_output(values: Floats, output: int) -> Floats:
    """Return the column of an output (n,) of values (n, q)."""
    if not 0 <= output < values.shape[1]:
        raise ValueError(f"output={output}: there are {values.shape[1]} outputs, numbered from 0")
    return values[:, output]


def table_encoder(columns: Columns) -> ColumnTransformer:
    """Return an encoder of encoded rows: missing numbers become the mean, categories become indicators."""
    numbers = make_pipeline(SimpleImputer(keep_empty_features=True), StandardScaler())
    indicators = OneHotEncoder(handle_unknown="infrequent_if_exist", max_categories=MOST_LEVELS, sparse_output=False)
    return ColumnTransformer([("numbers", numbers, ~columns.categorical), ("levels", indicators, columns.categorical)])


def linear_model(columns: Columns) -> Pipeline:
    """Return a ridge regression on encoded rows."""
    return Pipeline([("table", table_encoder(columns)), ("ridge", RidgeCV(np.logspace(-3, 5, 17)))])


def linear_cross_validated(columns: Columns, X: Floats, rows: HeldOutRows, fold: Places) -> HeldOutRows | None:
    """Return the rows with predictions of a linear model without their folds (n,); None for too few rows."""
    if len(X) < FEWEST_ROWS or not rows.varies:
        return None
    predicted = np.empty(len(X))
    for test in members(fold):
        train = np.setdiff1d(np.arange(len(X)), test)
        predicted[test] = _linear_predictions(columns, X[train], rows.observed[train], rows.weight[train], X[test])
    return rows._replace(predicted=predicted, sd=None)


def linear_on_new(
    columns: Columns, X: Floats, rows: HeldOutRows, new_X: Floats, new: HeldOutRows
) -> HeldOutRows | None:
    """Return the new rows with predictions of the linear model fitted to the training rows; None for too few rows."""
    if len(X) < FEWEST_ROWS or not rows.varies:
        return None
    return new._replace(predicted=_linear_predictions(columns, X, rows.observed, rows.weight, new_X), sd=None)


def _linear_predictions(columns: Columns, X: Floats, y: Floats, weight: Floats, new: Floats) -> Floats:
    centre, unit = y.mean(), np.abs(y - y.mean()).max() or 1.0  # squares of extreme targets overflow
    fit = linear_model(columns).fit(X, (y - centre) / unit, ridge__sample_weight=weight)
    predicted: Floats = centre + unit * fit.predict(new)
    return predicted


class Coverage(NamedTuple):
    """Nominal and actual coverage (L,) of intervals, with the standard error of the actual coverage."""

    nominal: Floats
    actual: Floats
    error: Floats


def normal_coverage(rows: HeldOutRows) -> Coverage | None:
    """Return the coverage of normal intervals around leave-one-out predictions; None for too few or constant rows."""
    if rows.sd is None or len(rows.observed) < FEWEST_ROWS or not (rows.sd > 0).all() or not rows.varies:
        return None
    size = np.abs(rows.observed - rows.predicted) / rows.sd
    limits = norm.ppf(0.5 + 0.5 * np.array(NOMINAL))
    return coverage_of(np.array(NOMINAL), size[:, None] <= limits, rows.weight, rows.unit)


def interval_coverage(
    model: Any, X: Any, places: Places, rows: HeldOutRows | ScoredRows, output: int
) -> Coverage | None:
    """Return the coverage of ``predict_interval`` on new rows, at `places` of X: on at most 1000 of them."""
    if len(rows.observed) < FEWEST_ROWS:
        return None
    at = interval_rows(len(rows.observed))
    y, unit = rows.observed[at], None if rows.unit is None else rows.unit[at]
    low, high = np.moveaxis(interval_ends(model, _safe_indexing(X, places[at]), NEW_NOMINAL)[:, :, output], -1, 0)
    return coverage_of(np.array(NEW_NOMINAL), ((low <= y) & (y <= high)).T, np.ones(len(y)), unit)


def interval_rows(n: int) -> Places:
    """Return the places of the new rows whose intervals are computed: all of n rows, or INTERVAL_ROWS of them."""
    return np.unique(np.linspace(0, n - 1, INTERVAL_ROWS).astype(np.intp))


def coverage_of(nominal: Floats, inside: NDArray[np.bool_], weight: Floats, unit: Places | None) -> Coverage:
    """Return the share of rows inside their intervals (n, L).

    The standard error is that of independent rows with the nominal coverage. If rows of a unit (n,) may depend on each
    other, it is the standard error by units, where this is larger.
    """
    share = weight / weight.sum()
    error = np.sqrt(nominal * (1.0 - nominal) * float(share @ share))
    if unit is not None:
        by_unit = [mean_and_standard_error(holds, weight, unit)[1] for holds in inside.T.astype(np.float64)]
        error = np.maximum(error, by_unit)
    return Coverage(nominal, share @ inside, error)
