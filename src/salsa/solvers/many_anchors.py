"""Ridge regression on thousands of anchors: conjugate gradients in the place of sums of r x r numbers.

Solve for every output, and for every part p of the rows: all rows, the rows outside a fold, or the rows before it,

    (C_p + alpha I) theta = c_p,   C_p = sum of w (phi - mean_p)(phi - mean_p)',   c_p = sum of w (phi - mean_p) y,

with phi(x) = L^-1 k(Z, x) as in ``lowrank``. The means take care of the unpenalised offset.

1. Add up w, w phi, w y, w phi y and w y^2 for every fold in a first pass over all rows.
2. Compute C of a sample of the rows. Scaled up to all rows, this C preconditions every system, as in Falkon (Rudi,
   Carratino and Rosasco, 2017), and gives standard deviations.
3. Solve all systems side by side. An iteration is a pass over all rows, in blocks and on any number of machines. Most
   of its time goes into the kernel, which all systems share. The same pass multiplies by C of the held-out rows of
   each part: the held-out error needs no further pass.
4. Choose alpha by this error, one penalty after the other, each from the solutions before (``penalties``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations_with_replacement
from operator import add, iadd
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular
from scipy.linalg.blas import dtrmm
from scipy.linalg.lapack import dtrtri
from sklearn.exceptions import ConvergenceWarning

from salsa._utils.arrays import Floats, Places
from salsa._utils.linalg import positive_factor
from salsa._utils.threads import thread_count
from salsa._utils.user_warning import warn_user
from salsa.data.rows import Block, Total, mapped
from salsa.data.splits import TableSplits
from salsa.kernels import Kernel
from salsa.solvers import SAMPLE_ROWS, RidgeTask
from salsa.solvers.alpha import ALPHA_FLOOR, LOG10_LIMITS, AlphaPath, mean_diagonal, penalty
from salsa.solvers.anchors import Anchors
from salsa.solvers.penalties import Penalties, Tried
from salsa.solvers.systems import ratio
from salsa.uncertainty.cvplus import CLASSES, CVPlus
from salsa.uncertainty.interval_scores import PLAIN

SEARCHED, SOLVED = 1e-2, 1e-4  # relative residuals: of the search of alpha, and of the fits that are kept
MOST_ITERATIONS = 100  # for one penalty
MOST_ALPHA = 10.0 ** LOG10_LIMITS[1]  # relative to the mean diagonal of the kernel matrix
ROWS, COLUMNS = 1024, 1024  # rows of a block of the sample's features, and columns of a tile of their products
WHOLE = -1  # the part of all rows


class Parts(NamedTuple):
    """The folds that each part of the rows knows, and the fold that tests it, both (folds, parts).

    The last part has all rows, and is not tested.
    """

    known: NDArray[np.bool_]
    tested: NDArray[np.bool_]

    @classmethod
    def of(cls, splits: TableSplits) -> Parts:
        folds = np.arange(splits.n_folds)
        numbers = folds[1:] if splits.forward else folds
        tested = folds[:, None] == numbers
        known = folds[:, None] < numbers if splits.forward else ~tested
        whole = np.ones((len(folds), 1), dtype=bool)
        return cls(np.hstack([known, whole]), np.hstack([tested, ~whole]))


class FirstSums(NamedTuple):
    """Sums over the rows of folds or parts (p): of w (p,), w y and w y^2 (p, q), w phi (p, r) and w phi y (p, q, r)."""

    weight: Floats
    y: Floats
    yy: Floats
    x: Floats
    xy: Floats

    def over(self, folds: NDArray[np.bool_]) -> FirstSums:
        """Return the sums of parts, each of which has some of the folds (folds, parts)."""
        return FirstSums(*(np.tensordot(folds.T.astype(float), sums, 1) for sums in self))

    def plus(self, other: FirstSums) -> FirstSums:
        return FirstSums(*map(add, self, other))

    @property
    def x_mean(self) -> Floats:
        return self.x / self.weight[:, None]

    @property
    def y_mean(self) -> Floats:
        return self.y / self.weight[:, None]


class State(NamedTuple):
    """The parameters of all parts and outputs, and their products with C about the means of each part."""

    theta: Floats  # (c, r)
    image: Floats  # (c, r), C theta over the rows of the part
    held_out: Floats  # (c, r), C theta over the held-out rows of the part
    residual: Floats  # (c,), relative
    iterations: int

    def done(self, tolerance: float) -> bool:
        return bool((self.residual <= tolerance).all())


@dataclass(frozen=True, eq=False)
class IteratedRidge:
    """The ridge fit to all rows, and the fits without each fold; the counterpart of ``lowrank.Ridge``."""

    path: AlphaPath
    solution: tuple[Floats, Floats]  # theta (r, q) and offset (q,)
    without: list[tuple[Floats, Floats]]
    splits: TableSplits
    mean: Floats  # (r,) of phi
    weight: float
    amplitude: Floats  # (q,)
    root: Floats  # (r, r), of alpha (C + alpha I)^-1, with C of the sample
    notes: tuple[str, ...]

    @property
    def degrees_of_freedom(self) -> float:
        """An estimate: 1 + trace C (C + alpha I)^-1, with C of the sample."""
        return 1.0 + freedom(self.root)

    def cvplus(self, anchors: Anchors) -> CVPlus:
        """Return the uncertainty, in which no residuals are counted yet."""
        thetas, offsets = (np.array(parts) for parts in zip(*self.without, strict=True))
        folds, q = offsets.shape
        no_scores = np.zeros((q, folds, CLASSES)), (PLAIN,) * q
        fit = self.root, self.path.alpha, self.weight, self.amplitude, thetas, offsets
        cvplus = CVPlus(anchors.L, self.mean, *fit, *no_scores)
        return replace(cvplus, units=self.splits.units, forward=self.splits.forward)


def fit_many_anchors(task: RidgeTask, anchors: Anchors, size: int) -> IteratedRidge:
    """Fit all rows in blocks of `size` rows, with alpha by the cross-validation error.

    All numbers are in float64: with products of a kernel in float32 and means in float64, conjugate gradients did not
    converge for a small alpha.
    """
    fits = IteratedFits(task, anchors, size)
    return fits.ridge(fits.choose_alpha())


class IteratedFits:
    """The systems of a task on many anchors, and their preconditioner. Systems are numbered part by part."""

    def __init__(self, task: RidgeTask, anchors: Anchors, size: int) -> None:
        assert task.table is not None  # large fits are given splits
        self.task, self.anchors, self.splits, self.size = task, anchors, task.table, size
        self.parts = Parts.of(task.table)
        folds = self._first_sums()
        self.sums, self.tests = folds.over(self.parts.known), folds.over(self.parts.tested)
        self.q, self.r = self.sums.y.shape[1], len(anchors.points)
        self.x_mean = np.repeat(self.sums.x_mean, self.q, axis=0)  # (c, r)
        xy = self.sums.xy - self.sums.y_mean[:, :, None] * self.sums.x[:, None, :]
        self.target = xy.reshape(-1, self.r)  # (c, r)
        self.gram = sample_gram(task, anchors)
        self.gram *= self.sums.weight[WHOLE] / task.sample.weight.sum()
        self.factor: tuple[float, Floats] | None = None

    def choose_alpha(self) -> Penalties[State]:
        """Try the given penalties, or search from the alpha of the sample on."""
        task, X = self.task, self.task.sample.X
        scale = mean_diagonal(task.kernel, X)
        if task.alphas is None:
            penalties = Penalties(partial(self._attempt, SEARCHED))
            penalties.search(penalty(task.kernel, X, task.alpha), ALPHA_FLOOR * scale, MOST_ALPHA * scale)
        else:
            penalties = Penalties(partial(self._attempt, SOLVED if len(task.alphas) == 1 else SEARCHED))
            penalties.attempt_all([max(alpha, ALPHA_FLOOR * scale) for alpha in task.alphas])
        return penalties

    def ridge(self, penalties: Penalties[State]) -> IteratedRidge:
        """Solve the systems of the best penalty to all digits that are wanted."""
        path, alpha = penalties.path, penalties.best
        state = self.solve(alpha, penalties.tried[alpha].solved, SOLVED)
        error, standard_error = self.held_out_error(state)
        path = path._replace(error=error, standard_error=standard_error)
        theta = state.theta.reshape(-1, self.q, self.r).transpose(0, 2, 1)  # (parts, r, q)
        offset = self.sums.y_mean - np.einsum("pr,prq->pq", self.sums.x_mean, theta)
        without = list(zip(theta[:WHOLE], offset[:WHOLE], strict=True))
        if self.splits.forward:
            without = [without[0], *without]  # nothing tests the rows before the first fold
        centred = self.sums.yy[WHOLE] - self.sums.y[WHOLE] * self.sums.y_mean[WHOLE]
        least = centred - np.sum(self.target.reshape(-1, self.q, self.r)[WHOLE] * theta[WHOLE].T, axis=1)
        amplitude = np.maximum(least, 0.0) / alpha / max(self.splits.n - 1.0, 1e-300)
        solution, root, given = (theta[WHOLE], offset[WHOLE]), self.unbiased_root(alpha), self.task.alphas is not None
        notes = _convergence(alpha, state, [] if given else penalties.unsolved) + _groups(self.task)
        mean, weight = self.sums.x_mean[WHOLE], float(self.sums.weight[WHOLE])
        return IteratedRidge(path, solution, without, self.splits, mean, weight, amplitude, root, notes)

    def solve(self, alpha: float, start: State | None, tolerance: float) -> State:
        """Solve all systems until their residuals r have |r| <= tolerance |c|, in the norm of the preconditioner.

        This norm is about the error of the predictions for the training rows, relative to their size.
        """
        zero, phase = np.zeros_like(self.target), f"{self.r} anchors, alpha = {alpha:.1e}"
        theta, image, held_out = (part.copy() for part in ((zero, zero, zero) if start is None else start[:3]))
        residual = self.target - image - alpha * theta
        size = np.sum(self.target * self._precondition(alpha, self.target), axis=1)
        solved = self._precondition(alpha, residual)
        now = np.sum(residual * solved, axis=1)
        direction, count = solved, 0
        while (live := np.flatnonzero(now > tolerance**2 * size)).size and count < MOST_ITERATIONS:
            count += 1
            product, beyond = self._products(direction[live], live)
            step = ratio(now[live], np.sum(direction[live] * (product + alpha * direction[live]), axis=1))[:, None]
            theta[live] += step * direction[live]
            image[live] += step * product
            held_out[live] += step * beyond
            residual[live] = self.target[live] - image[live] - alpha * theta[live]
            solved = self._precondition(alpha, residual[live])
            before, now[live] = now[live], np.sum(residual[live] * solved, axis=1)
            direction[live] = solved + ratio(now[live], before)[:, None] * direction[live]
            self.task.steps.step(phase, None, f"{count} iterations, residual {np.sqrt(ratio(now, size)).max():.1e}")
        state = State(theta, image, held_out, np.sqrt(ratio(now, size)), count)
        self.task.steps.done(phase, f"{count} iterations, residual {state.residual.max():.1e}")
        return state

    def held_out_error(self, state: State) -> tuple[float, float]:
        """Return the error as a share of the variance, and its standard error from the spread of the folds.

        About the means of a part, the squared error of its held-out rows is yy - 2 theta'xy + theta'C theta.
        """
        known, tests, shape = self.sums, self.tests, (-1, self.q, self.r)
        y_mean, x_mean, theta = known.y_mean, known.x_mean, state.theta.reshape(shape)
        yy = tests.yy - 2 * tests.y * y_mean + tests.weight[:, None] * y_mean**2
        level = tests.y - tests.weight[:, None] * y_mean
        xy = tests.xy - y_mean[:, :, None] * tests.x[:, None, :] - level[:, :, None] * x_mean[:, None, :]
        error = yy - 2 * np.sum(theta * xy, axis=2) + np.sum(theta * state.held_out.reshape(shape), axis=2)
        mean = known.y_mean[WHOLE]
        variance = known.yy[WHOLE] / known.weight[WHOLE] - mean**2
        variance = np.where(variance > 1e-14 * known.yy[WHOLE] / known.weight[WHOLE], variance, 1.0)
        return _pooled(np.mean(np.maximum(error[:WHOLE], 0.0) / variance, axis=1), tests.weight[:WHOLE])

    def unbiased_root(self, alpha: float) -> Floats:
        """Return a root of an estimate of alpha (C + alpha I)^-1, with C of all n rows, from C of the m sampled rows.

        With C of a sample and d degrees of freedom, the matrix is on average as large as with C of all rows and a
        penalty that is larger by the factor 1 / (1 - d / m): standard deviations would be too large. A smaller penalty
        corrects this bias. A sample of all rows keeps alpha.
        """
        rate = 1.0 / len(self.task.sample.X) - 1.0 / self.splits.n
        return self._root(alpha * (1.0 - rate * freedom(self._root(alpha))))

    def _attempt(self, tolerance: float, alpha: float, start: State | None) -> Tried[State]:
        """Return the cross-validation error of a penalty; of one that was searched, only if it could be solved."""
        state = self.solve(alpha, start, tolerance)
        error, standard_error = self.held_out_error(state)
        valid = state.done(tolerance) or self.task.alphas is not None
        return Tried(error if valid else np.inf, standard_error, state)

    def _first_sums(self) -> FirstSums:
        """Return the sums of every fold: phi = L^-1 k, and so are its sums."""
        task = self.task
        function = partial(_first_sums, self.anchors.points, task.kernel, len(self.parts.known), task.unit, task.level)
        found = task.rows.total(Total(function, FirstSums.plus, self.splits.fold, self.size))
        x, xy = (self._whitened(sums.reshape(-1, sums.shape[-1])).reshape(sums.shape) for sums in (found.x, found.xy))
        return found._replace(x=x, xy=xy)

    def _products(self, V: Floats, live: Places) -> tuple[Floats, Floats]:
        """Return C v (c, r) of some systems, over their rows and over their held-out rows, in a pass over all rows."""
        task, part = self.task, live // self.q
        means, L = self.x_mean[live], self.anchors.L
        coef = solve_triangular(L, V.T, lower=True, trans=1, check_finite=False)
        masks = np.hstack([self.parts.known[:, part], self.parts.tested[:, part]])
        at_mean = np.sum(means * V, axis=1)
        function = partial(_block_product, self.anchors.points, task.kernel, coef, at_mean, masks)
        total = task.rows.total(Total(function, iadd, self.splits.fold, self.size))
        product, beyond = np.split(self._whitened(total), 2)
        tests = self.tests
        shift = tests.x[part] - tests.weight[part, None] * means
        return product, beyond - np.sum(shift * V, axis=1)[:, None] * means

    def _whitened(self, K: Floats) -> Floats:
        """Return L^-1 k of every row k of K (c, r)."""
        return solve_triangular(self.anchors.L, K.T, lower=True, check_finite=False).T

    def _precondition(self, alpha: float, V: Floats) -> Floats:
        """Return (C + alpha I)^-1 v of every row v of V (c, r), with C of the sample."""
        root = self._root(alpha)
        half = dtrmm(1.0, root, V.T, lower=1, trans_a=1)
        whole: Floats = dtrmm(1.0 / alpha, root, half, lower=1, overwrite_b=1)
        return np.ascontiguousarray(whole.T)

    def _root(self, alpha: float) -> Floats:
        if self.factor is None or self.factor[0] != alpha:
            self.factor = None  # gives its memory back
            self.factor = alpha, inverse_root(self.gram, alpha)
        return self.factor[1]


def inverse_root(C: Floats, alpha: float) -> Floats:
    """Return a lower triangular root (r, r), in LAPACK's order: root root' = alpha (C + alpha I)^-1.

    With J for the reversal of all coordinates and N N' = J (C + alpha I) J, the root is sqrt(alpha) J N^-T J.
    """
    A = C[::-1, ::-1].copy()
    np.einsum("ii->i", A)[:] += alpha
    factor = positive_factor(A)
    del A
    inverse, _ = dtrtri(factor, lower=1, overwrite_c=1)
    inverse *= np.sqrt(alpha)
    return np.asfortranarray(inverse.T[::-1, ::-1])


def freedom(root: Floats) -> float:
    """Return the trace of C (C + alpha I)^-1 = I - root root'."""
    return len(root) - float(np.einsum("ij,ij->", root, root))


def sample_gram(task: RidgeTask, anchors: Anchors) -> Floats:
    """Return the sum C (r, r) of w (phi - mean)(phi - mean)' over the sample.

    Every tile of C is one product: the number of threads does not change the bits.
    """
    X, weight, r = task.sample.X, task.sample.weight, len(anchors.points)
    threads, F = thread_count(task.threads, r, r, r // 8), np.empty((len(X), r))

    def fill(rows: slice) -> None:
        F[rows] = anchors.features(X[rows], n_threads=1)

    for _ in mapped(fill, _slices(len(X), ROWS), threads):
        pass
    F -= weight @ F / weight.sum()
    F *= np.sqrt(weight)[:, None]
    C = np.empty((r, r))

    def tile(places: tuple[slice, slice]) -> None:
        one, other = places
        C[one, other] = F[:, one].T @ F[:, other]
        C[other, one] = C[one, other].T

    for _ in mapped(tile, combinations_with_replacement(_slices(r, COLUMNS), 2), threads):
        pass
    return C


def many_anchors_bytes(n: int, D: int, outputs: int, rank: int, folds: int, threads: int, size: int) -> int:
    """Return the peak memory: L, C and a root with two temporaries; or L, C and the features of the sample."""
    m, c = min(n, SAMPLE_ROWS), (folds + 1) * outputs
    r = min(rank, m)
    matrices = max(5 * r * r, m * r + 3 * r * r)
    return 8 * (matrices + 2 * m * D + threads * min(n, size) * (2 * r + 8 * c) + 24 * r * c)


def _first_sums(points: Floats, kernel: Kernel, n_folds: int, unit: Floats, level: Floats, block: Block) -> FirstSums:
    """Return the block's part of the sums of every fold, with k in the place of phi."""
    k, Y, w = kernel(block.X, points, n_threads=1), block.Y / unit - level, block.weight[:, None]
    mine = (block.fold[:, None] == np.arange(n_folds)) * w  # (m, folds)
    columns = np.hstack([mine, *(mine * y[:, None] for y in Y.T)])  # (m, (1 + q) folds)
    sums = (columns.T @ k).reshape(-1, n_folds, k.shape[1])
    return FirstSums(mine.sum(axis=0), mine.T @ Y, mine.T @ Y**2, sums[0], sums[1:].transpose(1, 0, 2))


def _block_product(
    points: Floats, kernel: Kernel, coef: Floats, at_mean: Floats, masks: NDArray[np.bool_], block: Block
) -> Floats:
    """Return the sums (2 c, r) of w k (k'coef - at_mean) over the block, with the masks (folds, 2 c) of its folds."""
    k = kernel(block.X, points, n_threads=1)
    u = (k @ coef - at_mean) * block.weight[:, None]
    sums: Floats = (np.hstack([u, u]) * masks[block.fold]).T @ k
    return sums


def _pooled(squares: Floats, weight: Floats) -> tuple[float, float]:
    """Return the mean error of folds with these sums of squares and weights, and its standard error."""
    share, errors = weight / weight.sum(), squares / weight
    mean = float(share @ errors)
    spread = np.sum((share * (errors - mean)) ** 2) * len(errors) / max(len(errors) - 1, 1)
    return mean, float(np.sqrt(spread))


def _convergence(alpha: float, state: State, unsolved: Sequence[float]) -> tuple[str, ...]:
    """Return what the user should know of the iterations, and warn of a fit that did not converge."""
    left = float(state.residual.max())
    if not state.done(SOLVED):
        what = f"conjugate gradients did not converge for alpha = {alpha:.1e} (relative residual {left:.1e})"
        warn_user(f"{what}: give a larger alpha or a smaller rank", ConvergenceWarning)
    notes = [f"conjugate gradients on the anchors: relative residual {left:.1e}"]
    if unsolved:
        tried = ", ".join(f"{alpha:.1e}" for alpha in sorted(unsolved))
        notes.append(f"conjugate gradients did not converge for alpha = {tried}: these were left out")
    return tuple(notes)


def _groups(task: RidgeTask) -> tuple[str, ...]:
    """Return a note if groups share a level in the noise, which is left out here."""
    if task.rho == 0.0:
        return ()
    return ("so many anchors allow no sums of groups: groups are held out whole, but share no level in the noise",)


def _slices(n: int, step: int) -> list[slice]:
    return [slice(start, min(start + step, n)) for start in range(0, n, step)]
