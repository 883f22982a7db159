"""Names of array types for signatures, and arrays as the compiled core takes them."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
Places = NDArray[np.intp]  # indices of rows or features


def for_the_core(values: ArrayLike) -> Floats:
    """Return a contiguous and aligned float64 array, copied only if needed: a view of bytes need not be aligned."""
    return np.require(values, np.float64, ["C", "A"])
