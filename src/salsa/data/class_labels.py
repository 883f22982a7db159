"""Targets of classes: how they are told from numbers, checks of labels, and the codes of labels."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.utils import column_or_1d
from sklearn.utils.multiclass import check_classification_targets, type_of_target

from salsa._utils.arrays import Floats, Places

KINDS_OF_CLASSES = {"string": "text", "boolean": "true or false", "categorical": "category"}  # by pandas' infer_dtype


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
    if type_of_target(labels, input_name="y").startswith("continuous"):
        advice = "classes are texts or whole numbers; SalsaRegressor is for other numbers"
        raise ValueError(f"Unknown label type: continuous ({advice})")
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
