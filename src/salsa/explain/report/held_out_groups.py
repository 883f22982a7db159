"""The groups of held-out rows: rows of a group may depend on each other, so groups are the units of standard errors."""

from __future__ import annotations

from typing import Any

import numpy as np

from salsa._utils.arrays import Places
from salsa.explain.report.phrases import count
from salsa.fitted import fitted_of
from salsa.uncertainty import Unavailable, Uncertainty
from salsa.uncertainty.jackknife import ExactUncertainty
from salsa.uncertainty.scored import ScoredUncertainty

FOLDS = 5
TRAINING_UNKNOWN = (
    "The model does not keep the groups of its training rows: standard errors of held-out training rows treat rows as"
    " independent, and are too small."
)
NEW_UNKNOWN = (
    "No groups were given for the new rows: their standard errors treat rows as independent, and are too small if rows"
    " share groups."
)
ONE_GROUP = "All new rows are in one group: their standard errors treat rows as independent, and are too small."
UNCHECKED = (
    "No labels of groups are kept after a fit: errors are for rows of new groups only if none of these groups is in"
    " the training table."
)


def group_count(model: Any) -> int:
    """Return the number of groups that the fit held out whole; 0 without groups, or in older files."""
    fitted = fitted_of(model)
    kept = fitted.uncertainty
    if fitted.search.groups or not isinstance(kept, ExactUncertainty) or kept.noise.group is None:
        return fitted.search.groups
    return units_in(kept.noise.group)


def training_groups(kept: Uncertainty | Unavailable) -> Places | None:
    """Return the groups (n,) of the training rows; None without groups, or if the model does not keep them.

    Fits that minimise a likelihood keep what an exact fit held out whole, unless the user gave splits.
    """
    if isinstance(kept, ExactUncertainty):
        return kept.noise.group
    if not isinstance(kept, ScoredUncertainty) or not isinstance(kept.inner, ExactUncertainty):
        return None
    block, fold = kept.inner.judged.block, kept.inner.judged.fold
    return None if block is None or (fold is not None and np.array_equal(block, fold)) else block


def units_in(unit: Places) -> int:
    """Return the number of different units."""
    return len(np.unique(unit))


def telling_units(unit: Places) -> Places | None:
    """Return the units (n,); None if all rows are in one, which has no spread."""
    return unit if units_in(unit) > 1 else None


def folds_of_units(unit: Places | None, n: int) -> Places:
    """Return the fold (n,) of n new rows for a linear model; rows of a unit are in one fold."""
    return (np.arange(n) if unit is None else np.unique(unit, return_inverse=True)[1]) % FOLDS


def in_groups(unit: Places | None) -> str:
    """Say in brackets how many groups rows are in; nothing without groups."""
    return "" if unit is None else f" (in {count(units_in(unit), 'group')})"


def training_words(groups: int, *, has_intervals: bool) -> str:
    """Say in a sentence that groups were held out whole; nothing without groups."""
    what = "errors and intervals are" if has_intervals else "errors are"
    if not groups:
        return ""
    return (
        f" The training rows are in {count(groups, 'group')}, which were held out whole: {what} for rows of new groups."
    )


def new_words(given: Places | None, groups: int) -> list[str]:
    """Say whether standard errors of new rows know the groups (n,); `groups` is the number that the fit held out."""
    if given is None:
        return [NEW_UNKNOWN] if groups else []
    if (units := units_in(given)) == 1:
        return [ONE_GROUP]
    known = f"The new rows are in {count(units, 'group')}, which standard errors take as independent units."
    return [f"{known} {UNCHECKED}" if groups else known]
