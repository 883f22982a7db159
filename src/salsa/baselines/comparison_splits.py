"""Splits of a comparison: shuffled, stratified, by groups or as they are given; and the splits inside training rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from sklearn.model_selection import KFold, StratifiedKFold

from salsa._utils.arrays import Places
from salsa.baselines.class_targets import Target, check_counts
from salsa.baselines.cross_validation import Inside
from salsa.baselines.tuning import N_FOLDS, SEED
from salsa.data.forward_folds import Split, forward_inside
from salsa.data.splits import check_whole, is_number, shuffled_folds, split_rows
from salsa.data.targets import Labels, checked_groups, telling_groups


def group_codes(groups: Any, n: int) -> Places | None:
    """Return numbers 0, 1, ... of the groups, in the order of their first rows; None without groups."""
    found = telling_groups(checked_groups(groups, n))
    return None if found is None else pd.factorize(found.code)[0]


def checked_splits(cv: Any, X: Any, target: Target, code: Places | None, random_state: int | None) -> list[Split]:
    """Return the splits, checked: none is empty, groups are whole, and all classes are trained on."""
    splits = _made_splits(cv, X, target, code, random_state)
    if not splits or any(len(train) == 0 or len(test) == 0 for train, test in splits):
        raise ValueError("cv: every split needs rows to train on and rows to test; there must be at least one split")
    for place, (train, test) in enumerate(splits):
        if code is not None:
            check_whole(place, code[train], code[test])
        if target.labels is not None and (absent := _absent(target.labels, train)):
            advice = "give other splits, or leave this class out"
            raise ValueError(f"cv: split {place} trains without rows of the class {absent[0]!r}: {advice}")
    return splits


def _absent(labels: Labels, rows: Places) -> list[str]:
    """Return the classes without any of these rows."""
    counts = np.bincount(labels.code[rows], minlength=len(labels.classes))
    return [str(label) for label in labels.classes[counts == 0]]


def _made_splits(cv: Any, X: Any, target: Target, code: Places | None, random_state: int | None) -> list[Split]:
    n = len(target.y)
    if is_number(cv):
        count, what = (n, "row") if code is None else (int(code.max()) + 1, "group")
        if cv > count:
            raise ValueError(f"cv={cv}: there are only {count} {what}s; give at most one fold per {what}")
        if code is not None:
            return _group_folds(code, int(cv), random_state)
        if target.labels is None:
            cv = KFold(int(cv), shuffle=True, random_state=random_state)
        else:
            check_counts(target.labels, int(cv))
            cv = StratifiedKFold(int(cv), shuffle=True, random_state=random_state)
    return split_rows(cv, X, target.coded, code, n)


def _group_folds(code: Places, count: int, random_state: int | None) -> list[Split]:
    """Return shuffled folds of whole groups, of about equal numbers of rows."""
    folds = shuffled_folds(len(code), count, random_state, code)
    return [(np.setdiff1d(np.arange(len(code)), fold.held_out), fold.held_out) for fold in folds]


def splits_inside(cv: Any, X: Any, target: Target, code: Places | None, splits: Sequence[Split]) -> list[Inside]:
    """Return for every split what methods are told of its training rows."""
    if code is None:
        told = [Inside(folds) for folds in forward_inside(cv, splits, X, target.coded)]
    else:
        told = [_grouped(pd.factorize(code[train])[0]) for train, _ in splits]
    if target.labels is None:
        return told
    codes = [target.labels.code[train] for train, _ in splits]
    return [_with_all_classes(inside, learned) for inside, learned in zip(told, codes, strict=True)]


def _grouped(code: Places) -> Inside:
    several = len(code) > 0 and code.max() > 0
    return Inside(_group_folds(code, N_FOLDS, SEED), code) if several else Inside()


def _with_all_classes(inside: Inside, code: Places) -> Inside:
    """Leave out the folds that train without some class of the training rows; without any fold, methods make theirs."""
    if inside.folds is None:
        return inside
    whole = [fold for fold in inside.folds if len(np.unique(code[fold[0]])) == len(np.unique(code))]
    return inside._replace(folds=whole or None)
