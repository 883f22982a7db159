from typing import Any

from numpy import float32, float64, floating, int8, int32
from numpy.typing import NDArray

def simd_levels() -> list[str]: ...
def base_kernels() -> list[str]: ...
def block(
    X: NDArray[float64],  # (n, D); three columns instead of one for a feature with missing values
    Z: NDArray[float64] | None,  # (m, D); None: X with itself
    base: NDArray[int8],  # (D,), or the features of all terms one after the other
    bandwidth: NDArray[float64],  # (D,)
    relevance: NDArray[float64],  # (D,)
    weights: NDArray[float64],  # (d+1,): order weights divided by C(D, m); of all terms one after the other
    n_threads: int = 1,
    simd: str | None = None,
    missing: NDArray[int8] | None = None,  # (D,): which features have missing values
    columns: NDArray[int32] | None = None,  # (D,): the first column of every feature; None: one after the other
    terms: NDArray[int32] | None = None,  # (T, 2): numbers of features and weights of every term; None: one term
) -> NDArray[float64]: ...  # (n, m)
def block32(
    X: NDArray[float64],
    Z: NDArray[float64] | None,
    base: NDArray[int8],
    bandwidth: NDArray[float64],
    relevance: NDArray[float64],
    weights: NDArray[float64],
    n_threads: int = 1,
    simd: str | None = None,
    missing: NDArray[int8] | None = None,
    columns: NDArray[int32] | None = None,
    terms: NDArray[int32] | None = None,
    out: NDArray[float32] | None = None,  # (n, m): written and returned; its rows may be parts of wider rows
) -> NDArray[float32]: ...  # (n, m)
def orders(
    X: NDArray[float64],
    Z: NDArray[float64] | None,
    base: NDArray[int8],
    bandwidth: NDArray[float64],
    relevance: NDArray[float64],
    weights: NDArray[float64],
    n_threads: int = 1,
    simd: str | None = None,
    missing: NDArray[int8] | None = None,
) -> NDArray[float64]: ...  # (d+1, n, m)
def product(
    X: NDArray[float64],
    Z: NDArray[float64],
    V: NDArray[float64],  # (m, q)
    base: NDArray[int8],
    bandwidth: NDArray[float64],
    relevance: NDArray[float64],
    weights: NDArray[float64],
    n_threads: int = 1,
    simd: str | None = None,
    missing: NDArray[int8] | None = None,
    columns: NDArray[int32] | None = None,
    terms: NDArray[int32] | None = None,
) -> NDArray[float64]: ...  # (n, q)
def gradient(
    X: NDArray[float64],
    Z: NDArray[float64] | None,
    G: NDArray[float64],  # (n, m)
    base: NDArray[int8],
    bandwidth: NDArray[float64],
    relevance: NDArray[float64],
    weights: NDArray[float64],
    n_threads: int = 1,
    simd: str | None = None,
    all_orders: bool = True,
    missing: NDArray[int8] | None = None,
    columns: NDArray[int32] | None = None,
    terms: NDArray[int32] | None = None,
) -> tuple[NDArray[float64], NDArray[float64], NDArray[float64]]: ...  # (D,), (D,), (d+1,), D and d+1 summed over terms
def embed(
    x: NDArray[float64],  # (n,)
    points: NDArray[float64],  # (m,)
    weights: NDArray[float64],  # (m,)
    base: int,
    bandwidth: float,
    simd: str | None = None,
) -> NDArray[float64]: ...  # (n, 2)
def shapley(
    X: NDArray[float64],
    Z: NDArray[float64],
    means: NDArray[float64],  # (m, D): relevance times the mean of each base kernel over the background
    V: NDArray[float64],  # (m, q)
    nodes: NDArray[float64],  # of a quadrature on [0, 1]
    node_weights: NDArray[float64],
    base: NDArray[int8],
    bandwidth: NDArray[float64],
    relevance: NDArray[float64],
    weights: NDArray[float64],
    n_threads: int = 1,
    simd: str | None = None,
    missing: NDArray[int8] | None = None,
    columns: NDArray[int32] | None = None,
    terms: NDArray[int32] | None = None,  # one term
) -> NDArray[float64]: ...  # (n, D, q)
def covariances(
    products: NDArray[float64],  # (D, r, c): of the last r of c rows with all c
    means: NDArray[float64],  # (D, n)
    coef: NDArray[float64],  # (n,)
    weights: NDArray[float64],  # (d+1,), d >= 3
    n_threads: int = 1,
    simd: str | None = None,
) -> NDArray[float64]: ...  # (r, d-2 + D)
def cross_covariances(
    products: NDArray[float64],  # (D, r, c): of r rows of one kernel with c rows of another
    x_means: NDArray[float64],  # (D, r)
    z_means: NDArray[float64],  # (D, c)
    coef: NDArray[float64],  # (c,)
    x_weights: NDArray[float64],  # (d+1, r), d >= 3: of the orders, for each row
    z_weights: NDArray[float64],  # (d+1, c), d >= 3
    n_threads: int = 1,
    simd: str | None = None,
) -> NDArray[float64]: ...  # (r, d-2 + D), d the smaller of both
def solve(
    R: NDArray[float64],  # (n, n): its upper triangle
    X: NDArray[float64],  # (m, n): every row b is overwritten by the x with R'x = b,
    backward: bool,  # or with R x = b
    n_threads: int = 1,
    simd: str | None = None,
) -> None: ...
def times(
    B: NDArray[float64],  # (m, n)
    A: NDArray[float64],  # (c, n)
    upper: bool = False,  # A_ij = 0 for j < i
    n_threads: int = 1,
    simd: str | None = None,
) -> NDArray[float64]: ...  # (m, c)
def tile_product(  # all arrays in float32, or all in float64
    T: NDArray[floating[Any]],  # (rows, columns)
    V: NDArray[floating[Any]],  # (q, columns)
    U: NDArray[floating[Any]] | None,  # (q, rows)
    simd: str | None = None,
) -> tuple[NDArray[floating[Any]], NDArray[floating[Any]]]: ...  # V T' (q, rows), U T (q, columns)
