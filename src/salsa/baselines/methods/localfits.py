"""Polynomials fitted around queries by weighted least squares: many at once from shared moments, or one by one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from math import comb, log

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_solve

from salsa._utils.arrays import Floats
from salsa._utils.linalg import positive_factor
from salsa.baselines.methods.monomials import Integers, monomials, products

ROUNDS = 4  # rounds of iterated ridge regression: the relative bias of the ridge is reduced to its fourth power
MOST_MOMENTS = 2**14  # with more, every query is solved separately
BLOCK_NUMBERS = 2**20  # 8 MiB of weights at a time
EQUATION_NUMBERS = 2**22  # 32 MiB of normal equations, or of values of monomials, at a time
SMALLEST_BLOCK = 16  # queries: with fewer, computing moments takes longer than their product with the weights
NEGLIGIBLE = 1e-8  # times the ridge: rows of a smaller weight are ignored
FAR, SAFE_EXPONENT = 1e6, 300.0  # limits of halved squared distances, and of exponents that exp computes safely
SAFETY = 16.0  # factor by which rounding must stay below the ridge

Designs = Callable[[], Iterable[tuple[slice, Floats]]]


@dataclass(frozen=True, eq=False)
class LocalFits:
    """Polynomials that are fitted around queries to rows, whose features are in units of their bandwidths.

    With c times these bandwidths, polynomials are in u = (z - x) / min(c, spread): if a bandwidth is wider than the
    data, all terms in (z - x) / c would be as small as the ridge.
    """

    Z: Floats  # (n, D)
    Y: Floats  # (n, q)
    log_weight: Floats | None  # (n,); None: equal weights
    spread: Floats  # (D,): sqrt(D) sd of Z, so that |u| is about 1 for all data; infinite for a constant feature
    degree: int
    ridge: float

    def __call__(self, x: Floats, multiples: Sequence[float] = (1.0,)) -> Floats:
        """Return predictions (multiples, m, q) at the queries x (m, D), for every multiple of the bandwidths."""
        n, m, step = len(self.Z), len(x), min(self._block, len(x))
        out, designs = np.empty((len(multiples), m, self.Y.shape[1])), self._designs()
        buffers = np.empty((2, step, n))  # allocating memory for every block would take longer than the weights
        for start in range(0, m, step):
            rows = slice(start, start + step)
            log_kernel, log_w = buffers[:, : len(x[rows])]
            self._log_kernel(x[rows], log_kernel)
            for predicted, c in zip(out, multiples, strict=True):
                np.multiply(log_kernel, c**-2, out=log_w)
                predicted[rows] = self._predict(x[rows], c, log_w, designs)
        return out

    def of(self, rows: Integers) -> LocalFits:
        """Return a copy that fits these rows only."""
        log_weight = None if self.log_weight is None else self.log_weight[rows]
        return replace(self, Z=self.Z[rows], Y=self.Y[rows], log_weight=log_weight)

    @property
    def n_terms(self) -> int:
        return comb(self.Z.shape[1] + self.degree, self.degree)

    @property
    def _may_share(self) -> bool:
        few = comb(self.Z.shape[1] + 2 * self.degree, 2 * self.degree) <= MOST_MOMENTS
        return few and self.n_terms <= len(self.Z)

    @property
    def _block(self) -> int:
        """The number of queries that are answered at a time."""
        most = EQUATION_NUMBERS // self.n_terms**2 if self._may_share else BLOCK_NUMBERS
        return max(SMALLEST_BLOCK, min(most, BLOCK_NUMBERS // len(self.Z)))

    def _log_kernel(self, x: Floats, out: Floats) -> None:
        """Write -|x - z|^2 / 2 (m, n) to `out`; a large |x|^2 / 2, which would cost digits, is left out of its row."""
        own, rows = np.sum(x**2, axis=1) / 2, np.sum(self.Z**2, axis=1) / 2
        own[own > FAR] = 0.0
        left, right = np.column_stack([x, own, np.ones(len(x))]), np.column_stack([self.Z, -np.ones(len(rows)), -rows])
        np.matmul(left, right.T, out=out)

    def _predict(self, x: Floats, c: float, log_w: Floats, designs: Designs) -> Floats:
        """Return predictions (m, q) at x (m, D) for the multiple c; the log kernels log_w (m, n) are overwritten."""
        if self.log_weight is not None:
            log_w += self.log_weight
        nearest = log_w.max(axis=1)
        extreme = np.abs(nearest) > SAFE_EXPONENT
        log_w[extreme] -= nearest[extreme, None]
        unit = np.minimum(c, self.spread)
        shared = self._shares_moments(x / unit)
        if shared.all():
            return self._from_moments(x, unit, np.exp(log_w, out=log_w), designs)
        out = np.empty((len(x), self.Y.shape[1]))
        if shared.any():
            out[shared] = self._from_moments(x[shared], unit, np.exp(log_w[shared]), designs)
        for i in np.flatnonzero(~shared):
            out[i] = self._alone(x[i], unit, log_w[i])
        return out

    def _shares_moments(self, x: Floats) -> NDArray[np.bool_]:
        """Return per query whether rounding in shared moments, of size |x|^(2 degree), stays well below the ridge."""
        reach = np.abs(x).max(axis=1) + 3.0  # few rows count beyond three bandwidths or standard deviations
        digits = 2 * self.degree * np.log(reach) + log(SAFETY * np.finfo(float).eps)
        safe: NDArray[np.bool_] = digits <= log(self.ridge)
        return safe & self._may_share

    def _designs(self) -> Designs:
        """Return a function that yields slices of rows with values (M + q T, rows) of monomials at these rows.

        These are M monomials of twice the degree and the T terms times each output. A single slice is kept.
        """
        D, T = self.Z.shape[1], self.n_terms
        size = comb(D + 2 * self.degree, 2 * self.degree) + T * self.Y.shape[1]

        def design(rows: slice) -> tuple[slice, Floats]:
            values = monomials(D, 2 * self.degree).values(np.ascontiguousarray(self.Z[rows].T))
            return rows, np.concatenate([values, *(values[:T] * y for y in self.Y[rows].T)])

        step = max(1, EQUATION_NUMBERS // size)
        parts = [slice(start, start + step) for start in range(0, len(self.Z), step)]
        if not self._may_share or len(parts) > 1:
            return lambda: map(design, parts)
        kept = [design(parts[0])]
        return lambda: kept

    def _from_moments(self, x: Floats, unit: Floats, W: Floats, designs: Designs) -> Floats:
        """Return predictions (m, q) at x (m, D) with weights W (m, n), from shared moments recentred per query."""
        (m, D), q = x.shape, self.Y.shape[1]
        terms, pairs = monomials(D, self.degree), monomials(D, 2 * self.degree)
        T, M = self.n_terms, len(pairs.exponents)
        moments = np.zeros((M + q * T, m))
        for rows, design in designs():
            moments += design @ W[:, rows].T
        G, b = moments[:M], moments[M:].reshape(q, T, m).transpose(1, 0, 2)
        pairs.recentre(G, x, unit)
        terms.recentre(b, x, unit)
        return self._constants(np.take(G.T, products(D, self.degree), axis=1), np.moveaxis(b, 2, 0))

    def _constants(self, G: Floats, b: Floats) -> Floats:
        """Return the constant terms (m, q) that solve normal equations G (m, T, T), b (m, T, q); G is overwritten.

        With penalty P, A = G + P, B = A^-1 P and the constant's unit vector e, iterated ridge regression is e'(I + B +
        B^2 + B^3) A^-1 b. As A and P are symmetric, e'B = (P v)' with v = A^-1 e: two solves are enough.
        """
        (m, T), squares = G.shape[:2], monomials(self.Z.shape[1], self.degree).norms ** 2
        penalty = self.ridge * (np.einsum("mtt,t->m", G, squares)[:, None] / squares)
        penalty[:, 0] = 0.0
        np.einsum("mtt->mt", G)[:] += penalty
        first = np.linalg.solve(G, np.concatenate([b, np.broadcast_to(np.eye(T, 1), (m, T, 1))], axis=2))
        second = np.linalg.solve(G, penalty[:, :, None] * first)
        theta, v = first[..., :-1], first[..., -1]
        constants: Floats = theta[:, 0] + np.einsum("mt,mtq->mq", penalty * v, theta + second[..., :-1])
        constants += np.einsum("mt,mtq->mq", penalty * second[..., -1], second[..., :-1])
        return constants

    def _alone(self, x: Floats, unit: Floats, log_w: Floats) -> Floats:
        """Return the prediction (q,) at one query x (D,) from the rows of relevant weight, centred at the query."""
        log_w = log_w - log_w.max()
        near = log_w > log(NEGLIGIBLE * self.ridge)
        u, t, Y = (self.Z[near] - x) / unit, np.exp(log_w[near] / 2)[:, None], self.Y[near]
        return self._by_rows(u, t, t * Y) if len(u) < self.n_terms else self._by_terms(u, t, t * Y)

    def _by_terms(self, u: Floats, t: Floats, residual: Floats) -> Floats:
        """Return the constant term (q,) by equations in the terms; t = sqrt(w) (r, 1), residual = t Y (r, q)."""
        terms = monomials(u.shape[1], self.degree)
        F = t * (terms.values(np.ascontiguousarray(u.T)) * terms.norms[:, None]).T
        A = F.T @ F
        A[np.diag_indices_from(A)] += self.ridge * np.trace(A) * (np.arange(len(A)) > 0)
        L, theta = positive_factor(A), np.zeros((len(A), residual.shape[1]))
        for _ in range(ROUNDS):
            theta += cho_solve((L, True), F.T @ (residual - F @ theta), check_finite=False)
        constant: Floats = theta[0]
        return constant

    def _by_rows(self, u: Floats, t: Floats, residual: Floats) -> Floats:
        """Return the constant term b (q,) by equations in the rows: (A + s I) v = residual - t b and t'v = 0.

        A = t (K - 1) t' with the polynomial kernel K. At the query K - 1 is zero: the prediction is b.
        """
        K = (1.0 + u @ u.T) ** self.degree
        s = self.ridge * float(t[:, 0] ** 2 @ K.diagonal())
        L = positive_factor(t * (K - 1.0) * t.T + s * np.eye(len(u)))
        e: Floats = cho_solve((L, True), t, check_finite=False)
        constant = np.zeros(residual.shape[1])
        for _ in range(ROUNDS):
            b = (e.T @ residual / (e.T @ t))[0]
            residual = s * cho_solve((L, True), residual - t * b, check_finite=False)
            constant += b
        return constant
