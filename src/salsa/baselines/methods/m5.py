"""M5' model trees (Quinlan 1992; Wang & Witten 1997): regression trees with a linear model in every leaf.

1. Grow: split where the standard deviation of the target falls most, until few rows or little spread are left.
2. Prune, from the bottom up: fit a linear model to every inner node in the features that its subtree tests, drop
   features that do not lower the estimated error, and cut the subtree off if the model's estimated error is not larger.
3. Smooth: mix the model of a leaf with the models of the nodes above it.

The estimated error of v fitted parameters on n rows is the mean absolute residual times (n + c v) / (n - v), c = 1 as
published. The parameters of a subtree are the parameters of its leaves' models, and one for each of its splits.
"""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np

from salsa._utils.arrays import Floats
from salsa.baselines.methods.estimator import Method
from salsa.baselines.methods.model_tree import SMALLEST_CHILD, grow, prune, smoothed


@dataclass(eq=False, repr=False)
class M5Regressor(Method):
    """M5' model tree: a regression tree with linear models in its leaves, pruned and smoothed.

    Parameters
    ----------
    min_samples_split : int, default=4
        Nodes of fewer rows are not split.
    min_spread : float, default=0.05
        Nodes are not split if the standard deviation of their target is at most this share of the total one.
    pruning : float, default=1
        The c of the estimated error: a larger c prunes more subtrees and drops more features.
    smoothing : float, default=15
        The number of rows that a model counts for when it is mixed into the model of a node below; 0: no smoothing.

    Attributes
    ----------
    tree_ : ``Tree``, the pruned and smoothed tree.
    n_leaves_ : int, the number of leaves.
    """

    min_samples_split: int = 4
    min_spread: float = 0.05
    pruning: float = 1.0
    smoothing: float = 15.0

    def _learn(self, X: Floats, y: Floats) -> None:
        self._check_parameters()
        nodes = grow(X, y, self.min_samples_split, self.min_spread * float(y.std()))
        prune(nodes, X, y, self.pruning)
        self.tree_ = smoothed(nodes, self.smoothing)
        self.n_leaves_ = int(np.sum(self.tree_.feature < 0))

    def _predict(self, X: Floats) -> Any:
        model = self.tree_.models[self.tree_.leaf_of(X)]
        return np.einsum("ij,ij->i", X, model[:, :-1]) + model[:, -1]

    def _check_parameters(self) -> None:
        if self.min_samples_split < 2 * SMALLEST_CHILD:
            limit = f"at least {2 * SMALLEST_CHILD}: either side of a split needs {SMALLEST_CHILD} rows"
            raise ValueError(f"min_samples_split={self.min_samples_split!r} must be {limit}")
        for name in ("min_spread", "pruning", "smoothing"):
            value = getattr(self, name)
            if not isinstance(value, Real) or not 0 <= float(value) < np.inf:
                raise ValueError(f"{name}={value!r} must be a number that is not negative")
