"""The section on the fitted model: one sentence, facts and notes."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from salsa.explain.anova import Anova
from salsa.explain.report.function_scale import FunctionScale
from salsa.explain.report.held_out_groups import training_words
from salsa.explain.report.judging_rows import UNNAMED, Evidence, Given
from salsa.explain.report.phrases import count, percent, short, with_copies
from salsa.explain.report.quality_section import Scores
from salsa.explain.report.scored_quality import kept_of
from salsa.explain.report.scored_rows import measure_of
from salsa.explain.subject import Subject
from salsa.kernels.additive import AdditiveKernel
from salsa.kernels.base import ALL_BASES
from salsa.uncertainty.scored import ScoredUncertainty


def fitted_section(
    anova: Anova, used: list[int], given: Given, evidence: Evidence, scores: Scores, scale: FunctionScale
) -> dict[str, Any]:
    """Return one sentence about the model, facts, and notes of the search."""
    subject = anova.subject
    anchors = len(subject.expansion.anchors)
    all_rows = f"by {count(anchors, 'anchor')} that stand for all rows"
    copies = anova.model.search_.copies
    rows = all_rows if evidence.anchored else f"from {with_copies(count(anchors + copies, 'row'), copies)}"
    what = f"{len(scale.labels)} classes" if scale.labels and given.target == UNNAMED else given.target
    found = _found_words(kept_of(anova.model), scores)
    grouped = training_words(evidence.groups, has_intervals=evidence.no_bands is None)
    summary = f"This model predicts {what} from {_features_words(subject, used)}, learned {rows}.{found}{grouped}"
    notes = [f"{note[0].upper()}{note[1:]}." for note in anova.model.search_.notes if note]
    facts = _facts(anova.model, subject, used, evidence)
    return {"summary": summary, "facts": facts, "notes": notes + _output_notes(anova, scale)}


def _found_words(kept: ScoredUncertainty | None, scores: Scores) -> str:
    """Say how good the model is on held-out rows: by R2, or by the share of a constant's loss that it saves."""
    if not scores:
        return ""
    explained, error = scores[0]["explained"], scores[0]["error"] or 0.0
    measure = None if kept is None else measure_of(kept.loss)
    constant = "the mean" if measure is None else measure.constant
    if explained <= 0:
        return f" On held-out rows it is no better than {constant}."
    doubt = f", less than two standard errors: it may be no better than {constant}" if explained < 2 * error else ""
    if measure is None:
        return f" It explains {percent(explained)} of the variance on held-out rows{doubt}."
    return f" On held-out rows its {measure.loss} is {percent(explained)} below {measure.error_of_constant}{doubt}."


def _output_notes(anova: Anova, scale: FunctionScale) -> list[str]:
    """Say which of several outputs or classes the page is about."""
    outputs, output = anova.subject.expansion.coef.shape[1], anova.output
    following = (output + 1) % outputs
    if len(scale.labels) == 2:
        return [f"Effects, interactions and contributions are about the {scale.name}, the second class."]
    if scale.labels:
        other = short(scale.labels[following])
        parts = "The model has one function per class. Effects, interactions and contributions are about"
        further = f"write_report(..., output={following}) or salsa explain --class '{other}' --out is about '{other}'"
        return [f"{parts} the {scale.name}; {further}."]
    if outputs == 1:
        return []
    other = f"write_report(..., output={following}) writes one about another"
    return [f"The model has {outputs} outputs. This page is about output {output}, counted from 0; {other}."]


def _facts(model: Any, subject: Subject, used: list[int], evidence: Evidence) -> list[tuple[str, str]]:
    D, n, copies = subject.kernel.n_features, len(subject.expansion.anchors), model.search_.copies
    searched = "cross-validation" if len(model.search_.table) else "given, not searched"
    return [
        ("Anchors", f"{n:,}") if evidence.anchored else ("Rows", with_copies(f"{n + copies:,}", copies)),
        ("Features", f"{D}, all used" if len(used) == D else f"{D}, {len(used)} used"),
        ("Penalty alpha", f"{model.alpha_:.3g}"),
        ("Order and alpha by", searched),
    ]


def _features_words(subject: Subject, used: list[int]) -> str:
    D = subject.kernel.n_features
    if not used:
        return "none of its features"
    return count(D, "feature") if len(used) == D else f"{len(used)} of {D} features"


def kernel_words(subject: Subject, used: list[int]) -> str:
    """Describe the kernel, term by term: base kernels, numbers first, and order. Terms of equal words are counted."""
    words = Counter(_term_words(kernel, used) for kernel in subject.kernel.terms)
    return " + ".join(text if number == 1 else f"{number} times {text}" for text, number in words.items())


def _term_words(kernel: AdditiveKernel, used: list[int]) -> str:
    own = [j for j in used if kernel.relevance[j] > 0]
    names = dict.fromkeys(kernel.bases[j] for j in own or range(kernel.n_features))
    bases = sorted((ALL_BASES[name] for name in names), key=lambda base: base.for_categories)
    return ", ".join([*(base.title for base in bases), _order_words(kernel)])


def _order_words(kernel: AdditiveKernel) -> str:
    """Describe the order of the kernel, an upper bound of the order of the function; a product has all orders."""
    features = np.count_nonzero(kernel.relevance)
    if kernel.order != features or features == 1 or kernel.order_weights[1:-1].any():
        return f"order {kernel.order}"
    return f"product of {'all' if features == kernel.n_features else features} features"
