#!/usr/bin/env bash
# Compile the core without AVX and OpenMP and test it: test_portable.sh PYTHON. Packages other than salsa are those of PYTHON's
# environment; its own salsa is installed as editable and would come first, so that a second environment is needed.
set -euo pipefail
cd "$(dirname "$0")/.."
python=$1 environment=build/portable

rm -rf "$environment"
"$python" -m venv --without-pip "$environment"
packages=$("$environment/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
"$python" -c 'import site; print("\n".join(path for path in site.getsitepackages()))' >"$packages/others.pth"
"$python" -m pip install --quiet --no-deps --target "$packages" -C build-dir=build/portable-objects \
    -C cmake.define.SALSA_X86=OFF -C cmake.define.SALSA_OPENMP=OFF .
"$environment/bin/python" -c 'from salsa import _core; assert _core.simd_levels() == ["portable"], _core.__file__'
"$environment/bin/python" -m pytest -n auto -q tests/test_core.py tests/test_kernels.py \
    --deselect tests/test_core.py::test_levels_are_those_of_the_processor
