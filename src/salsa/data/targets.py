"""Validation of targets, labels of classes and weights; errors name the value, the limit and a way out."""

from __future__ import annotations

import sys
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.utils import check_X_y, column_or_1d, compute_sample_weight
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import _check_sample_weight

from salsa._utils.arrays import Floats, Places
from salsa._utils.listing import some_of
from salsa.data.table_columns import ESTIMATOR
from salsa.data.text_columns import spell_numbers

#: Within these limits, coefficients y / alpha are finite even for alpha = 1e-14 of the kernel's diagonal
TARGET_LIMIT, WEIGHT_LIMITS = 1e150, (1e-50, 1e50)
KINDS_OF_CLASSES = {"string": "text", "boolean": "true or false", "categorical": "category"}  # by pandas' infer_dtype


def checked_rows(X: Floats, y: Any) -> tuple[Floats, Floats]:
    """Return encoded features (n, D), NaN where missing, and targets (n,) or (n, q), as checked float64 arrays."""
    _refuse_missing(y := _numbers(y))
    with np.errstate(invalid="ignore"):  # scikit-learn adds all values up to see whether they are finite
        checked: tuple[Floats, Floats] = check_X_y(
            X,
            y,
            dtype=np.float64,
            order="C",
            ensure_all_finite="allow-nan",
            multi_output=True,
            y_numeric=True,
            estimator=ESTIMATOR,
        )
    X, y = checked
    if (largest := np.abs(y).max()) > TARGET_LIMIT:
        raise ValueError(f"y has a value of size {largest:.3g}; the largest allowed is {TARGET_LIMIT:.0e}: rescale it")
    return X, np.asarray(y, dtype=np.float64)


def checked_weights(sample_weight: Any, X: Floats) -> Floats:
    """Return the weights (n,) of the rows, 0 for rows that do not count; ones if no weights are given."""
    if sample_weight is None:
        return np.ones(len(X))
    if not np.any(np.asarray(sample_weight)):  # scikit-learn refuses zero weights alone, but a block may have them
        return np.zeros(len(X))
    weight: Floats = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
    low, high = WEIGHT_LIMITS
    used = weight > 0
    if used.any() and (weight.max() > high or weight[used].min() < low):
        limits = f"between {low:.0e} and {high:.0e}"
        raise ValueError(
            f"sample_weight: weights that are not zero must be {limits}; only their ratios matter: rescale them"
        )
    return weight


def check_total_weight(rows: int) -> None:
    """Raise ValueError if no row has a positive weight."""
    if rows == 0:
        raise ValueError("sample_weight: every weight is zero; at least one row needs a positive weight")


class Groups(NamedTuple):
    """The groups of rows: distinct labels, ascending, and the place of every row's label among them (n,)."""

    labels: NDArray[Any]
    code: Places

    def __add__(self, other: Groups) -> Groups:  # type: ignore[override]
        """Return the groups of the rows of both."""
        labels = np.unique(np.concatenate([self.labels, other.labels]))
        return Groups(
            labels, np.concatenate([np.searchsorted(labels, part.labels)[part.code] for part in (self, other)])
        )

    def encode(self, groups: Any, n: int) -> Places:
        """Return the places (n,) of other rows' labels."""
        labels = checked_groups(groups, n)
        assert labels is not None
        return np.searchsorted(self.labels, labels.labels)[labels.code]


def checked_groups(groups: Any, n: int) -> Groups | None:
    """Return the groups of n rows, by labels of any type; ValueError for another length or a missing label."""
    if groups is None:
        return None
    values = np.asarray(groups.to_numpy() if hasattr(groups, "to_numpy") else groups)
    if values.shape != (n,):
        raise ValueError(f"groups has the shape {values.shape}: give one label for each of the {n} rows")
    missing = np.flatnonzero(pd.isna(values))
    if len(missing):
        raise ValueError(
            f"groups: row {missing[0]} has no label ({len(missing)} rows in all); drop them or name a group"
        )
    if values.dtype == object:
        values = values.astype(str)
    labels, code = np.unique(values, return_inverse=True)
    return Groups(labels, code)


def telling_groups(groups: Groups | None) -> Groups | None:
    """Return the groups, None if every row is its own; ValueError if all rows are in one, which cannot be held out."""
    if groups is None:
        return None
    number, n = len(np.unique(groups.code)), len(groups.code)
    if number == 1 and n > 1:
        label = groups.labels[groups.code[0]]
        raise ValueError(f"groups: all rows are in the group {label}; at least 2 groups are needed, or none")
    return None if number == n else groups


def _refuse_missing(y: Any) -> None:
    """Raise ValueError if a target is NaN, with the first such row and the number of such rows."""
    values = np.asarray(y)
    if values.dtype.kind != "f" or values.ndim == 0:
        return
    rows = np.flatnonzero(np.isnan(values.reshape(len(values), -1)).any(axis=1))
    if len(rows):
        count = f"{len(rows)} row{'' if len(rows) == 1 else 's'} in all"
        raise ValueError(f"y contains NaN: row {rows[0]} (counted from 0) has no value ({count}): leave such rows out")


def _numbers(y: Any) -> Any:
    """Return targets of text or objects as float64, NaN where missing, and others as they are.

    Raise ValueError for text that is no number, and for integers beyond float64.
    """
    values = np.asarray(y)
    if values.dtype.kind not in "OSUT" or values.ndim == 0:
        return y
    if values.dtype == object and any(isinstance(v, int) and abs(v) > sys.float_info.max for v in values.ravel()):
        raise ValueError(
            f"y has an integer beyond float64; the largest value allowed is {TARGET_LIMIT:.0e}: rescale it"
        )
    for row, value in enumerate(values):
        if isinstance(value, str) and not spell_numbers([value]).all():
            advice = "give numbers, such as pandas.to_numeric returns; SalsaClassifier predicts classes"
            raise ValueError(f"y has {str(value)!r} in row {row} (counted from 0), which is not a number: {advice}")
    return np.where(pd.isna(values), np.nan, values.astype(object)).astype(np.float64)


class TargetValues(NamedTuple):
    """The distinct values of every output, the least three of each; + merges the values of two blocks."""

    rows: int
    distinct: tuple[frozenset[float], ...]

    def __add__(self, other: TargetValues) -> TargetValues:  # type: ignore[override]
        pairs = zip(self.distinct, other.distinct, strict=True)
        return TargetValues(self.rows + other.rows, tuple(frozenset(sorted(a | b)[:3]) for a, b in pairs))

    @property
    def two_valued(self) -> bool:
        """Whether no output has more than two values."""
        return all(len(values) < 3 for values in self.distinct)

    @property
    def notes(self) -> list[str]:
        """Notes on targets that are constant or have two values."""
        if all(len(values) < 2 for values in self.distinct):
            return ["the target is constant"]
        if self.rows > 2 and self.two_valued:
            beyond = "predictions lie between and beyond them, and are no probabilities"
            return [f"the target has two values: {beyond}; SalsaClassifier predicts probabilities"]
        return []


def target_values(Y: Floats) -> TargetValues:
    """Return the least three distinct values of every output of Y (n, q)."""
    return TargetValues(len(Y), tuple(frozenset(np.unique(y)[:3].tolist()) for y in Y.T))


class Labels(NamedTuple):
    """The classes of rows: distinct labels, ascending, and the place of every row's label among them (n,)."""

    classes: NDArray[Any]
    code: Places


def kind_of_classes(y: Any) -> str | None:
    """Return why a target is taken as classes, such as "text"; None for a target that is not."""
    return KINDS_OF_CLASSES.get(pd.api.types.infer_dtype(_values(y), skipna=True))


def class_labels(y: Any) -> Labels:
    """Return the classes of a target; ValueError if labels cannot be used, or if all are equal."""
    labels = checked_labels(y)
    classes = classes_of(labels)
    return Labels(classes, np.searchsorted(classes, labels))


def checked_labels(y: Any) -> NDArray[Any]:
    """Return the labels (n,); ValueError for continuous targets, several columns, and missing or mixed labels."""
    if y is None:
        raise ValueError("SalsaClassifier requires y to be passed, but the target y is None")
    given = np.asarray(y, dtype=object) if isinstance(y, list | tuple) else _array(y)
    if given.ndim == 0 or given.size != len(given):
        raise ValueError(f"y has the shape {given.shape}: a classifier takes one label per row")
    given = column_or_1d(given, warn=given.ndim > 1)
    missing = np.flatnonzero(pd.isna(given))
    if len(missing):
        raise ValueError(f"y: row {missing[0]} has no label ({len(missing)} rows in all, NaN or None): drop such rows")
    if given.dtype == object and len(kinds := _kinds(given)) > 1:
        raise ValueError(f"y has labels of different types, {' and '.join(sorted(kinds))}: make all texts or numbers")
    labels = np.asarray(y).reshape(len(given)) if isinstance(y, list | tuple) else given
    if labels.dtype.kind == "f" and not np.isfinite(labels).all():
        raise ValueError(f"Input y contains infinity: row {np.flatnonzero(~np.isfinite(labels))[0]}; drop such rows")
    kind = type_of_target(labels, input_name="y")
    if kind.startswith("continuous"):
        advice = "classes are texts or whole numbers; SalsaRegressor is for other numbers"
        raise ValueError(f"Unknown label type: continuous ({advice})")
    if kind == "unknown":
        advice = "classes are texts or whole numbers; y.astype(str) makes texts"
        raise ValueError(f"Unknown label type: {type(labels[0]).__name__}, such as {labels[0]} ({advice})")
    check_classification_targets(labels)
    found: NDArray[Any] = labels
    return found


def classes_of(labels: NDArray[Any]) -> NDArray[Any]:
    """Return the classes, ascending; ValueError if there are fewer than two."""
    if len(labels) == 0:
        raise ValueError("sample_weight: every weight is zero; at least one row needs a positive weight")
    classes: NDArray[Any] = np.unique(labels)
    if len(classes) < 2:
        raise ValueError(f"y has one class, {classes.tolist()[0]!r}: a classifier needs rows of at least two classes")
    return classes


def weights_of_classes(class_weight: Any, labels: NDArray[Any]) -> Floats:
    """Return the weight (n,) of the class of every row: "balanced", or a dictionary, which may leave out classes."""
    if not isinstance(class_weight, dict) and str(class_weight) != "balanced":
        raise ValueError(f'class_weight={class_weight!r} must be "balanced", a dict of weights by label, or None')
    try:
        weights: Floats = compute_sample_weight(class_weight, labels)
    except ValueError:
        known = np.unique(labels).tolist()
        unknown = [label for label in class_weight if label not in known]
        if not unknown:
            raise
        raise ValueError(f"class_weight: {unknown[0]!r} is no class of y; the classes are {some_of(known)}") from None
    return weights


def coded_labels(classes: NDArray[Any], labels: NDArray[Any]) -> Floats:
    """Return 0 or 1 (n,) for two classes, otherwise unit vectors (n, n_classes); rows of no weight have any code."""
    code = np.minimum(np.searchsorted(classes, labels), len(classes) - 1)
    return code.astype(np.float64) if len(classes) == 2 else np.eye(len(classes))[code]


def _kinds(labels: NDArray[Any]) -> set[str]:
    """Return the types of labels by name; types of Python and NumPy are equal, and so are kinds of numbers."""
    families = {"text": str, "bool": bool | np.bool_, "number": int | float | np.number}
    return {
        next((name for name, family in families.items() if issubclass(kind, family)), kind.__name__)
        for kind in {type(label) for label in labels}
    }


def _array(y: Any) -> NDArray[Any]:
    return np.asarray(y.to_numpy() if hasattr(y, "to_numpy") else y)


def _values(y: Any) -> Any:
    """Return a one-dimensional array or pandas column; a list keeps its Python objects."""
    if isinstance(y, pd.Series | pd.Categorical | pd.Index):
        return y
    return column_or_1d(_array(y) if hasattr(y, "to_numpy") or isinstance(y, np.ndarray) else np.asarray(y, object))
