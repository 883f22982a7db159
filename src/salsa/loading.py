"""Models from files, whatever estimator saved them.

Scikit-learn takes longer to import than a service may take to start. A loaded model therefore predicts plain values by
itself, and becomes the estimator that saved it as soon as something else is asked of it. Nothing tells the difference
but the time, and ``type(model)`` before that moment.
"""

from __future__ import annotations

import os
import sys
import threading
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar

from salsa._utils.threads import parse_threads
from salsa.persistence.archive import entry, naming, read_archive
from salsa.persistence.function_state import function_from
from salsa.persistence.quick_predictions import QuickPredictions

if TYPE_CHECKING:
    from salsa.classifier import SalsaClassifier
    from salsa.regressor import SalsaRegressor

_becoming = threading.RLock()


def _in_forked_child() -> None:
    """Replace the lock, which another thread of the parent may hold."""
    global _becoming
    _becoming = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_forked_child)


def load(path: str | os.PathLike[str]) -> SalsaRegressor | SalsaClassifier:
    """Read the model that ``save`` wrote to the file `path`. Nothing in the file is executed.

    Where scikit-learn is not imported yet, it is not imported for predictions of plain values. The file is checked for
    damage in any case; parts that only intervals need are checked for contradictions when they are asked for.
    """
    return _estimator(path, read_archive(path)) if "sklearn" in sys.modules else load_quickly(path)


def load_quickly(path: str | os.PathLike[str]) -> Any:
    """Read a model that is not an estimator yet."""
    header, arrays = read_archive(path)
    with naming(path):
        threads = parse_threads(entry(header, "parameters", {dict}).get("n_jobs"))
        quick = QuickPredictions(function_from(header, arrays), threads)
    return (LoadedClassifier if "classes" in header else LoadedRegressor)(quick, (path, (header, arrays)))


def _estimator(path: str | os.PathLike[str], contents: Any) -> SalsaRegressor | SalsaClassifier:
    from salsa.classifier import SalsaClassifier
    from salsa.persistence.model_file import model_of
    from salsa.regressor import SalsaRegressor

    return model_of(path, contents, SalsaRegressor, SalsaClassifier)


class LoadedModel:
    """A model from a file that is not an estimator yet."""

    home: ClassVar[tuple[str, str]]  # module and name of the estimator

    def __init__(self, quick: QuickPredictions, file: tuple[Any, Any]) -> None:
        vars(self).update(_quick=quick, _file=file)

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        """The class of the estimator, for ``isinstance``; this alone does not turn the model into an estimator."""
        module, name = self.home
        return getattr(import_module(module), name)

    def __getattr__(self, name: str) -> Any:
        return getattr(become_estimator(self), name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(become_estimator(self), name, value)

    def __dir__(self) -> list[str]:
        return dir(become_estimator(self))

    def __repr__(self) -> str:
        return repr(become_estimator(self))

    def __reduce_ex__(self, protocol: Any) -> Any:
        return become_estimator(self).__reduce_ex__(protocol)


class LoadedRegressor(LoadedModel):
    """A regressor from a file."""

    home = "salsa.regressor", "SalsaRegressor"

    def predict(self, X: Any, *others: Any, **named: Any) -> Any:
        return _asked(self, "predict", "response", X, *others, **named)


class LoadedClassifier(LoadedModel):
    """A classifier from a file."""

    home = "salsa.classifier", "SalsaClassifier"

    def predict(self, X: Any) -> Any:
        return _asked(self, "predict", "labels", X)

    def predict_proba(self, X: Any) -> Any:
        return _asked(self, "predict_proba", "probabilities", X)


def _asked(model: Any, method: str, name: str, X: Any, *others: Any, **named: Any) -> Any:
    """Return the quick predictions of this name or, where they are None, those of the estimator's method.

    The model may be an estimator by now, if the method was looked up before.
    """
    quick = None if others or named else vars(model).get("_quick")
    found = None if quick is None else getattr(quick, name)(X)
    return getattr(become_estimator(model), method)(X, *others, **named) if found is None else found


def become_estimator(model: Any) -> Any:
    """Turn a loaded model into its estimator, in its place, and return it; threads that predict meanwhile go on."""
    with _becoming:
        if issubclass(type(model), LoadedModel):
            estimator = _estimator(*vars(model)["_file"])
            vars(model).update(vars(estimator))
            object.__dict__["__class__"].__set__(model, type(estimator))
            del vars(model)["_quick"], vars(model)["_file"]
    return model
