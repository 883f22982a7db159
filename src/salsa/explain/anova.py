"""Functional ANOVA of a fitted model in closed form: effects, their bands and their shares of the variance.

Write k_j(x, i) = q_j(i) + c_j(x; i), where q_j(i) is the mean of k_j(X, anchor_i) over the background of feature j. The
kernel is a sum of terms sum_m v_m e_m(a_1 k_1, ..., a_D k_D), and e_m is linear in every k_j, so that f = sum of f_S
over all sets S, where f_S adds up over terms

    sum_i coef_i r_S(i) prod_{j in S} a_j c_j(x_j; i),    r_S(i) = sum_m v_m e_{m-|S|}(a_l q_l(i), l not in S).

Under the product of the backgrounds every f_S has mean zero in each of its features, and no two effects are correlated:
their variances add up to the variance of f. Effects of one or two features give their variances directly. An effect
of order three or more has variance sum_{i,l} coef_i coef_l r_S(i) r_S(l) prod_{j in S} a_j^2 M_j[i, l], where M_j[i, l]
is the mean of c_j(X; i) c_j(X; l), and likewise for every pair of terms. One compiled sweep over features for each pair
of terms sums these variances without enumerating S.

An effect is a linear functional of the Gaussian process whose mean is the model; its posterior sd gives the band.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from salsa._utils.arrays import Floats
from salsa._utils.blas import one_blas_thread
from salsa._utils.cached import cached_property
from salsa._utils.memory import row_blocks
from salsa._utils.weighted import power_of_two
from salsa.data.number_format import NumberFormat
from salsa.data.training_range import encoded
from salsa.explain.effects import Axis, Effect, grid, term
from salsa.explain.row_shares import feature_shares, response, some_rows, term_shares
from salsa.explain.subject import Rows, Subject, subject_of
from salsa.explain.variances import Variances, effect_variances, rounding_variance, variance_of_set, variance_roots
from salsa.fitted import fitted_of
from salsa.uncertainty import Unavailable

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from salsa.explain.displays import AnovaDisplay, ImportanceDisplay

#: Grid points per axis of an effect of one feature, of two features, and of three or more
GRID_SIZES = (101, 41, 11)
#: An effect of two or more features shows at most this many levels of a category, the most frequent ones
SURFACE_LEVELS = 60


def decompose(
    model: Any, background: Any = None, sample_weight: Any = None, *, rows: Any = None, output: Any = 0
) -> Anova:
    """Return the functional ANOVA of a fitted model: f = mean + effects of single features + effects of pairs + ...

    Parameters
    ----------
    model : fitted SalsaRegressor or SalsaClassifier
    background : table like X, default=None
        Effects and variances refer to the product of the marginal distributions of this table's columns; None: of the
        training table.
    sample_weight : array of shape (n_rows,), default=None
        Weights of the rows of background.
    rows : table like X, default=None
        Rows as they are, with the correlations of their features, for the column share_over_rows; None: background, or
        the training rows if no background is given. Low-rank models do not keep their training rows, and weighted fits
        by solver="divide" do not keep the weights: without rows and background the column is NaN.
    output : int or label, default=0
        Which function to explain. Several targets: the position of the target, from 0. Three or more classes: the label
        of a class, or its position in ``classes_`` (whole numbers are always positions); the default is the first
        class. Two classes have one function, the log odds of the second class.

    Examples
    --------
    >>> import numpy as np
    >>> from salsa import SalsaRegressor, explain
    >>> X = np.random.default_rng(0).uniform(-1, 1, (200, 6))
    >>> model = SalsaRegressor(random_state=0).fit(X, np.sin(3 * X[:, 0]) + X[:, 1] * X[:, 2])
    >>> explain.decompose(model).importance()["term"].tolist()[:2]
    ['x0', 'x1 × x2']
    """
    subject = subject_of(model, background, sample_weight)
    if rows is not None:
        subject = replace(subject, rows=Rows.weighted(encoded(model, rows)))
    return Anova(model, subject, subject.output_number(output))


@dataclass(frozen=True, eq=False, repr=False)
class Anova:
    """Effects of a fitted function and their shares of its variance, computed on first use; see ``decompose``."""

    model: Any  #: the fitted model
    subject: Subject  #: function, columns and background
    output: int  #: number of the output, from 0

    def __repr__(self) -> str:
        classes = self.subject.classes
        of_class = f"class {classes[self.output]!r}, " if classes is not None and len(classes) > 2 else ""
        used = len(self.subject.active)
        return f"Anova of {of_class}{len(self.features)} features, {used} of them used, order {self.order}"

    @property
    def features(self) -> tuple[str, ...]:
        """Names of all features: the columns, and the parts of dates such as "date: time of year"."""
        return self.subject.columns.names

    @property
    def order(self) -> int:
        """Order of the largest interaction that the function can have."""
        return self.subject.order

    @property
    def mean(self) -> float:
        """Mean of the function over the background."""
        return float(self.subject.base_value[self.output])

    @property
    def variance(self) -> float:
        """Variance of the function over the background."""
        return self._variances.total * self._unit**2

    @cached_property
    def rows(self) -> Rows | None:
        """The rows that shares over rows refer to, at most MOST_ROWS of them; None if they are not known."""
        return None if self.subject.rows is None else some_rows(self.subject.rows)

    @cached_property
    def features_over_rows(self) -> Floats:
        """Shares over rows of features (D,): effects are split equally among their features; NaN without rows."""
        if self.rows is None:
            return np.full(len(self.features), np.nan)
        with one_blas_thread():
            return feature_shares(self.subject, self._scaled[0], self.rows, self._response)

    @cached_property
    def terms_over_rows(self) -> tuple[Floats, Floats]:
        """Shares over rows of the effects of single features (D,) and of pairs (D, D); NaN if rows are not known."""
        if self.rows is None:
            return np.full(D := len(self.features), np.nan), np.full((D, D), np.nan)
        with one_blas_thread():
            return term_shares(self.subject, self._scaled[0], self.rows, self._response)

    def sobol(self) -> pd.DataFrame:
        """Return one row per feature: feature, first_order, total, share_over_rows.

        first_order is the variance share of the feature's own effect and total the share of all effects that include
        the feature, both for independent features. share_over_rows is Cov(phi, f) / Var f over the rows as they are,
        where the Shapley value phi of the feature splits every effect equally among its features. The shares over rows
        sum to one, and can be negative. They are NaN if the rows are not known (see ``decompose``).
        """
        first, total = self._share(self._variances.mains), self._share(self._variances.totals)
        columns = {"first_order": first, "total": total, "share_over_rows": self.features_over_rows}
        return pd.DataFrame({"feature": self.features, **columns})

    def importance(self) -> pd.DataFrame:
        """Return one row per single feature and per pair: term, order, variance_share, share_over_rows.

        The largest variance_share, the share of the variance for independent features, comes first. share_over_rows is
        Cov(f_S, f) / Var f over the rows as they are, with the correlations of their features; it can be negative, and
        it is NaN if the rows are not known (see ``decompose``). Either column sums to one together with the effects of
        three and more features, which are not listed. Pairs with a feature that the model does not use are left out.
        """
        mains, pairs = self._share(self._variances.mains), self._share(self._variances.pairs)
        mains_over_rows, pairs_over_rows = self.terms_over_rows
        singles = zip(self.features, mains, mains_over_rows, strict=True)
        terms = [(name, 1, share, over_rows) for name, share, over_rows in singles]
        for j, k in combinations(self.subject.active, 2) if self.order > 1 else ():
            terms.append((term(self.features[j], self.features[k]), 2, pairs[j, k], pairs_over_rows[j, k]))
        table = pd.DataFrame(terms, columns=["term", "order", "variance_share", "share_over_rows"])
        return table.sort_values("variance_share", ascending=False, kind="stable", ignore_index=True)

    def interactions(self) -> pd.DataFrame:
        """Return one row per pair of features: feature_1, feature_2, and the variance_share of their interaction."""
        first, second = np.triu_indices(len(self.features), k=1)
        names = np.array(self.features, dtype=object)
        shares = self._share(self._variances.pairs[first, second])
        return pd.DataFrame({"feature_1": names[first], "feature_2": names[second], "variance_share": shares})

    def orders(self) -> pd.DataFrame:
        """Return one row per order of interaction: order, variance_share."""
        shares = self._share(self._variances.by_order)
        return pd.DataFrame({"order": np.arange(1, len(shares) + 1), "variance_share": shares})

    def effect(self, *features: str | int, points: Sequence[Any] | None = None, band: bool = True) -> Effect:
        """Return the effect of one feature, or of several beyond the effects of fewer of them, on a grid of values.

        points holds one list of values per feature, dates for a part of a date; None: a grid over the background, where
        two or more features show only the most frequent levels of a category. Features are given by name, or by number
        from 0. band=True computes sd, which needs the n x n kernel matrix of the training rows for an exact model;
        band=False leaves sd None.
        """
        S = self._set(features)
        if points is None:
            size = GRID_SIZES[min(len(S), len(GRID_SIZES)) - 1]
            axes = tuple(self._axis(j, self._grid(j, size, many=len(S) == 1)) for j in S)
        elif len(points) == len(S):
            axes = tuple(self._axis(j, self.subject.codes(j, values)) for j, values in zip(S, points, strict=True))
        else:
            raise ValueError(f"points: one list of values is needed for each of the {len(S)} features")
        with one_blas_thread():  # the last bits of BLAS depend on its number of threads
            values = self.subject.on_grid(S, [axis.points for axis in axes], self._coef)
        cells = np.stack(np.meshgrid(*(axis.points for axis in axes), indexing="ij"), axis=-1).reshape(-1, len(S))
        sd = self._sd_at(S, cells).reshape(values.shape) if band else None
        return Effect(axes, values, sd, partial(self._share_of, S), self.subject.effect)

    def evaluate(self, X: Any, *features: str | int) -> Floats:
        """Return f_S (n,) at the rows of a table like the training table, where S is the set of these features."""
        S, rows = self._set(features), encoded(self.model, X)
        values = np.empty(len(rows))
        for block, k in self.subject.kernel_parts(S, rows[:, S]):
            values[block] = k @ self._coef
        return values

    def evaluate_orders(self, X: Any) -> Floats:
        """Return (n, d+1): for every row of X the mean, then the sum of all effects of order 1, 2, ..., d.

        Each row of the result sums to the prediction.
        """
        rows, anchors = encoded(self.model, X), self.subject.expansion.anchors
        parts = np.zeros((len(rows), self.order + 1))
        for block in row_blocks(len(rows), len(anchors) * (self.order + 1) * (self.order + 2) // 2):
            for kernel_term in self.subject.terms:
                parts[block, : kernel_term.order + 1] += kernel_term.by_order(rows[block], self._coef)
        parts[:, 0] += self.subject.expansion.offset[self.output]
        return parts

    def strongest(self, most: int) -> list[tuple[int, ...]]:
        """Return the features of the `most` effects of largest variance share, of one or two features, as numbers."""
        variances = self._variances
        shares: dict[tuple[int, ...], float] = {(j,): variances.mains[j] for j in self.subject.active}
        if self.order > 1:
            shares |= {(j, k): variances.pairs[j, k] for j, k in combinations(self.subject.active, 2)}
        ranking = sorted(shares, key=lambda S: -shares[S])
        return [S for S in ranking[:most] if shares[S] > 0]

    def plot(self, ax: Axes | None = None, most: int | None = None) -> AnovaDisplay | ImportanceDisplay:
        """Draw four pictures on a new figure: the importance of features, and the three strongest effects.

        On given axes, draw the importance alone: the variance share of each feature by itself, in interactions, and
        over the rows if they are known. At most `most` features are shown; None: 12 beside effects, 20 alone.
        ``AnovaDisplay.plot`` draws on four given axes.
        """
        from salsa.explain.displays import AnovaDisplay, ImportanceDisplay

        if ax is None:
            return AnovaDisplay.from_anova(self).plot(most=12 if most is None else most)
        return ImportanceDisplay.from_anova(self).plot(ax, 20 if most is None else most)

    @property
    def _coef(self) -> Floats:
        return np.ascontiguousarray(self.subject.expansion.coef[:, self.output])

    @property
    def _unit(self) -> float:
        """Power of two of the size of the coefficients: squares of the coefficients divided by it fit into float64."""
        return float(power_of_two(self._coef[:, None])[0])

    @property
    def _scaled(self) -> tuple[Floats, float]:
        """The coefficients and the offset of the function, divided by the unit."""
        return self._coef / self._unit, float(self.subject.expansion.offset[self.output]) / self._unit

    def _set(self, features: Sequence[str | int]) -> list[int]:
        """Return the numbers of these features; raise ValueError if there is none or one occurs twice."""
        S = [self.subject.index(feature) for feature in features]
        if not S or len(set(S)) < len(S):
            raise ValueError(f"an effect has one or more features, all different, not {features!r}")
        return S

    def _share(self, variance: Any) -> Any:
        """Return the share of the variance of the function; zero if the function is constant."""
        return variance / (self._variances.total or 1.0)

    def _axis(self, j: int, points: Floats) -> Axis:
        labels, part = self.subject.labels(j, points), self.subject.columns.all_parts[j]
        written = (fitted_of(self.model).formats or {}).get(self.features[j], NumberFormat())
        return Axis(self.features[j], points, labels, self.subject.background[j], part, written.unit)

    def _grid(self, j: int, size: int, many: bool) -> Floats:
        levels = self.subject.columns.levels[j]
        limit = None if levels is None else len(levels) if many else SURFACE_LEVELS
        return grid(self.subject.background[j], size, limit, self.subject.columns.all_parts[j])

    def _sd_at(self, S: list[int], rows: Floats) -> Floats:
        """Return the posterior standard deviation (m,) of f_S at values (m, |S|) of its features."""
        sd = np.empty(len(rows))
        for block, k in self._witnesses.kernel_parts(S, rows):
            sd[block] = self.model.functional_sd(k, self.subject.prior_variance(S, rows[block]))[:, self.output]
        return sd

    @cached_property
    def _witnesses(self) -> Subject:
        """The function on the points of standard deviations; for conjugate gradients, these are some of the anchors."""
        expansion, uncertainty = self.subject.expansion, fitted_of(self.model).uncertainty
        if isinstance(uncertainty, Unavailable):
            raise ValueError(uncertainty.reason)
        if (points := uncertainty.sd_points) is expansion.anchors:
            return self.subject
        return replace(self.subject, expansion=replace(expansion, anchors=points, coef=np.zeros((len(points), 0))))

    @cached_property
    def _roots(self) -> dict[int, Floats]:
        """Factors for the variances of interactions; empty if the function has none."""
        return variance_roots(self.subject) if self.order > 1 else {}

    @cached_property
    def _variances(self) -> Variances:
        with one_blas_thread():  # the last bits of BLAS depend on its number of threads
            variances = effect_variances(self.subject, *self._scaled, self._roots)
        variances.check_rounding()
        return variances

    @cached_property
    def _response(self) -> Floats:
        """The weights g (n,) of the rows: the share over rows of an effect is the sum of g times the effect."""
        assert self.rows is not None
        rounding = rounding_variance(self.subject, *self._scaled)
        return response(self.subject, self._scaled[0], self.rows, rounding)

    def _share_of(self, S: list[int]) -> float:
        if len(S) == 1:
            return float(self._share(self._variances.mains[S[0]]))
        if len(S) == 2:
            return float(self._share(self._variances.pairs[S[0], S[1]]))
        return float(self._share(variance_of_set(self.subject, self._scaled[0], self._roots, S)))
