"""Corrections that make a ridge fit monotone, by cutting planes.

The slopes along monotone features are linear in the coefficients (``slopes``), so the fit is a convex quadratic program
with a constraint for every point of the box. Few constraints are active, and cutting planes find them:

1. Find the points of the box where slopes are too small; require a slope of at least a small margin there.
2. Solve the quadratic program with all points so far. Repeat from 1 until no point of the grids is left.
3. Prove the signs between the points of the grids. Points where the proof fails join in step 1.

The correction of the free fit is a function phi(x)'d of some anchors. The free fit minimises the penalised sum of
squares, which therefore grows by 1/2 d'H d, H = C + alpha I with the centred second moments C of phi over the training
rows. With the slopes G d of the correction at the points, the free slopes g and the margins e, the program is

    min 1/2 d'H d,  G d >= e - g,      d = H^-1 G'u,      u = argmin 1/2 u'G H^-1 G'u - u'(e - g) over u >= 0,

whose dual has one variable per point.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular
from scipy.sparse import csc_array, triu

from salsa._utils.arrays import Floats, Places
from salsa.kernels import Kernel
from salsa.solvers.slopes import Monotone, Slopes

MARGIN = 1e-4  # least slope at the points of the program, as a share of the span of f over the range of the feature
MORE_MARGIN, MOST_MARGIN = 4.0, 1.0  # factor by which a margin without a proof grows, and the largest share
WRONG = 0.01  # slopes of the wrong sign that fits without a fold may have, as a share of the same
SLACK = 0.5  # share of the margin below which points of the grids join the program
DIP, PROVABLE = 0.25, 10.0  # share of the margin that proofs ask for, and margins over the bounds of the finest grids
JUDGING, FITTING = (33, 17), (129, 65)  # points of the grids in t and s, for fits without a fold and for the fit
MOST_ROUNDS, NEW_POINTS = 100, 8  # the most programs in a row, and the most points per feature that join at a time
IDLE, MOST_IDLE = 1e-8, 10  # a point is left out after so many multipliers below this share of the largest one
UNREACHABLE = 1e-10  # share of the largest scale below which the anchors cannot change a slope
INSTALL = "monotonic_cst needs the solver clarabel for quadratic programs: pip install clarabel"


class FreeFit(NamedTuple):
    """A free ridge fit, and how its penalised sum of squares grows with a correction."""

    coef: Floats  # (m, q) of the anchors of the slopes
    solve: Callable[[Floats], Floats]  # V (r, k) -> H^-1 V


class Correction(NamedTuple):
    """Corrections d (r, q) of the free fit, the corrected coefficients (m, q), and whether signs are proven (q,)."""

    d: Floats
    coef: Floats
    proven: NDArray[np.bool_]


class MonotoneFits:
    """Corrects free fits with a kernel on anchors Z (m, D), by functions of some of them, which are at `places` (r,).

    L L' = k(Z, Z) at the places. Points of the box that were needed for a fit are tried first for the next one.
    """

    def __init__(self, kernel: Kernel, anchors: Floats, places: Places, L: Floats, monotone: Monotone) -> None:
        found = (Slopes(kernel, anchors, monotone, j) for j in np.flatnonzero(monotone.sign).tolist())
        self.slopes = [one for one in found if one.vary]
        self.places, self.L = places, L
        self.functionals = np.zeros((0, len(anchors)))  # (points, m)
        self.G = np.zeros((0, len(places)))  # (points, r): slopes of phi
        self.owner = np.zeros(0, dtype=np.intp)  # (points,): number among `slopes`
        self.points: list[tuple[int, bytes]] = []  # (points,): owner, and the digits of t and s
        self.idle = np.zeros(0)  # (points,): programs in a row that did not need the point
        self.joined = 0  # number of points that ever joined

    def proven(self, coef: Floats) -> bool:
        """Return whether functions with these coefficients (m, q) are proven to be monotone."""
        return all(one.proof(c)[0] for one in self.slopes for c in coef.T)

    def judged(self, free: FreeFit, span: Floats) -> Correction:
        """Return a fit without slopes below -WRONG at the points of coarse grids; span (q,) is the span of f."""
        zero = np.zeros(len(self.slopes))
        found = [self._at_points(free, j, zero, self._margins(span[j], -WRONG), JUDGING) for j in range(len(span))]
        d, coef = (np.column_stack(parts) for parts in zip(*found, strict=True))
        return Correction(d, coef, np.zeros(len(span), dtype=bool))

    def fitted(self, free: FreeFit, span: Floats) -> Correction:
        """Return a fit whose signs are proven everywhere, unless no margin leads to a proof."""
        found = [self._everywhere(free, j, float(span[j])) for j in range(len(span))]
        d, coef, proven = zip(*found, strict=True)
        return Correction(np.column_stack(d), np.column_stack(coef), np.array(proven))

    def notes(self, correction: Correction) -> tuple[str, ...]:
        """Return how many points of the box are active, and whether some outputs have no proof."""
        if correction.proven.all():
            return (f"monotonic_cst: {int(np.sum(self.idle == 0))} points of the box hold the slopes back",)
        return ("monotonic_cst: no margin led to a proof, and the function is constant; check the signs",)

    def _everywhere(self, free: FreeFit, output: int, span: float) -> tuple[Floats, Floats, bool]:
        share = MARGIN
        while True:
            margins = self._margins(span, share)
            d, coef = self._at_points(free, output, margins, SLACK * margins, FITTING)
            margins = np.maximum(margins, [PROVABLE * one.finest_error(coef) for one in self.slopes])
            for _ in range(MOST_ROUNDS):
                proofs = [one.proof(coef, DIP * least) for one, least in zip(self.slopes, margins, strict=True)]
                if all(proof.proven for proof in proofs):
                    return d, coef, True
                before = self.joined
                for number, proof in enumerate(proofs):
                    if len(proof.t):
                        self._join(number, coef, proof.t, proof.size, SLACK * margins[number])
                d, coef = self._at_points(free, output, margins, SLACK * margins, FITTING)
                if self.joined == before:
                    break
            if share >= MOST_MARGIN:
                return d, coef, False
            share *= MORE_MARGIN

    def _margins(self, span: float, share: float) -> Floats:
        """Return the margins (slopes,): slopes as a share of the span of f over the range of the feature."""
        return np.array([share * span / one.span for one in self.slopes])

    def _at_points(
        self, free: FreeFit, output: int, margins: Floats, least: Floats, sizes: tuple[int, int]
    ) -> tuple[Floats, Floats]:
        """Return correction (r,) and coefficients (m,) of the fit with slopes of at least `least` on the grids."""
        for _ in range(MOST_ROUNDS):
            d = self._program(free, output, margins)
            coef = free.coef[:, output].copy()
            coef[self.places] += solve_triangular(self.L, d, lower=True, trans=1, check_finite=False)
            before = self.joined
            for number, one in enumerate(self.slopes):
                self._join(number, coef, one.grid(sizes[0]), sizes[1], least[number])
            if self.joined == before:
                break
        return d, coef

    def _join(self, number: int, coef: Floats, t: Floats, size: int, least: float) -> None:
        """Add the local minima among the points t (T,) with slopes below `least` to the points of the program.

        A point that is in the program already misses its margin by rounding errors of the solver alone.
        """
        one = self.slopes[number]
        values, s = one.least(coef, t, size)
        edge = np.concatenate([[np.inf], values, [np.inf]])
        low = np.flatnonzero((values < least) & (values <= edge[:-2]) & (values <= edge[2:]))
        points = {i: (number, np.append(t[i], s[i]).tobytes()) for i in low.tolist()}
        known = set(self.points)
        low = np.array([i for i, point in points.items() if point not in known], dtype=np.intp)
        low = low[np.argsort(values[low], kind="stable")][:NEW_POINTS]
        if len(low):
            self.points += [points[i] for i in low.tolist()]
            new = one.functionals(t[low], s[low])
            G = solve_triangular(self.L, new[:, self.places].T, lower=True, check_finite=False).T
            self.functionals, self.G = np.vstack([self.functionals, new]), np.vstack([self.G, G])
            self.owner = np.append(self.owner, np.full(len(low), number))
            self.idle, self.joined = np.append(self.idle, np.zeros(len(low))), self.joined + len(low)

    def _program(self, free: FreeFit, output: int, margins: Floats) -> Floats:
        """Return the correction d (r,) of least increase with the margins at all points."""
        lacking = margins[self.owner] - self.functionals @ free.coef[:, output]
        if not (lacking > 0).any():
            return np.zeros(len(self.places))
        V = free.solve(self.G.T)
        Q = self.G @ V
        scale = np.sqrt(np.maximum(Q.diagonal(), 0.0))
        kept = scale > UNREACHABLE * scale.max()
        scale = scale[kept]
        u = nonnegative_program(Q[np.ix_(kept, kept)] / np.outer(scale, scale), lacking[kept] / scale)
        d: Floats = V[:, kept] @ (u / scale)
        used = np.zeros(len(kept), dtype=bool)
        used[kept] = u > IDLE * u.max()
        self.idle = np.where(used, 0.0, self.idle + 1.0)
        self._keep(self.idle <= MOST_IDLE)
        return d

    def _keep(self, kept: NDArray[np.bool_]) -> None:
        self.functionals, self.G, self.owner = self.functionals[kept], self.G[kept], self.owner[kept]
        self.idle, self.points = self.idle[kept], [point for point, keep in zip(self.points, kept, strict=True) if keep]


def nonnegative_program(Q: Floats, b: Floats) -> Floats:
    """Return the u >= 0 (k,) of least 1/2 u'Q u - b'u, for Q (k, k) positive semidefinite with ones on the diagonal."""
    clarabel = import_clarabel()
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.max_threads = 1
    unit = float(np.abs(b).max())
    P, k = csc_array(triu(csc_array(Q + 1e-13 * np.eye(len(b))))), len(b)
    identity = csc_array((-np.ones(k), (np.arange(k), np.arange(k))), shape=(k, k))
    solver = clarabel.DefaultSolver(P, -b / unit, identity, np.zeros(k), [clarabel.NonnegativeConeT(k)], settings)
    u = np.array(solver.solve().x)
    return unit * np.maximum(u, 0.0) if np.isfinite(u).all() else np.zeros(k)


def import_clarabel() -> Any:
    """Return the solver of quadratic programs; ImportError with the way to install it."""
    try:
        import clarabel
    except ImportError as error:
        raise ImportError(INSTALL) from error
    return clarabel
