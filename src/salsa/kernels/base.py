"""Base kernels of single features."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

#: Base kernels k_j(t), t = x_j - x'_j, and the bandwidth h_j. The order is the compiled core's numbering.
BASE_KERNELS: dict[str, str] = {
    "gaussian": "exp(-t^2 / (2 h^2))",
    "laplace": "exp(-|t| / h)",
    "matern32": "(1 + r) exp(-r), r = sqrt(3) |t| / h",
    "matern52": "(1 + r + r^2/3) exp(-r), r = sqrt(5) |t| / h",
    "equality": "1 if t = 0 else 0 (categories; no bandwidth)",
}
CODES = {name: code for code, name in enumerate(BASE_KERNELS)}


def base_codes(base: str | Sequence[str], D: int) -> NDArray[np.int8]:
    names = [base] * D if isinstance(base, str) else list(base)
    if len(names) != D:
        raise ValueError(f"base has {len(names)} names for {D} features")
    if unknown := sorted(set(names) - set(CODES)):
        raise ValueError(f"unknown base kernel {unknown[0]!r}; choose from {', '.join(CODES)}")
    return np.array([CODES[name] for name in names], dtype=np.int8)
