"""All monomials up to a total degree: their values, and their moments about other centres."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import comb

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from salsa._utils.arrays import Floats
from salsa._utils.cached import cached_property

Integers = NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class Monomials:
    """All T monomials z^a = prod_j z_j^a_j of total degree |a| <= degree in D variables, ordered by degree."""

    degree: int
    exponents: Integers  # (T, D)

    def values(self, z: Floats) -> Floats:
        """Return the monomials (T, n) at n points z (D, n)."""
        out = np.ones((len(self.exponents), z.shape[1]))
        previous, end = out[:1], 1
        for k in range(1, self.degree + 1):
            start = end
            for j, zj in enumerate(z):  # last variable j: z_j times the first monomials of degree k - 1
                count = comb(j + k - 1, k - 1)
                np.multiply(zj, previous[:count], out=out[end : end + count])
                end += count
            previous = out[start:end]
        return out

    def recentre(self, moments: Floats, x: Floats, unit: Floats) -> None:
        """Turn moments sum_i w_i z_i^a into sum_i w_i ((z_i - x) / unit)^a in place; unit (D,).

        Each of the m centres x (m, D) has its own weights w, hence moments (T, ..., m).
        """
        for j, rows, lower in self._steps:
            moments[rows] -= x[:, j] * moments[lower]
        scale = np.exp(-self.exponents @ np.log(unit))
        moments *= scale.reshape(-1, *[1] * (moments.ndim - 1))

    @cached_property
    def norms(self) -> Floats:
        """The factors (T,) with sum_a norm_a^2 u^a v^a = (1 + u'v)^degree."""
        a = np.column_stack([self.exponents, self.degree - self.exponents.sum(axis=1)])
        norms: Floats = np.exp((gammaln(self.degree + 1) - gammaln(a + 1.0).sum(axis=1)) / 2)
        return norms

    @cached_property
    def _steps(self) -> list[tuple[int, Integers, Integers]]:
        """The r-th step of variable j turns z_j^(k-r+1) (z_j - x_j)^(r-1) into z_j^(k-r) (z_j - x_j)^r for k >= r."""
        steps = []
        for j, unit in enumerate(np.eye(self.exponents.shape[1], dtype=np.intp)):
            rows = np.flatnonzero(self.exponents[:, j])
            lower = self.find(self.exponents[rows] - unit)
            for r in range(1, self.degree + 1):
                high = self.exponents[rows, j] >= r
                steps.append((j, rows[high], lower[high]))
        return steps

    def find(self, exponents: Integers) -> Integers:
        """Return the positions of the given exponents among the exponents of this object."""
        both = np.concatenate([self.exponents, exponents])
        _, group = np.unique(both, axis=0, return_inverse=True)
        group, number = group.ravel(), np.empty(len(self.exponents), dtype=np.intp)
        number[group[: len(number)]] = np.arange(len(number))
        return number[group[len(number) :]]


@lru_cache(maxsize=16)
def monomials(D: int, degree: int) -> Monomials:
    units, blocks = np.eye(D, dtype=np.intp), [np.zeros((1, D), dtype=np.intp)]
    for k in range(1, degree + 1):
        blocks.append(np.concatenate([units[j] + blocks[-1][: comb(j + k - 1, k - 1)] for j in range(D)]))
    return Monomials(degree, np.concatenate(blocks))


@lru_cache(maxsize=16)
def products(D: int, degree: int) -> Integers:
    """Return the positions (T, T) of products of two monomials among the monomials of twice the degree."""
    a = monomials(D, degree).exponents
    return monomials(D, 2 * degree).find((a[:, None] + a).reshape(-1, D)).reshape(len(a), len(a))
