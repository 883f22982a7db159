"""A command as a processor with AVX2 but without AVX-512 sees it: the core, OpenBLAS and NumPy.

python tools/avx2.py python -m pytest tests/kernels/test_core.py
"""

import os
import sys

import numpy as np

from salsa import _core


def numpy_switches() -> dict[str, str]:
    """NumPy's names for AVX-512 differ from version to version, and it refuses those that it or the machine lacks."""
    module = (np._core if hasattr(np, "_core") else np.core)._multiarray_umath
    names = [name for name in module.__cpu_dispatch__ if name.startswith("AVX512") or name == "X86_V4"]
    there = [name for name in names if module.__cpu_features__.get(name)]
    return {"NPY_DISABLE_CPU_FEATURES": " ".join(there)} if there else {}


def main() -> None:
    if "avx2" not in _core.simd_levels():
        print("avx2: this machine has no AVX2, and nothing is run")
        return
    switches = {"SALSA_SIMD": "avx2", "OPENBLAS_CORETYPE": "Haswell"} | numpy_switches()
    print("avx2:", *(f"{name}={value!r}" for name, value in switches.items()), file=sys.stderr, flush=True)
    os.execvpe(sys.argv[1], sys.argv[1:], os.environ | switches)


if __name__ == "__main__":
    main()
