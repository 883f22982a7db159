"""The scale of the fitted function in words, and its way back to the target."""

from __future__ import annotations

from typing import Any, NamedTuple

from salsa.data.transforms import TargetTransform
from salsa.explain.report.phrases import short
from salsa.explain.subject import Subject
from salsa.fitted import fitted_of
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
