"""Shares over rows in a report: which rows they refer to, when they come first, and what they mean in words."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from salsa._utils.arrays import Floats
from salsa.explain.anova import Anova
from salsa.explain.report.phrases import percent, short
from salsa.explain.subject import Rows, training_rows_of

#: Shares over rows come first if the two shares of a feature or pair differ by more. Chance correlations alone pass
#: this limit in 1 % of tables of 300 rows (linear functions of 10 independent features), and in 17 % of 100 rows.
DIFFERENCE = 0.05
FEWEST_ROWS = 100  # fewer given rows, such as examples for the what-if panel, are no sample of a table


def with_rows(anova: Anova, given: Floats | None) -> Anova:
    """Return the decomposition with the given rows (n, D) if there are enough and the training rows are not kept."""
    if anova.subject.rows is not None or given is None or len(given) < FEWEST_ROWS:
        return anova
    return replace(anova, subject=replace(anova.subject, rows=Rows.weighted(given)))


def rows_lead(anova: Anova) -> bool:
    """Return whether shares over rows come first: features are correlated, and the two kinds of shares differ."""
    return anova.rows is not None and bool(_differences(anova).max(initial=0.0) > DIFFERENCE)


def meaning(anova: Anova, values: str = "predictions", *, interacting: bool = False) -> str:
    """Describe the two kinds of shares, what a share over rows counts, and why shares over rows come first."""
    if anova.rows is None:
        reason = f"the model keeps no training rows, and this page was given fewer than {FEWEST_ROWS} rows"
        return f"All shares are for features that vary independently of each other: {reason}."
    over_rows = f"Over rows is the share of the variance of the {values} over {_rows_words(anova)} as they are"
    facts = "where all shares sum to 100\u202f% and one that offsets others is negative"
    sentence = f"{over_rows}, {facts}; share is what it would be if features varied independently of each other."
    lead = rows_lead(anova)
    if interacting:
        sentence = f"{sentence} {_counted_words(lead)}"
    if not lead:
        return sentence
    term = anova.importance().to_dict("records")[_differences(anova).argmax()]
    over_rows, independent = percent(term["share_over_rows"]), percent(term["variance_share"])
    alone = "" if not interacting else " by itself, without interactions," if term["order"] == 1 else " as a pair"
    example = f"{short(term['term'])}{alone} has {over_rows} over rows and {independent} if independent"
    return f"{sentence} Features are correlated in these rows, so this page sorts by the share over rows: {example}."


def _counted_words(lead: bool) -> str:
    """Say which shares over rows count interactions."""
    where = "In the sentence above and in the bars" if lead else "In the bars"
    return (
        f"{where}, the share over rows of a feature counts its own effect and its part in interactions; in the table of"
        " effects, it counts its own effect alone."
    )


def _differences(anova: Anova) -> Floats:
    """Return by how much the two shares of every listed feature and pair differ."""
    terms = anova.importance()
    differences: Floats = np.abs(terms["variance_share"].to_numpy() - terms["share_over_rows"].to_numpy())
    return differences


def _rows_words(anova: Anova) -> str:
    assert anova.rows is not None
    assert anova.subject.rows is not None
    kind = "given" if training_rows_of(anova.model) is None else "training"
    used, all_rows = len(anova.rows.X), len(anova.subject.rows.X)
    return f"the {kind} rows" if used == all_rows else f"{used:,} of the {all_rows:,} {kind} rows"
