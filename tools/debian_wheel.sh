#!/usr/bin/env bash
# Build the wheel of an sdist for a Python of Debian, and try it: tools/debian_wheel.sh SDIST DIST MACHINE SUITE [PYTHON]
# MACHINE and SUITE as for tools/debian_python.py. PYTHON has the packages of the extra "release". The wheel is written
# into DIST; then it is installed into an empty environment, for which tools/smoke.py and tests of the core are run.
# arm64 on another processor is cross-compiled and tried in an emulator: g++-aarch64-linux-gnu and qemu-user.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
sdist=$(realpath "$1") dist=$(realpath -m "$2") machine=$3 suite=$4 python=$(realpath -s "${5:-python3}")
case $machine in amd64) processor=x86_64 ;; arm64) processor=aarch64 ;; *) echo "no wheels for $machine"; exit 1 ;; esac
case $suite in bookworm) version=3.11 ;; trixie) version=3.13 ;; *) echo "no Python of $suite"; exit 1 ;; esac
work=$PWD/build/debian/$machine-$suite

missing() { echo "$1 is missing: apt-get install $2"; exit 1; }
command -v apt-get >/dev/null || missing apt-get "it on Debian or Ubuntu: the Pythons come from there"
if [ "$processor" != "$(uname -m)" ]; then
    [ $machine = arm64 ] || { echo "wheels for $processor are built on $processor"; exit 1; }
    command -v qemu-aarch64 >/dev/null || missing qemu-aarch64 qemu-user
    command -v aarch64-linux-gnu-g++ >/dev/null || missing aarch64-linux-gnu-g++ g++-aarch64-linux-gnu
    export CMAKE_TOOLCHAIN_FILE=$here/aarch64.cmake
fi
rm -rf "$work"
debian=$("$python" "$here/debian_python.py" "$work" "$machine" "$suite")

# packages FOLDER REQUIREMENT ...: install wheels for that Python into a folder; this processor's pip is quicker
platforms=(--platform "manylinux2014_$processor")
for glibc in $(seq 17 36); do platforms+=(--platform "manylinux_2_${glibc}_$processor"); done
packages() {
    "$python" -m pip install --quiet --only-binary :all: --python-version $version "${platforms[@]}" --target "$1" "${@:2}"
}

packages "$work/build" "scikit-build-core>=0.11" "nanobind>=2.4" pip
PYTHONPATH=$work/build CPLUS_INCLUDE_PATH=$work/headers PATH=$(dirname "$python"):$PATH \
    "$debian" -m pip wheel --quiet --no-build-isolation --no-deps --wheel-dir "$work/wheel" "$sdist"
mkdir -p "$dist"
PATH=$(dirname "$python"):$PATH "$python" -m auditwheel repair --wheel-dir "$work/repaired" "$work"/wheel/*.whl
wheel=$(echo "$work"/repaired/*.whl)
cp "$wheel" "$dist"

# That Python's own pip installs the wheel once more, and judges its tags and all requirements.
site=$work/environment/lib/python$version/site-packages
packages "$site" "${wheel}[cli,plots]" pip pytest hypothesis mpmath
"$debian" -m pip install --quiet --no-index --no-deps --force-reinstall "$wheel"
"$debian" -m pip check
mkdir "$work/elsewhere" "$work/sdist"
cd "$work/elsewhere"
PATH=$(dirname "$debian") "$debian" -I "$here/smoke.py" "$work/environment"
tar xzf "$sdist" -C "$work/sdist" --strip-components=1
cd "$work/sdist"
# Not the tests of peak memory, which would measure the emulator's, and those of x86-64's levels
"$debian" -m pytest -q -p no:cacheprovider --hypothesis-profile=ci tests/kernels/test_core.py -k "not peak_memory and not ForcedLevel"
