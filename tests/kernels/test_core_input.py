"""Any input to the compiled core: a right answer where it is legal, a refusal where it is not, and never a crash.

`make sanitize` runs this file too, on a core that ends the process at the first byte read out of place.
"""

import mmap
from math import prod
from pathlib import Path

import naive
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from salsa import AdditiveKernel, _core

LEVELS, BASES = _core.simd_levels(), len(naive.BASES)

# --- legal input: what the stub of the core promises to accept ----------------------------------------------------


def is_array(value, ndim: int, dtype=np.float64) -> bool:
    if not isinstance(value, np.ndarray) or value.dtype != dtype or value.ndim != ndim:
        return False
    return value.flags.c_contiguous and value.flags.aligned


def runs(a: dict) -> bool:
    """Number of threads and instruction set."""
    threads, simd = a.get("n_threads", 1), a["simd"]
    return isinstance(threads, int) and 1 <= threads <= 4096 and (simd is None or simd in LEVELS)


def is_feature(code: int, bandwidth: float, relevance: float = 1.0) -> bool:
    return 0 <= code < BASES and (1e-150 <= bandwidth <= 1e150 or bandwidth == np.inf) and bool(np.isfinite(relevance))


def is_kernel(a: dict, alone: bool) -> bool:
    """Rows of X and Z and a kernel that fits them; `alone`: whether Z may be None."""
    vectors = all(is_array(a[name], 1) for name in ("bandwidth", "relevance", "weights"))
    flags = a["missing"] is None or is_array(a["missing"], 1, np.int8)
    if not (vectors and flags and runs(a) and is_array(a["base"], 1, np.int8) and is_array(a["X"], 2)):
        return False
    if not (is_array(a["Z"], 2) or (alone and a["Z"] is None)):
        return False
    D, d = len(a["base"]), len(a["weights"]) - 1
    columns = D + (0 if a["missing"] is None else 2 * np.count_nonzero(a["missing"]))
    tables = [a["X"]] if a["Z"] is None else [a["X"], a["Z"]]
    return (
        1 <= d <= D == len(a["bandwidth"]) == len(a["relevance"])
        and (a["missing"] is None or len(a["missing"]) == D)
        and all(table.shape[1] == columns for table in tables)
        and all(map(is_feature, a["base"], a["bandwidth"], a["relevance"]))
    )


def is_legal(name: str, a: dict) -> bool:
    if name == "embed":
        vectors = all(is_array(a[vector], 1) for vector in ("x", "points", "weights"))
        return (
            vectors and runs(a) and 1 <= len(a["points"]) == len(a["weights"]) and is_feature(a["base"], a["bandwidth"])
        )
    if name == "covariances":
        if not (is_array(a["products"], 3) and is_array(a["means"], 2) and is_array(a["coef"], 1)):
            return False
        (D, r, c), n = a["products"].shape, len(a["coef"])
        shapes = is_array(a["weights"], 1) and 4 <= len(a["weights"]) <= D + 1
        return shapes and runs(a) and a["means"].shape == (D, n) and r <= c <= n
    if name == "cross_covariances":
        matrices = ("x_means", "z_means", "x_weights", "z_weights")
        if not (is_array(a["products"], 3) and is_array(a["coef"], 1) and all(is_array(a[key], 2) for key in matrices)):
            return False
        D, r, c = a["products"].shape
        shapes = a["x_means"].shape == (D, r) and a["z_means"].shape == (D, c) and a["coef"].shape == (c,)
        sides = all(
            4 <= len(a[key]) <= D + 1 and a[key].shape[1] == n for key, n in (("x_weights", r), ("z_weights", c))
        )
        return shapes and sides and runs(a)
    if name == "solve":
        if not (is_array(a["R"], 2) and is_array(a["X"], 2) and a["X"].flags.writeable):
            return False
        n = len(a["R"])
        return runs(a) and isinstance(a["backward"], bool) and a["R"].shape == (n, n) and a["X"].shape[1] == n >= 1
    if name == "times":
        if not (is_array(a["B"], 2) and is_array(a["A"], 2)):
            return False
        return runs(a) and isinstance(a["upper"], bool) and a["A"].shape[1] == a["B"].shape[1]
    if not is_kernel(a, alone=name not in ("product", "shapley")):
        return False
    n, m, D = len(a["X"]), len(a["X"] if a["Z"] is None else a["Z"]), len(a["base"])
    if name == "gradient":
        return is_array(a["G"], 2) and a["G"].shape == (n, m)
    if name in ("product", "shapley") and not (is_array(a["V"], 2) and len(a["V"]) == m):
        return False
    if name == "shapley":
        rule = is_array(a["nodes"], 1) and is_array(a["node_weights"], 1) and len(a["nodes"]) == len(a["node_weights"])
        return rule and is_array(a["means"], 2) and a["means"].shape == (m, D)
    return True


# --- input of all kinds -------------------------------------------------------------------------------------------


def misaligned(array: np.ndarray) -> np.ndarray:
    """Return the same numbers, misaligned by one byte."""
    shifted = np.frombuffer(bytearray(array.nbytes + 1), array.dtype, array.size, offset=1).reshape(array.shape)
    shifted[...] = array
    return shifted


def with_first(value: float):
    def change(array):
        changed = array.copy()
        changed.flat[:1] = np.clip(np.nan_to_num(value), -128, 127) if array.dtype == np.int8 else value
        return changed

    return change


def read_only(array):
    copy = array.copy()
    copy.flags.writeable = False
    return copy


def at_the_end_of_a_page(array: np.ndarray) -> np.ndarray:
    """Return a copy that ends at the end of a page: reading beyond it crashes if the next page is not mapped."""
    size = -(-max(array.nbytes, 1) // mmap.PAGESIZE) * mmap.PAGESIZE
    placed = np.frombuffer(mmap.mmap(-1, size), array.dtype, array.size, offset=size - array.nbytes)
    placed = placed.reshape(array.shape)
    placed[...] = array
    return placed


CHANGES = {
    "float32": lambda a: a.astype(np.float32),
    "int64": lambda a: np.ones(a.shape, np.int64),
    "uint8": lambda a: np.ones(a.shape, np.uint8),
    "complex": lambda a: a.astype(complex),
    "object": lambda a: a.astype(object),
    "other endianness": lambda a: a.astype(">f8"),
    "text": lambda a: a.astype(str),
    "list": lambda a: a.tolist(),
    "number": lambda a: 1.0,
    "None": lambda a: None,
    "more dimensions": lambda a: a[..., None],
    "flat": lambda a: a.ravel(),
    "strided": lambda a: np.stack([a, a], axis=-1)[..., 0],
    "backwards": lambda a: a[::-1],
    "Fortran order": np.asfortranarray,
    "transposed": lambda a: np.ascontiguousarray(a.T),
    "repeated without memory": lambda a: np.broadcast_to(a[:1], a.shape) if len(a) else a,
    "read-only": read_only,
    "misaligned": misaligned,
    "at the end of a page": at_the_end_of_a_page,
    "no rows": lambda a: a[:0].copy(),
    "no columns": lambda a: a[..., :0].copy(),
    "one row less": lambda a: a[:-1].copy(),
    "one row more": lambda a: np.concatenate([a, a[:1]]),
    "one column less": lambda a: a[..., :-1].copy(),
    "one column more": lambda a: np.concatenate([a, a[..., :1]], axis=-1),
    "many rows": lambda a: np.repeat(a[:1], 300, axis=0),
    **{f"first {value}": with_first(value) for value in (np.nan, np.inf, -np.inf, 0.0, -1.0, BASES, 1e308, 1e-320)},
}
SCALARS = {
    "n_threads": [1, 2, 5, 4096, 0, -1, 4097, 2**40, 0.5, None, "1"],
    "simd": [None, *LEVELS, "", "avx1024", 2],
    "all_orders": [True, False],
    "backward": [True, False, None, "yes"],
    "upper": [True, False, None, "yes"],
    "base": [0, BASES - 1, BASES, -1, 2**40],
    "bandwidth": [1e-150, 1e150, np.inf, -np.inf, np.nan, 0.0, 1e200, -1.0],
}


def arguments_of(name: str, sizes: dict, rng: np.random.Generator) -> dict:
    """Return arguments of these sizes, valid or not."""
    n, m, r, q, D, d, T = (sizes[size] for size in ("n", "m", "r", "q", "D", "d", "T"))
    run = {"n_threads": 1, "simd": LEVELS[-1]}
    if name == "embed":
        one = {"x": rng.normal(size=n), "points": rng.normal(size=m), "weights": rng.random(m)}
        return one | {"base": int(rng.integers(BASES)), "bandwidth": 0.7, "simd": LEVELS[-1]}
    if name == "covariances":
        moments = {
            "products": rng.normal(size=(D, min(r, m), m)),
            "means": rng.random((D, n + m)),
            "coef": rng.random(n + m),
        }
        return moments | {"weights": rng.random(d + 1)} | run
    if name == "cross_covariances":
        means = {"x_means": rng.random((D, r)), "z_means": rng.random((D, m))}
        weights = {"x_weights": rng.random((d + 1, r)), "z_weights": rng.random((min(d + 1, 4), m))}
        return {"products": rng.normal(size=(D, r, m)), "coef": rng.random(m)} | means | weights | run
    if name == "solve":  # what is below the diagonal has nothing to say
        return {
            "R": 0.1 * rng.normal(size=(n, n)) + 2 * np.eye(n),
            "X": rng.normal(size=(m, n)),
            "backward": False,
        } | run
    if name == "times":
        return {"B": rng.normal(size=(m, n)), "A": np.triu(rng.normal(size=(r, n))), "upper": True} | run
    missing = (np.arange(D) % 2 == 0).astype(np.int8) if sizes["missing"] else None
    columns = D if missing is None else D + 2 * int(missing.sum())
    X, Z = rng.normal(size=(n, columns)).round(1), rng.normal(size=(m, columns)).round(1)
    if missing is not None:  # the first feature, in rows of both tables
        X[::3, :1], Z[1::4, :1] = np.nan, np.nan
    kernel = {
        **{"X": X, "Z": Z},
        **{"base": rng.integers(BASES, size=D).astype(np.int8), "bandwidth": rng.uniform(0.5, 2, D)},
        **{
            "relevance": rng.uniform(0, 2, D),
            "weights": rng.random(d + 1) * (rng.random(d + 1) < 0.7),
            "missing": missing,
        },
    }
    own = {
        "block": {},
        "orders": {},
        "product": {"V": rng.normal(size=(m, q))},
        "gradient": {"G": rng.normal(size=(n, m)), "all_orders": True},
        "shapley": {
            **{"means": rng.random((m, D)), "V": rng.normal(size=(m, q))},
            **{"nodes": rng.random(T), "node_weights": rng.random(T)},
        },
    }
    return kernel | own[name] | run


KERNEL_BINDINGS = ("block", "orders", "product", "gradient", "shapley", "embed", "covariances", "cross_covariances")
BINDINGS = (*KERNEL_BINDINGS, "solve", "times")
ROWS = st.sampled_from([0, 1, 2, 31, 32, 33, 65])
SIZES = st.fixed_dictionaries(
    {
        **{"n": ROWS, "m": ROWS, "r": ROWS, "q": st.integers(0, 3), "T": st.integers(0, 3)},
        **{"D": st.integers(0, 7), "d": st.integers(-1, 8), "missing": st.booleans()},
    }
)
USUAL = {"n": 33, "m": 35, "r": 34, "q": 2, "D": 5, "d": 4, "T": 2, "missing": False}


def changes_of(key: str, value) -> list:
    """All that an argument may become."""
    if isinstance(value, np.ndarray):
        return [change(value) for change in CHANGES.values()]
    return SCALARS.get(key, [value])


@st.composite
def calls(draw, name: str):
    """Arguments of a binding of any sizes, up to two of them changed."""
    arguments = arguments_of(name, draw(SIZES), np.random.default_rng(draw(st.integers(0, 2**32 - 1))))
    for key in draw(st.lists(st.sampled_from(sorted(arguments)), max_size=2, unique=True)):
        arguments[key] = draw(st.sampled_from(changes_of(key, arguments[key])))
    return arguments


# --- answers ------------------------------------------------------------------------------------------------------


def expected_shapes(name: str, a: dict) -> list[tuple[int, ...]]:
    if name == "embed":
        return [(len(a["x"]), 2)]
    if name == "solve":
        return [a["X"].shape]
    if name == "times":
        return [(len(a["B"]), len(a["A"]))]
    if name == "cross_covariances":
        D, r, _ = a["products"].shape
        return [(r, min(len(a["x_weights"]), len(a["z_weights"])) - 3 + D)]
    d = len(a["weights"]) - 1
    if name == "covariances":
        D, r, _ = a["products"].shape
        return [(r, d - 2 + D)]
    n, m, D = len(a["X"]), len(a["X"] if a["Z"] is None else a["Z"]), len(a["base"])
    return {
        "block": lambda: [(n, m)],
        "orders": lambda: [(d + 1, n, m)],
        "product": lambda: [(n, a["V"].shape[1])],
        "gradient": lambda: [(D,), (D,), (d + 1,)],
        "shapley": lambda: [(n, D, a["V"].shape[1])],
    }[name]()


def orders_of(a: dict) -> np.ndarray:
    """Return e_0..e_d (d+1, n, m) by sums over subsets, without missing values."""
    Z = a["X"] if a["Z"] is None else a["Z"]
    s = naive.scaled_bases(a["X"], Z, a["bandwidth"], a["relevance"], [naive.BASES[code] for code in a["base"]])
    return np.array([naive.elementary_symmetric(s, order) for order in range(len(a["weights"]))])


def answer(name: str, a: dict) -> tuple:
    """Of a binding; `solve` overwrites its rows."""
    found = getattr(_core, name)(**a)
    return (a["X"],) if name == "solve" else found if isinstance(found, tuple) else (found,)


def assert_right(name: str, a: dict, found: tuple) -> None:
    assert [part.shape for part in found] == expected_shapes(name, a)
    arrays = [value for value in a.values() if isinstance(value, np.ndarray)]
    if any(np.abs(array).max(initial=0) > 1e9 or not np.isfinite(array).all() for array in arrays):
        return
    if name == "solve" and np.abs(a["R"].diagonal()).min() > 0.1:
        R = np.triu(a["R"])
        np.testing.assert_allclose(found[0] @ (R.T if a["backward"] else R), a["X"], rtol=1e-9, atol=1e-9)
    if name == "times" and not (a["upper"] and np.tril(a["A"], -1).any()):
        np.testing.assert_allclose(found[0], a["B"] @ a["A"].T, rtol=1e-9, atol=1e-12)
    if name == "solve":
        return
    assert all(np.isfinite(part).all() for part in found)
    if name in ("block", "orders", "product", "gradient") and a["missing"] is None and prod(found[0].shape):
        e = orders_of(a)
        expected = {
            "block": lambda: np.tensordot(a["weights"], e, 1),
            "orders": lambda: a["weights"][:, None, None] * e,
            "product": lambda: np.tensordot(a["weights"], e, 1) @ a["V"],
            "gradient": lambda: np.sum(a["G"] * e, axis=(1, 2)),
        }[name]()
        counted = a["weights"] != 0 if name == "gradient" and not a["all_orders"] else ...
        np.testing.assert_allclose(found[-1][counted], expected[counted], rtol=1e-10, atol=1e-9)


def assert_right_or_refused(name: str, arguments: dict) -> None:
    binding = getattr(_core, name)
    if is_legal(name, arguments):
        rows = {"X": arguments["X"].copy()} if name == "solve" else {}
        assert_right(name, arguments | rows, answer(name, arguments))
    else:
        with pytest.raises((TypeError, ValueError)):
            binding(**arguments)


@pytest.mark.parametrize("name", BINDINGS)
@given(data=st.data())
def test_two_changed_arguments_give_the_right_result_or_an_error(name, data):
    assert_right_or_refused(name, data.draw(calls(name)))


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("name", BINDINGS)
def test_every_changed_argument_gives_the_right_result_or_an_error(name, missing):
    arguments = arguments_of(name, USUAL | {"missing": missing}, np.random.default_rng(0))
    assert is_legal(name, arguments)
    for key, value in arguments.items():
        for changed in changes_of(key, value):
            assert_right_or_refused(name, arguments | {key: changed})


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("name", BINDINGS)
def test_every_instruction_set_gives_the_same_answer(name, missing):
    rng = np.random.default_rng(1)
    for d in range(3 if "covariances" in name else 1, 7):
        arguments = arguments_of(name, USUAL | {"D": 6, "d": d, "missing": missing}, rng)
        if "base" in arguments and name != "embed":
            arguments["base"] = np.arange(6, dtype=np.int8) % BASES
        rows = arguments.get("X")
        answers = [
            answer(name, arguments | {"simd": simd} | ({} if rows is None else {"X": rows.copy()})) for simd in LEVELS
        ]
        for found in answers[:-1]:
            for part, reference in zip(found, answers[-1], strict=True):
                np.testing.assert_allclose(part, reference, rtol=1e-11, atol=1e-11 * np.abs(reference).max())


@pytest.mark.parametrize("simd", LEVELS)
@pytest.mark.parametrize("name", KERNEL_BINDINGS)
def test_many_features_and_the_highest_order(name, simd):
    D = 24 if "covariances" in name else 150
    sizes = {"n": 3, "m": 33, "r": 2, "q": 1, "D": D, "d": D, "T": 2, "missing": False}
    arguments = arguments_of(name, sizes, np.random.default_rng(0)) | {"simd": simd}
    found = getattr(_core, name)(**arguments)
    assert all(np.isfinite(part).all() for part in (found if isinstance(found, tuple) else (found,)))
    if name != "embed":
        cross = name == "cross_covariances"
        too_many = {"x_weights": np.ones((1_000_000, 2))} if cross else {"weights": np.ones(1_000_000)}
        with pytest.raises(ValueError, match="weights"):
            getattr(_core, name)(**arguments | too_many)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_nan_and_infinity_are_far_from_all_other_values(value):
    X = np.array([[value], [0.0]])
    for simd in LEVELS:
        for base in range(BASES):
            K = _core.block(X, None, np.array([base], np.int8), np.ones(1), np.ones(1), np.array([0.0, 1.0]), 1, simd)
            assert K[0, 1] == K[1, 0] <= 1e-290
            assert K[1, 1] == 1.0


@pytest.mark.parametrize("name", ["product", "shapley"])
@pytest.mark.parametrize("q", [2**57, 2**59])
def test_results_beyond_all_memory_are_refused(name, q):
    """Vectors (0, q) hold nothing and claim any length; 32 rows of 2^59 doubles are 0 bytes, counted in 64 bits."""
    sizes = {"n": 32, "m": 0, "r": 0, "q": 0, "D": 2, "d": 1, "T": 1, "missing": False}
    arguments = arguments_of(name, sizes, np.random.default_rng(0)) | {"V": np.empty((0, q))}
    with pytest.raises((MemoryError, ValueError)):
        getattr(_core, name)(**arguments)


def test_products_beyond_all_memory_are_refused():
    """Matrices (c, 0) hold nothing and claim any number of rows."""
    for rows in (2**57, 2**59):
        with pytest.raises((MemoryError, ValueError)):
            _core.times(np.empty((32, 0)), np.empty((rows, 0)))


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="counts threads in /proc")
def test_threads_without_rows_are_not_started():
    arguments = arguments_of("block", USUAL, np.random.default_rng(0)) | {"n_threads": 4096}
    before = len(list(Path("/proc/self/task").iterdir()))
    _core.block(**arguments)
    assert len(list(Path("/proc/self/task").iterdir())) <= before + 1  # 33 rows are two tiles


def test_kernels_align_arrays_that_the_core_would_refuse():
    rng = np.random.default_rng(0)
    X, V, G = rng.normal(size=(9, 2)), rng.normal(size=(9, 3)), rng.normal(size=(9, 9))
    kernel = AdditiveKernel(np.ones(2), np.ones(2), np.ones(3))
    shifted = misaligned(X)
    assert not shifted.flags.aligned
    np.testing.assert_array_equal(kernel(shifted), kernel(X))
    np.testing.assert_array_equal(kernel(X, shifted), kernel(X))
    np.testing.assert_array_equal(kernel.product(X, X, misaligned(V)), kernel.product(X, X, V))
    np.testing.assert_array_equal(kernel.gradient(X, misaligned(G)).relevance, kernel.gradient(X, G).relevance)
