"""Simulations of the theorems: the rate in n, the dependence on D, and the best order for n rows.

Features are independent and uniform on [-1, 1]. Base kernels are Matern 3/2 (eigenvalues of the order l^-4: s = 2).
As the theorems choose lambda, the penalty of a grid with the least distance to the truth on new rows is taken.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import comb
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.random import Generator
from scipy.linalg import eigh
from threadpoolctl import threadpool_limits

from salsa._utils.arrays import Floats
from salsa.kernels import Kernel
from salsa.paper.theory import (
    base_eigenvalues,
    effective_dimension,
    exact_order_kernel,
    product_dimension,
    theorem1_bound,
)

BANDWIDTH, CENTRES, NEW_ROWS = 1.0, 5, 2000
PENALTIES = np.logspace(-8, 0, 33)  # times the diagonal of the kernel
WIDER = (1.0, 2.0, 4.0, 8.0, 16.0)
SMOOTHNESS = 2.0
TRUE, FULL, FULL_WIDER = "order 1, the true order", "order D", "order D, widths chosen too"


class AdditiveTruth(NamedTuple):
    """An additive truth f(x) = sum_j sum_i c_ij k(x_j, z_ij) of variance 1."""

    centres: Floats  # (CENTRES, D)
    coef: Floats  # (CENTRES, D)
    norm_squared: float  # sum of the squared RKHS norms of its D components

    def __call__(self, X: Floats) -> Floats:
        return sum(
            (_base(X[:, [j]], self.centres[:, [j]]) @ self.coef[:, j] for j in range(X.shape[1])), np.zeros(len(X))
        )


class Fit(NamedTuple):
    """Kernel ridge regression at every penalty of a grid; all arrays have the length of the grid."""

    lam: Floats
    risk: Floats  # mean squared distance to the truth on new rows
    dimension: Floats  # trace K (K + n lambda)^-1


def dimension_table(
    dimensions: Sequence[int] = (2, 3, 4, 5, 6, 8, 10, 12), orders: Sequence[int] = (1, 2, 3), lam: float = 1e-4
) -> pd.DataFrame:
    """Return gamma_k(lambda) of Theorem 1 for some orders and for order D, kernels scaled to diagonal 1; no sampling.

    Columns: D, order, components (their number), dimension (the sum over components).
    """
    mu = base_eigenvalues(BANDWIDTH)
    pairs = [(D, order) for D in dimensions for order in sorted({*orders, D}) if order <= D]
    rows = [{"D": D, "order": order, "components": comb(D, order)} for D, order in pairs]
    # The mean of M kernels has diagonal 1; lambda for the mean is lambda M for the sum.
    sizes = [row["components"] * product_dimension(mu, row["order"], lam * row["components"]) for row in rows]
    return pd.DataFrame(rows).assign(dimension=sizes)


def rate_experiment(
    sizes: Sequence[int] = (100, 200, 400, 800, 1600), D: int = 10, repeats: int = 8, seed: int = 0
) -> pd.DataFrame:
    """Return the excess risk for additive truths of order 1 against n, with the columns of ``additive_trials``."""
    return pd.concat([additive_trials(n, D, repeats, seed) for n in sizes], ignore_index=True)


def dimension_experiment(
    dimensions: Sequence[int] = (2, 3, 4, 6, 8, 12, 16, 24), n: int = 400, repeats: int = 8, seed: int = 0
) -> pd.DataFrame:
    """Return the excess risk for additive truths of order 1 against D, with the columns of ``additive_trials``."""
    return pd.concat([additive_trials(n, D, repeats, seed) for D in dimensions], ignore_index=True)


def additive_trials(n: int, D: int, repeats: int, seed: int, noise: float = 0.5) -> pd.DataFrame:
    """Fit truths of order 1 and variance 1 with order 1 and with order D.

    Columns: n, D, method, repeat; risk, the least on the grid, and its lam and effective dimension; bound, the least
    value of Theorem 1 on the grid without chi, and sum_bound, the bound for the sum kernel as one component (both for
    the true order only).
    """
    rows = []
    for repeat in range(repeats):
        truth = draw_truth(D, np.random.default_rng([seed, D, repeat]))  # equal for every n
        rng = np.random.default_rng([seed, D, repeat, n])
        X, Z = rng.uniform(-1, 1, (n, D)), rng.uniform(-1, 1, (NEW_ROWS, D))
        y, f = truth(X) + noise * rng.normal(size=n), truth(Z)
        for method, kernels in _contenders(D):
            fits = [fit_path(kernel, X, y, Z, f) for kernel in kernels]
            best = min(fits, key=lambda fit: float(fit.risk.min()))
            bounds = _bounds(best, n, D, truth.norm_squared, noise**2) if method == TRUE else {}
            rows.append({"n": n, "D": D, "method": method, "repeat": repeat, **_best(best), **bounds})
    return pd.DataFrame(rows)


def order_experiment(
    sizes: Sequence[int] = (50, 100, 200, 400, 800, 1600),
    orders: Sequence[int] = (1, 2, 3, 4, 8),
    D: int = 8,
    repeats: int = 6,
    seed: int = 0,
    share: float = 0.05,
    noise: float = 0.3,
) -> pd.DataFrame:
    """Fit a truth with all orders, f(x) = prod_j (1 + sqrt(share) g_j(x_j)) - 1 over its sd, with each order.

    Every g_j has mean 0 and variance 1, so that order m has a share of the variance proportional to C(D, m) share^m.
    Columns: n, order, repeat, risk, lam, dimension; beyond, the share of the variance above this order.
    """
    tails = order_tails(D, share)
    rows = []
    for n in sizes:
        for repeat in range(repeats):
            phase = np.random.default_rng([seed, repeat]).uniform(0, 2 * np.pi, D)  # equal for every n
            rng = np.random.default_rng([seed, repeat, n])
            X, Z = rng.uniform(-1, 1, (n, D)), rng.uniform(-1, 1, (NEW_ROWS, D))
            y, f = _product_truth(X, phase, share) + noise * rng.normal(size=n), _product_truth(Z, phase, share)
            for order in orders:
                fit = fit_path(exact_order_kernel(np.full(D, BANDWIDTH), order), X, y, Z, f)
                rows.append({"n": n, "order": order, "repeat": repeat, **_best(fit), "beyond": tails[order]})
    return pd.DataFrame(rows)


def order_tails(D: int, share: float) -> Floats:
    """Return the shares of the variance of the truth of ``order_experiment`` above the orders 0..D."""
    variances = np.array([comb(D, m) * share**m for m in range(D + 1)])
    variances[0] = 0.0
    tails: Floats = 1 - np.cumsum(variances) / variances.sum()
    return tails


def best_orders(frame: pd.DataFrame) -> pd.Series[int]:
    """Return the order with the least mean risk for every n of ``order_experiment``."""
    means = frame.pivot_table("risk", "n", "order", aggfunc="mean")
    return means.idxmin(axis=1).rename("order")


def slopes(frame: pd.DataFrame, by: str) -> dict[str, float]:
    """Return per method the exponent: the slope of log mean risk over log n or log D, by least squares."""
    found = {}
    for method, rows in frame.groupby("method"):
        means = rows.groupby(by)["risk"].mean()
        x, y = np.log(means.index.to_numpy(np.float64)), np.log(means.to_numpy(np.float64))
        found[str(method)] = float(np.polyfit(x, y, 1)[0])
    return found


def draw_truth(D: int, rng: Generator) -> AdditiveTruth:
    """Draw random centres and coefficients, scaled to variance 1 on random rows."""
    centres, coef = rng.uniform(-1, 1, (CENTRES, D)), rng.normal(size=(CENTRES, D))
    coef -= coef.mean(axis=0)
    coef /= np.std(AdditiveTruth(centres, coef, 0.0)(rng.uniform(-1, 1, (4000, D))))
    norms = [coef[:, j] @ _base(centres[:, [j]], centres[:, [j]]) @ coef[:, j] for j in range(D)]
    return AdditiveTruth(centres, coef, float(sum(norms)))


def fit_path(kernel: Kernel, X: Floats, y: Floats, Z: Floats, f: Floats) -> Fit:
    """Fit X (n, D), y (n,) at every penalty from one eigen-decomposition; compare with the truth f (m,) at Z (m, D)."""
    with threadpool_limits(1):
        values, vectors = eigh(kernel(X))
        lam = PENALTIES * kernel.diagonal(X[:1])[0]
        values = np.maximum(values, 0.0)
        shrunk = (vectors.T @ y)[:, None] / (values[:, None] + len(X) * lam)  # (n, grid)
        predictions = kernel(Z, X) @ (vectors @ shrunk)
    risk = np.mean((predictions - f[:, None]) ** 2, axis=0)
    return Fit(lam, risk, effective_dimension(values, len(X) * lam))


def _contenders(D: int) -> Iterator[tuple[str, list[Kernel]]]:
    h = np.full(D, BANDWIDTH)
    yield TRUE, [exact_order_kernel(h, 1)]
    yield FULL, [exact_order_kernel(h, D)]
    yield FULL_WIDER, [exact_order_kernel(c * h, D) for c in WIDER]


def _bounds(fit: Fit, n: int, D: int, norm_squared: float, variance: float) -> dict[str, float]:
    dimension = D * effective_dimension(base_eigenvalues(BANDWIDTH), fit.lam)
    paper = theorem1_bound(D, n, fit.lam, norm_squared, variance, dimension)
    as_one = theorem1_bound(1, n, fit.lam, norm_squared, variance, fit.dimension)
    return {"bound": float(paper.min()), "sum_bound": float(as_one.min())}


def _best(fit: Fit) -> dict[str, float]:
    best = int(np.argmin(fit.risk))
    return {"risk": float(fit.risk[best]), "lam": float(fit.lam[best]), "dimension": float(fit.dimension[best])}


def _base(x: Floats, z: Floats) -> Floats:
    return exact_order_kernel([BANDWIDTH], 1)(x, z)


def _product_truth(X: Floats, phase: Floats, share: float) -> Floats:
    waves = np.sqrt(2) * np.sin(np.pi * X + phase)
    variance = (1 + share) ** X.shape[1] - 1
    truth: Floats = (np.prod(1 + np.sqrt(share) * waves, axis=1) - 1) / np.sqrt(variance)
    return truth
