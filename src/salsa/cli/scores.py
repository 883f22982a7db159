"""Scores of a model on held-out rows: R2, or the share of another loss that is explained; scores of classes."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # commands import inside functions, so that help is fast
    from numpy.typing import NDArray

    from salsa._utils.arrays import Floats
    from salsa.classifier import SalsaClassifier
    from salsa.regressor import SalsaRegressor
    from salsa.uncertainty.scored import ScoredUncertainty

    Model = SalsaRegressor | SalsaClassifier

SQUARED, CLASSES = "squared_error", "log_loss"
LOSSES = {  # loss -> its name in sentences
    SQUARED: "squared error",
    "huber": "Huber loss",
    "quantile": "pinball loss",
    "poisson": "Poisson deviance",
    "gamma": "gamma deviance",
}
CODED = "R2 is on coded targets, from which the kernels are first learned"


def loss_of(model: "Model") -> str:
    """Return the loss that the model minimises, by name."""
    return str(getattr(model, "loss", CLASSES))


def cross_validated(model: "Model") -> dict[str, Any]:
    """Return the loss by name, the share of it that is explained in cross-validation, and the standard error.

    The share is R2 for squared errors and D2 for other losses: one minus the loss over the best constant's loss. Both
    are None if nothing was searched. A classifier also has the scores of its held-out probabilities.
    """
    loss, search = loss_of(model), model.search_
    chosen = [result.path for result in search.results if result.order == search.order]
    share = 1 - chosen[0].error if chosen else None
    return {
        "loss": loss,
        "quantile": getattr(model, "quantile", None),
        "r2": share if loss == SQUARED else None,
        "d2": None if loss == SQUARED else share,
        "standard_error": chosen[0].standard_error if chosen else None,
        "held_out": _class_scores(model) if loss == CLASSES else None,
    }


def score_fields(summary: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the lines about held-out rows."""
    if summary["loss"] == CLASSES:
        yield from _class_fields(summary)
    elif summary["r2"] is not None:
        doubt = _doubt(summary["r2"], summary, "the mean")
        yield "R2", f"{_with_error(summary['r2'], summary)} in cross-validation{doubt}"
    elif summary["d2"] is not None:
        share = f"{_with_error(summary['d2'], summary)} in cross-validation"
        what = f"the share of the {LOSSES[summary['loss']]} that is explained"
        yield "D2", f"{share}: {what}{_doubt(summary['d2'], summary, 'a constant')}"


def _with_error(share: float, summary: dict[str, Any]) -> str:
    return f"{share:.4f} +/- {summary['standard_error']:.4f}"


def _doubt(share: float, summary: dict[str, Any], constant: str) -> str:
    """Say that the share of the loss that is explained is less than two standard errors, if it is."""
    if summary["standard_error"] is None or share >= 2 * summary["standard_error"]:
        return ""
    return f"; this is less than two standard errors: the model may be no better than {constant}"


def loss_field(summary: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the line about a loss that was asked for."""
    if summary["loss"] not in (SQUARED, CLASSES):
        name, of = LOSSES[summary["loss"]], summary["quantile"]
        yield "loss", f"{name}: the quantile {of:g} is predicted" if of is not None else name


def rows_scored(model: "Model", X: Any, y: Any) -> dict[str, float]:
    """Return the scores of predictions of rows X with targets y, by name: R2, D2, or scores of probabilities."""
    import numpy as np

    loss = loss_of(model)
    if loss == SQUARED:
        return {"r2": float(model.score(X, y))}
    if loss == CLASSES:
        p: Floats = model.predict_proba(X)
        return _probability_scores(model.classes_, np.asarray(y), p, np.ones(len(p)))
    return {"d2": _explained(model, loss, np.asarray(y, dtype=np.float64), model.predict(X))}


def scored_fields(scores: dict[str, float]) -> Iterator[tuple[str, str]]:
    """Yield the scores of given rows as lines."""
    names = {"r2": "R2", "d2": "D2", "log_loss": "log loss", "accuracy": "accuracy", "auc": "AUC"}
    for key, name in names.items():
        if key in scores:
            yield name, f"{scores[key]:.4f} on these rows"


def _scored(model: "Model") -> "ScoredUncertainty":
    """Return the uncertainty of a model that does not minimise squared errors."""
    from salsa.fitted import fitted_of
    from salsa.uncertainty.scored import ScoredUncertainty

    uncertainty = fitted_of(model).uncertainty
    assert isinstance(uncertainty, ScoredUncertainty)
    return uncertainty


def _class_scores(model: "SalsaClassifier") -> dict[str, float]:
    """Return the scores of the probabilities that fits without each fold give to its rows, by the rows' weights."""
    uncertainty = _scored(model)
    labels, p = model.held_out_proba()
    return _probability_scores(model.classes_, labels, p, uncertainty.weight[uncertainty.held_out.row])


def _probability_scores(
    classes: "NDArray[Any]", labels: "NDArray[Any]", p: "Floats", weight: "Floats"
) -> dict[str, float]:
    """Return log loss, log loss of the classes' shares, accuracy, and for two classes the area under the ROC curve."""
    import numpy as np
    from sklearn.metrics import roc_auc_score

    code = np.searchsorted(classes, labels)
    share = np.bincount(code, weight, len(classes)) / weight.sum()
    rows = np.arange(len(code))
    own, present = np.maximum(p[rows, code], np.finfo(np.float64).eps), share[share > 0]
    scores = {
        "log_loss": float(-np.average(np.log(own), weights=weight)),
        "shares_log_loss": float(-present @ np.log(present)),
        "accuracy": float(np.average(p.argmax(axis=1) == code, weights=weight)),
    }
    if len(classes) == 2 and len(present) == 2:
        scores["auc"] = float(roc_auc_score(code, p[:, 1], sample_weight=weight))
    return scores


def _class_fields(summary: dict[str, Any]) -> Iterator[tuple[str, str]]:
    found = summary["held_out"]
    share = found["log_loss"] / found["shares_log_loss"]
    doubt = _doubt(1 - share, summary, "the class shares")
    error = "" if summary["standard_error"] is None else f" +/- {summary['standard_error']:.4f}"
    of_shares = f"{share:.4f}{error} of the class shares' log loss{doubt}"
    yield "log loss", f"{found['log_loss']:.4f} on held-out rows: {of_shares}"
    yield "accuracy", f"{found['accuracy']:.4f} on held-out rows"
    if "auc" in found:
        yield "AUC", f"{found['auc']:.4f} on held-out rows"


def _explained(model: Any, loss: str, y: "Floats", prediction: "Floats") -> float:
    """Return one minus the loss of predictions over the loss of the best constant of these rows."""
    import numpy as np
    from sklearn.metrics import d2_pinball_score, d2_tweedie_score

    if loss in ("poisson", "gamma"):
        return float(d2_tweedie_score(y, prediction, power=1 if loss == "poisson" else 2))
    if loss == "quantile":
        return float(d2_pinball_score(y, prediction, alpha=model.quantile))
    judge = _scored(model).loss.judge
    constant = np.full_like(y, np.median(y))
    losses = [float(np.mean(judge(y[:, None], f[:, None]))) for f in (prediction, constant)]
    return 1 - losses[0] / losses[1]
