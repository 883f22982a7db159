"""Displays of predicted against observed values, and of the coverage of intervals."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from scipy.stats import binom, norm
from sklearn.metrics import r2_score
from sklearn.utils import check_array
from sklearn.utils.validation import _check_sample_weight

from salsa._utils.arrays import Floats
from salsa._utils.drawing import DARK, FAINT, LINE, Display, axes_or_new, number, percent_axis
from salsa.explain.report.held_out_rows import one_output, training_rows
from salsa.explain.subject import interval_ends

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MANY_POINTS = 5000
LEVELS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)


@dataclass(frozen=True, eq=False)
class PredictionDisplay(Display):
    """Display of predicted against observed values of one output."""

    observed: Floats  #: (n,) targets
    predicted: Floats  #: (n,) predictions
    weight: Floats  #: (n,) weights of the rows
    left_out: bool  #: True: leave-one-out on the training rows; False: the given rows

    @classmethod
    def from_model(
        cls, model: Any, X: Any = None, y: Any = None, sample_weight: Any = None, *, output: int = 0
    ) -> PredictionDisplay:
        """Compute the display for rows X with targets y; without X and y, by leave-one-out on the training rows."""
        if X is None and y is None and sample_weight is None:
            rows = training_rows(model, output)
            return cls(rows.observed, rows.predicted, rows.weight, left_out=True)
        Y, weight = _targets(X, y, sample_weight)
        prediction = _same_outputs(_by_output(model.predict(X)), Y)
        return cls(one_output(Y, output), one_output(prediction, output), weight, left_out=False)

    @property
    def r2(self) -> float:
        """Share of the observed variance that predictions explain; NaN if observed values are constant."""
        if np.ptp(self.observed) == 0.0:
            return float("nan")
        unit = np.abs(self.observed).max()  # squares of 1e-200 are zero
        return float(r2_score(self.observed / unit, self.predicted / unit, sample_weight=self.weight))

    def plot(self, ax: Axes | None = None) -> Self:
        """Draw points and the line of perfect predictions; above 5000 rows hexagons, which are darker for more rows."""
        with axes_or_new(ax, 4.4, 4.2) as ax:
            if len(self.observed) > MANY_POINTS:
                self._draw_hexagons(ax)
            else:
                ax.plot(self.observed, self.predicted, "o", color=DARK, ms=4, mew=0.0, alpha=0.45)
            low, high = _range(np.r_[self.observed, self.predicted])
            ax.plot([low, high], [low, high], color=LINE, lw=1.0, ls="--")
            ax.set(xlim=(low, high), ylim=(low, high), aspect="equal", xlabel="observed", ylabel="predicted")
            rows = f"{len(self.observed)} rows{', leave-one-out' if self.left_out else ''}"
            ax.set_title(rows if np.isnan(self.r2) else f"{rows}: R² = {number(self.r2, 3)}", fontsize="medium")
        return self._drawn(ax)

    def _draw_hexagons(self, ax: Axes) -> None:
        style: dict[str, Any] = {"gridsize": 50, "bins": "log", "cmap": "Blues"}
        cells = ax.hexbin(self.observed, self.predicted, C=self.weight, reduce_C_function=np.sum, **style)
        ax.figure.colorbar(cells, ax=ax, label="rows", shrink=0.8)


@dataclass(frozen=True, eq=False)
class CalibrationDisplay(Display):
    """Display of the actual coverage of intervals against their nominal coverage.

    Training rows are predicted by leave-one-out; their intervals are normal quantiles times the predictive standard
    deviation of the Gaussian process. Given rows are checked with ``predict_interval`` (jackknife+ or CV+), which
    assumes no normal distribution. Rows count by their weight.
    """

    nominal: Floats  #: (L,) nominal coverage
    actual: Floats  #: (L,) share of rows inside their interval
    rows: float  #: effective number of rows: (sum of weights)^2 / sum of squared weights
    left_out: bool  #: True: leave-one-out on the training rows; False: the given rows

    @classmethod
    def from_model(
        cls, model: Any, X: Any = None, y: Any = None, sample_weight: Any = None, *, output: int = 0
    ) -> CalibrationDisplay:
        """Compute the display for rows X with targets y; without X and y, by leave-one-out on the training rows."""
        if X is None and y is None and sample_weight is None:
            (target, prediction, weight, sd, _), nominal = training_rows(model, output), np.arange(1, 100) / 100
            hits = np.abs(target - prediction) <= norm.ppf((1 + nominal[:, None]) / 2) * np.asarray(sd)
            return cls._from_hits(nominal, hits, weight, left_out=True)
        Y, weight = _targets(X, y, sample_weight)
        ends, target = interval_ends(model, X, LEVELS), one_output(Y, output)
        _same_outputs(ends[0, :, :, 0], Y)
        hits = (ends[:, :, output, 0] <= target) & (target <= ends[:, :, output, 1])
        return cls._from_hits(np.array(LEVELS), hits, weight, left_out=False)

    @classmethod
    def _from_hits(cls, nominal: Floats, hits: Any, weight: Floats, left_out: bool) -> CalibrationDisplay:
        """Compute the display from hits (L, n): whether the interval of each level and row contains the observation."""
        return cls(nominal, hits @ weight / weight.sum(), float(weight.sum() ** 2 / (weight @ weight)), left_out)

    def band(self, probability: float = 0.95) -> tuple[Floats, Floats]:
        """Return the bounds (L,) of the actual coverage of valid intervals at this probability, by binomial chance."""
        rows = max(round(self.rows), 1)
        low, high = binom.interval(probability, rows, self.nominal)
        return np.asarray(low) / rows, np.asarray(high) / rows

    def plot(self, ax: Axes | None = None) -> Self:
        """Draw actual against nominal coverage, with the diagonal and a band of binomial chance around it."""
        with axes_or_new(ax, 4.4, 4.2) as ax:
            ax.fill_between(self.nominal, *self.band(), color=FAINT, alpha=0.5, lw=0, label="within chance (95 %)")
            ax.plot([0, 1], [0, 1], color=LINE, lw=1.0, ls="--")
            ax.plot(self.nominal, self.actual, "-" if self.left_out else "o-", color=DARK, lw=1.8, ms=5)
            ax.set(xlim=(0, 1), ylim=(0, 1), aspect="equal", xlabel="nominal coverage", ylabel="share of rows covered")
            percent_axis(ax, "x")
            percent_axis(ax, "y")
            title = "leave-one-out, normal quantiles" if self.left_out else "intervals of predict_interval"
            ax.set_title(title, fontsize="medium")
            ax.legend(frameon=False, loc="lower right", fontsize="small")
        return self._drawn(ax)


def _by_output(values: Any) -> Floats:
    """Return values as an array (n, q), also for q = 1."""
    return np.asarray(values, dtype=np.float64).reshape(len(values), -1)


def _targets(X: Any, y: Any, sample_weight: Any) -> tuple[Floats, Floats]:
    """Return the targets (n, q) and weights (n,) of the given rows."""
    if X is None or y is None:
        raise ValueError("X, y and their weights belong together: give X and y, or nothing for the training rows")
    Y = _by_output(check_array(y, ensure_2d=False, dtype=np.float64, input_name="y"))
    weight: Floats = _check_sample_weight(sample_weight, Y, dtype=np.float64, ensure_non_negative=True)
    if not weight.any():
        raise ValueError("sample_weight: every weight is zero; at least one row needs a positive weight")
    return Y, weight


def _same_outputs(prediction: Floats, Y: Floats) -> Floats:
    if prediction.shape != Y.shape:
        raise ValueError(f"y has the shape {Y.shape}, but predictions for X have {prediction.shape}")
    return prediction


def _range(values: Floats) -> tuple[float, float]:
    """Return the range of all values with a margin."""
    low, high = float(values.min()), float(values.max())
    margin = 0.04 * ((high - low) or abs(high) or 1.0)
    return low - margin, high + margin
