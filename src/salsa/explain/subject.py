"""The subject of explanations: a fitted function, its columns and the background that it is compared with."""

from __future__ import annotations

import numbers
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import reduce
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from sklearn.utils.validation import _check_sample_weight, check_is_fitted

from salsa._utils.arrays import Floats
from salsa._utils.blas import one_blas_thread
from salsa._utils.cached import cached_property
from salsa._utils.listing import some_of
from salsa._utils.memory import row_blocks
from salsa._utils.user_warning import TooFewRowsWarning
from salsa.data.columns import Columns
from salsa.data.date_parts import DURATION, TREND, WEEK, Part, as_dates
from salsa.data.table_columns import read_columns, with_stamps
from salsa.data.training_range import encoded
from salsa.expansion import KernelExpansion
from salsa.explain.effects import MISSING
from salsa.explain.kernel_term import KernelTerm
from salsa.explain.outputs import output_number
from salsa.fitted import fitted_of
from salsa.kernels import Kernel
from salsa.kernels.marginals import Distribution, marginal_of
from salsa.uncertainty.iterated import IteratedUncertainty
from salsa.uncertainty.jackknife import ExactUncertainty
from salsa.uncertainty.scored import ScoredUncertainty


class Rows(NamedTuple):
    """Rows of a table, with weights that sum to one."""

    X: Floats  # (n, D), encoded
    weight: Floats  # (n,)

    @classmethod
    def weighted(cls, X: Floats, weight: Floats | None = None) -> Rows:
        """Return rows with weights in proportion to `weight`; None: equal weights."""
        weight = np.ones(len(X)) if weight is None else weight
        return cls(X, weight / weight.sum())


@dataclass(frozen=True, eq=False, repr=False)
class Subject:
    """The function to explain, its columns and the background: everything that explanations read from a model."""

    expansion: KernelExpansion
    columns: Columns
    background: tuple[Distribution, ...]
    rows: Rows | None = None  #: rows as they are, for shares of the variance over rows; None if they are not known
    transform: str | None = None  #: the scale of the target on which the function was learned
    classes: list[Any] | None = None  #: the labels of the classes; None: the target is a number

    @property
    def target(self) -> str:
        """The name of the function's values on the axes of pictures: "prediction", or "log of the target"."""
        return "prediction" if self.transform is None else f"{self.transform} of the target"

    @property
    def effect(self) -> str:
        """The name of an effect on the axes of pictures."""
        return "effect" if self.transform is None else f"effect on {self.target}"

    @property
    def kernel(self) -> Kernel:
        return self.expansion.kernel

    @cached_property
    def terms(self) -> tuple[KernelTerm, ...]:
        """The terms of the kernel over the background."""
        return tuple(KernelTerm(term, self.expansion.anchors, self.background) for term in self.kernel.terms)

    @cached_property
    def base_value(self) -> Floats:
        """Mean (q,) of f over the background."""
        return self.expansion.offset + reduce(np.add, [term.mean for term in self.terms]) @ self.expansion.coef

    @cached_property
    def active(self) -> list[int]:
        """Numbers of the features that the function uses: their relevance is not zero in one of the terms."""
        return sorted({j for term in self.terms for j in term.active})

    @cached_property
    def users(self) -> dict[int, list[int]]:
        """Numbers of the terms that use each feature, for every feature that the function uses."""
        return {j: [t for t, term in enumerate(self.terms) if j in term.active] for j in self.active}

    @property
    def order(self) -> int:
        """Order of the largest interaction that the function can have."""
        return max(term.order for term in self.terms)

    def terms_of(self, S: Sequence[int]) -> list[KernelTerm]:
        """Return the terms that have a part in the effect of the features S."""
        return [term for term in self.terms if term.has_effect(S)]

    def kernel_parts(self, S: Sequence[int], rows: Floats) -> Iterator[tuple[slice, Floats]]:
        """Yield, by blocks of rows (n, |S|), the part of the kernel with every anchor (m, r) that belongs to f_S."""
        with one_blas_thread():
            for block in row_blocks(len(rows), r := len(self.expansion.anchors)):
                part = np.zeros((len(rows[block]), r))
                for term in self.terms_of(S):
                    part += term.part(S, rows[block])
                yield block, part

    def main_effect(self, j: int, points: Floats, coef: Floats) -> Floats:
        """Return f_j (P,) of the function with these coefficients, without forming a block of the kernel."""
        return sum((term.main_effect(j, points, coef) for term in self.terms_of([j])), np.zeros(len(points)))

    def on_grid(self, S: Sequence[int], points: Sequence[Floats], coef: Floats) -> Floats:
        """Return f_S (P_1, P_2, ...) of the function with these coefficients at all combinations of points."""
        shape = [len(x) for x in points]
        return sum((term.on_grid(S, points, coef) for term in self.terms_of(S)), np.zeros(shape))

    def prior_variance(self, S: Sequence[int], rows: Floats) -> Floats:
        """Return the prior variance (m,) of f_S at rows (m, |S|): the part of k that belongs to S in both arguments."""
        return sum((term.prior_variance(S, rows) for term in self.terms_of(S)), np.zeros(len(rows)))

    def output_number(self, output: Any) -> int:
        """Return the number of the function that `output` names: a position, or the label of a class."""
        return output_number(output, self.expansion.coef.shape[1], self.classes)

    def index(self, feature: Any) -> int:
        """Return the number of a column that is given by its name or number."""
        names = self.columns.names
        if isinstance(feature, bool) or not isinstance(feature, str | int | np.integer):
            raise ValueError(f"{feature!r} is no feature; give names or column numbers, one after the other")
        if isinstance(feature, str):
            if feature in names:
                return names.index(feature)
            if feature in self.columns.table:
                return self._only_part(feature)
            raise ValueError(f"there is no feature {feature!r}; {_hint(feature, names)}")
        if not -len(names) <= feature < len(names):
            raise ValueError(f"there is no feature {feature}: they are numbered from 0 to {len(names) - 1}")
        return int(feature) % len(names)

    def _only_part(self, column: str) -> int:
        """Return the feature of a column of dates with one part; ValueError names the parts if there are more."""
        parts = np.flatnonzero(self.columns.source == self.columns.table.index(column)).tolist()
        if len(parts) > 1:
            listed = ", ".join(repr(self.columns.names[j]) for j in parts)
            raise ValueError(f"{column!r} holds dates: give one of its parts, {listed}")
        return int(parts[0])

    def codes(self, j: int, values: Any) -> Floats:
        """Encode values of feature j, given as in a table, as numbers (P,); parts of dates may be numbers already.

        Numbers of parts that repeat are places on the circle: hours or days would silently go round and round.
        """
        levels, name, part = self.columns.levels[j], self.columns.names[j], self.columns.all_parts[j]
        try:
            if part is not None and part.name != DURATION and not _are_numbers(values):
                codes = _part_codes(part, values)
            elif levels is None:
                codes = np.array(values, dtype=np.float64)
            else:
                number = {level: code for code, level in enumerate(levels)}
                codes = np.array([np.nan if pd.isna(value) else number[value] for value in values], dtype=np.float64)
        except KeyError as error:
            listed = ", ".join(map(repr, levels or ()))
            raise ValueError(f"points: {name!r} has no level {error}; it has {listed}") from None
        except (TypeError, ValueError) as error:
            raise ValueError(f"points: values of {name!r} are needed as a list: {error}") from None
        if codes.ndim != 1:
            raise ValueError(f"points: a list of values of {name!r} is needed, not {values!r}")
        beyond = (codes < 0) | (codes > 1)
        if part is not None and part.is_cyclic and beyond.any():
            advice = "give dates, or shares of a turn from 0 to 1"
            raise ValueError(f"points: {name!r} has no value {codes[beyond][0]:g}; {advice}")
        return codes

    def labels(self, j: int, points: Floats) -> tuple[str, ...] | None:
        """Return the labels of the codes of a category, or of days of the week; None if feature j is a number."""
        levels, part = self.columns.levels[j], self.columns.all_parts[j]
        if part is not None and part.name == WEEK:
            return tuple(MISSING if np.isnan(place) else part.written(place) for place in points)
        if levels is None:
            return None
        return tuple(MISSING if np.isnan(code) else str(levels[int(code)]) for code in points)

    def shown(self, j: int, points: Floats) -> list[Any]:
        """Return values of feature j as people write them: labels, dates, hours or other numbers."""
        part = self.columns.all_parts[j]
        if (labels := self.labels(j, points)) is not None:
            return list(labels)
        if part is None or part.name == DURATION:
            return list(points)
        return [MISSING if np.isnan(point) else part.written(point) for point in points]

    def frame(self, rows: Floats) -> pd.DataFrame:
        """Return encoded rows (n, D) as the columns of the table: labels of categories, and dates in UTC."""
        parts, values = self.columns.all_parts, []
        for j in self.columns.first.tolist():
            part, labels = parts[j], self.labels(j, rows[:, j])
            dates = as_dates(rows[:, j]) if part is not None and part.name == TREND else rows[:, j]
            values.append(dates if labels is None else list(labels))
        return pd.DataFrame(dict(enumerate(values))).set_axis(list(self.columns.table), axis=1)


def _hint(feature: str, names: Sequence[str]) -> str:
    """Return the most similar name, ignoring letter case, as a question; else the first names."""
    folded = {name.casefold(): name for name in names}
    if near := get_close_matches(feature.casefold(), folded, n=1):
        return f"did you mean {folded[near[0]]!r}?"
    return f"the features are {some_of(names)}"


def _part_codes(part: Part, values: Any) -> Floats:
    """Encode dates, as a data frame or a list of texts holds them, as values of a part."""
    (column,) = map(with_stamps, read_columns(pd.DataFrame({part.column: values})))
    assert column.stamps is not None
    return part.of(column.stamps)


def _are_numbers(values: Any) -> bool:
    return all(isinstance(value, numbers.Real) for value in values)


def subject_of(model: Any, background: Any = None, sample_weight: Any = None) -> Subject:
    """Return the function of a model with the training table, or the table `background`, as its background."""
    if not hasattr(model, "fit") or not hasattr(type(model), "functional_sd"):
        advice = (
            "a fitted SalsaRegressor or SalsaClassifier is needed: pass best_estimator_ of a search, or the last step"
            " of a pipeline with tables as that step sees them"
        )
        raise TypeError(f"{type(model).__name__} cannot be explained: {advice}")
    check_is_fitted(model)
    if background is None:
        if sample_weight is not None:
            raise ValueError("sample_weight belongs to the rows of background: give both")
        rows = training_rows_of(model)
        return Subject(model.expansion_, model.columns_, model.expansion_.background, rows, *_target(model))
    X = encoded(model, background)
    weight = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
    X, weight = X[weight > 0], weight[weight > 0]
    marginals = tuple(marginal_of(x, weight) for x in X.T)
    return Subject(model.expansion_, model.columns_, marginals, Rows.weighted(X, weight), *_target(model))


def _target(model: Any) -> tuple[str | None, list[Any] | None]:
    """Return the scale of the target on which the function was learned, and the labels of classes."""
    transform, classes = fitted_of(model).transform, fitted_of(model).classes
    return None if transform is None else transform.name, None if classes is None else classes.tolist()


def training_rows_of(model: Any) -> Rows | None:
    """Return the training rows and their weights, or None if the model does not keep both.

    The anchors of a low-rank model are no sample of its rows. Divided fits do not keep weights.
    """
    expansion, uncertainty = model.expansion_, fitted_of(model).uncertainty
    if expansion.marginals is None:
        return Rows.weighted(expansion.anchors)
    if isinstance(uncertainty, ScoredUncertainty):
        return Rows.weighted(expansion.anchors, uncertainty.weight) if uncertainty.keeps_rows else None
    if isinstance(uncertainty, ExactUncertainty):
        return Rows.weighted(expansion.anchors, uncertainty.noise.weight)
    if isinstance(uncertainty, IteratedUncertainty):
        return Rows.weighted(expansion.anchors, uncertainty.weight)
    return None


def interval_ends(model: Any, X: Any, levels: Sequence[float]) -> Floats:
    """Return the ends of ``predict_interval`` at every level (L, n, q, 2), without the warning of infinite ends."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TooFewRowsWarning)
        ends = np.stack([model.predict_interval(X, level) for level in levels])
    return ends.reshape(len(levels), ends.shape[1], -1, 2)
