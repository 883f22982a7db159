"""The scale of the fitted function in words, its way back to the target, and the class that a report is about."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from salsa.data.transforms import TargetTransform
from salsa.explain.report.phrases import short, some
from salsa.explain.subject import Subject
from salsa.fitted import Fitted, fitted_of
from salsa.losses import Gamma, Logistic, Poisson, Quantile, Softmax
from salsa.uncertainty.scored import ScoredUncertainty


class FunctionScale(NamedTuple):
    """The name of the values of f, and the way from f to the prediction that the page shows."""

    name: str  # a name of the values of f, such as "prediction" or "log odds of yes"
    link: str = "identity"  # "identity", "logistic", "softmax", "log" or "smeared", the way back from a transform
    response: str = "Prediction"  # name of the response
    labels: tuple[str, ...] = ()  # names of the classes

    @property
    def values(self) -> str:
        """The name of many values of f."""
        return "predictions" if self.name == "prediction" else self.name

    @property
    def sentence(self) -> str:
        """Say on which scale effects and contributions are; empty if it is the scale of the target."""
        return "" if self.name == "prediction" else f" Contributions are on the scale of the model: {self.name}."


def scale_of(model: Any, subject: Subject, output: int) -> FunctionScale:
    """Return the scale of the function of an output."""
    fitted = fitted_of(model)
    kept = fitted.uncertainty
    if isinstance(fitted.transform, TargetTransform):
        return FunctionScale(subject.target, "smeared")
    if not isinstance(kept, ScoredUncertainty):
        return FunctionScale(subject.target)
    names = () if fitted.classes is None else tuple(str(label) for label in fitted.classes)
    loss = kept.loss
    if isinstance(loss, Logistic):
        second = short(names[1])
        return FunctionScale(f"log odds of {second}", "logistic", f"Probability of {second}", names)
    if isinstance(loss, Softmax):
        own = short(names[output])
        return FunctionScale(
            f"log probability of {own}, centred over classes", "softmax", f"Probability of {own}", names
        )
    if isinstance(loss, Poisson | Gamma):
        mean = "Expected count" if isinstance(loss, Poisson) and loss.whole else "Expected value"
        return FunctionScale("logarithm of the mean", "log", mean)
    if isinstance(loss, Quantile):
        return FunctionScale("prediction", response=f"{100 * loss.level:g} % quantile")
    return FunctionScale("prediction")


def function_number(model: Any, output: Any) -> int:
    """Return the number of the function that `output` names: a position, or the label of a class.

    Whole numbers are positions. Two classes have one function, the log odds of the second class.
    """
    fitted = fitted_of(model)
    is_position = isinstance(output, int | np.integer) and not isinstance(output, bool | np.bool_)
    if fitted.classes is None:
        return int(output) if is_position else _refuse_number(output, fitted)
    labels = fitted.classes.tolist()
    if is_position:
        if not 0 <= output < len(labels):
            known = some([f"{k} ({label!r})" for k, label in enumerate(labels)], 10)
            raise ValueError(f"output={output!r}: the positions of the classes are {known}")
        return 0 if len(labels) == 2 else int(output)
    wanted = output.item() if isinstance(output, np.generic) else output
    if wanted not in labels:
        known = some([repr(label) for label in labels], 10)
        raise ValueError(f"output={output!r} is no class of the model: the classes are {known}")
    if len(labels) == 2 and wanted == labels[0]:
        raise ValueError(
            f"output={output!r}: two classes have one function, the log odds of {labels[1]!r}; leave output out"
        )
    return 0 if len(labels) == 2 else labels.index(wanted)


def _refuse_number(output: Any, fitted: Fitted) -> int:
    outputs = fitted.expansion.coef.shape[1]
    raise ValueError(f"output={output!r}: this model has {outputs} outputs, numbered from 0")
