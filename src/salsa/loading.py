"""Models from files, whatever estimator saved them."""

from __future__ import annotations

import os

from salsa.classifier import SalsaClassifier
from salsa.persistence.model_file import read_model
from salsa.regressor import SalsaRegressor


def load(path: str | os.PathLike[str]) -> SalsaRegressor | SalsaClassifier:
    """Read a model that its ``save`` wrote. Nothing in the file is executed."""
    return read_model(path, SalsaRegressor, SalsaClassifier)
