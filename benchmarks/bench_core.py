"""Kernel blocks against np.exp, against the paper's Newton-Girard formula and against a plain NumPy recursion.

    python benchmarks/bench_core.py [--out FILE]

CPU seconds of one thread, best of a few runs, both sides in the same process; the targets stand beside the ratios.
"""

from __future__ import annotations

import os

for pool in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(pool, "1")

import subprocess
import sys
import time
from collections.abc import Callable

import numpy as np
from conditions import Figures, size

from salsa import AdditiveKernel, SumKernel, _core

N, D, ORDER = size((2000, 20, 3), (200, 5, 3))
FIGURES = Figures()
BLOCK_ROWS, BLOCK_D = size((5000, 50), (1000, 10))  # of the block whose memory is measured


def cpu_seconds(f: Callable[[], object], repeats: int = 5) -> float:
    def once() -> float:
        start = time.process_time()
        f()
        return time.process_time() - start

    return min(once() for _ in range(repeats))


def exp_of_all_pairs(piece: int = 4096) -> None:
    """np.exp of n m D values, in pieces that stay in the cache."""
    values = -np.linspace(0, 30, piece)
    out = np.empty(piece)
    for _ in range(N * N * D // piece):
        np.exp(values, out=out)


def newton_girard(X: np.ndarray, h: np.ndarray, d: int) -> np.ndarray:
    """e_d = (1/d) sum_i (-1)^(i-1) e_{d-i} p_i with power sums p_i: the paper's formula."""
    base = np.exp(-((X[:, None] - X[None]) ** 2) / (2 * h**2))
    p = [np.sum(base**i, axis=2) for i in range(d + 1)]
    e = [np.ones_like(p[0])]
    for m in range(1, d + 1):
        e.append(sum((-1) ** (i - 1) * e[m - i] * p[i] for i in range(1, m + 1)) / m)
    return e[d]


def recursion(X: np.ndarray, h: np.ndarray, d: int) -> np.ndarray:
    e = [np.ones((len(X), len(X)))] + [np.zeros((len(X), len(X))) for _ in range(d)]
    for j in range(X.shape[1]):
        s = np.exp(-((X[:, None, j] - X[None, :, j]) ** 2) / (2 * h[j] ** 2))
        for m in range(d, 0, -1):
            e[m] += s * e[m - 1]
    return e[d]


def block_memory() -> float:
    """Peak memory of a block of order 5 over what was held before, in blocks (Linux)."""
    code = (
        "import re, numpy as np; from salsa import AdditiveKernel;"
        "kB = lambda name: int(re.search(name + r':\\s*(\\d+)', open('/proc/self/status').read())[1]);"
        f"X = np.random.default_rng(0).normal(size=({BLOCK_ROWS}, {BLOCK_D}));"
        f"k = AdditiveKernel(np.ones({BLOCK_D}), np.ones({BLOCK_D}), np.ones(6));"
        "k(X[:50]); before = kB('VmRSS'); K = k(X, X); print((kB('VmHWM') - before) * 1024 / K.nbytes)"
    )
    return float(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)


def line(name: str, ours: float, theirs: float, ratio: float, target: str = "") -> None:
    print(f"{name:54s} {ours:9.3f} s {theirs:9.3f} s   ratio {ratio:7.2f}   {target}")
    FIGURES.add(ratio_of=name, ratio=ratio)


def products(X: np.ndarray, h: np.ndarray) -> None:
    """Compare the product of all features, one exponential a pair, with the recursion that other orders take.

    A weight on order D - 1 beside the product's own forces the recursion, over nearly the same numbers.
    """
    alone, recursive = np.eye(D + 1)[D], np.eye(D + 1)[D] + 1e-300 * np.eye(D + 1)[D - 1]
    G = np.ones((N, N))
    for base in ("gaussian", "laplace", "matern32", "matern52"):
        fast, slow = (AdditiveKernel(h, np.ones(D), weights, base) for weights in (alone, recursive))
        blocks = [cpu_seconds(lambda k=k: k(X, n_threads=1), 3) for k in (fast, slow)]
        line(f"product of {base}, block / recursion", *blocks, blocks[0] / blocks[1])
        gradients = [cpu_seconds(lambda k=k: k.gradient(X, G, of_zeros=False, n_threads=1), 3) for k in (fast, slow)]
        line(f"product of {base}, gradient / recursion", *gradients, gradients[0] / gradients[1], "target <= 0.3")


def sums(X: np.ndarray, h: np.ndarray) -> None:
    """Compare three terms in one sweep with the same terms one after the other."""
    orders = (np.ones(4), np.eye(D + 1)[D], np.eye(D + 1)[D])
    pairs = zip(orders, ("matern52", "matern52", "laplace"), strict=True)
    terms = [AdditiveKernel(h, np.ones(D), weights, base) for weights, base in pairs]
    together = cpu_seconds(lambda: SumKernel(terms)(X, n_threads=1), 3)
    apart = cpu_seconds(lambda: sum(term(X, n_threads=1) for term in terms), 3)
    line("sum of three terms, in one sweep / apart", together, apart, together / apart)


def learned_terms(h: np.ndarray) -> list[AdditiveKernel]:
    """Return the terms of the kernel that is learned by default."""
    features = len(h)
    product = np.eye(features + 1)[features]
    parts = (([0.0, 1.0, 1.0, 1.0], "matern52"), (product, "matern52"), (product, "laplace"))
    return [AdditiveKernel(h, np.ones(features), weights, base) for weights, base in parts]


def single(rng: np.random.Generator) -> None:
    """Compare blocks in float32 with blocks in float64."""
    for features in (8, 20):
        X, h = rng.normal(size=(N, features)), np.full(features, 4.4)
        kernels = {
            "learned sum": SumKernel(learned_terms(h)),
            "Gaussian": AdditiveKernel(h, np.ones(features), np.eye(ORDER + 1)[ORDER]),
        }
        for name, k in kernels.items():
            for half, Z in (("full", X.copy()), ("symmetric", None)):
                ours = cpu_seconds(lambda k=k, X=X, Z=Z: k.single(X, Z, n_threads=1))
                theirs = cpu_seconds(lambda k=k, X=X, Z=Z: k(X, Z, n_threads=1))
                line(
                    f"float32 / float64, {name}, D = {features}, {half}", ours, theirs, ours / theirs, "target <= 0.65"
                )


def tiles(rng: np.random.Generator) -> None:
    """Compare both products of tiles with a few vectors, by one reading each, with two matrix products of BLAS."""
    side, count = size((2048, 20), (64, 2))  # together, tiles are larger than the caches
    for number in (np.float32, np.float64):
        matrices = [rng.normal(size=(side, side)).astype(number) for _ in range(count)]
        for q in (1, 3, 6):
            V = rng.normal(size=(q, side)).astype(number)
            columns = np.ascontiguousarray(V.T)
            ours = cpu_seconds(lambda T=matrices, V=V: [_core.tile_product(tile, V, V) for tile in T], 3)
            theirs = cpu_seconds(lambda T=matrices, C=columns: [(tile @ C, tile.T @ C) for tile in T], 3)
            line(f"{count} tiles of {number.__name__} times {q} vectors / BLAS", ours, theirs, ours / theirs)


def main() -> None:
    rng = np.random.default_rng(0)
    X, h = rng.normal(size=(N, D)), np.full(D, 4.4)
    kernel = AdditiveKernel(h, np.ones(D), np.eye(ORDER + 1)[ORDER])
    exp = cpu_seconds(exp_of_all_pairs, 3)
    full = cpu_seconds(lambda: kernel(X, X, n_threads=1))
    half = cpu_seconds(lambda: kernel(X, n_threads=1))
    print(f"n = m = {N}, D = {D}, d = {ORDER}; SIMD: {_core.simd_levels()[0]}; left ours, right the other side")
    line("full block / np.exp of n m D values", full, exp, full / exp, "target <= 1.5")
    line("symmetric block / np.exp of n m D values", half, exp, half / exp, "target <= 0.8")
    for simd in _core.simd_levels()[1:]:
        arguments = (X, X, np.zeros(D, np.int8), h, np.ones(D), kernel.order_weights, 1, simd)
        seconds = cpu_seconds(lambda arguments=arguments: _core.block(*arguments), 3)
        line(f"full block, {simd} / np.exp", seconds, exp, seconds / exp, "")
    gradient = cpu_seconds(lambda: kernel.gradient(X, np.ones((N, N)), n_threads=1), 3)
    line("gradient of all parameters / symmetric block", gradient, half, gradient / half, "")
    for name, twin, target in (
        ("Newton-Girard in NumPy", newton_girard, "target >= 40"),
        ("recursion in NumPy", recursion, ""),
    ):
        seconds = cpu_seconds(lambda twin=twin: twin(X, h, ORDER), 1)
        line(f"{name} / full block", full, seconds, seconds / full, target)
    V = rng.normal(size=N)
    product = cpu_seconds(lambda: kernel.product(X, X, V, n_threads=1), 3)
    line("kernel times vector, no block / full block", product, full, product / full, "")
    products(X, h)
    sums(X, h)
    single(rng)
    tiles(rng)
    sizes = f"n = {BLOCK_ROWS}, D = {BLOCK_D}, d = 5"
    memory = block_memory()
    print(f"peak memory of a block, {sizes}: {memory:.2f} times the block   target <= 1.2")
    FIGURES.add(ratio_of="peak memory of a block / the block", ratio=memory)


if __name__ == "__main__":
    main()
