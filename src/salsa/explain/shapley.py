"""Exact Shapley values of predictions, without sampling and without enumerating coalitions.

The players are the features. The value of a coalition is the mean of f where every feature outside the coalition is
drawn independently from the background. The kernel is linear in every base kernel k_j = q_j + c_j, where q_j is the
mean of k_j over the background. So with k_j(t) = q_j + t c_j

    phi_j(x) = integral over t in [0, 1] of  sum_i coef_i a_j c_j(x; i) d/d(a_j k_j) sum_m v_m e_m(a_1 k_1(t), ...)  dt

is the integral of a polynomial of degree d - 1 in t, which ceil(d/2) Gauss-Legendre nodes integrate exactly. The
adjoint of the recursion for e_m gives all features at once, in O(D d) per row, anchor and node (compiled). Shapley
values are linear in f: the values of a kernel of several terms add up over its terms.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from salsa._utils.arrays import Floats
from salsa.data.training_range import encoded
from salsa.explain.closed_forms import kernel_shapley, unit_rule
from salsa.explain.kernel_term import KernelTerm
from salsa.explain.subject import Subject, subject_of
from salsa.kernels.symmetric import each_outside

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from salsa.explain.displays import WaterfallDisplay


def shapley(model: Any, X: Any, background: Any = None, sample_weight: Any = None) -> Shapley:
    """Return how much each feature adds to the prediction of each row of X, relative to the mean over the background.

    Parameters
    ----------
    model : fitted SalsaRegressor or SalsaClassifier
    X : table like the training table.
    background : table like X, default=None
        Features outside a coalition are drawn from the columns of this table, independently; None: training table.
    sample_weight : array of shape (n_rows,), default=None
        Weights of the rows of background.

    Examples
    --------
    >>> import numpy as np
    >>> from salsa import SalsaRegressor, explain
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, (200, 3))
    >>> y = np.sin(3 * X[:, 0]) + X[:, 1] * X[:, 2] + rng.normal(0, 0.1, 200)
    >>> model = SalsaRegressor(random_state=0).fit(X, y)
    >>> values = explain.shapley(model, X[:5])
    >>> np.allclose(values.values.sum(axis=1) + values.base_value, model.predict(X[:5]))
    True
    """
    subject = subject_of(model, background, sample_weight)
    rows, coef = encoded(model, X), subject.expansion.coef
    values = [kernel_shapley(term.kernel, rows, term.anchors, coef, term.means) for term in subject.terms]
    return Shapley(subject, rows, reduce(np.add, values))


def by_column(subject: Subject, values: Floats, axis: int) -> Floats:
    """Sum values along an axis of features over the parts of every date, to one for each column of the table."""
    first = subject.columns.first
    return values if len(first) == values.shape[axis] else np.add.reduceat(values, first, axis=axis)


@dataclass(frozen=True, eq=False, repr=False)
class Shapley:
    """Shapley values of predictions. The prediction of a row is the base value plus the sum of the row's values."""

    subject: Subject  #: function, columns and background
    rows: Floats  #: (n, D), encoded
    all_values: Floats  #: (n, D, q), for all q outputs and all features: parts of dates count one by one

    def __repr__(self) -> str:
        n, D, q = len(self.rows), len(self.features), self.all_values.shape[2]
        return f"Shapley values of {n} rows, {D} features, {q} outputs"

    @property
    def values(self) -> Floats:
        """Shapley values of shape (n, D), or (n, D, q) for a model with q > 1 outputs.

        D is the number of columns of the table. The value of a date is the sum of the values of its parts.
        """
        values = by_column(self.subject, self.all_values, 1)
        return values[:, :, 0] if values.shape[2] == 1 else values

    def parts(self, output: Any = 0) -> pd.DataFrame:
        """Return the Shapley values of one output, one column per feature: parts of dates have columns of their own."""
        values = self.all_values[:, :, self.subject.output_number(output)]
        return pd.DataFrame(values, columns=list(self.subject.columns.names))

    @property
    def base_value(self) -> Any:
        """Mean prediction over the background: a number, or an array (q,) for q > 1 outputs."""
        base = self.subject.base_value
        return float(base[0]) if len(base) == 1 else base

    @property
    def predictions(self) -> Floats:
        """Predictions of shape (n,) or (n, q): the base value plus the sum of each row's values."""
        predictions: Floats = self.base_value + self.values.sum(axis=1)
        return predictions

    @property
    def features(self) -> tuple[str, ...]:
        """Names of all columns of the table."""
        return self.subject.columns.table

    @property
    def data(self) -> pd.DataFrame:
        """Explained rows as a table, with the labels of categories instead of codes, and dates in UTC."""
        return self.subject.frame(self.rows)

    def interactions(self, row: int = 0, output: Any = 0) -> pd.DataFrame:
        """Return the exact Shapley interaction indices (D, D) of one prediction, in the convention of the shap package.

        Half of what a pair adds is at (j, k), the other half at (k, j). The diagonal holds what a feature adds by
        itself. Each row of the table sums to the Shapley value of its feature.
        """
        (n, D, _), output = self.all_values.shape, self.subject.output_number(output)
        if row not in range(-n, n):
            raise ValueError(f"row={row!r}: {n} rows were explained, numbered from 0")
        matrix = np.zeros((D, D))
        for term in self.subject.terms:
            if term.order > 1:
                matrix[np.ix_(term.active, term.active)] += self._pairs(term, row, output)
        matrix[np.diag_indices_from(matrix)] = self.all_values[row, :, output] - matrix.sum(axis=1)
        matrix = by_column(self.subject, by_column(self.subject, matrix, 0), 1)
        return pd.DataFrame(matrix, index=list(self.features), columns=list(self.features))

    def explanation(self) -> Any:
        """Return the Shapley values as a ``shap.Explanation``, for the plots of the shap package."""
        try:
            from shap import Explanation  # type: ignore[import-untyped,import-not-found,unused-ignore]
        except ImportError:
            raise ImportError("a shap.Explanation needs the shap package: pip install shap") from None
        base = np.broadcast_to(self.base_value, (len(self.rows), *np.shape(self.base_value)))
        return Explanation(
            self.values,
            base_values=np.array(base),
            data=self.rows if len(self.features) == self.rows.shape[1] else self.data.to_numpy(),
            display_data=self.data.to_numpy(),
            feature_names=list(self.features),
        )

    def plot(self, row: int = 0, ax: Axes | None = None, most: int = 10, *, output: Any = 0) -> WaterfallDisplay:
        """Draw a waterfall from the base value to the prediction of one row, feature by feature.

        `output` is the number of an output, or the label of a class.
        """
        from salsa.explain.displays import WaterfallDisplay

        return WaterfallDisplay.from_shapley(self, row, output).plot(ax, most)

    def _pairs(self, term: KernelTerm, row: int, output: int) -> Floats:
        """Return a term's part of half the Shapley interaction index of every pair of its features; zero diagonal.

        The index is the integral over t in [0, 1] of the second derivative by both features, of degree d - 2 in t.
        """
        active, coef = term.active, self.subject.expansion.coef[:, output]
        b, weights = term.means[:, active].T, term.weights
        c = np.stack([term.centred(j, self.rows[[row], j])[0] for j in active])
        pairs = np.zeros((len(active), len(active)))
        for t, weight in zip(*unit_rule(len(weights) - 3), strict=True):
            for j in range(len(active)):
                others = [k for k in range(len(active)) if k != j]
                both = each_outside((b + t * c)[others], weights[1:])  # r_S for S = {j, k}
                pairs[j, others] += 0.5 * weight * (c[others] * both) @ (coef * c[j])
        return (pairs + pairs.T) / 2  # (j, k) and (k, j) differ by rounding only
