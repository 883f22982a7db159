"""The section on how to cite, and how the numbers were computed."""

from __future__ import annotations

from typing import Any

from salsa.uncertainty.scored import ScoredUncertainty

CITATION = (
    "Kirthevasan Kandasamy and Yaoliang Yu. Additive Approximations in High Dimensional Nonparametric Regression via"
    " the SALSA. Proceedings of the 33rd International Conference on Machine Learning, 2016."
)
KERNEL = (
    "an additive kernel: a sum over features, pairs and larger groups of features of products of one-dimensional"
    " kernels. Relevances, bandwidths, order and penalty are chosen on held-out rows."
)
EFFECTS = (
    "Effects and their shares of the variance are the functional ANOVA of the fitted function. Every feature is"
    " distributed as in the training table, independently of the other features. Shares over rows are covariances of"
    " effects and predictions over the rows as they are, divided by the variance of the predictions. Contributions are"
    " Shapley values over the distribution of independent features. All are closed forms. They describe the model, not"
    " causes."
)
BANDS = (
    "Bands are posterior standard deviations of the Gaussian process whose mean is the model. This page loads nothing"
    " and sends nothing."
)
ROWS = (
    "This page holds rows of the training table, from which it draws and predicts: share it as you would share the"
    " table."
)
SQUARED = "Leave-one-out predictions use the kernel and the penalty that were chosen on all rows."
SCORED = (
    "Held-out training rows are predicted by the fits without their folds, with the kernel and the penalty that were"
    " chosen on all rows."
)
CALIBRATED = (
    "Held-out probabilities have the factor of the log odds that calibrates the model. The Brier score is the mean of"
    " (p - y)² for two classes, and the sum of these over the classes for more. AUC is the probability that a row of"
    " the class has a higher probability of the class than another row."
)


def about_section(kept: Any, kernel: str, *, classes: bool) -> dict[str, Any]:
    """Return the citation, the kernel in words, and the paragraphs on the method that apply to this model."""
    own = f"The kernel of this model: {kernel}."
    if not isinstance(kept, ScoredUncertainty):
        model = _model("kernel ridge regression")
        return {"cite": CITATION, "method": [model, own, EFFECTS, f"{SQUARED} {BANDS}", ROWS]}
    kind = "kernel logistic regression" if classes else "a kernel model that minimises its loss plus a ridge penalty,"
    held_out = f"{SCORED} {CALIBRATED}" if classes else SCORED
    return {"cite": CITATION, "method": [_model(kind), own, _on_the_link(), f"{held_out} {BANDS}", ROWS]}


def _model(kind: str) -> str:
    return f"The model is {kind} with {KERNEL}"


def _on_the_link() -> str:
    """Say that effects are of the function, whose scale the other sections name."""
    return EFFECTS.replace("predictions", "the function's values")
