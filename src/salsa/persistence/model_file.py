"""A fitted model as the header and the arrays of a model file, and back.

``function_state`` has the fitted function, and this file has the rest of the format, for audits. Every part has a
``..._state`` that returns plain names, lists and numbers for JSON, or arrays of one or two dimensions, and a function
that reads it back and refuses parts that do not match.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any, TypeVar

import numpy as np

from salsa._utils.arrays import Floats, Places
from salsa._utils.blas import one_blas_thread
from salsa._utils.linalg import positive_factor
from salsa._version import __version__
from salsa.data.noise import Noise
from salsa.data.targets import WEIGHT_LIMITS
from salsa.data.transforms import TargetTransform
from salsa.expansion import KernelExpansion
from salsa.fitted import Fitted, assign
from salsa.kernels import Kernel
from salsa.losses import Likelihood
from salsa.options import parse_resources
from salsa.persistence.archive import entry, naming, write_archive
from salsa.persistence.function_state import (
    classes_state,
    columns_state,
    expansion_state,
    formats_from,
    function_from,
    loss_state,
)
from salsa.selection.results import Component, Contender, OrderResult, OrderSearch, components_of
from salsa.solvers.alpha import AlphaPath, penalty
from salsa.solvers.divide import NO_UNCERTAINTY
from salsa.uncertainty import LeaveOneOut, Unavailable, Uncertainty
from salsa.uncertainty.cvplus import CLASSES, KINDS, CVPlus, LowRankUncertainty, lower_root
from salsa.uncertainty.interval_scores import LOCAL
from salsa.uncertainty.iterated import IteratedUncertainty
from salsa.uncertainty.jackknife import ExactUncertainty, Forward, Judged
from salsa.uncertainty.local_scale import LocalScale, main_effects
from salsa.uncertainty.scored import HeldOut, ScoredUncertainty

#: The formats of models of one term, which earlier versions read, of sums, of exact fits by iteration, of losses, and
#: of tables with dates or durations
WITHOUT_SUMS, WITH_SUMS, ITERATED, LIKELIHOOD, DATES = 3, 4, 5, 6, 7
_NUMBER = {int, float}  # in the header
#: files of earlier versions lack these; other files always hold them
_LATER = {"target_transform", "interaction_cst", "monotonic_cst", "loss", "quantile"}
_USUAL = np.array([np.inf, 0.0, 0.0, 0.0, 0.0, 1.0])  # cv_judged of files before version 0.2
Model = TypeVar("Model")
Other = TypeVar("Other")


def write_model(path: str | os.PathLike[str], parameters: dict[str, Any], fitted: Fitted) -> None:
    """Write a fitted model with these parameters: whole, or not at all."""
    kernel, arrays = expansion_state(fitted.expansion)
    names = [] if fitted.feature_names is None else list(fitted.feature_names)
    plain = plain_parameters(parameters)
    header = {
        "salsa_version": __version__,
        "parameters": plain,
        "lost": sorted(set(parameters) - set(plain)),  # parameters that a file cannot hold
        "feature_names": names,
        "columns": columns_state(fitted.columns),
        "flat": fitted.flat,
        "averaged": isinstance(fitted.uncertainty, Unavailable),
        "reason": fitted.uncertainty.reason if isinstance(fitted.uncertainty, Unavailable) else "",
        "search": search_state(fitted.search),
        "kernel": kernel,
    }
    kept = uncertainty_state(fitted.uncertainty)
    if isinstance(fitted.transform, TargetTransform):
        header["transform"], kept["smear"] = fitted.transform.name, fitted.transform.residual
    if isinstance(fitted.uncertainty, ScoredUncertainty):
        header["loss"] = loss_state(fitted.uncertainty.loss)
    if fitted.classes is not None:
        header["classes"] = classes_state(fitted.classes)
    if fitted.formats:
        header["formats"] = {name: asdict(written) for name, written in fitted.formats.items()}
    if kept.get("cv_points") is fitted.expansion.anchors:  # as in a low-rank fit
        del kept["cv_points"]
    version = ITERATED if "iterated_places" in kept else WITH_SUMS if "terms" in kernel else WITHOUT_SUMS
    version = DATES if fitted.columns.parts else LIKELIHOOD if "loss" in header else version
    write_archive(path, header, arrays | kept, version)


def model_of(
    path: str | os.PathLike[str],
    contents: tuple[dict[str, Any], Mapping[str, Floats]],
    regressor: type[Model],
    classifier: type[Other],
) -> Model | Other:
    """Return the model of one of these classes from the header and the arrays of a file.

    ValueError names the file and says what is wrong with it.
    """
    header, arrays = contents
    with naming(path):
        parameters = entry(header, "parameters", {dict})
        model: Any = (classifier if "classes" in header else regressor)(**parameters)
        parse_resources(model.n_jobs, model.memory_limit)
        lost = sorted(set(model.get_params()) - set(parameters) - _LATER)
        assign(model, _fitted(header, arrays, lost))
    found: Model | Other = model
    return found


def _fitted(header: dict[str, Any], arrays: Mapping[str, Floats], lost: list[str]) -> Fitted:
    function = function_from(header, arrays)
    expansion = function.expansion
    search = replace(search_from(header["search"]), terms=_components(header["search"], expansion.kernel))
    if lost:
        search = search.with_notes(f"parameters a model file cannot hold are at their defaults: {', '.join(lost)}")
    averaged = entry({"averaged": False} | header, "averaged", {bool})
    if search.order != expansion.kernel.order:
        raise ValueError("its kernel is not of the order that was found")
    reason = entry({"reason": NO_UNCERTAINTY} | header, "reason", {str}) if averaged else None
    uncertainty = uncertainty_from(arrays, expansion, search.alpha, reason)
    if function.loss is not None:
        uncertainty = _scored(function.loss, arrays, expansion, uncertainty)
    columns, names, flat, *_ = function
    named = np.array(names, dtype=object) if names else None
    formats = formats_from(header) or None
    return Fitted(columns, named, flat, expansion, search, uncertainty, function.transform, function.classes, formats)


def _scored(
    loss: Likelihood, arrays: Mapping[str, Floats], expansion: KernelExpansion, inner: Uncertainty | Unavailable
) -> ScoredUncertainty:
    """Return the uncertainty of a fit that minimises a likelihood; `inner` is that of its working response."""
    names = ("target", "weight", "f", "count", "units")
    target, weight, f, count, units = (arrays[f"scored_{name}"] for name in names)
    (n, q), m = target.shape, len(count)
    row = _places(arrays, "scored_row", m, n)
    if row is None or f.shape != (m, q) or expansion.offset.shape != (q,) or units.shape != (1,):
        raise ValueError("its held-out predictions do not fit its rows")
    if not isinstance(inner, ExactUncertainty | LowRankUncertainty):
        raise ValueError("it lacks the uncertainty of its working response")
    if isinstance(inner, ExactUncertainty) and n != len(expansion.anchors):
        raise ValueError("its targets do not fit its rows")
    if isinstance(inner, LowRankUncertainty) and inner.points is not expansion.anchors and n == len(expansion.anchors):
        inner = replace(inner, keeps_rows=True)  # the function has all rows, and the anchors are some of them
    if not np.isfinite(target).all() or not np.isfinite(f).all() or not (count > 0).all() or not 0 < units[0] <= n:
        raise ValueError("its held-out predictions are not finite, or do not count")
    weight = _weight({"weight": weight}, n)
    return ScoredUncertainty(inner, target, weight, HeldOut(row, f, count, int(units[0])), loss)


def plain_parameters(values: dict[str, Any]) -> dict[str, Any]:
    """Return parameters as JSON gives them back: numbers, texts, and sequences or dicts of these, without splitters."""
    plain = {
        key: value.tolist() if isinstance(value, np.generic | np.ndarray) else value for key, value in values.items()
    }
    plain = {name: list(value) if isinstance(value, tuple | range) else value for name, value in plain.items()}
    if isinstance(sets := plain.get("interaction_cst"), list):
        plain["interaction_cst"] = [_listed(S) for S in sets]
    return {name: value for name, value in plain.items() if _is_plain(value)}


def _listed(features: Any) -> list[Any]:
    """Return a set of features as a list, positions before names, and in their order."""
    plain = [feature.item() if isinstance(feature, np.generic) else feature for feature in features]
    return sorted(plain, key=lambda feature: (isinstance(feature, str), feature))


def _is_plain(value: Any) -> bool:
    if isinstance(value, list):
        return all(map(_is_plain, value))
    if isinstance(value, dict):
        return all(isinstance(name, str) and _is_plain(entry) for name, entry in value.items())
    return value is None or isinstance(value, (bool, int, str)) or (isinstance(value, float) and np.isfinite(value))


def search_state(search: OrderSearch) -> dict[str, Any]:
    results = [
        [r.order, r.path.alphas.tolist(), r.path.errors.tolist(), *r.path[2:], r.degrees_of_freedom, r.seconds]
        for r in search.results
    ]
    return {
        "results": results,
        "order": search.order,
        "alpha": search.alpha,
        "notes": list(search.notes),
        "contenders": [[contender.kernel, *contender[3:]] for contender in search.contenders],
        "rho": search.rho,
        "interval_scale": list(search.interval_scale),
        "shares": [component.share for component in search.terms],
        "groups": search.groups,
        "copies": search.copies,
    }


def search_from(state: Any) -> OrderSearch:
    rows = entry(state, "results", [({int}, [_NUMBER], [_NUMBER], *5 * [_NUMBER])])
    contenders = entry(state, "contenders", [({str}, {int}, {int}, *3 * [_NUMBER], {bool})])
    order, alpha = entry(state, "order", {int}), entry(state, "alpha", _NUMBER)
    tried = [row[0] for row in rows]
    if alpha < 0 or len(set(tried)) < len(tried) or (tried and order not in tried):
        raise ValueError(f"its search of order {order} and alpha {alpha} among the orders {tried} contradicts itself")
    if any(len(alphas) != len(errors) for _, alphas, errors, *_ in rows):
        raise ValueError("its search does not have one error for each alpha")
    results = tuple(
        OrderResult(order, AlphaPath(np.array(alphas, float), np.array(errors, float), *best), dof, seconds)
        for order, alphas, errors, *best, dof, seconds in rows
    )
    notes = tuple(entry(state, "notes", [{str}]))
    judged = {"rho": 0.0, "interval_scale": [], "groups": 0, "copies": 0} | state  # not in files of earlier versions
    rho, scale = entry(judged, "rho", _NUMBER), tuple(entry(judged, "interval_scale", [{str}]))
    groups, copies = (entry(judged, name, {int}) for name in ("groups", "copies"))
    if min(groups, copies) < 0:
        raise ValueError(f"its search has {groups} groups and {copies} copies")
    search = OrderSearch(results, order, alpha, notes, tuple(_contender(*c) for c in contenders), rho, scale)
    return replace(search, groups=groups, copies=copies)


def _components(state: Any, kernel: Kernel) -> tuple[Component, ...]:
    """Return the terms with their shares of the variance; files of earlier versions have one term, and no shares."""
    if "shares" not in state:
        state = {"shares": [float(kernel.relevance.any())]}
    shares = entry(state, "shares", [_NUMBER])
    if len(shares) != len(kernel.terms):
        raise ValueError(f"its search has {len(shares)} shares for {len(kernel.terms)} terms of the kernel")
    return components_of(kernel, shares)


def _contender(kernel: str, *others: Any) -> Contender:
    """Read the words of a kernel: origin, base and perhaps "product"."""
    origin, base, *product = kernel.split()
    if origin not in ("learned", "pruned", "equal") or product not in ([], ["product"]):
        raise ValueError(f"its search has a kernel {kernel!r}")
    return Contender(origin, base, bool(product), *others)


def uncertainty_state(uncertainty: Uncertainty | Unavailable) -> dict[str, Floats]:
    """Return the arrays of an uncertainty; the factor L of a low-rank one follows from the anchors."""
    if isinstance(uncertainty, ExactUncertainty):
        return _exact_state(uncertainty)
    if isinstance(uncertainty, IteratedUncertainty):
        return _iterated_state(uncertainty)
    if isinstance(uncertainty, ScoredUncertainty):
        row, f, count, units = uncertainty.held_out
        arrays = {"row": _numbers(row), "f": f, "count": count, "units": _numbers([units])}
        arrays |= {"target": uncertainty.target, "weight": uncertainty.weight}
        return uncertainty_state(uncertainty.inner) | {f"scored_{name}": values for name, values in arrays.items()}
    if not isinstance(uncertainty, LowRankUncertainty):
        return {}
    arrays = _cvplus_state(uncertainty.cvplus, uncertainty.unit, uncertainty.grouped, uncertainty.mean_weight)
    return arrays | {"cv_points": uncertainty.points}


def _iterated_state(uncertainty: IteratedUncertainty) -> dict[str, Floats]:
    """Return the arrays of an iterated fit; its points are the anchors of the function."""
    arrays = {f"left_out_{name}": values for name, values in vars(uncertainty.left_out).items()}
    arrays |= {"coefs": uncertainty.coefs.reshape(-1, len(uncertainty.unit)), "places": _numbers(uncertainty.places)}
    arrays["weight"] = uncertainty.weight
    kept = _cvplus_state(uncertainty.cvplus, uncertainty.unit, False, 1.0)
    del kept["cv_thetas"]  # the coefficients take their place
    if not uncertainty.cvplus.root.size:  # it is computed when it is asked for
        del kept["cv_root"]
    return kept | {f"iterated_{name}": values for name, values in arrays.items()}


def _cvplus_state(kept: CVPlus, unit: Floats, grouped: bool, mean_weight: float) -> dict[str, Floats]:
    arrays = {"mean": kept.mean, "root": kept.root, "amplitude": kept.amplitude, "offsets": kept.offsets}
    arrays |= {"scalars": np.array([kept.alpha, kept.weight]), "scaled": _numbers([*map(KINDS.index, kept.scale)])}
    arrays |= {"thetas": kept.thetas.reshape(-1, len(kept.scale)), "below": kept.below.reshape(-1, CLASSES)}
    arrays["unit"] = unit
    arrays["judged"] = _numbers([kept.largest, kept.units, kept.forward, kept.rho, grouped, mean_weight])
    if kept.local is not None:
        g = kept.local.g
        arrays |= {"local_anchors": g.anchors, "local_coef": g.coef, "local_offset": g.offset}
        arrays["local_bandwidth"] = g.kernel.bandwidth
    return {f"cv_{name}": values for name, values in arrays.items()}


def _exact_state(uncertainty: ExactUncertainty) -> dict[str, Floats]:
    """Return weights, groups and how rows were judged, as far as they are not the usual."""
    noise, (block, units, counts, fold, forward, local) = uncertainty.noise, uncertainty.judged
    weight = None if (noise.weight == 1).all() else noise.weight
    arrays = {"weight": weight, "group": noise.group, "block": block, "counts": counts, "fold": fold}
    if forward is not None:
        arrays |= {f"forward_{name}": values for name, values in forward._asdict().items()}
    found = {name: _numbers(values) for name, values in arrays.items() if values is not None}
    return found | {"judged": _numbers([noise.rho, units, local])}


def _numbers(values: Any) -> Floats:
    return np.asarray(values, dtype=np.float64)


def uncertainty_from(
    arrays: Mapping[str, Floats], expansion: KernelExpansion, alpha: float, reason: str | None
) -> Uncertainty | Unavailable:
    if reason is not None:
        return Unavailable(reason)
    if "cv_unit" not in arrays:
        added = penalty(expansion.kernel, expansion.anchors, alpha)
        return ExactUncertainty(expansion, added, *_exact_judged(arrays, expansion))
    places = _places(arrays, "iterated_places", None, len(expansion.anchors))
    if places is not None and len(np.unique(places)) < len(places):
        raise ValueError("its anchors occur more than once")
    points = arrays.get("cv_points", expansion.anchors) if places is None else expansion.anchors[places]
    unit = arrays["cv_unit"]
    if points.shape[1:] != expansion.anchors.shape[1:]:
        raise ValueError("its uncertainty is not of its features")
    if arrays["cv_mean"].shape != (len(points),):  # before a matrix of so many rows is computed
        raise ValueError("its uncertainty does not fit its anchors")
    if places is not None and "cv_root" not in arrays:  # computed when it is asked for
        kept = _cvplus(arrays, np.empty((0, 0)), expansion)
    else:
        with one_blas_thread():  # as in the fit, for the same bits
            kept = _cvplus(arrays, positive_factor(expansion.kernel(points)), expansion)
    in_range = ((unit > 0) & np.isfinite(unit)).all()
    if not unit.shape == expansion.offset.shape == kept.amplitude.shape or not in_range:
        raise ValueError("its uncertainty is not of its outputs")
    if places is not None:
        return _iterated(arrays, expansion, kept, unit, places)
    *_, grouped, mean = arrays.get("cv_judged", _USUAL)
    if not WEIGHT_LIMITS[0] <= mean <= WEIGHT_LIMITS[1]:
        raise ValueError("its mean weight is out of range")
    return LowRankUncertainty(kept, unit, points, grouped=bool(grouped), mean_weight=float(mean))


def _iterated(
    arrays: Mapping[str, Floats], expansion: KernelExpansion, kept: CVPlus, unit: Floats, places: Places
) -> IteratedUncertainty:
    """Return the uncertainty of an iterated fit."""
    (n, q), folds = expansion.coef.shape, len(kept.offsets)
    left = [arrays[f"iterated_left_out_{name}"] for name in ("target", "prediction", "sd", "weight")]
    coefs, weight, m = arrays["iterated_coefs"], arrays["iterated_weight"], len(left[-1])
    shaped = all(values.shape == (m, q) for values in left[:3]) and left[3].shape == (m,) and m <= n
    if not shaped or coefs.shape != (folds * n, q) or weight.shape != (n,):
        raise ValueError("its uncertainty does not fit its rows")
    low, high = WEIGHT_LIMITS
    if not all(((values >= low) & (values <= high)).all() for values in (weight, left[3])):
        raise ValueError(f"its weights are not between {low:.0e} and {high:.0e}")
    if not all(np.isfinite(values).all() for values in (coefs, *left)) or (left[2] < 0).any():
        raise ValueError("its uncertainty is not finite, or has negative standard deviations")
    fits = coefs.reshape(folds, n, q)
    return IteratedUncertainty(
        kept, unit, expansion.anchors, weight, places, fits, LeaveOneOut(*left), expansion.kernel
    )


def _exact_judged(arrays: Mapping[str, Floats], expansion: KernelExpansion) -> tuple[Noise, Judged]:
    """Return noise and judging of an exact fit; files before version 0.2 have weights alone."""
    n, q = expansion.coef.shape
    rho, units, local = _known(arrays, "judged", (3,), np.zeros(3))
    group, block, fold = (_places(arrays, name, n) for name in ("group", "block", "fold"))
    counts = _known(arrays, "counts", (n,), None)
    known = 0 <= rho < np.inf and 0 <= units <= n and local in (0, 1)
    if not known or (counts is not None and not ((counts > 0) & np.isfinite(counts)).all()):
        raise ValueError("its groups or counts are out of range")
    forward = None
    if "forward_row" in arrays:
        row = _places(arrays, "forward_row", None, n)
        assert row is not None
        variance = _known(arrays, "forward_variance", row.shape, None)
        forward = Forward(row, _known(arrays, "forward_residual", (len(row), q), None), variance)
        if not (np.isfinite(forward.residual).all() and (variance > 0).all() and np.isfinite(variance).all()):
            raise ValueError("its held-out residuals are not finite")
    noise = Noise(_weight(arrays, n), group, float(rho))
    return noise, Judged(block, int(units), counts, fold, forward, bool(local))


def _known(arrays: Mapping[str, Floats], name: str, shape: tuple[int, ...], default: Any) -> Any:
    """Return an array, or the default if there is none; ValueError for another shape."""
    if name not in arrays:
        return default
    if arrays[name].shape != shape:
        raise ValueError(f"its {name} has the shape {arrays[name].shape}, not {shape}")
    return arrays[name]


def _places(arrays: Mapping[str, Floats], name: str, n: int | None, most: int | None = None) -> Places | None:
    """Return an array of whole numbers from 0 on, below `most` or the number n of rows."""
    if name not in arrays:
        return None
    values = arrays[name]
    limit = n if most is None else most
    assert limit is not None
    whole = values.ndim == 1 and ((values >= 0) & (values < limit) & (values == np.floor(values))).all()
    if not whole or (n is not None and len(values) != n):
        raise ValueError(f"its {name} does not number its rows")
    return values.astype(np.intp)


def _cvplus(arrays: Mapping[str, Floats], L: Floats, expansion: KernelExpansion) -> CVPlus:
    offsets, amplitude, scalars = (arrays[f"cv_{name}"] for name in ("offsets", "amplitude", "scalars"))
    (folds, q), r, iterated = offsets.shape, len(arrays["cv_mean"]), "iterated_places" in arrays
    shapes = {"mean": (r,), "amplitude": (q,), "scalars": (2,), "scaled": (q,)} | ({"root": (r, r)} if len(L) else {})
    largest, units, forward, rho, *_ = _known(arrays, "cv_judged", _USUAL.shape, _USUAL)
    counted = 1 if forward else folds
    shapes |= {"below": (q * counted, CLASSES)} | ({} if iterated else {"thetas": (folds * r, q)})
    if any(arrays[f"cv_{name}"].shape != shape for name, shape in shapes.items()):
        raise ValueError("its uncertainty does not fit its anchors")
    if not all(np.isfinite(arrays[f"cv_{name}"]).all() for name in (*shapes, "offsets")):
        raise ValueError("its uncertainty is not finite")
    if (amplitude < 0).any() or (scalars <= 0).any() or (np.diff(arrays["cv_below"]) < 0).any():
        raise ValueError("its uncertainty has negative variances or counts")
    if not (largest > 0 and units >= 0 and 0 <= rho < np.inf and np.isin(arrays["cv_scaled"], range(len(KINDS))).all()):
        raise ValueError("its uncertainty has a scale, a number of units or a variance out of range")
    thetas = np.zeros((folds, 0, q)) if iterated else arrays["cv_thetas"].reshape(folds, r, q)
    below = arrays["cv_below"].reshape(q, counted, CLASSES)
    root = arrays["cv_root"] if len(L) else L  # no triangle in files of earlier versions
    root = lower_root(root) if np.triu(root, 1).any() else np.asfortranarray(root)
    parts = (L, arrays["cv_mean"], root, float(scalars[0]), float(scalars[1]), amplitude)
    scale, local = tuple(KINDS[int(kind)] for kind in arrays["cv_scaled"]), _local_scale(arrays, expansion, q)
    if LOCAL in scale and local is None:
        raise ValueError("its uncertainty lacks the local scale")
    judged = float(largest), int(units), bool(forward), float(rho), local
    return CVPlus(*parts, thetas, offsets, below, scale, *judged)


def _local_scale(arrays: Mapping[str, Floats], expansion: KernelExpansion, q: int) -> LocalScale | None:
    if "cv_local_anchors" not in arrays:
        return None
    anchors, coef, offset, bandwidth = (
        arrays[f"cv_local_{name}"] for name in ("anchors", "coef", "offset", "bandwidth")
    )
    D = expansion.kernel.n_features
    if anchors.shape[1:] != (D,) or coef.shape != (len(anchors), q) or offset.shape != (q,) or bandwidth.shape != (D,):
        raise ValueError("its local scale is not of its features and outputs")
    observed = anchors if expansion.kernel.distributions is None else anchors[~np.isnan(anchors)]
    if not all(np.isfinite(values).all() for values in (coef, offset, observed)):
        raise ValueError("its local scale is not finite")
    return LocalScale(KernelExpansion(main_effects(expansion.kernel, bandwidth), anchors, coef, offset))


def _weight(arrays: Mapping[str, Floats], n: int) -> Floats:
    weight, (low, high) = arrays.get("weight", np.ones(n)), WEIGHT_LIMITS
    if weight.shape != (n,) or not ((weight >= low) & (weight <= high)).all():
        raise ValueError(f"its weights do not fit its rows, or are not between {low:.0e} and {high:.0e}")
    return weight
