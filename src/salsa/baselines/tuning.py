"""Scaling and tuning of rivals by the paper's protocol: 5-fold cross-validation of the squared error.

Classifiers are tuned by the log loss on stratified folds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from sklearn.compose import TransformedTargetRegressor
from sklearn.model_selection import GridSearchCV, KFold, StratifiedKFold
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from salsa._utils.arrays import Floats
from salsa.baselines.class_targets import true_class_score

Grid = Mapping[str, Sequence[Any]]

N_FOLDS, SEED = 5, 0


def five_folds() -> KFold:
    """Return five folds, shuffled because rows may be sorted; they are equal for all rivals."""
    return KFold(N_FOLDS, shuffle=True, random_state=SEED)


def stratified_folds() -> StratifiedKFold:
    """Return five shuffled folds with equal shares of every class; they are equal for all rivals."""
    return StratifiedKFold(N_FOLDS, shuffle=True, random_state=SEED)


def tuned(estimator: Any, grid: Grid) -> GridSearchCV:
    """Return a grid search by held-out squared error; the names in the grid are the method's own parameter names."""
    return _search(estimator, grid, "neg_mean_squared_error", five_folds())


def tuned_classifier(estimator: Any, grid: Grid) -> GridSearchCV:
    """Return a grid search by held-out log loss; the names in the grid are the method's own parameter names."""
    return _search(estimator, grid, true_class_score, stratified_folds())


def _search(estimator: Any, grid: Grid, scoring: Any, cv: Any) -> GridSearchCV:
    values = {f"{_place(estimator)}{name}": list(choices) for name, choices in grid.items()}
    # A failure must report its reason; by default, scikit-learn continues and only counts the failed fits.
    return GridSearchCV(estimator, values, scoring=scoring, cv=cv, error_score="raise")


def _place(estimator: Any) -> str:
    """Return the prefix of the method's parameters inside scikit-learn's wrappers."""
    if isinstance(estimator, TransformedTargetRegressor):
        return f"regressor__{_place(estimator.regressor)}"
    return "model__" if isinstance(estimator, Pipeline) else ""


def scaled(estimator: Any) -> Pipeline:
    """Return a pipeline that standardises the features."""
    return Pipeline([("scale", StandardScaler()), ("model", estimator)])


def near(estimator: Any) -> Pipeline:
    """Return a pipeline that divides standardised features by sqrt(D), so that one grid of gamma serves any D."""
    return Pipeline([("scale", StandardScaler()), ("shrink", FunctionTransformer(per_feature)), ("model", estimator)])


def centred(pipeline: Pipeline) -> TransformedTargetRegressor:
    """Standardise the target, for methods without an intercept or with parameters in the units of the target."""
    return TransformedTargetRegressor(pipeline, transformer=StandardScaler())


def named(estimator: Any) -> Pipeline:
    """Return a pipeline on data frames: some packages name the columns of an array, and warn at the next array."""
    return Pipeline([("name", FunctionTransformer(as_frame)), ("model", estimator)])


def per_feature(X: Floats) -> Floats:
    shrunk: Floats = X / np.sqrt(X.shape[1])
    return shrunk


def as_frame(X: Any) -> pd.DataFrame:
    return X if isinstance(X, pd.DataFrame) else pd.DataFrame(X, columns=[f"x{j}" for j in range(np.shape(X)[1])])
