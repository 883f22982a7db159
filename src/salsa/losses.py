"""Losses, which are minimised on training rows and judge held-out rows.

A likelihood loss has the mean response mu = link^-1(f) and, per row, half of a deviance: l(y, f), its slope and its
curvature by f. Fits minimise sum_i w_i l(y_i, f(x_i)) + alpha / 2 |f|^2. With y = f the squared error has l = (y - f)^2
/ 2, so that alpha means the same for all losses.

The working response z and the working weights h of a function f turn one step of the minimisation into ridge
regression with the weights w h: at the minimum, ridge regression of z gives f again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logsumexp, softmax, xlogy

from salsa._utils.arrays import Floats
from salsa._utils.weighted import target_variance

SMALLEST = 1e-10  # working weights are at least this: weights of zero cannot be divided by
LEAST_CURVATURE = 1e-4  # share of the mean curvature that every row has in a Newton step
FARTHEST = 300.0  # links are not asked beyond this: exp(f) stays finite
IDENTITY = "target"  # the link of losses whose f is the prediction itself
HUBER = 1.345  # residuals beyond so many standard deviations count linearly: 95 % efficiency for normal noise
NORMAL_QUARTILE = 0.6744897501960817  # median of the absolute value of a normal number
ANSCOMBE = 0.375
PINBALL_WIDTH = 0.3  # width of the rounded corner of the pinball loss, in standard deviations of held-out residuals


class Loss(Protocol):
    """The deviance of a prediction f(x) from a target y."""

    def null(self, Y: Floats, w: Floats) -> Floats:
        """Return the mean deviance (q,) of the best constant, the unit of errors; 1 for a constant target."""

    def deviance(self, Y: Floats, residual: Floats) -> Floats:
        """Return the deviance (n, q) of the predictions Y - residual.

        Closed forms give residuals; computing them again from predictions would lose digits where the fit is close.
        """


class SquaredError:
    """The loss (y - f)^2; its null deviance is the variance."""

    def null(self, Y: Floats, w: Floats) -> Floats:
        return target_variance(Y, w)

    def deviance(self, Y: Floats, residual: Floats) -> Floats:
        squares: Floats = residual**2
        return squares


class Likelihood(Protocol):
    """A loss with a link; Y is (n, q), f and the results are (n, ..., q) with Y broadcast, unless said otherwise."""

    @property
    def link(self) -> str:
        """The scale of f in words, such as "log" or "log odds"."""

    def coded(self, Y: Floats) -> Floats:
        """Return numbers (n, q) whose ridge regression shows what f depends on: kernels are first learned on them."""

    def constant(self, Y: Floats, w: Floats) -> Floats:
        """Return the constant f (q,) of least loss."""

    def reference(self, Y: Floats, constant: Floats) -> Floats:
        """Return curvatures (n,) near those of a good fit, from the best constant; they make a preconditioner."""

    def value(self, Y: Floats, f: Floats) -> Floats:
        """Return l (n, ...), which is minimised, summed over outputs."""

    def judge(self, Y: Floats, f: Floats) -> Floats:
        """Return the loss (n, ...) that judges held-out rows, summed over outputs."""

    def slope(self, Y: Floats, f: Floats) -> Floats: ...

    def bend(self, Y: Floats, f: Floats, V: Floats) -> Floats:
        """Return the curvature of l, a matrix over the outputs, times V."""

    def curvature(self, Y: Floats, f: Floats) -> Floats:
        """Return the curvature (n,) where f (n, q) is predicted, of several outputs a mean; at least SMALLEST."""

    def working(self, Y: Floats, f: Floats) -> tuple[Floats, Floats]:
        """Return the working response z (n, q) and the working weights h (n,) of f (n, q)."""

    def mean(self, f: Floats) -> Floats:
        """Return the response that f predicts."""

    def mean_slope(self, f: Floats) -> Floats:
        """Return the derivative of the response by f; for classes, of each probability by its own f."""

    def times(self, unit: Floats) -> Likelihood:
        """Return the loss for targets that are multiplied by unit (1,); links other than the identity have no unit."""

    def at_spread(self, spread: float) -> Likelihood:
        """Return the loss to minimise where held-out residuals have this spread, a standard deviation."""


class Observed(Likelihood, Protocol):
    """A likelihood of numbers: intervals of a new observation come from the scores of held-out rows."""

    def score(self, Y: Floats, f: Floats) -> Floats:
        """Return how far Y lies above the prediction, on a scale on which the noise is about the same everywhere."""

    def end(self, f: Floats, score: Floats, *, upper: bool) -> Floats:
        """Return the target with this score where f is predicted: an end of an interval."""


class _Unitless:
    """A loss whose targets have no unit to be divided by, and whose residuals have no spread to follow."""

    def times(self, unit: Floats) -> Self:
        return self

    def at_spread(self, spread: float) -> Self:
        return self


class Logistic(_Unitless):
    """Two classes, y = 0 or 1: -log p(y), with f the log odds of class 1."""

    link = "log odds"

    def coded(self, Y: Floats) -> Floats:
        return Y

    def constant(self, Y: Floats, w: Floats) -> Floats:
        ones = w @ Y
        odds: Floats = np.log(ones / (w.sum() - ones))
        return odds

    def reference(self, Y: Floats, constant: Floats) -> Floats:
        return np.full(len(Y), float(self.mean_slope(constant)[0]))

    def value(self, Y: Floats, f: Floats) -> Floats:
        value: Floats = np.sum(np.logaddexp(0.0, f) - Y * f, axis=-1)
        return value

    judge = value

    def slope(self, Y: Floats, f: Floats) -> Floats:
        slope: Floats = expit(f) - Y
        return slope

    def bend(self, Y: Floats, f: Floats, V: Floats) -> Floats:
        return self.mean_slope(f) * V

    def curvature(self, Y: Floats, f: Floats) -> Floats:
        return np.maximum(self.mean_slope(f)[:, 0], SMALLEST)

    def working(self, Y: Floats, f: Floats) -> tuple[Floats, Floats]:
        h = self.curvature(Y, f)
        return f - self.slope(Y, f) / h[:, None], h

    def mean(self, f: Floats) -> Floats:
        p: Floats = expit(f)
        return p

    def mean_slope(self, f: Floats) -> Floats:
        slope: Floats = expit(f) * expit(-f)
        return slope


class Softmax(_Unitless):
    """More classes, y one of the unit vectors: -log p(y), p = softmax(f).

    The curvature diag(p) - pp' is at most 1/2 (Boehning, 1992): with this working weight, all classes share one system.
    """

    link = "log probability up to a constant"
    bound = 0.5

    def coded(self, Y: Floats) -> Floats:
        return Y

    def constant(self, Y: Floats, w: Floats) -> Floats:
        log = np.log(w @ Y / w.sum())
        constant: Floats = log - log.mean()
        return constant

    def reference(self, Y: Floats, constant: Floats) -> Floats:
        p = softmax(constant)
        return np.full(len(Y), float(p @ (1.0 - p)) / (len(p) - 1))

    def value(self, Y: Floats, f: Floats) -> Floats:
        value: Floats = logsumexp(f, axis=-1) - np.sum(Y * f, axis=-1)
        return value

    judge = value

    def slope(self, Y: Floats, f: Floats) -> Floats:
        slope: Floats = softmax(f, axis=-1) - Y
        return slope

    def bend(self, Y: Floats, f: Floats, V: Floats) -> Floats:
        p = softmax(f, axis=-1)
        bend: Floats = p * (V - np.sum(p * V, axis=-1, keepdims=True))
        return bend

    def curvature(self, Y: Floats, f: Floats) -> Floats:
        p = softmax(f, axis=-1)
        curvature: Floats = np.maximum(np.sum(p * (1.0 - p), axis=-1) / (p.shape[1] - 1), SMALLEST)
        return curvature

    def working(self, Y: Floats, f: Floats) -> tuple[Floats, Floats]:
        return f - self.slope(Y, f) / self.bound, np.full(len(f), self.bound)

    def mean(self, f: Floats) -> Floats:
        p: Floats = softmax(f, axis=-1)
        return p

    def mean_slope(self, f: Floats) -> Floats:
        p = softmax(f, axis=-1)
        slope: Floats = p * (1.0 - p)
        return slope


class _LogLink(_Unitless):
    """The link f = log mu."""

    link = "log"

    def coded(self, Y: Floats) -> Floats:
        """Return the logarithm of targets that are moved half of the way to their mean: zeros stay finite."""
        coded: Floats = np.log(0.5 * (Y + Y.mean(axis=0)))
        return coded

    def constant(self, Y: Floats, w: Floats) -> Floats:
        constant: Floats = np.log(w @ Y / w.sum())
        return constant

    def mean(self, f: Floats) -> Floats:
        mean: Floats = np.exp(np.clip(f, -FARTHEST, FARTHEST))
        return mean

    def mean_slope(self, f: Floats) -> Floats:
        return self.mean(f)


@dataclass(frozen=True)
class Poisson(_LogLink):
    """Counts y >= 0, or rates with exposures as weights: half of the Poisson deviance, f = log mu.

    Scores are differences of 2 sqrt(y + 3/8) (Anscombe, 1948), whose variance hardly depends on the mean.
    """

    whole: bool = True  # targets are whole numbers, and so are the ends of intervals

    def reference(self, Y: Floats, constant: Floats) -> Floats:
        reference: Floats = 0.5 * (Y + self.mean(constant)).mean(axis=1)
        return reference

    def value(self, Y: Floats, f: Floats) -> Floats:
        value: Floats = np.sum(self.mean(f) - Y * f + xlogy(Y, Y) - Y, axis=-1)
        return value

    judge = value

    def slope(self, Y: Floats, f: Floats) -> Floats:
        return self.mean(f) - Y

    def bend(self, Y: Floats, f: Floats, V: Floats) -> Floats:
        return self.mean(f) * V

    def curvature(self, Y: Floats, f: Floats) -> Floats:
        return np.maximum(self.mean(f)[:, 0], SMALLEST)

    def working(self, Y: Floats, f: Floats) -> tuple[Floats, Floats]:
        h = self.curvature(Y, f)
        return f - self.slope(Y, f) / h[:, None], h

    def score(self, Y: Floats, f: Floats) -> Floats:
        score: Floats = 2.0 * np.sqrt(Y + ANSCOMBE) - 2.0 * np.sqrt(self.mean(f) + ANSCOMBE)
        return score

    def end(self, f: Floats, score: Floats, *, upper: bool) -> Floats:
        root = np.maximum(np.sqrt(self.mean(f) + ANSCOMBE) + 0.5 * score, 0.0)
        end: Floats = np.maximum(root**2 - ANSCOMBE, 0.0)
        if not self.whole:
            return end
        return np.floor(end + 1e-9) if upper else np.maximum(np.ceil(end - 1e-9), 0.0)


class Gamma(_LogLink):
    """Positive amounts: half of the gamma deviance, f = log mu. The working weights are the expected curvature, 1."""

    def coded(self, Y: Floats) -> Floats:
        coded: Floats = np.log(Y)
        return coded

    def reference(self, Y: Floats, constant: Floats) -> Floats:
        return np.ones(len(Y))

    def value(self, Y: Floats, f: Floats) -> Floats:
        with np.errstate(over="ignore"):
            log = np.log(Y)
            value: Floats = np.sum(np.exp(np.minimum(log - f, FARTHEST)) + f - log - 1.0, axis=-1)
        return value

    judge = value

    def _ratio(self, Y: Floats, f: Floats) -> Floats:
        ratio: Floats = np.exp(np.clip(np.log(Y) - f, -FARTHEST, FARTHEST))
        return ratio

    def slope(self, Y: Floats, f: Floats) -> Floats:
        return 1.0 - self._ratio(Y, f)

    def bend(self, Y: Floats, f: Floats, V: Floats) -> Floats:
        return self._ratio(Y, f) * V

    def curvature(self, Y: Floats, f: Floats) -> Floats:
        return np.maximum(self._ratio(Y, f)[:, 0], SMALLEST)

    def working(self, Y: Floats, f: Floats) -> tuple[Floats, Floats]:
        return f - self.slope(Y, f), np.ones(len(f))

    def score(self, Y: Floats, f: Floats) -> Floats:
        score: Floats = np.log(Y) - f
        return score

    def end(self, f: Floats, score: Floats, *, upper: bool) -> Floats:
        return self.mean(f + score)


class _Identity:
    """The link f = mu, and losses of the residual y - f in units of its scale."""

    link = IDENTITY

    def coded(self, Y: Floats) -> Floats:
        return Y

    def mean(self, f: Floats) -> Floats:
        return f

    def mean_slope(self, f: Floats) -> Floats:
        return np.ones_like(f)

    def score(self, Y: Floats, f: Floats) -> Floats:
        return Y - f

    def end(self, f: Floats, score: Floats, *, upper: bool) -> Floats:
        return f + score


@dataclass(frozen=True)
class Huber(_Identity):
    """Squares of residuals up to `delta`, linear beyond: gross errors have a bounded influence.

    The working response is f plus the residual, cut at `delta`.
    """

    delta: float

    def times(self, unit: Floats) -> Huber:
        return Huber(self.delta * float(unit[0]))

    def at_spread(self, spread: float) -> Huber:
        """Return the loss with a limit that is no smaller: fits that are far from all targets have a curvature."""
        return Huber(max(self.delta, HUBER * spread))

    def constant(self, Y: Floats, w: Floats) -> Floats:
        return weighted_quantile(Y, w, 0.5)

    def reference(self, Y: Floats, constant: Floats) -> Floats:
        return np.ones(len(Y))

    def value(self, Y: Floats, f: Floats) -> Floats:
        r = np.abs(Y - f)
        limited = np.minimum(r, self.delta)  # r^2 would overflow where a trial step ends far away
        value: Floats = np.sum(limited * (r - 0.5 * limited), axis=-1)
        return value

    judge = value

    def slope(self, Y: Floats, f: Floats) -> Floats:
        slope: Floats = np.clip(f - Y, -self.delta, self.delta)
        return slope

    def bend(self, Y: Floats, f: Floats, V: Floats) -> Floats:
        return np.where(np.abs(Y - f) <= self.delta, V, 0.0)

    def curvature(self, Y: Floats, f: Floats) -> Floats:
        curvature: Floats = (self.delta / np.maximum(np.abs(Y - f), self.delta))[:, 0]
        return curvature

    def working(self, Y: Floats, f: Floats) -> tuple[Floats, Floats]:
        return f - self.slope(Y, f), np.ones(len(f))


@dataclass(frozen=True)
class Quantile(_Identity):
    """The pinball loss of the quantile `level`, r (level - [r < 0]) for r = y - f, with a corner of width `width`.

    With sigma the logistic function, l = level r + width log(1 + exp(-r / width)): the slope is sigma(-r / width) -
    level. Held-out rows are judged by the pinball loss itself. The working weight is the mean curvature of all rows: an
    estimate of the density of the noise at the quantile.
    """

    level: float
    width: float

    def times(self, unit: Floats) -> Quantile:
        return Quantile(self.level, self.width * float(unit[0]))

    def at_spread(self, spread: float) -> Quantile:
        return Quantile(self.level, PINBALL_WIDTH * spread)

    def constant(self, Y: Floats, w: Floats) -> Floats:
        return weighted_quantile(Y, w, self.level)

    def reference(self, Y: Floats, constant: Floats) -> Floats:
        return self.working(Y, constant + np.zeros_like(Y))[1]

    def value(self, Y: Floats, f: Floats) -> Floats:
        r = Y - f
        value: Floats = np.sum(self.level * r + self.width * np.logaddexp(0.0, -r / self.width), axis=-1)
        return value

    def judge(self, Y: Floats, f: Floats) -> Floats:
        r = Y - f
        judge: Floats = np.sum(r * (self.level - (r < 0)), axis=-1)
        return judge

    def slope(self, Y: Floats, f: Floats) -> Floats:
        slope: Floats = expit((f - Y) / self.width) - self.level
        return slope

    def bend(self, Y: Floats, f: Floats, V: Floats) -> Floats:
        return self._bend(Y, f) * V

    def _bend(self, Y: Floats, f: Floats) -> Floats:
        share = (f - Y) / self.width
        bend: Floats = expit(share) * expit(-share) / self.width
        return bend

    def curvature(self, Y: Floats, f: Floats) -> Floats:
        return np.maximum(self._bend(Y, f)[:, 0], SMALLEST)

    def working(self, Y: Floats, f: Floats) -> tuple[Floats, Floats]:
        h = float(self.curvature(Y, f).mean())
        return f - self.slope(Y, f) / h, np.full(len(f), h)


def newton_response(loss: Likelihood, Y: Floats, f: Floats) -> tuple[Floats, Floats]:
    """Return the response z (n, q) and weights h (n,) of a Newton step from f (n, q), for ridge regression.

    Working weights that are not the curvature of the loss make steps that can grow: by them, a quantile leaves the
    minimum. Curvatures are at least a small share of their mean, which shortens the steps of rows without any.
    """
    if not isinstance(loss, Gamma | Huber | Quantile):
        return loss.working(Y, f)
    h = loss.bend(Y, f, np.ones_like(f))[:, 0]
    h = np.maximum(h, max(LEAST_CURVATURE * float(h.mean()), SMALLEST))
    return f - loss.slope(Y, f) / h[:, None], h


def density_of(loss: Likelihood, Y: Floats, f: Floats) -> float | None:
    """Return the working weight of all rows if it is their mean curvature; None if rows have their own."""
    return float(loss.curvature(Y, f).mean()) if isinstance(loss, Quantile) else None


def working_at(loss: Likelihood, Y: Floats, f: Floats, density: float | None) -> tuple[Floats, Floats]:
    """Return the working response and weights of some of the rows; `density_of` all rows is the weight, if not None."""
    if density is None:
        return loss.working(Y, f)
    return f - loss.slope(Y, f) / density, np.full(len(f), density)


def weighted_quantile(Y: Floats, w: Floats, level: float) -> Floats:
    """Return the quantile (q,) of every output of Y (n, q): the least value with `level` of the weight up to it."""
    quantiles = []
    for y in Y.T:
        order = np.argsort(y)
        reached = np.cumsum(w[order])
        quantiles.append(y[order[int(np.searchsorted(reached, level * reached[-1]))]])
    return np.array(quantiles)


@dataclass(frozen=True)
class Link:
    """The way from the scale of f to the response; it stands where a ``TargetTransform`` stands."""

    loss: Likelihood

    @property
    def name(self) -> str:
        return self.loss.link

    def mean(self, f: Floats) -> Floats:
        """Return the predicted response (m, q)."""
        return self.loss.mean(f)

    def sd(self, f: Floats, sd: Floats) -> Floats:
        """Return the standard deviation (m, q) of the response, by its slope where the prediction is f."""
        return self.loss.mean_slope(f) * sd


def link_of(loss: Likelihood) -> Link | None:
    """Return the way from f to the response; None if f is the response."""
    return None if loss.link == IDENTITY else Link(loss)


#: The losses by the names that model files give them
_ALL: tuple[type[Any], ...] = (Logistic, Softmax, Poisson, Gamma, Huber, Quantile)
LIKELIHOODS = {kind.__name__: kind for kind in _ALL}


def named_loss(name: str, level: float | None, Y: Floats, spread: float = 1.0) -> Likelihood:
    """Return the loss of this name for targets Y (n, q); `spread` is the standard deviation of normal residuals."""
    if name == "log_loss":
        return Logistic() if Y.shape[1] == 1 else Softmax()
    if name == "huber":
        return Huber(HUBER * spread)
    if name == "quantile":
        assert level is not None
        return Quantile(level, PINBALL_WIDTH * spread)
    if name == "poisson":
        return Poisson(whole=bool((np.floor(Y) == Y).all()))
    return Gamma()


def robust_spread(residual: Floats, w: Floats) -> float:
    """Return the standard deviation of normal residuals (n, q) with the same median distance from the median."""
    away = np.abs(residual - weighted_quantile(residual, w, 0.5))
    spread = float(weighted_quantile(away, w, 0.5).mean()) / NORMAL_QUARTILE
    return spread or float(away.mean()) or 1.0


def check_targets(name: str, Y: Floats, used: NDArray[np.bool_]) -> None:
    """Raise ValueError if the loss of this name does not take the targets Y (n, q) of the rows that are used (n,)."""
    if name in ("squared_error", "log_loss"):
        return
    if Y.shape[1] > 1:
        raise ValueError(f"loss={name!r} takes one target, and y has {Y.shape[1]} columns: fit one model for each")
    least, why = {"poisson": (0.0, "not negative"), "gamma": (np.nextafter(0.0, 1.0), "positive")}.get(
        name, (-np.inf, "")
    )
    if len(wrong := np.flatnonzero(used & (Y[:, 0] < least))):
        row = int(wrong[0])
        more = f" ({len(wrong)} such rows in all)" if len(wrong) > 1 else ""
        advice = "leave such rows out, or choose another loss"
        raise ValueError(f"loss={name!r} needs targets that are {why}; row {row} has {Y[row, 0]:g}{more}: {advice}")
    if name == "poisson" and not Y[used].any():
        raise ValueError("loss='poisson': all targets are zero, and the logarithm of their mean is not finite")
