"""Slow, obvious twins of everything fast, written from the definitions: tests compare the library with these."""

from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import combinations, product
from math import comb, lcm, prod
from typing import NamedTuple

import mpmath
import numpy as np
from scipy.optimize import minimize

# --- kernels ------------------------------------------------------------------------------------------


class BaseKernel(NamedTuple):
    """A base kernel as a formula in m (numpy or mpmath) and s = |t| / h, a number of m."""

    formula: Callable
    far: float = 1e-290  # the most that an additive kernel is at 1e100 bandwidths
    for_categories: bool = False  # without a bandwidth: s = |t|


BASE_KERNELS = {
    "gaussian": BaseKernel(lambda m, s: m.exp(-(s**2) / 2)),
    "laplace": BaseKernel(lambda m, s: m.exp(-s)),
    "matern32": BaseKernel(lambda m, s: (1 + m.sqrt(3) * s) * m.exp(-m.sqrt(3) * s)),
    "matern52": BaseKernel(lambda m, s: (1 + m.sqrt(5) * s + 5 * s**2 / 3) * m.exp(-m.sqrt(5) * s)),
    "equality": BaseKernel(lambda m, s: 1.0 * (s == 0), for_categories=True),
}
BASES = tuple(BASE_KERNELS)
NUMERIC_BASES = tuple(name for name, base in BASE_KERNELS.items() if not base.for_categories)


def base_kernel(name: str, t, h, m=np):
    """Return k_j at the difference t = x_j - x'_j with bandwidth h, in numpy or mpmath."""
    base = BASE_KERNELS[name]
    return base.formula(m, abs(t) if base.for_categories else abs(t) / h)


def scaled_bases(X, Z, bandwidth, relevance, base="gaussian") -> np.ndarray:
    """Return s (D, n, m): a_j k_j of every feature and pair of rows."""
    D = X.shape[1]
    names = [base] * D if isinstance(base, str) else base
    differences = [X[:, j, None] - Z[None, :, j] for j in range(D)]
    return np.array([relevance[j] * base_kernel(names[j], differences[j], bandwidth[j]) for j in range(D)])


def elementary_symmetric(s: np.ndarray, m: int) -> np.ndarray:
    """Return e_m (...): the sum of the products of all subsets of m of the D entries of s (D, ...)."""
    terms = [np.prod(s[list(subset)], axis=0) for subset in combinations(range(len(s)), m)]
    return np.sum(terms, axis=0)


def additive_kernel(X, Z, bandwidth, relevance, order_weights, base="gaussian") -> np.ndarray:
    """Return K (n, m): the sum over m of w_m times the mean of all C(D, m) products of m scaled base kernels."""
    s = scaled_bases(X, Z, bandwidth, relevance, base)
    D = X.shape[1]
    return sum(w * elementary_symmetric(s, m) / comb(D, m) for m, w in enumerate(order_weights))


def sum_over_sets(X, Z, sets, bandwidth, relevance, order, base="gaussian", exact=False) -> np.ndarray:
    """Return K (n, m): the sum over sets S of the additive kernel of the columns in S, of orders 1..min(order, |S|)."""
    total = np.zeros((len(X), len(Z)))
    for S in map(list, sets):
        d = min(order, len(S))
        weights = np.eye(d + 1)[d] if exact else np.append(0.0, np.ones(d))
        total += additive_kernel(X[:, S], Z[:, S], bandwidth[S], relevance[S], weights, base)
    return total


def mixed_difference(f, X: np.ndarray, j: int, k: int, values: tuple[float, float]) -> np.ndarray:
    """Return f(a,b) - f(a',b) - f(a,b') + f(a',b') (n,): zero for all a, b if f has no interaction of x_j and x_k."""
    total = np.zeros(len(X))
    for first in (False, True):
        for second in (False, True):
            Z = X.copy()
            Z[:, j] = np.where(first, values[0], X[:, j])
            Z[:, k] = np.where(second, values[1], X[:, k])
            total += (1 if first == second else -1) * f(Z)
    return total


def mpmath_kernel(x, z, bandwidth, relevance, weights, base: Sequence[str]) -> mpmath.mpf:
    """Return sum_m weights_m e_m(a_1 k_1, ..., a_D k_D) of one pair of rows, in mpmath's precision."""
    s = []
    for xj, zj, h, a, name in zip(x, z, bandwidth, relevance, base, strict=True):
        t = mpmath.mpf(float(xj)) - mpmath.mpf(float(zj))
        s.append(mpmath.mpf(float(a)) * base_kernel(name, t, mpmath.mpf(float(h)), mpmath))
    orders = [mpmath.fsum(map(mpmath.fprod, combinations(s, m))) for m in range(len(weights))]
    return mpmath.fsum(mpmath.mpf(float(w)) * e for w, e in zip(weights, orders, strict=True))


# --- elementary symmetric polynomials of numbers ----------------------------------------------------------


def exact_elementary_symmetric(s: Sequence[float], d: int) -> list[Fraction]:
    """Return e_0..e_d without any rounding: the coefficients of prod_j (1 + s_j t), over a common denominator."""
    fractions = [Fraction(float(value)) for value in s]
    denominator = lcm(*(value.denominator for value in fractions))
    e = [1] + [0] * d
    for value in fractions:
        numerator = value.numerator * (denominator // value.denominator)
        e = [1] + [e[m] + numerator * e[m - 1] for m in range(1, d + 1)]
    return [Fraction(e[m], denominator**m) for m in range(d + 1)]


def enumerated_elementary_symmetric(s: Sequence[Fraction], m: int) -> Fraction:
    """Return e_m by its definition, without rounding."""
    return sum((prod(subset, start=Fraction(1)) for subset in combinations(s, m)), start=Fraction(0))


def newton_girard(s: np.ndarray, d: int) -> np.ndarray:
    """Return e_d (...) as in the paper: e_m = 1/m sum_{i=1..m} (-1)^(i-1) e_{m-i} p_i, p_i = sum_j s_j^i."""
    p = [np.sum(s**i, axis=0) for i in range(d + 1)]
    e = [np.ones(s.shape[1:])]
    for m in range(1, d + 1):
        e.append(sum((-1) ** (i - 1) * e[m - i] * p[i] for i in range(1, m + 1)) / m)
    return e[d]


# --- ridge regression ---------------------------------------------------------------------------------


def noise_covariance(weight, group=None, rho=0.0) -> np.ndarray:
    """Return R (n, n) = W^-1 + rho Z Z': rows of a group share a level of variance rho."""
    R = np.diag(1 / np.asarray(weight, dtype=float))
    if group is not None:
        group = np.asarray(group)
        R += rho * (group[:, None] == group[None])
    return R


def ridge(K, Y, alpha, R=None, *, intercept=True) -> tuple[np.ndarray, np.ndarray]:
    """Return coefficients (n, q) and offset (q,) from [[K + alpha R, 1], [1', 0]] [c; b] = [Y; 0], R the noise."""
    n = len(K)
    penalised = K + alpha * (np.eye(n) if R is None else R)
    if not intercept:
        return np.linalg.solve(penalised, Y), np.zeros(Y.shape[1])
    ones = np.ones((n, 1))
    system = np.block([[penalised, ones], [ones.T, np.zeros((1, 1))]])
    solution = np.linalg.solve(system, np.vstack([Y, np.zeros((1, Y.shape[1]))]))
    return solution[:n], solution[n]


def held_out_residuals(K, Y, alpha, held_out, R=None, *, intercept=True) -> np.ndarray:
    """Return the residuals (rows of held_out, q) of a fit to all other rows."""
    train = np.setdiff1d(np.arange(len(K)), held_out)
    among = np.ix_(train, train)
    coef, offset = ridge(K[among], Y[train], alpha, None if R is None else R[among], intercept=intercept)
    return Y[held_out] - K[np.ix_(held_out, train)] @ coef - offset


def smoother(K, alpha, R=None, *, intercept=True) -> np.ndarray:
    """Return S (n, n) with fitted values S Y, from the fits of the n unit vectors."""
    coef, offset = ridge(K, np.eye(len(K)), alpha, R, intercept=intercept)
    return K @ coef + offset


def remainder(K, k, prior, alpha, R=None) -> np.ndarray:
    """Return t (m,) = k(x, x) - k'C^-1 k + (1 - 1'C^-1 k)^2 / (1'C^-1 1), C = K + alpha R."""
    inverse = np.linalg.inv(K + alpha * (np.eye(len(K)) if R is None else R))
    missing = 1 - k @ inverse.sum(axis=0)
    return prior - np.einsum("ij,jk,ik->i", k, inverse, k) + missing**2 / inverse.sum()


def inverse_root(R) -> np.ndarray:
    """Return the symmetric R^-1/2 (n, n)."""
    values, vectors = np.linalg.eigh(R)
    return (vectors / np.sqrt(values)) @ vectors.T


def restricted_likelihood(y, C) -> float:
    """Return minus the log density of n - 1 orthonormal contrasts of y (n,) ~ N(b 1, C), without constants."""
    n = len(y)
    basis = np.linalg.svd(np.eye(n) - 1 / n)[0][:, : n - 1]
    S, z = basis.T @ C @ basis, basis.T @ y
    return 0.5 * z @ np.linalg.solve(S, z) + 0.5 * np.linalg.slogdet(S)[1]


# --- derivatives --------------------------------------------------------------------------------------


def finite_difference(f: Callable[[np.ndarray], float], at: np.ndarray, step: float = 1e-3) -> np.ndarray:
    """Return the gradient of f at a vector, by the central five-point rule with an error of order step^4."""
    gradient = np.empty(len(at))
    for j, unit in enumerate(np.eye(len(at))):
        one, two = (f(at + k * step * unit) - f(at - k * step * unit) for k in (1, 2))
        gradient[j] = (8 * one - two) / (12 * step)
    return gradient


# --- explanations: from predictions alone -------------------------------------------------------------

Marginal = tuple[np.ndarray, np.ndarray]  # points, weights that sum to one


def marginal(x: np.ndarray, weight: np.ndarray | None = None) -> Marginal:
    """Return the distinct values of a column, NaN included, and their shares of the weight."""
    weight = np.ones(len(x)) if weight is None else weight
    points = [*sorted(set(x[~np.isnan(x)])), *([np.nan] if np.isnan(x).any() else [])]
    same = [np.isnan(x) if np.isnan(p) else x == p for p in points]
    return np.array(points), np.array([weight[rows].sum() for rows in same]) / weight.sum()


def product_grid(columns: Sequence[np.ndarray]) -> np.ndarray:
    """Return all combinations of the columns' values (P_1 P_2 ... P_D, D); the last feature varies fastest."""
    return np.stack(np.meshgrid(*columns, indexing="ij"), axis=-1).reshape(-1, len(columns))


def subsets(items: Sequence[int]) -> list[tuple[int, ...]]:
    return [subset for size in range(len(items) + 1) for subset in combinations(items, size)]


def mean_over(values: np.ndarray, marginals: Sequence[Marginal], features: Sequence[int]) -> np.ndarray:
    """Return the mean of values on the grid (P_1, ..., P_D) over these features, whose axes get length 1."""
    for j in features:
        shape = [-1 if axis == j else 1 for axis in range(values.ndim)]
        values = np.sum(values * marginals[j][1].reshape(shape), axis=j, keepdims=True)
    return values


def functional_anova(f: Callable, marginals: Sequence[Marginal]) -> dict[tuple[int, ...], np.ndarray]:
    """Return f_S on the grid of the marginals for every set S, by inclusion and exclusion of conditional means."""
    D = len(marginals)
    values = f(product_grid([points for points, _ in marginals])).reshape([len(points) for points, _ in marginals])
    conditional = {T: mean_over(values, marginals, [j for j in range(D) if j not in T]) for T in subsets(range(D))}
    return {S: sum((-1) ** (len(S) - len(T)) * conditional[T] for T in subsets(S)) for S in subsets(range(D))}


def variance_on_grid(effect: np.ndarray, marginals: Sequence[Marginal]) -> float:
    full = np.broadcast_to(effect, [len(points) for points, _ in marginals])
    return mean_over(full**2, marginals, range(len(marginals))).item()


def shares_over_rows(
    effects: dict[tuple[int, ...], np.ndarray], marginals: Sequence[Marginal], X: np.ndarray, weight: np.ndarray
) -> dict[tuple[int, ...], float]:
    """Return Cov(f_S, f) / Var f over rows (n, D) of the grid for every set S but the empty one."""
    same = [
        (points == x[:, None]) | (np.isnan(points) & np.isnan(x[:, None]))
        for x, (points, _) in zip(X.T, marginals, strict=True)
    ]
    cell = tuple(found.argmax(axis=1) for found in same)
    shape = [len(points) for points, _ in marginals]
    at_rows = {S: np.broadcast_to(effect, shape)[cell] for S, effect in effects.items()}
    f = sum(at_rows.values())
    covariance = {S: np.cov(values, f, aweights=weight, ddof=0) for S, values in at_rows.items() if S}
    return {S: matrix[0, 1] / matrix[1, 1] for S, matrix in covariance.items()}


def coalition_value(f: Callable, x: np.ndarray, marginals: Sequence[Marginal], coalition: Sequence[int]) -> float:
    """Return the mean of f with the coalition's features fixed at x and all others drawn from their marginals."""
    points = [x[[j]] if j in coalition else marginals[j][0] for j in range(len(x))]
    weights = [np.ones(1) if j in coalition else marginals[j][1] for j in range(len(x))]
    return float(f(product_grid(points)) @ np.prod(product_grid(weights), axis=1))


def shapley_values(f: Callable, x: np.ndarray, marginals: Sequence[Marginal]) -> np.ndarray:
    """Return the Shapley values (D,): the mean increase by a feature over all orders of arrival."""
    D = len(x)
    value = {T: coalition_value(f, x, marginals, T) for T in subsets(range(D))}
    phi = np.zeros(D)
    for j in range(D):
        for T in subsets([k for k in range(D) if k != j]):
            phi[j] += (value[tuple(sorted((*T, j)))] - value[T]) / (D * comb(D - 1, len(T)))
    return phi


def shapley_interaction(f: Callable, x: np.ndarray, marginals: Sequence[Marginal], j: int, k: int) -> float:
    """Return the Shapley interaction index of a pair (Grabisch and Roubens, 1999)."""
    D, total = len(x), 0.0
    value = {T: coalition_value(f, x, marginals, T) for T in subsets(range(D))}
    for T in subsets([feature for feature in range(D) if feature not in (j, k)]):
        both, only_j, only_k = (tuple(sorted((*T, *more))) for more in ((j, k), (j,), (k,)))
        weight = 1 / ((D - 1) * comb(D - 2, len(T)))
        total += weight * (value[both] - value[only_j] - value[only_k] + value[T])
    return total


# --- likelihoods --------------------------------------------------------------------------------------


def row_loss(name: str, y: float, f: np.ndarray, parameter: float = 0.0) -> float:
    """Return the loss of one target from its definition; f has one number, or one per class, and y is then a class."""
    if name == "softmax":
        return float(np.log(np.sum(np.exp(f))) - f[int(y)])
    f = float(f[0])
    if name == "logistic":
        p = 1.0 / (1.0 + np.exp(-f))
        return float(-np.log(p if y == 1 else 1.0 - p))
    if name == "poisson":
        mu = np.exp(f)
        return float(mu - y + (y * np.log(y / mu) if y > 0 else 0.0))
    if name == "gamma":
        mu = np.exp(f)
        return float(y / mu - 1.0 - np.log(y / mu))
    if name == "huber":
        r = abs(y - f)
        return 0.5 * r**2 if r <= parameter else parameter * (r - 0.5 * parameter)
    assert name == "pinball"
    return (y - f) * (parameter if y >= f else parameter - 1.0)


def penalised_fit(K, loss, gradient, alpha, w, q=1) -> tuple[np.ndarray, np.ndarray]:
    """Minimise sum w l(f) + alpha / 2 c'Kc over f = K c + b by a general optimiser; return f (n, q) and c (n, q).

    loss(f) and gradient(f) are the losses (n,) of f (n, q), and their derivatives (n, q).
    """
    from scipy.optimize import minimize

    n = len(K)
    values, vectors = np.linalg.eigh(K)
    F = vectors * np.sqrt(np.maximum(values, 0.0))

    def objective(x):
        theta, b = x[: n * q].reshape(n, q), x[n * q :]
        f = F @ theta + b
        g = w[:, None] * gradient(f)
        slope = np.concatenate([(F.T @ g + alpha * theta).ravel(), g.sum(axis=0)])
        return w @ loss(f) + 0.5 * alpha * np.sum(theta**2), slope

    settings = {"maxiter": 100_000, "maxfun": 10**6, "ftol": 0.0, "gtol": 1e-9, "maxcor": 50}
    found = minimize(objective, np.zeros(n * q + q), jac=True, method="L-BFGS-B", options=settings)
    theta, b = found.x[: n * q].reshape(n, q), found.x[n * q :]
    f = F @ theta + b
    return f, -w[:, None] * gradient(f) / alpha


# --- monotone fits ------------------------------------------------------------------------------------


def slope(f: Callable, x, j: int, step: float = 1e-5) -> float:
    """Return df/dx_j at the row x by the central difference of a function of rows (n, D)."""
    ends = np.array([x, x])
    ends[:, j] += (-step, step)
    low, high = f(ends)
    return float(high - low) / (2 * step)


def least_slope(f: Callable, j: int, t: float, values: Sequence[Sequence[float]]) -> float:
    """Return the least df/dx_j at x_j = t over all combinations of the values of the other features."""
    rows = [list(row) for row in product(*([t] if k == j else list(v) for k, v in enumerate(values)))]
    return min(slope(f, row, j) for row in rows)


def constrained_ridge(K, y, alpha: float, G, least) -> tuple[np.ndarray, float]:
    """Return c (n,) and b of least |y - b - K c|^2 + alpha c'K c with G c >= least, by a general optimiser."""
    n = len(y)
    values, Q = np.linalg.eigh(K)
    root = Q * np.sqrt(np.maximum(values, 0.0))  # c = root^-T a has |root^-1 K c| = |a|
    back = np.linalg.pinv(root).T

    def loss(z):
        residual = y - z[-1] - root @ z[:-1]
        gradient = np.append(-2 * root.T @ residual + 2 * alpha * z[:-1], -2 * residual.sum())
        return residual @ residual + alpha * z[:-1] @ z[:-1], gradient

    slopes = np.column_stack([G @ back, np.zeros(len(G))])
    rule = {"type": "ineq", "fun": lambda z: slopes @ z - least, "jac": lambda z: slopes}
    start = np.append(np.zeros(n), y.mean())
    found = minimize(loss, start, jac=True, constraints=rule, method="SLSQP", options={"maxiter": 2000, "ftol": 1e-14})
    assert found.success, found.message
    return back @ found.x[:-1], float(found.x[-1])


def constrained_penalised_fit(K, loss, gradient, alpha: float, G, least) -> np.ndarray:
    """Return f (n,) = K c + b of least sum l(f) + alpha / 2 c'K c with G c >= least, by a general optimiser.

    loss(f) and gradient(f) are the losses (n,) and their derivatives (n,).
    """
    n = len(K)
    values, Q = np.linalg.eigh(K)
    root = Q * np.sqrt(np.maximum(values, 0.0))
    slopes = np.column_stack([G @ np.linalg.pinv(root).T, np.zeros(len(G))])

    def objective(z):
        f = root @ z[:-1] + z[-1]
        slope = np.append(root.T @ gradient(f) + alpha * z[:-1], gradient(f).sum())
        return loss(f).sum() + 0.5 * alpha * z[:-1] @ z[:-1], slope

    rule = {"type": "ineq", "fun": lambda z: slopes @ z - least, "jac": lambda z: slopes}
    settings = {"maxiter": 5000, "ftol": 1e-13}
    found = minimize(objective, np.zeros(n + 1), jac=True, constraints=rule, method="SLSQP", options=settings)
    assert found.success, found.message
    return root @ found.x[:-1] + found.x[-1]
