"""Elementary symmetric polynomials and numbers of interactions."""

from __future__ import annotations

from collections.abc import Sequence
from math import comb

import numpy as np

from salsa._utils.arrays import Floats


def elementary_symmetric(s: Floats, d: int) -> Floats:
    """Return e_0..e_d (d+1, ...) of the D numbers or arrays s (D, ...), by e_m <- e_m + s_j e_{m-1}."""
    e = np.zeros((d + 1, *s.shape[1:]))
    e[0] = 1.0
    with np.errstate(over="ignore", invalid="ignore"):
        for value in s:
            e[1:] += value * e[:-1]
    return e


def largest_order(D: int) -> int:
    """Return the largest order whose number of terms, C(D, d), is a float64: D itself up to D = 1029."""
    return int(np.argmin(np.isfinite(binomials(D, D)))) - 1 if D > 1029 else D


def binomials(D: int, d: int) -> Floats:
    """Return C(D, m) for m = 0..d; infinity beyond the range of float64."""
    limit = int(np.finfo(np.float64).max)
    return np.array([float(c) if (c := comb(D, m)) <= limit else np.inf for m in range(d + 1)])


def weights_within(D: int, size: int, weights: Floats) -> Floats:
    """Return order weights (d+1,) that turn the divisors C(D, m) of a kernel of D features into C(size, m).

    A kernel that uses `size` of its D features is then the kernel of these features alone.
    """
    d = len(weights) - 1
    within: Floats = weights * (binomials(D, d) / binomials(size, d))
    return within


def symmetric_sum(s: Floats, weights: Floats) -> Floats:
    """Return sum_m weights_m e_m (...) of the D arrays s (D, ...)."""
    if len(weights) == 0:
        return np.zeros(s.shape[1:])
    total: Floats = np.tensordot(weights, elementary_symmetric(s, len(weights) - 1), axes=1)
    return total


def each_outside(s: Floats, weights: Floats) -> Floats:
    """Return the factor r_j (D, ...) of every s_j in sum_m weights_m e_m, by prefixes and suffixes."""
    d = len(weights) - 1
    before = np.zeros((len(s) + 1, d + 1, *s.shape[1:]))
    before[0, 0] = 1.0
    for j, value in enumerate(s):
        before[j + 1] = before[j]
        before[j + 1, 1:] += value * before[j, :-1]
    after = np.zeros((d + 1, *s.shape[1:])) + weights.reshape(-1, *[1] * (s.ndim - 1))
    result = np.empty_like(s)
    for j in reversed(range(len(s))):
        result[j] = np.sum(after[1:] * before[j, :-1], axis=0)
        after[:-1] += s[j] * after[1:]
    return result


def outside(s: Floats, weights: Floats, features: Sequence[int]) -> Floats:
    """Return r_S = sum_m weights_m e_{m-|S|} (...) over the features not in S, of s (D, ...)."""
    return symmetric_sum(np.delete(s, features, axis=0), weights[len(features) :])
