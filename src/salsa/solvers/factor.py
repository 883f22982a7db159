"""Factors of a kernel matrix, which depend on neither the target nor alpha: computed once, used many times."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import qr, svd
from scipy.linalg.lapack import dpstrf

from salsa._utils.arrays import Floats
from salsa._utils.linalg import symmetric_eigen
from salsa.data.noise import Noise

_EPS = float(np.finfo(np.float64).eps)


@dataclass(frozen=True, eq=False)
class Factor:
    """Eigen-decomposition of the whitened, centred kernel matrix: P T K T' P = Q diag(l) Q'.

    Q (n, r) has orthonormal columns, l (r,) > 0 is ascending. T whitens the noise (``salsa.data.noise``): W^1/2 for
    weights alone. P projects out the direction T 1 of an unpenalised intercept (P = I without one). Eigenvalues at the
    level of rounding are left out: r <= n.
    """

    Q: Floats
    l: Floats  # noqa: E741  the eigenvalues' name in every formula
    noise: Noise
    kernel_mean: Floats | None  # (n,) generalised mean over rows of K[:, i]; None without intercept

    @property
    def spans_everything(self) -> bool:
        """Whether Q and the intercept's direction are a basis of all of R^n."""
        n, r = self.Q.shape
        return bool(r + (self.kernel_mean is not None) == n)

    @property
    def intercept_direction(self) -> Floats | None:
        """The direction u (n,) = T 1 / |T 1|, or None without intercept."""
        return None if self.kernel_mean is None else self.noise.ones / np.linalg.norm(self.noise.ones)

    def remove(self, y: Floats) -> Floats:
        """Remove rounding errors along Q and u from y (n, q), which is nearly orthogonal to both already."""
        y = y - self.Q @ (self.Q.T @ y)
        u = self.intercept_direction
        return y if u is None else y - np.outer(u, u @ y)

    def project(self, Y: Floats) -> Floats:
        """Return P T Y (n, q), the whitened and centred targets."""
        white = self.noise.whiten(Y)
        u = self.intercept_direction
        return white if u is None else white - np.outer(u, u @ white)


def exact_factor(K: Floats, noise: Noise | None = None, *, intercept: bool = True) -> Factor:
    """Return the factor of K (n, n), which is overwritten.

    1. Centre and whiten. 2. A pivoted Cholesky factor that stops at the level of rounding reveals the numerical rank.
    3. If the rank is small, QR and SVD of that factor cost n r^2; otherwise the eigen-decomposition costs n^3. The
    intercept's direction u, an eigenvector of eigenvalue 0, is first moved to the other end of the spectrum and then
    dropped: it could not be told from other eigenvectors with eigenvalues at the level of rounding.
    """
    noise = Noise(np.ones(len(K))) if noise is None else noise
    mean = noise.mean_weight @ K if intercept else None
    if mean is not None:
        K -= mean
        K -= (mean - noise.mean_weight @ mean)[:, None]
    K = noise.whiten_both(K)
    u = noise.ones / np.linalg.norm(noise.ones) if intercept else None
    F = _pivoted_cholesky(K)
    Q, l = _eigen(K, u) if F is None else _eigen_of_gram(F, u)  # noqa: E741
    return Factor(Q, l, noise, mean)


def _pivoted_cholesky(A: Floats) -> Floats | None:
    """Return F (n, r) with A = F F' up to rounding, or None if r > n / 3."""
    L, pivots, rank, _ = dpstrf(A, tol=_EPS * float(A.diagonal().max(initial=0.0)), lower=1)
    if rank > len(A) // 3:
        return None
    F = np.zeros((len(A), rank))
    F[pivots - 1] = np.tril(L[:, :rank])
    return F


def _eigen(A: Floats, u: Floats | None) -> tuple[Floats, Floats]:
    """Return eigenvectors and positive eigenvalues, ascending, of A but for its eigenvector u. A is overwritten."""
    if u is not None:
        A += (2.0 * max(float(np.trace(A)), 1e-300)) * np.outer(u, u)
    l, Q = symmetric_eigen(A, overwrite=True)  # noqa: E741
    if u is not None:
        l, Q = l[:-1], Q[:, :-1]  # noqa: E741
    keep = l > _EPS * l[-1]
    return Q[:, keep], l[keep]


def _eigen_of_gram(F: Floats, u: Floats | None) -> tuple[Floats, Floats]:
    """Return the result of ``_eigen`` for A = F F', from the singular values of F's triangular factor."""
    if F.shape[1] == 0:
        return F, np.empty(0)
    if u is not None:
        F = F - np.outer(u, u @ F)
    Q, R = qr(F, mode="economic", check_finite=False)
    U, sigma, _ = svd(R, check_finite=False)
    order = np.flatnonzero(sigma**2 > _EPS * sigma[0] ** 2)[::-1]
    return Q @ U[:, order], sigma[order] ** 2
