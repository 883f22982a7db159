"""Growing, pruning and smoothing of M5' model trees, in the three steps that ``m5`` lists."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from salsa._utils.arrays import Floats, Places

SMALLEST_CHILD = 2  # rows: no node then has as many tested features as rows
RIDGE = 1e-10  # relative to the diagonal: of two collinear columns, one is dropped first


class Split(NamedTuple):
    """A split: rows with x_feature <= threshold go left; `gain` is the fall of the standard deviation."""

    feature: int
    threshold: float
    gain: float


LEAF = Split(-1, np.nan, 0.0)


class Estimate(NamedTuple):
    """The fit of v parameters to n rows, from which the error on new rows is estimated."""

    residual: float  # sum of absolute residuals
    v: int
    n: int

    def error(self, c: float) -> float:
        """Return the error to expect on new rows: the mean absolute residual times (n + c v) / (n - v)."""
        return self.residual / self.n * (self.n + c * self.v) / max(self.n - self.v, 1)  # a single row has no residual

    def beside(self, other: Estimate) -> Estimate:
        """Return the estimate of two subtrees below one split; the threshold is one more fitted parameter."""
        return Estimate(self.residual + other.residual, self.v + other.v + 1, self.n + other.n)


class Linear(NamedTuple):
    """A linear model x -> coef'x + intercept."""

    vector: Floats  # (D + 1,): coef, intercept
    estimate: Estimate


@dataclass(slots=True)
class Node:
    """A node while the tree grows; its children come after it in the list of nodes."""

    rows: Places
    split: Split | None = None
    left: int = -1
    right: int = -1
    features: set[int] = field(default_factory=set)  # tested in its subtree before pruning
    model: Linear = field(init=False)
    estimate: Estimate = field(init=False)  # for its subtree


class Tree(NamedTuple):
    """The pruned and smoothed tree, with one entry per node; the root comes first, and a leaf has feature -1."""

    feature: Places
    threshold: Floats
    left: Places
    right: Places
    models: Floats  # (nodes, D + 1): coef, intercept

    def leaf_of(self, X: Floats) -> Places:
        """Return the number of the leaf (n,) that every row falls into."""
        at = np.zeros(len(X), dtype=np.intp)
        moving = np.flatnonzero(self.feature[at] >= 0)
        while len(moving):
            node = at[moving]
            goes_left = X[moving, self.feature[node]] <= self.threshold[node]
            at[moving] = np.where(goes_left, self.left[node], self.right[node])
            moving = moving[self.feature[at[moving]] >= 0]
        return at


def best_split(X: Floats, y: Floats) -> Split | None:
    """Return the split of X (n, D), y (n,) with the largest sd(y) - sum over sides of (n_side / n) sd(y_side).

    Rows are sorted once per feature; cumulative sums give both sides of every cut. None if no cut has a positive gain.
    """
    n = len(y)
    order = np.argsort(X, axis=0, kind="stable")
    x, t = np.take_along_axis(X, order, axis=0), (y - y.mean())[order]
    cut = np.arange(SMALLEST_CHILD, n - SMALLEST_CHILD + 1)  # rows on the left
    if len(cut) == 0:
        return None
    first, second = np.cumsum(t, axis=0), np.cumsum(t**2, axis=0)
    left = _spread(cut, first[cut - 1], second[cut - 1])
    right = _spread(n - cut, first[-1] - first[cut - 1], second[-1] - second[cut - 1])
    spread = np.where(x[cut - 1] < x[cut], left + right, np.inf) / n
    k, j = np.unravel_index(np.argmin(spread), spread.shape)
    gain = float(y.std() - spread[k, j])
    below, above = x[cut[k] - 1, j], x[cut[k], j]
    return Split(int(j), _between(float(below), float(above)), gain) if gain > 0 else None


def _spread(count: Places, first: Floats, second: Floats) -> Floats:
    """Return count * sd (cuts, D) of `count` (cuts,) values, from their sums and sums of squares (cuts, D)."""
    n = count[:, None]
    return np.sqrt(np.maximum(n * second - first**2, 0.0))


def _between(below: float, above: float) -> float:
    """Return the midpoint, or `below` if the midpoint rounds to `above`."""
    middle = below + (above - below) / 2
    return middle if middle < above else below


def grow(X: Floats, y: Floats, min_rows: int, min_spread: float) -> list[Node]:
    """Return all nodes, parents before their children."""
    nodes = [Node(np.arange(len(y)))]
    for node in nodes:  # the list grows meanwhile
        rows = node.rows
        if len(rows) < min_rows or y[rows].std() <= min_spread:
            continue
        node.split = best_split(X[rows], y[rows])
        if node.split is not None:
            goes_left = X[rows, node.split.feature] <= node.split.threshold
            node.left, node.right = len(nodes), len(nodes) + 1
            nodes += [Node(rows[goes_left]), Node(rows[~goes_left])]
    return nodes


def prune(nodes: list[Node], X: Floats, y: Floats, c: float) -> None:
    """Fit a model to every node, and cut off subtrees that do not promise a smaller error than the model."""
    for node in reversed(nodes):
        if node.split is not None:
            left, right = nodes[node.left], nodes[node.right]
            node.features = {node.split.feature} | left.features | right.features
            node.estimate = left.estimate.beside(right.estimate)
        node.model = linear_model(X[node.rows], y[node.rows], sorted(node.features), c)
        if node.split is None or node.model.estimate.error(c) <= node.estimate.error(c):
            node.split, node.estimate = None, node.model.estimate


def linear_model(X: Floats, y: Floats, features: list[int], c: float) -> Linear:
    """Fit least squares in some features, and drop features as long as the estimated error does not rise.

    The next feature to drop raises the sum of squares least, by b_j^2 / ((X'X)^-1)_jj.
    """
    centre, mean = X.mean(axis=0), y.mean()
    kept = np.array(features, dtype=np.intp)
    Z, t = X - centre, y - mean
    b, price, estimate = _least_squares(Z[:, kept], t)
    while len(kept):
        fewer = np.delete(kept, np.argmin(price))
        b_fewer, price, estimate_fewer = _least_squares(Z[:, fewer], t)
        if estimate_fewer.error(c) > estimate.error(c):
            break
        kept, b, estimate = fewer, b_fewer, estimate_fewer
    vector = np.zeros(X.shape[1] + 1)
    vector[kept], vector[-1] = b, mean - centre[kept] @ b
    return Linear(vector, estimate)


def _least_squares(Z: Floats, t: Floats) -> tuple[Floats, Floats, Estimate]:
    """Return coefficients of centred Z (n, v), the rise of the sum of squares without each column, and the estimate."""
    n, v = Z.shape
    scale = np.sqrt(np.mean(Z**2, axis=0))  # positive: the tree was split on these features
    Z = Z / scale
    inverse = np.linalg.inv(Z.T @ Z + RIDGE * n * np.eye(v))
    b = inverse @ (Z.T @ t)
    estimate = Estimate(float(np.abs(t - Z @ b).sum()), v + 1, n)
    return b / scale, b**2 / np.diag(inverse), estimate


def smoothed(nodes: list[Node], k: float) -> Tree:
    """Return the tree of the remaining nodes, with smoothed models.

    On the way up from a leaf, the value p from a node of n rows and the value q of the model above become
    (n p + k q) / (n + k): in total share * p + rest, where share and rest belong to the node.
    """
    kept, parts = [0], [(1.0, np.zeros_like(nodes[0].model.vector))]
    left, right = [], []
    for place, i in enumerate(kept):  # the lists grow meanwhile
        node, (share, rest) = nodes[i], parts[place]
        inner = node.split is not None
        left.append(len(kept) if inner else -1)
        right.append(len(kept) + 1 if inner else -1)
        for child in (node.left, node.right) if inner else ():
            own = len(nodes[child].rows) / (len(nodes[child].rows) + k)
            kept.append(child)
            parts.append((share * own, rest + share * (1 - own) * node.model.vector))
    models = np.array([share * nodes[i].model.vector + rest for i, (share, rest) in zip(kept, parts, strict=True)])
    splits = [nodes[i].split or LEAF for i in kept]
    feature, threshold, _ = (np.array(column) for column in zip(*splits, strict=True))
    return Tree(feature, threshold, np.array(left), np.array(right), models)
