"""Routines of BLAS and LAPACK without the lock of the interpreter.

SciPy's wrappers hold this lock: while they run, no other thread does, and a signal waits. Here the same routines of the
same library are called by their addresses, without the lock. The results have the same bits. Routines that take long
have a thread of their own, so that Ctrl-C need not wait for them; products of blocks are called from many threads.
"""

from __future__ import annotations

import ctypes
import re
import threading
from collections.abc import Callable
from functools import cache
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cython_blas, cython_lapack

from salsa._utils.arrays import Floats
from salsa._utils.blas import one_blas_thread_until

Real = TypeVar("Real", np.float32, np.float64)
LARGE = 1000  # rows from which a routine may take long
UNLOCKED = 500  # rows from which other threads should not wait for a routine
BEGINNING = 1.0  # seconds within which a thread begins; later it was interrupted before it was started
PATIENCE = 0.1  # seconds after which the main thread looks for signals: Windows does not interrupt a wait

_api = ctypes.pythonapi
_api.PyCapsule_GetName.restype, _api.PyCapsule_GetName.argtypes = ctypes.c_char_p, [ctypes.py_object]
_api.PyCapsule_GetPointer.restype = ctypes.c_void_p
_api.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]


def interruptible(call: Callable[[], None]) -> None:
    """Run a call that does not hold the interpreter's lock, so that signals reach the main thread meanwhile.

    After an interruption the call goes on to its end by itself, and its result is lost. Until then BLAS keeps to one
    thread: at the end of the process, OpenBLAS would wait for ever for threads that a call still gives work to.
    """
    if threading.current_thread() is not threading.main_thread():
        call()
        return
    begun, over = threading.Event(), threading.Event()

    def work() -> None:
        begun.set()
        try:
            call()
        finally:
            over.set()

    try:
        threading.Thread(target=work, daemon=True).start()
        while not over.wait(PATIENCE):
            pass
    except BaseException:
        if begun.wait(BEGINNING):
            one_blas_thread_until(over)
        raise


def cholesky(A: Floats) -> int:
    """Replace A (n, n), in Fortran order, by its lower factor; return 0, or where this failed."""
    failed = _on_lower_triangle("dpotrf", A)
    for column in range(1, len(A)):
        A[:column, column] = 0.0
    return failed


def inverse_of_factor(L: Floats) -> int:
    """Replace the factor L (n, n), in Fortran order, by the lower triangle of (L L')^-1."""
    return _on_lower_triangle("dpotri", L)


def eigen(A: Floats) -> Floats:
    """Replace A (n, n), in Fortran order, by its eigenvectors; return the eigenvalues (n,), ascending."""
    n, values = len(A), np.empty(len(A))
    size, integers, whole = np.empty(1), np.empty(1, dtype=np.intc), ctypes.c_int(-1)
    _evd(A, values, size, whole, integers, whole)
    work, others = np.empty(int(size[0])), np.empty(int(integers[0]), dtype=np.intc)
    info = _evd(A, values, work, ctypes.c_int(len(work)), others, ctypes.c_int(len(others)))
    if info:
        raise LinAlgError(f"no eigenvalues of a {n} x {n} matrix: dsyevd returned {info}")
    return values


def triangular_product(L: NDArray[Real], B: NDArray[Real], *, transposed: bool = False) -> NDArray[Real]:
    """Replace B (n, m) by L B, or L'B, for lower L (n, n), both in Fortran order, and return it."""
    return _from_the_left("trmm", L, B, b"T" if transposed else b"N")


def triangular_solve(L: NDArray[Real], B: NDArray[Real], *, transposed: bool = False) -> NDArray[Real]:
    """Replace B (n, m) by L^-1 B, or L'^-1 B, for lower L (n, n), both in Fortran order, and return it."""
    return _from_the_left("trsm", L, B, b"T" if transposed else b"N")


def gram(A: NDArray[Real]) -> NDArray[Real]:
    """Return the lower triangle of A A' (n, n) for A (n, m), both in Fortran order; zeros above."""
    C = np.zeros((len(A), len(A)), dtype=A.dtype, order="F")
    rows, columns = (ctypes.byref(ctypes.c_int(size)) for size in A.shape)
    one, zero, routine = _number(A, 1.0), _number(A, 0.0), _routine(_letter(A) + "syrk", 10)
    routine(b"L", b"N", rows, columns, one, _address(A), rows, zero, _address(C), rows)
    return C


def _from_the_left(name: str, L: NDArray[Real], B: NDArray[Real], transpose: bytes = b"N") -> NDArray[Real]:
    assert L.dtype == B.dtype
    rows, columns = (ctypes.byref(ctypes.c_int(size)) for size in B.shape)
    routine = _routine(_letter(B) + name, 11)
    routine(b"L", b"L", transpose, b"N", rows, columns, _number(B, 1.0), _address(L), rows, _address(B), rows)
    return B


def _letter(array: NDArray[Any]) -> str:
    return {"float32": "s", "float64": "d"}[array.dtype.name]


def _number(like: NDArray[Any], value: float) -> Any:
    return ctypes.byref(ctypes.c_float(value) if like.dtype == np.float32 else ctypes.c_double(value))


def _evd(A: Floats, values: Floats, work: Floats, size: Any, others: Any, count: Any) -> int:
    n, info = ctypes.c_int(len(A)), ctypes.c_int(0)
    routine, arrays = _routine("dsyevd", 11), [_address(array) for array in (A, values, work, others)]
    a, w, first, second = arrays
    scalars = [ctypes.byref(number) for number in (n, size, count, info)]
    interruptible(
        lambda: routine(b"V", b"L", scalars[0], a, scalars[0], w, first, scalars[1], second, scalars[2], scalars[3])
    )
    return info.value


def _on_lower_triangle(name: str, A: Floats) -> int:
    n, info, routine = ctypes.c_int(len(A)), ctypes.c_int(0), _routine(name, 5)
    size, failed, a = ctypes.byref(n), ctypes.byref(info), _address(A)
    if len(A) >= LARGE:
        interruptible(lambda: routine(b"L", size, a, size, failed))
    else:
        routine(b"L", size, a, size, failed)
    return info.value


def _address(array: Any) -> Any:
    """Return the address of an array, which lives at least as long."""
    assert array.ndim == 1 or array.flags.f_contiguous
    return array.ctypes.data_as(ctypes.c_void_p)


@cache
def _routine(name: str, arguments: int) -> Callable[..., None]:
    table: dict[str, Any] = dict(cython_lapack.__pyx_capi__) | dict(cython_blas.__pyx_capi__)
    capsule = table[name]
    signature = _api.PyCapsule_GetName(capsule)
    if re.search(rb"\bint \*", signature) is None:
        raise RuntimeError(f"SciPy's {name} does not take 32-bit integers: {signature.decode()}")
    address = _api.PyCapsule_GetPointer(capsule, signature)
    return ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * arguments)(address)
