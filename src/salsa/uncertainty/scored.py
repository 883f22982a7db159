"""Uncertainty of fits that minimise a likelihood: held-out predictions, and the posterior of the working response.

The fits without each fold predict rows that they did not see. The scores of these predictions set the intervals of
numbers and the sets of classes (split by folds: cross-conformal prediction). The posterior standard deviation of f, on
the scale of the link, is that of ridge regression of the working response.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple, cast

import numpy as np

from salsa._utils.arrays import Floats, Places
from salsa._utils.weighted import mean_and_standard_error
from salsa.losses import Likelihood, Logistic, Observed, Softmax
from salsa.uncertainty import LeaveOneOut
from salsa.uncertainty.cvplus import LowRankUncertainty
from salsa.uncertainty.interval_scores import rank_of
from salsa.uncertainty.jackknife import ExactUncertainty

RANDOM_LABELS = 0.5  # units, beside those that are held out, whose label is drawn from the shares of the classes


class HeldOut(NamedTuple):
    """Held-out predictions f (m, q), the places (m,) of their rows, and how many observations each stands for."""

    row: Places
    f: Floats
    counts: Floats  # (m,)
    units: int  # number of independent units

    def losses(self, loss: Likelihood, Y: Floats, w: Floats, f: Floats) -> Floats:
        """Return the losses (m,) of predictions f (m, q) for these rows; those of classes include a doubt.

        n units do not show that errors are rarer than about one in n. So half a unit more is judged, whose label is
        drawn from the shares of the classes, whatever its features: this is the prior of Krichevsky and Trofimov for
        the rate of such labels. Every row carries its share of this loss, which grows with the sureness of f.
        """
        losses = loss.judge(Y[self.row], f)
        if isinstance(loss, Logistic | Softmax):
            losses += RANDOM_LABELS / self.units * loss.judge(w @ Y / w.sum(), f)
        return losses

    def error(self, loss: Likelihood, Y: Floats, w: Floats, unit: Places | None, null: float) -> tuple[float, float]:
        """Return the mean held-out loss, in units of the best constant's loss, and its standard error."""
        losses = self.losses(loss, Y, w, self.f) / null
        return mean_and_standard_error(losses, w[self.row], None if unit is None else unit[self.row])


@dataclass(frozen=True, eq=False)
class ScoredUncertainty:
    """The uncertainty of a fit that minimises a likelihood, on the scale of the link."""

    inner: ExactUncertainty | LowRankUncertainty  # ridge regression of the working response
    target: Floats  # (n, q) of the training rows
    weight: Floats  # (n,) of the training rows, one on average: without the working weights
    held_out: HeldOut
    loss: Likelihood

    @property
    def keeps_rows(self) -> bool:
        return self.inner.keeps_rows

    @property
    def points(self) -> Floats:
        return self.inner.points

    @property
    def sd_points(self) -> Floats:
        return self.inner.sd_points

    def prepare(self, memory_limit: float | str | None, threads: int | None) -> None:
        self.inner.prepare(memory_limit, threads)

    def posterior_sd(self, k: Floats, prior: Floats, constant: float = 1.0, *, n_threads: int | None = None) -> Floats:
        return self.inner.posterior_sd(k, prior, constant, n_threads=n_threads)

    def interval(
        self, prediction: Floats, k: Floats, prior: Floats, coverage: float, X: Floats, *, n_threads: int | None = None
    ) -> Floats:
        """Return the interval [f, f] (m, q, 2): noise is added on the scale of the target, by ``ends``."""
        return np.repeat(prediction[..., None], 2, axis=-1)

    def ends(self, f: Floats, coverage: float) -> Floats:
        """Return the ends (m, q, 2) of intervals for new observations where f is between f[..., 0] and f[..., 1].

        Either end leaves out half of 1 - coverage of the scores of held-out rows and of one more unit. Ends are
        infinite, or the least of the targets that the loss allows, if there are too few.
        """
        row, held, count, units = self.held_out
        loss = cast(Observed, self.loss)
        scores = loss.score(self.target[row], held)
        tail, out = 0.5 * (1.0 - coverage), np.empty_like(f)
        for j, score in enumerate(scores.T):
            low, high = (sign * _quantile(sign * score, count, 1.0 - tail, units) for sign in (-1.0, 1.0))
            out[:, j, 0] = loss.end(f[:, j, 0], np.array(low), upper=False)
            out[:, j, 1] = loss.end(f[:, j, 1], np.array(high), upper=True)
        return out

    def least_probability(self, coverage: float) -> float:
        """Return the probability that a class needs to be in a set: 0 if the held-out rows are too few."""
        row, held, count, units = self.held_out
        target, p = self.target[row], self.loss.mean(held)
        own = np.where(target[:, 0] == 1.0, p[:, 0], 1.0 - p[:, 0]) if p.shape[1] == 1 else np.sum(target * p, axis=1)
        return max(0.0, -_quantile(-own, count, coverage, units))

    def training_rows(self) -> LeaveOneOut:
        """Return targets, and predictions without them with their standard deviations on the scale of the link.

        An exact fit leaves out single rows or blocks, to first order: by the closed form of its last ridge regression.
        A low-rank fit, and a fit that later rows judge, has the predictions of the fits without each fold for the rows
        that these test, with the deviations of the noise alone.
        """
        if isinstance(self.inner, ExactUncertainty) and len(self.held_out.row) == len(self.target):
            found = self.inner.training_rows()
            return replace(found, target=self.target, weight=self.weight)
        row, f, *_ = self.held_out
        _, h = self.loss.working(self.target[row], f)
        return LeaveOneOut(self.target[row], f, np.sqrt(1.0 / h)[:, None] + np.zeros_like(f), self.weight[row])


def _quantile(score: Floats, count: Floats, level: float, units: int) -> float:
    """Return the least score that `level` of the counts, and of one more unit, do not exceed; else infinity."""
    order = np.argsort(score)
    reached = np.cumsum(count[order])
    place = int(np.searchsorted(reached, rank_of(level, count, units)))
    return float(score[order[place]]) if place < len(score) else np.inf
