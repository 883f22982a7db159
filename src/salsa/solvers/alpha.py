"""The choice of the ridge penalty alpha by its cross-validation error."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np

from salsa._utils.arrays import Floats, Places
from salsa._utils.weighted import mean_and_standard_error, weights_or_ones
from salsa.data.splits import Fold
from salsa.kernels import Kernel
from salsa.losses import Loss

#: alpha relative to the mean diagonal of K: half decades, refined to eighths, widened by two decades up to the limits.
LOG10_GRID = np.arange(-8.0, 4.1, 0.5)
LOG10_LIMITS = (-14.0, 8.0)
REFINEMENTS = (0.25, 0.125)
DESCENT_START, DESCENTS = 2.0, 3  # start of a search downwards, and half decades without improvement that end it
#: Errors closer than this share of their standard error, or than this share of the target's variance, count as equal:
#: where the error is flat (a noise-free target as alpha falls) rounding must not decide.
INDIFFERENCE = 0.01
INDIFFERENCE_OF_VARIANCE = 1e-10
#: alpha = 0 means this share of the mean diagonal: as little as rounding allows
ALPHA_FLOOR = 1e-14

ErrorOf = Callable[[float], tuple[float, float]]  # alpha -> cross-validation error and its standard error
ErrorsOf = Callable[[Sequence[float]], list[tuple[float, float]]]  # of several alphas


class AlphaPath(NamedTuple):
    """Cross-validation error along alpha, ascending; `error` and `standard_error` belong to the best alpha."""

    alphas: Floats
    errors: Floats
    alpha: float
    error: float
    standard_error: float


class Score:
    """The mean held-out loss relative to each output's null loss, averaged over outputs.

    It is weighted, and pooled over all scored rows; its standard error treats the units' losses as a sample.
    """

    def __init__(
        self,
        Y: Floats,
        folds: Sequence[Fold],
        sample_weight: Floats | None,
        loss: Loss,
        unit: Places | None = None,
    ) -> None:
        w = weights_or_ones(sample_weight, len(Y))
        rows = np.concatenate([fold.tested for fold in folds])
        self.scale, self.folds, self.loss = loss.null(Y, w), folds, loss
        self.target, self.weight, self.unit = Y[rows], w[rows], None if unit is None else unit[rows]

    def __call__(self, residuals: Sequence[Floats]) -> tuple[float, float]:
        r = np.concatenate([part[fold.test] for part, fold in zip(residuals, self.folds, strict=True)])
        losses = np.mean(self.loss.deviance(self.target, r) / self.scale, axis=1)
        return mean_and_standard_error(losses, self.weight, self.unit)


def choose_alpha(error_of: ErrorOf, scale: float, alphas: Sequence[float] | None) -> AlphaPath:
    """Search alpha, or try exactly the candidates if some are given; `scale` is the mean diagonal of K."""
    if alphas is None:
        return search_alpha(error_of, scale)
    return try_alphas(error_of, [max(alpha, ALPHA_FLOOR * scale) for alpha in alphas])


def search_alpha(error_of: ErrorOf, scale: float) -> AlphaPath:
    """Return the alpha of least error, to an eighth of a decade; of equally good values the largest.

    1. Try a log grid relative to `scale`, the mean diagonal of K. 2. Widen the grid while the best lies at its edge.
    3. Refine it by halving the step around the best.
    """
    tried: dict[float, tuple[float, float]] = {}  # log10(alpha / scale) -> error and standard error

    def evaluate(logs: Sequence[float]) -> float:
        tried.update({t: error_of(scale * 10.0**t) for t in logs if t not in tried})
        return _best(tried)

    best = evaluate(LOG10_GRID.tolist())
    while best in (min(tried), max(tried)) and LOG10_LIMITS[0] < best < LOG10_LIMITS[1]:
        outwards = 0.5 if best == max(tried) else -0.5
        best = evaluate([best + k * outwards for k in (1, 2, 3, 4)])
    for step in REFINEMENTS:
        best = evaluate([best - step, best + step])
    return _path({scale * 10.0**t: value for t, value in tried.items()})


def descend_alpha(errors_of: ErrorsOf, scale: float, near: float = np.inf, ahead: int = 1) -> AlphaPath:
    """Search alpha as ``search_alpha`` does, but from large to small penalties: each fit starts from the one before.

    The search goes down by half decades until DESCENTS in a row have not lowered the error; small penalties take long.
    It starts just above `near`, or at DESCENT_START. `ahead`: the number of penalties that are asked for together.
    """
    tried: dict[float, tuple[float, float]] = {}

    def evaluate(*logs: float) -> None:
        if new := [t for t in logs if t not in tried]:
            tried.update(zip(new, errors_of([scale * 10.0**t for t in new]), strict=True))

    t = min(DESCENT_START, np.ceil(2.0 * np.log10(near / scale) + 1.0) / 2.0)
    waited, best = 0, np.inf
    while waited < DESCENTS and t >= LOG10_GRID[0]:
        if t not in tried:
            evaluate(*(t - 0.5 * k for k in range(ahead) if k == 0 or t - 0.5 * k >= LOG10_GRID[0]))
        error = tried[t][0]
        waited = 0 if error < best else waited + 1
        best, t = min(best, error), t - 0.5
    while _best(tried) == max(tried) < LOG10_LIMITS[1]:
        evaluate(max(tried) + 0.5)
    for step in REFINEMENTS:
        t = _best(tried)
        evaluate(t - step, t + step)
    return _path({scale * 10.0**t: value for t, value in tried.items()})


def try_alphas(error_of: ErrorOf, alphas: Sequence[float]) -> AlphaPath:
    """Try exactly these candidates."""
    return _path({alpha: error_of(alpha) for alpha in alphas})


def indifference_limit(errors: Iterable[tuple[float, float]]) -> float:
    """Return the error up to which errors count as equal to the least of (error, standard error)."""
    error, standard_error = min(errors)
    return error + INDIFFERENCE * standard_error + INDIFFERENCE_OF_VARIANCE


def penalty(kernel: Kernel, X: Floats, alpha: float) -> float:
    """Return the penalty that is added to the diagonal: alpha, but at least ALPHA_FLOOR of the mean diagonal."""
    return max(alpha, ALPHA_FLOOR * mean_diagonal(kernel, X))


def mean_diagonal(kernel: Kernel, X: Floats) -> float:
    """Return the mean of diag(K), ignoring sample weights; 1 where K is zero."""
    return float(kernel.diagonal(X).mean()) or 1.0


def _best(tried: dict[float, tuple[float, float]]) -> float:
    """Return the largest of the equally good values."""
    limit = indifference_limit(tried.values())
    return max(t for t, (error, _) in tried.items() if error <= limit)


def _path(tried: dict[float, tuple[float, float]]) -> AlphaPath:
    alphas = sorted(alpha for alpha, (error, _) in tried.items() if np.isfinite(error))
    best = _best(tried)
    return AlphaPath(np.array(alphas), np.array([tried[a][0] for a in alphas]), best, *tried[best])
