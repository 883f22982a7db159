"""The paper's theory as functions: effective dimensions, the bound of Theorem 1, the rates of Theorem 2, and Theorem 3.

Symbols: n rows, D features, order d, M_d = C(D, d) components, each with a kernel k^(j) of d features whose eigenvalues
are mu_l; lambda is the penalty of the paper, which adds n lambda to the diagonal of the kernel matrix K of the sum of
all k^(j), not normalised.
"""

from __future__ import annotations

from itertools import combinations
from math import comb, pi, sqrt
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import eigvalsh

from salsa._utils.arrays import Floats
from salsa.kernels import Kernel
from salsa.kernels.additive import AdditiveKernel

MOST_COMPONENTS = 5000  # limit of kernel matrices that are decomposed one by one
NEGLIGIBLE = 1e-3  # eigenvalues below this share of lambda are summed together


def exact_order_kernel(bandwidth: Any, order: int, base: str = "matern32", scale: float = 1.0) -> AdditiveKernel:
    """Return the paper's kernel scale * e_d(k_1, ..., k_D): the unnormalised sum of all products of d base kernels.

    Its weight scale * C(D, d) cancels the normaliser 1 / C(D, d) of ``AdditiveKernel``.
    """
    h = np.asarray(bandwidth, dtype=np.float64)
    if not 1 <= order <= len(h):
        raise ValueError(f"order={order}: with {len(h)} features, the order must be from 1 to {len(h)}")
    weights = np.zeros(order + 1)
    weights[order] = scale * comb(len(h), order)
    return AdditiveKernel(h, np.ones(len(h)), weights, base)


def effective_dimension(eigenvalues: ArrayLike, penalty: ArrayLike) -> Floats:
    """Return gamma^(j)(lambda) = sum_l mu_l / (mu_l + lambda), of the shape of `penalty`.

    For eigenvalues of K and n lambda it is trace K (K + n lambda)^-1; for lambda = 0 it is the number of positive mu_l.
    """
    mu, lam = np.asarray(eigenvalues, dtype=np.float64), np.asarray(penalty, dtype=np.float64)
    if (lam < 0).any() or np.isnan(lam).any():
        raise ValueError(f"penalty={penalty!r} must not be negative")
    mu = mu[mu > 0]
    return np.asarray(np.sum(1 / (1 + lam[..., None] / mu), axis=-1))


def matrix_eigenvalues(K: Floats) -> Floats:
    """Return the ascending eigenvalues of a kernel matrix (n, n); values within rounding of zero become zero."""
    values = np.asarray(eigvalsh(K), dtype=np.float64)
    values[values < len(K) * np.finfo(np.float64).eps * values[-1]] = 0.0
    return values


def sum_dimension(kernel: Kernel, X: Any, lam: ArrayLike) -> Floats:
    """Return the effective dimension of the sum of all components on rows X (n, D): the degrees of freedom of a fit."""
    return effective_dimension(matrix_eigenvalues(kernel(X)), len(X) * np.asarray(lam, dtype=np.float64))


def paper_dimension(bandwidth: Any, X: Any, order: int, lam: ArrayLike, base: str = "matern32") -> Floats:
    """Return gamma_k(lambda) of Theorem 1 on rows X (n, D): the sum of the effective dimensions of all components.

    It is at least ``sum_dimension``: functions that several components share are counted once per component.
    """
    X, h = np.asarray(X, dtype=np.float64), np.asarray(bandwidth, dtype=np.float64)
    if comb(len(h), order) > MOST_COMPONENTS:
        raise ValueError(f"C({len(h)}, {order}) components are more than {MOST_COMPONENTS}: take fewer features")
    parts = [list(part) for part in combinations(range(len(h)), order)]
    terms = [sum_dimension(exact_order_kernel(h[part], order, base), X[:, part], lam) for part in parts]
    return np.asarray(sum(terms))


def base_eigenvalues(bandwidth: float, base: str = "matern32", points: int = 400) -> Floats:
    """Return mu_l of one base kernel under the uniform distribution on [-1, 1], largest first, by the midpoint rule."""
    x = (2 * np.arange(points)[:, None] + 1) / points - 1
    return matrix_eigenvalues(exact_order_kernel([bandwidth], 1, base)(x) / points)[::-1]


def product_dimension(eigenvalues: ArrayLike, order: int, lam: float) -> float:
    """Return gamma^(j)(lambda) of a product of `order` base kernels of independent features with these eigenvalues.

    Its eigenvalues are all products of these. Values below 0.001 lambda count as mu / lambda, at most 0.1 % too much.
    """
    mu = np.asarray(eigenvalues, dtype=np.float64)
    products = np.ones(1)
    for left in reversed(range(order)):  # number of factors to come, each at most mu.max()
        products = np.outer(products, mu).ravel()
        products = products[products * mu.max() ** left >= NEGLIGIBLE * lam]
    small = mu.sum() ** order - products.sum()
    return float(effective_dimension(products, lam) + small / lam)


def theorem1_bound(
    components: int,
    n: int,
    lam: ArrayLike,
    norm_squared: float,
    noise_variance: float,
    dimension: ArrayLike,
    chi: float = 0.0,
) -> Floats:
    """Return the bound of Theorem 1: excess risk <= M_d (20 lambda |f|^2 + 12 sigma^2 gamma_k(lambda) / n + chi).

    norm_squared : sum of the squared RKHS norms of the components of f, the smallest over all its decompositions.
    chi : terms of low order, with a constant that the paper does not give. With chi = 0 the result is not a bound, but
        the sum of the terms that Theorem 2 balances.
    components : M_d. With M_d = 1 and the dimension of the sum kernel, the sum kernel is a single component, and the
        theorem needs Assumption 2 for its eigenfunctions instead.
    """
    variance = 12 * noise_variance * np.asarray(dimension, dtype=np.float64) / n
    return np.asarray(components * (20 * np.asarray(lam, dtype=np.float64) * norm_squared + variance + chi))


def sobolev_penalty(n: float, order: int, smoothness: float) -> float:
    """Return the lambda of Theorem 2 for eigenvalues mu_l = O(l^(-2s/d)): n^(-2s / (2s + d)), up to a constant."""
    if not 2 * smoothness > order:
        raise ValueError(f"smoothness={smoothness}: the eigenvalues have a finite sum only if 2 s > d = {order}")
    return float(n ** (-2 * smoothness / (2 * smoothness + order)))


def sobolev_rate(n: float, D: int, order: int, smoothness: float) -> float:
    """Return the rate of Theorem 2 for mu_l = O(l^(-2s/d)): D^(2d) n^(-2s / (2s + d)), up to constants and log n.

    With order = D and one component, the paper gives n^(-2s / (2s + D)) for plain kernel ridge regression.
    """
    return _components_factor(D, order) * sobolev_penalty(n, order, smoothness)


def gaussian_rate(n: float, D: int, order: int) -> float:
    """Return the rate of Theorem 2 for mu_l = O(p^d exp(-a l^2)), p^2 = 2 pi: D^(2d) p^d / n up to constants and log n.

    With order = D and one component, the paper gives (2 pi)^(D/2) / n for plain kernel ridge regression.
    """
    return _components_factor(D, order) * sqrt(2 * pi) ** order / n


def theorem3_bound(approximation: float, estimation: float, eta: float | None = None) -> float:
    """Return the bound of Theorem 3, (1 + eta) AE + (1 + 1/eta) EE; without eta its minimum, (sqrt AE + sqrt EE)^2.

    AE is the smallest error of a class of functions whose size depends on lambda, EE is of the order M_d gamma_k / n.
    """
    if eta is None:
        return (sqrt(approximation) + sqrt(estimation)) ** 2
    return (1 + eta) * approximation + (1 + 1 / eta) * estimation


def _components_factor(D: int, order: int) -> float:
    """Return D^(2d), the order of the squared number of components, or 1 for the one component of order D."""
    if not 1 <= order <= D:
        raise ValueError(f"order={order} must be from 1 to D={D}")
    return 1.0 if order == D else float(D) ** (2 * order)
