"""A fitted regressor as the header and the arrays of a model file, and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from salsa._version import __version__
from salsa.archive import entry
from salsa.blas import one_blas_thread
from salsa.columns import Columns
from salsa.cvplus import CVPlus
from salsa.expansion import KernelExpansion
from salsa.inputs import WEIGHT_LIMITS
from salsa.kernels import Floats
from salsa.selection import OrderSearch
from salsa.solvers.lowrank import anchors_of


def model_state(model: Any, parameters: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Floats]]:
    """What a file holds of a fitted model with these parameters."""
    kernel, arrays = model.expansion_.state()
    header = {
        "salsa_version": __version__,
        "parameters": plain_parameters(parameters),
        "feature_names": list(getattr(model, "feature_names_in_", [])),
        "columns": model.columns_.state(),
        "flat": model._flat,
        "averaged": model._averaged,
        "search": model.search_.state(),
        "kernel": kernel,
    }
    if model._cvplus is not None:
        uncertainty, unit = model._cvplus
        arrays |= {**uncertainty.state(), "cv_unit": unit}
    elif model._weight is not None:
        arrays["weight"] = model._weight
    return header, arrays


def restore(model: Any, header: dict[str, Any], arrays: Mapping[str, Floats]) -> None:
    """The inverse of ``model_state``, on a model with the parameters; refuses what does not fit together."""
    names = entry(header, "feature_names", [{str}])
    model.columns_ = Columns.from_state(header["columns"])
    model.n_features_in_ = len(model.columns_.names)
    if arrays["bandwidth"].shape != (model.n_features_in_,) or len(names) not in (0, model.n_features_in_):
        raise ValueError("its kernel, its columns and its feature names are not of one number")
    if names:
        model.feature_names_in_ = np.array(names, dtype=object)
    model.expansion_ = KernelExpansion.from_state(header["kernel"], arrays)
    model.columns_.check_spans(model.expansion_.anchors)
    model.columns_.check_codes(model.expansion_.anchors)
    model.search_ = OrderSearch.from_state(header["search"])
    if lost := sorted(set(model.get_params()) - set(header["parameters"])):
        note = f"parameters a model file cannot hold are at their defaults: {', '.join(lost)}"
        model.search_ = model.search_.with_notes(note)
    flat, averaged = entry(header, "flat", {bool}), entry({"averaged": False} | header, "averaged", {bool})
    if model.search_.order != model.expansion_.kernel.order or (flat and len(model.expansion_.offset) > 1):
        raise ValueError("its kernel is not of the order that was found, or it has more outputs than it says")
    kept = _stored_uncertainty(arrays, model.expansion_)
    weight = None if kept else _stored_weight(arrays, len(model.expansion_.anchors))
    model._store(flat=flat, weight=weight, kept=kept, averaged=averaged)


def plain_parameters(values: dict[str, Any]) -> dict[str, Any]:
    """Parameters as JSON gives them back: numbers, texts and sequences of these; splitters are left out."""
    plain = {
        key: value.tolist() if isinstance(value, np.generic | np.ndarray) else value for key, value in values.items()
    }
    plain = {name: list(value) if isinstance(value, tuple | range) else value for name, value in plain.items()}
    return {name: value for name, value in plain.items() if _is_plain(value)}


def _is_plain(value: Any) -> bool:
    if isinstance(value, list):
        return all(map(_is_plain, value))
    return value is None or isinstance(value, (bool, int, str)) or (isinstance(value, float) and np.isfinite(value))


def _stored_uncertainty(arrays: Mapping[str, Floats], expansion: KernelExpansion) -> tuple[CVPlus, Floats] | None:
    if "cv_unit" not in arrays:
        return None
    with one_blas_thread():  # as in the fit, for the same bits
        uncertainty = CVPlus.from_state(arrays, anchors_of(expansion).L)
    unit = arrays["cv_unit"]
    if not unit.shape == expansion.offset.shape == uncertainty.amplitude.shape or not (unit > 0).all():
        raise ValueError("its uncertainty is not of its outputs")
    return uncertainty, unit


def _stored_weight(arrays: Mapping[str, Floats], n: int) -> Floats | None:
    weight, (low, high) = arrays.get("weight"), WEIGHT_LIMITS
    if weight is not None and (weight.shape != (n,) or not ((weight >= low) & (weight <= high)).all()):
        raise ValueError(f"its weights do not fit its rows, or are not between {low:.0e} and {high:.0e}")
    return weight
