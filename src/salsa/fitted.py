"""The result of a fit: everything that predictions, explanations and files need."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from salsa.data.columns import Columns
from salsa.data.number_format import NumberFormat
from salsa.data.transforms import TargetTransform
from salsa.expansion import KernelExpansion
from salsa.losses import Link
from salsa.selection.results import OrderSearch
from salsa.uncertainty import Unavailable, Uncertainty


class Fitted(NamedTuple):
    """A fitted model, whatever estimator it belongs to."""

    columns: Columns
    feature_names: NDArray[np.object_] | None  # as scikit-learn has them
    flat: bool  # y had one dimension
    expansion: KernelExpansion
    search: OrderSearch
    uncertainty: Uncertainty | Unavailable
    transform: TargetTransform | Link | None = None  # None: the model predicts the target itself
    classes: NDArray[Any] | None = None  # labels of the classes, ascending; None: the target is a number
    formats: Mapping[str, NumberFormat] | None = None  # how a file wrote its numbers; None: plainly, or no file


def assign(model: Any, fitted: Fitted) -> None:
    """Give an estimator its fitted attributes."""
    model.columns_, model.n_features_in_ = fitted.columns, len(fitted.columns.table)
    model.__dict__.pop("feature_names_in_", None)
    if fitted.feature_names is not None:
        model.feature_names_in_ = fitted.feature_names
    model.expansion_, model.search_ = fitted.expansion, fitted.search
    model.order_, model.alpha_ = fitted.search.order, fitted.search.alpha
    model.relevance_ = fitted.expansion.kernel.relevance
    model.bandwidth_ = fitted.expansion.kernel.bandwidth
    model._fitted = fitted


def fitted_of(model: Any) -> Fitted:
    """Return the result of an estimator's fit; raise scikit-learn's error if it is not fitted."""
    if "_fitted" not in vars(model):
        check_is_fitted(model)
    fitted: Fitted = model._fitted
    return fitted
