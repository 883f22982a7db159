"""The noise of rows: weights are precisions, and the rows of a group may share a level of their own.

The noise has the covariance s2 R, R = W^-1 + rho Z Z', where W holds the weights and Z says which group a row is in.
R has one block per group. With s = sqrt(w) of the rows of a group and N = s's,

    T = R^-1/2 = (I - b s s') W^1/2,   b = (1 - (1 + rho N)^-1/2) / N,

so that T y has the covariance s2 I: a fit to T y is a fit with equal, independent noise.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from salsa._utils.arrays import Floats, Places
from salsa._utils.cached import cached_property
from salsa.data.splits import members


@dataclass(frozen=True, eq=False)
class Noise:
    """The noise R of n rows: weights (n,) > 0, groups (n,) or None, and the variance rho of a group's level."""

    weight: Floats
    group: Places | None = None
    rho: float = 0.0

    def __getstate__(self) -> dict[str, Any]:
        """Return the fields alone: pickles do not hold cached values."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @property
    def shared(self) -> bool:
        """Whether rows share noise: R is not diagonal."""
        return self.group is not None and self.rho > 0.0

    @property
    def plain(self) -> bool:
        """Whether R is the identity."""
        return not self.shared and bool((self.weight == 1.0).all())

    @cached_property
    def root(self) -> Floats:
        return np.sqrt(self.weight)

    @cached_property
    def ones(self) -> Floats:
        """The direction T 1 (n,) of an intercept."""
        return self.whiten(np.ones((len(self.weight), 1)))[:, 0]

    @cached_property
    def mean_weight(self) -> Floats:
        """The weights (n,) of the generalised mean: R^-1 1 / (1'R^-1 1)."""
        ones = self.transposed(self.ones[:, None])[:, 0]
        mean: Floats = ones / ones.sum()
        return mean

    @cached_property
    def pairs(self) -> tuple[Places, Places]:
        """All pairs (i, j) of different rows of one group, i > j."""
        assert self.group is not None
        found = [rows[np.array(np.tril_indices(len(rows), -1))] for rows in members(self.group)]
        i, j = np.concatenate(found, axis=1)
        return np.maximum(i, j), np.minimum(i, j)

    def with_rho(self, rho: float) -> Noise:
        return replace(self, rho=rho)

    def some(self, rows: Places) -> Noise:
        """Return the noise of some rows; a whitened problem needs whole groups where a level is shared."""
        group = None if self.group is None else np.unique(self.group[rows], return_inverse=True)[1]
        return Noise(self.weight[rows], group, self.rho)

    def variance(self) -> Floats:
        """Return the diagonal of R (n,)."""
        return 1.0 / self.weight + (self.rho if self.shared else 0.0)

    def add_to(self, C: Floats, s2: float) -> None:
        """Add s2 R to a matrix C (n, n) in place: to its diagonal and, where a level is shared, to both triangles."""
        C.flat[:: len(C) + 1] += s2 * self.variance()
        if self.shared:
            i, j = self.pairs
            C[i, j] += s2 * self.rho
            C[j, i] += s2 * self.rho

    def times(self, V: Floats) -> Floats:
        """Return R V for V (n, q)."""
        V_over_w = V / self.weight[:, None]
        if not self.shared:
            return V_over_w
        assert self.group is not None
        sums = np.array([np.bincount(self.group, v) for v in V.T]).T
        product: Floats = V_over_w + self.rho * sums[self.group]
        return product

    def whiten(self, V: Floats) -> Floats:
        """Return T V for V (n, q)."""
        V = self.root[:, None] * V
        return V - self._spread(self._shrink, V) if self.shared else V

    def transposed(self, V: Floats) -> Floats:
        """Return T'V for V (n, q)."""
        V = V - self._spread(self._shrink, V) if self.shared else V
        return self.root[:, None] * V

    def unwhiten(self, V: Floats) -> Floats:
        """Return T^-1 V for V (n, q)."""
        V = V + self._spread(self._grow, V) if self.shared else V
        return V / self.root[:, None]

    def whiten_rows(self, V: Floats) -> Floats:
        """Return V T' for V (m, n), each row by itself."""
        V = V * self.root
        return V - self._spread(self._shrink, V.T).T if self.shared else V

    def transpose_rows(self, V: Floats) -> Floats:
        """Return V T for V (m, n), each row by itself; V may be overwritten."""
        if self.shared:
            V = V - self._spread(self._shrink, V.T).T
        V *= self.root
        return V

    def whiten_both(self, K: Floats) -> Floats:
        """Return T K T' for K (n, n), which is overwritten."""
        if self.plain:
            return K
        K *= self.root
        K *= self.root[:, None]
        if self.shared:
            K -= self._spread(self._shrink, K)
            K -= self._spread(self._shrink, K.T).T
        return K

    @cached_property
    def _members(self) -> csr_array:
        """Z' diag(s), (groups, n)."""
        assert self.group is not None
        n = len(self.weight)
        return csr_array((self.root, (self.group, np.arange(n))), shape=(int(self.group.max()) + 1, n))

    @cached_property
    def _total(self) -> Floats:
        assert self.group is not None
        return np.bincount(self.group, self.weight).astype(np.float64)

    @cached_property
    def _shrink(self) -> Floats:
        return (1.0 - 1.0 / np.sqrt(1.0 + self.rho * self._total)) / np.where(self._total > 0, self._total, 1.0)

    @cached_property
    def _grow(self) -> Floats:
        return (np.sqrt(1.0 + self.rho * self._total) - 1.0) / np.where(self._total > 0, self._total, 1.0)

    def _spread(self, factor: Floats, V: Floats) -> Floats:
        """Return factor_g s s'V of every group, as (n, q)."""
        assert self.group is not None
        sums: Floats = factor[:, None] * (self._members @ V)
        spread: Floats = self.root[:, None] * sums[self.group]
        return spread
