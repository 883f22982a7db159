"""What matters: shares of the variance, the picture of every effect, and interactions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from salsa.explain.anova import Anova
from salsa.explain.background import thinned
from salsa.explain.reporting.words import count, finite, listed, percent, quantised, short
from salsa.kernels import Distribution, Floats

DRAWN_FEATURES, DRAWN_PAIRS = 50, 30  # effects with a picture, at most
PAIR_SHARE = 1e-3  # of the variance, below which a pair is not worth seeing
MATRIX_FEATURES, LISTED_PAIRS = 30, 8
SURFACE_STEP = 4  # every so many points of a curve make one side of a surface
RUG_POINTS = 150
ORDERS = ("single features", "pairs", "three and more together")


def importance_section(anova: Anova, used: list[int]) -> dict[str, Any]:
    sobol = anova.sobol()
    first, total = (finite(sobol[name].to_numpy()) for name in ("first_order", "total"))
    orders = _order_groups(finite(anova.orders()["variance_share"].to_numpy()))
    if not used or not total.any():
        why = "no feature is used" if not used else "none changes the prediction"
        return {
            "sentence": f"Nothing matters here: {why}, and every prediction is the same.",
            "orders": [],
            "features": [],
        }
    features = [{"name": anova.features[j], "first": first[j], "total": total[j]} for j in used]
    return {"sentence": _importance_sentence(features, orders), "orders": orders, "features": features}


def _order_groups(shares: Floats) -> list[dict[str, Any]]:
    sums = (shares[:1].sum(), shares[1:2].sum(), shares[2:].sum())
    styles = ("first", "second", "third")
    parts = zip(ORDERS, sums, styles, strict=True)
    return [{"name": name, "share": float(share), "style": style} for name, share, style in parts][: len(shares)]


def _importance_sentence(features: list[dict[str, Any]], orders: list[dict[str, Any]]) -> str:
    top = [f"{short(f['name'])} ({percent(f['total'])})" for f in features[:3] if f["total"] > 0]
    subject = f"{listed(top)} {'matter' if len(top) > 1 else 'matters'} most."
    parts = listed([f"{part['name']} ({percent(part['share'])})" for part in orders])
    return f"{subject} The variance of the predictions comes from {parts}." if len(orders) > 1 else subject


def effect_list(anova: Anova, used: list[int], band: bool) -> list[dict[str, Any]]:
    """Every feature, and pairs worth seeing; the strongest with their picture, strongest first."""
    sobol = anova.sobol()
    first, total = (finite(sobol[name].to_numpy()) for name in ("first_order", "total"))
    drawn = {j: _picture(anova, (j,), band) for j in used[:DRAWN_FEATURES]}
    mains = [_effect(anova, (j,), first[j], total[j], drawn.get(j), used) for j in range(len(first))]
    pairs = [
        _effect(anova, (j, k), share, None, _surface(anova, j, k), used)
        for j, k, share in _strongest_pairs(anova)
        if j in drawn and k in drawn
    ]
    return sorted([*mains, *pairs], key=lambda effect: -float(effect["share"]))


def _effect(
    anova: Anova, S: tuple[int, ...], share: float, total: float | None, picture: dict[str, Any] | None, used: list[int]
) -> dict[str, Any]:
    reason = (
        "One of the weakest features: it has no picture." if S[0] in used else "The model does not use this feature."
    )
    return {"term": _term(anova, S), "features": S, "share": share, "total": total, "reason": reason, **(picture or {})}


def _picture(anova: Anova, S: tuple[int, ...], band: bool, points: Sequence[Floats] | None = None) -> dict[str, Any]:
    effect = anova.effect(*S, points=points, band=band)
    span = float(np.ptp(effect.values)) or 1.0
    axes = [
        {
            "name": axis.name,
            "points": axis.points if axis.labels is not None else quantised(axis.points),
            "labels": axis.labels,
            "rug": None if axis.labels is not None else quantised(_rug(axis.rug)),
        }
        for axis in effect.axes
    ]
    sd = None if effect.sd is None else quantised(effect.sd.ravel(), span)
    return {"axes": axes, "values": quantised(effect.values.ravel(), span), "sd": sd}


def _surface(anova: Anova, j: int, k: int) -> dict[str, Any]:
    return _picture(anova, (j, k), False, [_fewer(anova.effect(i, band=False).axes[0]) for i in (j, k)])


def _fewer(axis: Any) -> Floats:
    """Every level of a category, some of the points of a number, and the missing value."""
    if axis.labels is not None:
        points: Floats = axis.points
        return points
    missing = np.isnan(axis.points)
    return np.append(axis.points[~missing][::SURFACE_STEP], axis.points[missing])


def _rug(marginal: Distribution) -> Floats:
    points = thinned(marginal, RUG_POINTS).points
    return points[~np.isnan(points)]


def _strongest_pairs(anova: Anova) -> list[tuple[int, int, float]]:
    if anova.order < 2:
        return []
    shares = finite(anova.interactions()["variance_share"].to_numpy())
    first, second = np.triu_indices(len(anova.features), k=1)
    order = np.argsort(-shares, kind="stable")[:DRAWN_PAIRS]
    return [(int(first[i]), int(second[i]), float(shares[i])) for i in order if shares[i] >= PAIR_SHARE]


def effects_note(effects: list[dict[str, Any]]) -> str:
    pairs = sum(len(effect["features"]) == 2 for effect in effects)
    words = f"All features, and the {count(pairs, 'pair')} worth seeing." if pairs else "All features."
    return (
        f"{words} Choose a row to see what it adds to the mean prediction. Share: of the variance, by this effect"
        " alone; total: with all interactions of the feature."
    )


def interaction_section(anova: Anova, used: list[int]) -> dict[str, Any]:
    nothing: dict[str, Any] = {"names": [], "shares": [], "features": [], "of": len(used), "strongest": []}
    if len(used) < 2 or anova.order < 2:
        return {**nothing, "sentence": "The model has no interactions: what its features do simply adds up."}
    matrix = np.diag(finite(anova.sobol()["first_order"].to_numpy()))
    upper = np.triu_indices(len(matrix), k=1)
    matrix[upper[::-1]] = finite(anova.interactions()["variance_share"].to_numpy())
    matrix += np.tril(matrix, -1).T
    shown = used[:MATRIX_FEATURES]
    return {
        "sentence": _interaction_sentence(anova, pairs := _strongest_pairs(anova)),
        "strongest": [
            {"term": _term(anova, (j, k)), "features": (j, k), "share": share} for j, k, share in pairs[:LISTED_PAIRS]
        ],
        "names": [anova.features[j] for j in shown],
        "features": shown,
        "shares": np.round(matrix[np.ix_(shown, shown)], 5),
        "of": len(used),
    }


def _interaction_sentence(anova: Anova, pairs: list[tuple[int, int, float]]) -> str:
    if not pairs:
        return "No pair does anything worth mentioning beyond what each feature does alone."
    j, k, share = pairs[0]
    return f"{short(anova.features[j])} and {short(anova.features[k])} interact most: {percent(share)} of the variance."


def _term(anova: Anova, S: tuple[int, ...]) -> str:
    return " × ".join(anova.features[j] for j in S)
