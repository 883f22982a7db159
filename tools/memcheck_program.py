"""What tools/memcheck.py runs, on tables of a few rows.

python tools/memcheck_program.py bindings CORE    # all of them; the compiled CORE by itself, which starts fast
python tools/memcheck_program.py model            # a fit, predictions and explanations
"""

import sys
from importlib.machinery import ExtensionFileLoader
from importlib.util import module_from_spec, spec_from_file_location

import numpy as np


def look_at(result) -> None:
    """Branch on every number: memcheck reports uninitialised ones only where they decide something."""
    for part in result if isinstance(result, tuple) else (result,):
        assert all(value == value for value in part.ravel().tolist())


def every_binding(_core, simd: str, missing: bool) -> None:
    rng = np.random.default_rng(0)
    n, m, D, bases = 37, 35, 6, len(_core.base_kernels())
    X, Z, columns = rng.normal(size=(n, D)), rng.normal(size=(m, D)), None
    if missing:  # of the first feature: the value, and two numbers for where the other row has none
        X, Z = (np.column_stack([A[:, 0], np.full((len(A), 2), 0.5), A[:, 1:]]) for A in (X, Z))
        X[::3, 0], columns = np.nan, np.eye(D, dtype=np.int8)[0]
    features = np.arange(D, dtype=np.int8) % bases, rng.uniform(0.5, 2, D), rng.uniform(0.5, 2, D)
    V, G, means = rng.normal(size=(m, 2)), rng.normal(size=(n, m)), rng.random((m, D))
    for d in (1, 2, 3, 4, D):
        last = *features, rng.random(d + 1), 2, simd
        for Y in (Z, None):
            look_at(_core.block(X, Y, *last, missing=columns))
            look_at(_core.orders(X, Y, *last, missing=columns))
        look_at(_core.product(X, Z, V, *last, missing=columns))
        look_at(_core.gradient(X, Z, G, *last, missing=columns))
        look_at(_core.gradient(X, None, G[:, :1] * G[:, 1], *last, all_orders=False, missing=columns))
        look_at(_core.shapley(X, Z, means, V, np.array([0.2, 0.8]), np.full(2, 0.5), *last, missing=columns))
        if d >= 3:
            products = rng.normal(size=(D, m, m))
            look_at(
                _core.covariances(products, np.ascontiguousarray(means.T), V[:, 0].copy(), rng.random(d + 1), 2, simd)
            )
            look_at(
                _core.covariances(products, np.ascontiguousarray(means.T), V[:, 0].copy(), np.eye(D + 1)[D], 2, simd)
            )
            of_rows, product = rng.random((d + 1, m)), np.outer(np.eye(D + 1)[D], np.ones(m))
            for x_weights, z_weights in ((of_rows, of_rows), (of_rows, product), (product, of_rows)):
                look_at(
                    _core.cross_covariances(
                        *(products, np.ascontiguousarray(means.T), np.ascontiguousarray(means.T), V[:, 0].copy()),
                        *(x_weights, z_weights, 2, simd),
                    )
                )
    R = np.triu(rng.normal(size=(n, n))) + 10 * np.eye(n)
    for flag in (False, True):
        rows = rng.normal(size=(m, n))
        look_at(_core.times(rows, R, flag, 2, simd))
        _core.solve(R, rows, flag, 2, simd)
        look_at(rows)
    for base in range(bases):
        look_at(_core.embed(rng.normal(size=n), rng.normal(size=m), rng.random(m), base, 0.7, simd))


def all_bindings(path: str) -> None:
    spec = spec_from_file_location("_core", path, loader=ExtensionFileLoader("_core", path))
    core = module_from_spec(spec)
    spec.loader.exec_module(core)
    levels = core.simd_levels()
    assert "avx512" not in levels, "memcheck_program.py runs under Valgrind"
    for simd in levels:
        for missing in (False, True):
            every_binding(core, simd, missing)
    print(f"memcheck: every binding at {', '.join(levels)}")


def a_model() -> None:
    from salsa import SalsaRegressor, explain

    rng = np.random.default_rng(1)
    X = rng.normal(size=(40, 3))
    y = X[:, 0] * X[:, 1] + rng.normal(size=40)
    X[::7, 2] = np.nan
    model = SalsaRegressor(relevance="equal", order=[1, 2, 3], cv=3).fit(X, y)
    look_at(model.predict(X[:5]))
    look_at(explain.shapley(model, X[:3]).values)
    explain.decompose(model)
    print("memcheck: a model")


if __name__ == "__main__":
    if sys.argv[1] == "bindings":
        all_bindings(sys.argv[2])
    else:
        a_model()
