"""Closed forms of an additive kernel over a background: means, Shapley values and covariances, by compiled sweeps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from salsa import _core
from salsa._utils.arrays import Floats, for_the_core
from salsa._utils.threads import thread_count
from salsa.kernels.additive import AdditiveKernel
from salsa.kernels.marginals import Distribution
from salsa.kernels.pair_loops import core_call


def kernel_means(kernel: AdditiveKernel, Z: Any, background: Sequence[Distribution]) -> Floats:
    """Return a_j times the mean of k_j(X, z_j) over the background of feature j (m, D); its points may be missing."""
    Z, means = kernel.checked(Z), np.zeros((len(Z), kernel.n_features))
    for j in np.flatnonzero(kernel.relevance).tolist():
        means[:, j] = feature_means(kernel, j, Z[:, j], background[j])
    return means


def feature_means(kernel: AdditiveKernel, j: int, z: Floats, background: Distribution) -> Floats:
    """Return a_j q_j(z) (m,): the mean of a_j k_j(X, z) over the background of feature j, for values z (m,)."""
    points, weights = background
    means: Floats = kernel.relevance[j] * kernel.of_feature(j).product(z[:, None], points[:, None], weights)
    return means


def kernel_shapley(
    kernel: AdditiveKernel, X: Any, Z: Any, V: Floats, means: Floats, *, n_threads: int | None = None
) -> Floats:
    """Return Shapley values (n, D, q) of the rows of K(X, Z) V, V (m, q); absent features stand at ``means`` (m, D).

    They are exact: e_m is linear in every feature, which makes them integrals of polynomials of degree d - 1.
    """
    X, Z = kernel.checked(X), kernel.checked(Z)
    values = np.zeros((len(X), kernel.n_features, V.shape[1]))
    if (call := core_call(kernel.terms, X, Z)) is not None:
        assert call.Z is not None
        threads = thread_count(n_threads, len(X), len(Z), kernel.n_features * kernel.order)
        (keep,), (*_, weights) = call.plan.features, call.plan.arguments
        nodes, node_weights = unit_rule(len(weights) - 2)
        left, V = np.ascontiguousarray(means[:, keep]), for_the_core(V)
        values[:, keep] = _core.shapley(
            call.X, call.Z, left, V, nodes, node_weights, *call.plan.arguments, threads, **call.plan.layout
        )
    return values


def unit_rule(degree: int) -> tuple[Floats, Floats]:
    """Return Gauss-Legendre nodes and weights on [0, 1], exact for polynomials up to this degree."""
    nodes, weights = np.polynomial.legendre.leggauss(max(1, (degree + 2) // 2))
    return (nodes + 1) / 2, weights / 2


def covariances(products: Floats, means: Floats, coef: Floats, weights: Floats) -> Floats:
    """Return covariances (r, d-2 + D) of the kernel sum_m weights_m e_m with the last r of c anchors and with all c.

    products (D, r, c) and means (D, n) are moments of the base kernels over a background, coef (n,) the coefficients.
    The first columns are covariances of the orders 3..d of interaction, summed over the anchors up to each with their
    coefficients, pairs counted twice; the other columns are the parts of these that concern each feature.
    """
    D, r, c = products.shape
    return _core.covariances(products, means, coef, weights, thread_count(None, r, c, D * len(weights)))


def cross_covariances(
    products: Floats, x_means: Floats, z_means: Floats, coef: Floats, x_weights: Floats, z_weights: Floats
) -> Floats:
    """Return covariances (r, d-2 + D) of a kernel with r anchors and of another kernel with c anchors, d the smaller.

    products (D, r, c), x_means (D, r) and z_means (D, c) are moments of the base kernels over a background, coef (c,)
    the coefficients of the other kernel's anchors. x_weights (d+1, r) and z_weights (d+1, c) hold weights of the orders
    for each anchor. The columns mean the same as in ``covariances``, summed over all c anchors.
    """
    D, r, c = products.shape
    threads = thread_count(None, r, c, D * max(len(x_weights), len(z_weights)))
    return _core.cross_covariances(products, x_means, z_means, coef, x_weights, z_weights, threads)
