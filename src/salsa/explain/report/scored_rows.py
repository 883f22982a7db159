"""Held-out rows of fits that minimise a likelihood: the loss of their predictions, as a share of a constant's loss."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax, xlogy

from salsa._utils.arrays import Floats, Places
from salsa._utils.weighted import mean_and_standard_error
from salsa.explain.report.held_out_groups import training_groups
from salsa.explain.report.phrases import percent
from salsa.losses import Gamma, Huber, Likelihood, Logistic, Poisson, Quantile, Softmax
from salsa.uncertainty.scored import ScoredUncertainty


class Explained(NamedTuple):
    """The share of a constant's loss that predictions save, and its standard error."""

    share: float
    error: float


class Measure(NamedTuple):
    """The words for a loss and for the constant that it is compared with."""

    loss: str
    constant: str
    factor: float = 1.0  # 2 for deviances: the minimised loss is half of a deviance

    @property
    def error_of_constant(self) -> str:
        return f"the {self.loss} of {self.constant}"

    @property
    def caption(self) -> str:
        return f"How far the {self.loss} is below {self.error_of_constant}, with ± 2 standard errors"

    @property
    def axis(self) -> str:
        return f"1 − {self.loss} / {self.loss} of {self.constant}"

    @property
    def error_axis(self) -> str:
        return f"{self.loss} / {self.loss} of {self.constant}"


def measure_of(loss: Likelihood) -> Measure:
    if isinstance(loss, Quantile):
        return Measure("pinball loss", f"the constant {percent(loss.level)} quantile")
    words: dict[type[Any], tuple[Any, ...]] = {
        Logistic: ("log loss", "the class shares"),
        Softmax: ("log loss", "the class shares"),
        Poisson: ("Poisson deviance", "the mean", 2.0),
        Gamma: ("gamma deviance", "the mean", 2.0),
        Huber: ("Huber loss", "the median"),
    }
    return Measure(*words[type(loss)])


@dataclass(frozen=True, eq=False)
class ScoredRows:
    """Targets (n, q) and held-out functions f (n, q), on the scale of the link, of rows with weights (n,)."""

    loss: Likelihood
    target: Floats
    f: Floats
    weight: Floats
    counts: Floats  # (n,) how many observations a row stands for
    unit: Places | None = None  # (n,) rows of a unit, such as a group, may depend on each other

    @property
    def is_classes(self) -> bool:
        return isinstance(self.loss, Logistic | Softmax)

    @property
    def is_weighted(self) -> bool:
        return bool((self.weight != self.weight[0]).any())

    @property
    def code(self) -> Places:
        """The numbers (n,) of the true classes."""
        code = self.target[:, 0] if self.target.shape[1] == 1 else np.argmax(self.target, axis=1)
        return code.astype(np.intp)

    @property
    def probabilities(self) -> Floats:
        """The held-out probabilities (n, C) of the classes."""
        p: Floats = softmax(np.column_stack([0.0 * self.f, self.f]) if self.f.shape[1] == 1 else self.f, axis=1)
        return p

    @property
    def observed(self) -> Floats:
        """The targets (n,), or the numbers of the classes."""
        return self.code.astype(np.float64) if self.is_classes else self.target[:, 0]

    @property
    def predicted(self) -> Floats:
        """The predicted numbers (n,), in the units of the target."""
        return self.loss.mean(self.f)[:, 0]

    @property
    def varies(self) -> bool:
        return bool(np.ptp(self.observed) > 0)

    def mean(self, values: Any) -> tuple[float, float]:
        """Return the weighted mean of values (n,) and its standard error."""
        return mean_and_standard_error(np.asarray(values, dtype=np.float64), self.weight, self.unit)

    @property
    def losses(self) -> Floats:
        return self.loss.judge(self.target, self.f)

    @property
    def constant_loss(self) -> float:
        """The mean loss of the constant that is best for these rows."""
        if self.is_classes:
            shares = np.bincount(self.code, self.weight) / self.weight.sum()
            return float(-xlogy(shares, shares).sum())
        with np.errstate(divide="ignore", invalid="ignore"):  # a mean of zero has no logarithm
            constant = self.loss.constant(self.target, self.weight)
            return self.mean(self.loss.judge(self.target, np.zeros_like(self.target) + constant))[0]

    def explained(self) -> Explained | None:
        """Return the share of the constant's loss that is saved; None for fewer than two rows or equal targets."""
        if len(self.f) < 2 or not self.varies or not self.constant_loss > 0:
            return None
        error, spread = self.mean(self.losses)
        return Explained(1.0 - error / self.constant_loss, spread / self.constant_loss)


def held_out_rows_of(kept: ScoredUncertainty) -> ScoredRows | None:
    """Return the training rows with predictions of the fits without their folds; None for fewer than two rows."""
    row, f, counts, _ = kept.held_out
    if len(row) < 2:
        return None
    unit = training_groups(kept)
    return ScoredRows(kept.loss, kept.target[row], f, kept.weight[row], counts, None if unit is None else unit[row])


def new_rows(
    model: Any, loss: Likelihood, y: Floats, f: Floats, classes: NDArray[Any] | None, unit: Places | None
) -> ScoredRows:
    """Return given rows with targets y (n,), numbers of classes if there are classes, and their functions f (n, q).

    Classes are weighted as in the fit: "balanced" gives all classes of these rows the same total weight.
    """
    target = y[:, None] if f.shape[1] == 1 else np.eye(f.shape[1])[y.astype(np.intp)]
    weight = np.ones(len(y)) if classes is None else _class_weights(model.class_weight, y.astype(np.intp), classes)
    return ScoredRows(loss, target, f, weight, np.ones(len(y)), unit)


def _class_weights(class_weight: Any, code: Places, classes: NDArray[Any]) -> Floats:
    if class_weight is None:
        return np.ones(len(code))
    if isinstance(class_weight, dict):
        weight = np.array([float(class_weight.get(label, 1.0)) for label in classes.tolist()])[code]
    else:
        weight = 1.0 / np.bincount(code)[code]
    weights: Floats = weight / weight.mean()
    return weights
