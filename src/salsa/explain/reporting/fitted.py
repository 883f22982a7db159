"""What was fitted: one sentence and the facts."""

from __future__ import annotations

from typing import Any

from salsa.explain.background import Subject
from salsa.explain.reporting.quality import Given
from salsa.explain.reporting.words import count, percent

KERNELS = {"gaussian": "Gaussian", "laplace": "Laplace", "matern32": "Matérn 3/2", "matern52": "Matérn 5/2"}


def fitted_section(
    model: Any, subject: Subject, used: list[int], given: Given, scores: list[dict[str, Any]], output: int
) -> dict[str, Any]:
    outputs, found = subject.expansion.coef.shape[1], ""
    if scores and scores[0]["r2"] <= 0:
        found = " On rows that it did not see it is no better than the mean."
    elif scores:
        found = f" It explains {percent(scores[0]['r2'])} of the variance on rows that it did not see."
    rows = count(len(subject.expansion.anchors), "row")
    summary = f"This model predicts {given.target} from {_features_words(subject, used)}, learned from {rows}.{found}"
    notes = [f"{note[0].upper()}{note[1:]}." for note in model.search_.notes if note]
    if outputs > 1:
        other = f"write_report(..., output={(output + 1) % outputs}) writes one about another"
        notes.append(f"The model has {outputs} outputs. This page is about output {output}, counted from 0; {other}.")
    return {"summary": summary, "facts": _facts(model, subject, used), "notes": notes}


def _facts(model: Any, subject: Subject, used: list[int]) -> list[tuple[str, str]]:
    D = subject.kernel.n_features
    searched = "cross-validation" if len(model.search_.table) else "given, not searched"
    return [
        ("Rows", f"{len(subject.expansion.anchors):,}"),
        ("Features", f"{D}, all used" if len(used) == D else f"{D}, {len(used)} used"),
        ("Interactions", _order_words(subject, used)),
        ("Kernel", _kernel_words(subject, used)),
        ("Penalty alpha", f"{model.alpha_:.3g}"),
        ("Order and alpha by", searched),
    ]


def _features_words(subject: Subject, used: list[int]) -> str:
    D = subject.kernel.n_features
    if not used:
        return "none of its features"
    return count(D, "feature") if len(used) == D else f"{len(used)} of {D} features"


def _order_words(subject: Subject, used: list[int]) -> str:
    highest = min(subject.kernel.order, len(used))
    orders = [m for m in range(1, highest + 1) if subject.kernel.order_weights[m] > 0]
    if not orders or highest == 1:
        return "none: features add up" if used else "none"
    if orders == [highest]:
        return f"exactly {highest} features at a time"
    return "pairs" if highest == 2 else f"up to {highest} features"


def _kernel_words(subject: Subject, used: list[int]) -> str:
    bases = dict.fromkeys(subject.kernel.bases[j] for j in used or range(subject.kernel.n_features))
    smooth = [KERNELS[base] for base in bases if base in KERNELS]
    return ", ".join([*smooth, *(["equality for categories"] if "equality" in bases else [])])
