"""How rivals are scaled and tuned: the paper's protocol, 5-fold cross-validation of the squared error."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from sklearn.compose import TransformedTargetRegressor
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from salsa._utils.arrays import Floats

Grid = Mapping[str, Sequence[Any]]

N_FOLDS, SEED = 5, 0


def five_folds() -> KFold:
    """Shuffled, so that rows in any order will do; the same for every rival."""
    return KFold(N_FOLDS, shuffle=True, random_state=SEED)


def tuned(estimator: Any, grid: Grid) -> GridSearchCV:
    """The estimator with the values of the grid, named as the method names them, that predict held-out rows best."""
    values = {f"{_place(estimator)}{name}": list(choices) for name, choices in grid.items()}
    # A failure is to tell its reason; scikit-learn would go on and only say how many fits failed.
    return GridSearchCV(estimator, values, scoring="neg_mean_squared_error", cv=five_folds(), error_score="raise")


def _place(estimator: Any) -> str:
    """Where the method itself stands, as scikit-learn writes it."""
    if isinstance(estimator, TransformedTargetRegressor):
        return f"regressor__{_place(estimator.regressor)}"
    return "model__" if isinstance(estimator, Pipeline) else ""


def scaled(estimator: Any) -> Pipeline:
    """On standardised features."""
    return Pipeline([("scale", StandardScaler()), ("model", estimator)])


def near(estimator: Any) -> Pipeline:
    """On standardised features, with squared distances as means over features: one grid serves any number of them."""
    return Pipeline([("scale", StandardScaler()), ("shrink", FunctionTransformer(per_feature)), ("model", estimator)])


def centred(pipeline: Pipeline) -> TransformedTargetRegressor:
    """With a standardised target, for methods that have no intercept or whose parameters have its units."""
    return TransformedTargetRegressor(pipeline, transformer=StandardScaler())


def named(estimator: Any) -> Pipeline:
    """On a data frame: some packages name the columns of an array themselves, and warn when they see the next array."""
    return Pipeline([("name", FunctionTransformer(as_frame)), ("model", estimator)])


def per_feature(X: Floats) -> Floats:
    shrunk: Floats = X / np.sqrt(X.shape[1])
    return shrunk


def as_frame(X: Any) -> pd.DataFrame:
    return X if isinstance(X, pd.DataFrame) else pd.DataFrame(X, columns=[f"x{j}" for j in range(np.shape(X)[1])])
