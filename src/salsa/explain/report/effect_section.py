"""The sections on importance: shares of the variance, the picture of every effect, and interactions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import norm

from salsa._utils.arrays import Floats
from salsa.explain.anova import Anova
from salsa.explain.displays.variance import InteractionsDisplay
from salsa.explain.effects import Axis, Effect, term
from salsa.explain.report.phrases import adding_up, count, listed, percent, quantised, remainder, short, some
from salsa.explain.report.shares_over_rows import meaning, rows_lead
from salsa.kernels.marginals import thinned

DRAWN_FEATURES, DRAWN_PAIRS = 50, 30  # at most this many effects have a picture
PAIR_SHARE = 1e-3  # pairs below this share of the variance are left out
MATRIX_FEATURES, LISTED_PAIRS = 30, 8
RUG_POINTS = 150
TABLE_VALUES = 2  # a pair of features with at most so many values each is a table with standard deviations
NIL = 5e-5  # smaller shares of the variance are not mentioned
NEARLY_ALL, MOSTLY = 0.95, 0.5  # shares of the variance of all interactions
WORTH_DOUBTING = 0.01  # smaller shares of the variance are never marked unsure
BAND = 2.0  # standard deviations on either side of an effect
UNSURE_SHARE = 0.8  # unsure: zero is in the band for this share of the rows (linear effect: slope below 1.6 of its sd)
CORRELATION, CORRELATION_ROWS, LISTED = 0.8, 2000, 4
ORDERS = ("single features", "pairs", "three and more together")


def importance_section(
    anova: Anova, used: list[int], effects: list[dict[str, Any]], values: str = "predictions"
) -> dict[str, Any]:
    """Return shares of the variance of the function, whose values have a name such as "log odds of yes"."""
    sobol = anova.sobol()
    first, total, rows = (sobol[name].to_numpy() for name in ("first_order", "total", "share_over_rows"))
    orders = _order_groups(anova.orders()["variance_share"].to_numpy())
    if not used or not total.any():
        equal = f"All predictions are equal: {'none changes the prediction' if used else 'no feature is used'}."
        empty: dict[str, Any] = {"cautions": [], "orders": [], "features": []}
        return {"sentence": equal, "interactions": "none", "meaning": "", "rowsLead": False, "values": values, **empty}
    unsure = {effect["features"][0] for effect in effects if effect["unsure"]}
    shares = [{"first": first[j], "total": total[j], "rows": rows[j]} for j in used]
    features = [{"name": anova.features[j], **s, "unsure": j in unsure} for j, s in zip(used, shares, strict=True)]
    return {
        "sentence": _importance_sentence(features, orders, lead := rows_lead(anova), values),
        "interactions": _together_words(orders, anova.order),
        "meaning": meaning(anova, values, interacting=len(orders) > 1),
        "values": values,
        "rowsLead": lead,
        "cautions": [*_unsure_caution(features), *_correlation_caution(anova, used)],
        "orders": orders,
        "features": features,
    }


def _order_groups(shares: Floats) -> list[dict[str, Any]]:
    """Return the shares of single features, pairs and larger groups, without empty groups; texts add up to 100 %."""
    sums = (shares[:1].sum(), shares[1:2].sum(), shares[2:].sum())
    parts = zip(ORDERS, sums, ("first", "second", "third"), strict=True)
    kept = [part for m, part in enumerate(parts) if m == 0 or part[1] >= NIL]
    named = zip(kept, adding_up([share for _, share, _ in kept]), strict=True)
    return [{"name": name, "share": float(s), "style": style, "words": words} for (name, s, style), words in named]


def _together_words(orders: list[dict[str, Any]], highest: int) -> str:
    """Describe the variance share of all interactions, and how much of that share pairs have."""
    if len(orders) == 1:
        return "none: features add up" if highest < 2 else "next to none: features add up"
    shares = {part["name"]: part["share"] for part in orders}
    size, pairs = remainder(list(shares.values())), shares.get(ORDERS[1], 0.0) / sum(list(shares.values())[1:])
    how = "all" if highest == 2 else "nearly all" if pairs >= NEARLY_ALL else "mostly" if pairs >= MOSTLY else ""
    return f"{size} of the variance, {how} in pairs" if how else f"{size} of the variance, mostly in larger groups"


def _importance_sentence(features: list[dict[str, Any]], orders: list[dict[str, Any]], lead: bool, values: str) -> str:
    key = "rows" if lead else "total"
    top = [f"{short(f['name'])} ({percent(f[key])})" for f in features[:3] if f[key] != 0]
    verb = "matter" if len(top) > 1 else "matters"
    over_rows = " over the rows as they are" if lead else ""
    counted = ", interactions included" if lead and len(orders) > 1 else ""
    subject = f"{listed(top)} {verb} most{over_rows}{counted}."
    parts = listed([f"{part['name']} ({part['words']})" for part in orders])
    if len(orders) == 1:
        return subject
    if lead:
        return f"{subject} If features were independent, the variance of the {values} would come from {parts}."
    return f"{subject} The variance of the {values} comes from {parts}."


def _unsure_caution(features: list[dict[str, Any]]) -> list[str]:
    names = [short(feature["name"]) for feature in features if feature["unsure"]]
    if not names:
        return []
    what = f"{some(names, LISTED)}: the effect{' of each' if len(names) > 1 else ''} on its own"
    return [f"{what} is within two standard deviations of zero for most rows, and may be zero."]


def _correlation_caution(anova: Anova, used: list[int]) -> list[str]:
    """Warn of numeric features with a high rank correlation, the strongest correlation first."""
    subject = anova.subject
    other = subject.columns.categorical | subject.columns.cyclic
    numbers = [j for j in used[:DRAWN_FEATURES] if not other[j]]
    anchors = subject.expansion.anchors[:: len(subject.expansion.anchors) // CORRELATION_ROWS + 1]
    table = pd.DataFrame(anchors[:, numbers]).corr("spearman", min_periods=10).to_numpy()
    first, second = np.triu_indices(len(numbers), k=1)
    sizes = np.nan_to_num(np.abs(table[first, second]))  # the correlation of a constant column is NaN
    order = [i for i in np.argsort(-sizes, kind="stable") if sizes[i] > CORRELATION]
    names = [short(anova.features[j]) for j in numbers]
    pairs = [(names[first[i]], names[second[i]], f"{table[first[i], second[i]]:.2f}".replace("-", "−")) for i in order]
    if not pairs:
        return []
    found = some([f"{one} with {other} ({size})" for one, other, size in pairs], LISTED)
    return [f"Strong rank correlations: {found}. The separate effects of correlated features are hard to tell apart."]


def effect_list(anova: Anova, used: list[int], band: bool) -> list[dict[str, Any]]:
    """Return the effects of all features and of the strongest pairs, strongest first; the strongest have a picture."""
    sobol, (rows, pair_rows) = anova.sobol(), anova.terms_over_rows
    shares = [
        {"share": f, "total": t, "rows": r} for f, t, r in zip(sobol["first_order"], sobol["total"], rows, strict=True)
    ]
    drawn = {j: anova.effect(j, band=band) for j in used[:DRAWN_FEATURES]}
    mains = [_entry(anova, (j,), shares[j], drawn.get(j), used) for j in range(len(shares))]
    strongest = [pair for pair in _strongest_pairs(anova) if {*pair[:2]} <= drawn.keys()]
    pairs = [
        _entry(
            anova,
            (j, k),
            {"share": share, "total": None, "rows": pair_rows[j, k]},
            _pair_effect(anova, j, k, band),
            used,
        )
        for j, k, share in strongest
    ]
    key = "rows" if rows_lead(anova) else "share"
    return sorted([*mains, *pairs], key=lambda entry: -abs(float(entry[key])))


def _pair_effect(anova: Anova, j: int, k: int, band: bool) -> Effect:
    """Return the effect of a pair, with its standard deviations if both features have two values: a small table."""
    few = all(np.count_nonzero(~np.isnan(anova.subject.background[i].points)) <= TABLE_VALUES for i in (j, k))
    return anova.effect(j, k, band=band and few)


def _entry(
    anova: Anova, S: tuple[int, ...], shares: dict[str, Any], effect: Effect | None, used: list[int]
) -> dict[str, Any]:
    reason = "One of the weakest features: not drawn." if S[0] in used else "The model does not use this feature."
    if len(anova.subject.background[S[0]].points) == 1:
        reason = "This feature is constant in the training table, so the model has learned nothing about it."
    known = {"term": _term(anova, S), "features": S, **shares, "reason": reason}
    may_doubt = len(S) == 1 and shares["share"] >= WORTH_DOUBTING
    unsure = may_doubt and effect is not None and effect.sd is not None and _is_unsure(effect)
    return {**known, "unsure": unsure, **({} if effect is None else _picture(anova, S, effect))}


def _is_unsure(effect: Effect) -> bool:
    """Return whether zero is inside the band of a single number for most of the background, or of all levels."""
    (axis,), (points, weights) = effect.axes, effect.axes[0].rug
    if axis.labels is not None:
        return not _some_level_differs(effect)
    beyond = np.abs(effect.values) - BAND * np.asarray(effect.sd)
    shown, observed = ~np.isnan(axis.points), ~np.isnan(points)
    at = np.full(len(points), beyond[-1])  # the last point is the missing value
    at[observed] = np.interp(points[observed], axis.points[shown], beyond[shown])
    return bool(weights[at <= 0].sum() > UNSURE_SHARE)


def _some_level_differs(effect: Effect) -> bool:
    """Return whether a level of a category is beyond its band, which is wider the more levels there are.

    The effects of frequent levels are near zero by construction, because effects have the mean zero: a category of
    which one rare level differs has an effect, although zero is in the bands of most rows.
    """
    band = norm.isf(norm.sf(BAND) / max(len(effect.values) - 1, 1))
    return bool((np.abs(effect.values) > band * np.asarray(effect.sd)).any())


def _picture(anova: Anova, S: tuple[int, ...], effect: Effect) -> dict[str, Any]:
    span = float(np.ptp(effect.values)) or 1.0
    sd = None if effect.sd is None else quantised(effect.sd.ravel(), span)
    ordered = anova.subject.columns.ordered
    axes = [drawn_axis(axis, ordered[j]) for axis, j in zip(effect.axes, S, strict=True)]
    return {"axes": axes, "values": quantised(effect.values.ravel(), span), "sd": sd}


def drawn_axis(axis: Axis, ordered: bool) -> dict[str, Any]:
    """Return an axis for the page, which sorts levels by their effects unless they have an order of their own."""
    if axis.labels is not None:
        kept = ordered or axis.part is not None
        return {"name": axis.name, "points": axis.points, "labels": axis.labels, "ordered": kept, "rug": None}
    rug = thinned(axis.rug, RUG_POINTS).points
    rug = quantised(rug[~np.isnan(rug)])
    drawn = {"name": axis.title, "points": quantised(axis.points), "labels": None, "rug": rug}
    return drawn if axis.names is None else {**drawn, "names": axis.names, "ticks": axis.ticks}


def _strongest_pairs(anova: Anova) -> list[tuple[int, int, float]]:
    if anova.order < 2:
        return []
    shares = anova.interactions()["variance_share"].to_numpy()
    first, second = np.triu_indices(len(anova.features), k=1)
    order = np.argsort(-shares, kind="stable")[:DRAWN_PAIRS]
    return [(int(first[i]), int(second[i]), float(shares[i])) for i in order if shares[i] >= PAIR_SHARE]


def effects_note(
    effects: list[dict[str, Any]], orders: list[dict[str, Any]], no_bands: str | None = None, target: str = "prediction"
) -> str:
    pairs = sum(len(effect["features"]) == 2 for effect in effects)
    found = "the one pair" if pairs == 1 else f"the {count(pairs, 'pair')}"
    words = f"The table lists all features and {found} of largest share." if pairs else "The table lists all features."
    share = "share of the variance"
    if len(orders) > 1:
        share += " of this effect alone; total: share of all effects with the feature, interactions included"
        share += "; over rows: share of this effect alone, over the rows as they are" if _rows_known(effects) else ""
    bands = "" if no_bands is None else f" Effects have no bands: {no_bands}."
    return f"{words} Choose a row to see its effect on the {target}. Share: {share}.{bands}"


def _rows_known(effects: list[dict[str, Any]]) -> bool:
    return any(np.isfinite(effect["rows"]) for effect in effects)


def interaction_section(anova: Anova, used: list[int]) -> dict[str, Any]:
    nothing: dict[str, Any] = {"names": [], "shares": [], "features": [], "of": len(used), "strongest": []}
    if len(used) < 2 or anova.order < 2:
        return {**nothing, "sentence": "The model has no interactions: the effects of its features add up."}
    matrix, pairs, shown = InteractionsDisplay.from_anova(anova).shares, _strongest_pairs(anova), used[:MATRIX_FEATURES]
    strongest = [{"term": _term(anova, (j, k)), "features": (j, k), "share": share} for j, k, share in pairs]
    return {
        "sentence": _interaction_sentence(anova, pairs),
        "strongest": strongest[:LISTED_PAIRS],
        "names": [anova.features[j] for j in shown],
        "features": shown,
        "shares": np.round(matrix[np.ix_(shown, shown)], 6),
        "of": len(used),
    }


def _interaction_sentence(anova: Anova, pairs: list[tuple[int, int, float]]) -> str:
    if not pairs:
        return f"No interaction of two features has {percent(PAIR_SHARE)} of the variance or more."
    j, k, share = pairs[0]
    return f"{short(anova.features[j])} and {short(anova.features[k])} interact most: {percent(share)} of the variance."


def _term(anova: Anova, S: tuple[int, ...]) -> str:
    return term(*(anova.features[j] for j in S))
