"""The section on the fitted model: one sentence, facts and notes."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from salsa.explain.anova import Anova
from salsa.explain.report.phrases import count, percent
from salsa.explain.report.quality_section import Evidence, Given, Scores
from salsa.explain.subject import Subject
from salsa.kernels.additive import AdditiveKernel
from salsa.kernels.base import BASE_KERNELS


def fitted_section(anova: Anova, used: list[int], given: Given, evidence: Evidence, scores: Scores) -> dict[str, Any]:
    """Return one sentence about the model, facts, and notes of the search."""
    subject, output = anova.subject, anova.output
    anchors, outputs = subject.expansion.coef.shape
    found = f" It explains {percent(scores[0]['r2'])} of the variance on held-out rows." if scores else ""
    if scores and scores[0]["r2"] <= 0:
        found = " On held-out rows it is no better than the mean."
    all_rows = f"by {count(anchors, 'anchor')} that stand for all rows"
    rows = all_rows if evidence.anchored else f"from {count(anchors, 'row')}"
    summary = f"This model predicts {given.target} from {_features_words(subject, used)}, learned {rows}.{found}"
    notes = [f"{note[0].upper()}{note[1:]}." for note in anova.model.search_.notes if note]
    if outputs > 1:
        other = f"write_report(..., output={(output + 1) % outputs}) writes one about another"
        notes.append(f"The model has {outputs} outputs. This page is about output {output}, counted from 0; {other}.")
    return {"summary": summary, "facts": _facts(anova.model, subject, used, evidence), "notes": notes}


def _facts(model: Any, subject: Subject, used: list[int], evidence: Evidence) -> list[tuple[str, str]]:
    D = subject.kernel.n_features
    searched = "cross-validation" if len(model.search_.table) else "given, not searched"
    return [
        ("Anchors" if evidence.anchored else "Rows", f"{len(subject.expansion.anchors):,}"),
        ("Features", f"{D}, all used" if len(used) == D else f"{D}, {len(used)} used"),
        ("Kernel", _kernel_words(subject, used)),
        ("Penalty alpha", f"{model.alpha_:.3g}"),
        ("Order and alpha by", searched),
    ]


def _features_words(subject: Subject, used: list[int]) -> str:
    D = subject.kernel.n_features
    if not used:
        return "none of its features"
    return count(D, "feature") if len(used) == D else f"{len(used)} of {D} features"


def _kernel_words(subject: Subject, used: list[int]) -> str:
    """Describe the kernel, term by term: base kernels, numbers first, and order. Terms of equal words are counted."""
    words = Counter(_term_words(kernel, used) for kernel in subject.kernel.terms)
    return " + ".join(text if number == 1 else f"{number} times {text}" for text, number in words.items())


def _term_words(kernel: AdditiveKernel, used: list[int]) -> str:
    own = [j for j in used if kernel.relevance[j] > 0]
    names = dict.fromkeys(kernel.bases[j] for j in own or range(kernel.n_features))
    bases = sorted((BASE_KERNELS[name] for name in names), key=lambda base: base.for_categories)
    return ", ".join([*(base.title for base in bases), _order_words(kernel)])


def _order_words(kernel: AdditiveKernel) -> str:
    """Describe the order of the kernel, an upper bound of the order of the function; a product has all orders."""
    features = np.count_nonzero(kernel.relevance)
    if kernel.order != features or features == 1 or kernel.order_weights[1:-1].any():
        return f"order {kernel.order}"
    return f"product of {'all' if features == kernel.n_features else features} features"
