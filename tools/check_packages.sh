#!/usr/bin/env bash
# Build the sdist, and from it the wheel; then use the wheel as a user without a compiler would, with the newest versions of
# everything and with the oldest. Run by `make packages`; needs the packages of the extra "release".
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD work=$PWD/build/packages python=${1:-python3}

rm -rf "$work"
mkdir -p "$work/elsewhere"
"$python" -m build --outdir "$work/dist" . >"$work/build.log" 2>&1 || { tail -n 40 "$work/build.log"; exit 1; }
"$python" -m twine check --strict "$work"/dist/*
"$python" -m pip download --quiet --no-deps --dest "$work/nanobind" "nanobind>=2.4"
"$python" tools/check_contents.py "$work/dist" "$work"/nanobind/*.whl
wheel=$(echo "$work"/dist/*.whl)
case $wheel in *abi3*) "$python" -m abi3audit --strict "$wheel" ;; esac
mkdir "$work/sdist"
tar xzf "$work"/dist/*.tar.gz -C "$work/sdist" --strip-components=1

# bare ENVIRONMENT COMMAND ...: nothing but the environment on the PATH, in another folder
bare() {
    local bin=$work/$1/bin
    shift
    (cd "$work/elsewhere" && PATH=$bin CC=/bin/false CXX=/bin/false "$bin/$@")
}
make_environment() {
    "$python" -m venv "$work/$1"
    bare "$1" python -m pip install --quiet --only-binary :all: "${@:2}"
}

make_environment newest "${wheel}[cli,plots]"
bare newest python -I "$root/tools/smoke.py" "$work/newest"

if ! "$python" -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))'; then
    echo "The oldest versions have wheels for Python 3.11 alone: not tried with another"
    exit
fi
make_environment oldest -c "$root/tools/oldest.txt" "${wheel}[cli,plots]" pytest pytest-xdist hypothesis mpmath polars
bare oldest python -I "$root/tools/smoke.py" "$work/oldest"
cd "$work/sdist"
# Old versions warn of each other's future.
"$work/oldest/bin/python" -m pytest -n auto --dist worksteal -q -m "not slow" -W ignore::DeprecationWarning \
    tests/persistence tests/data/test_columns.py tests/explain/test_displays.py tests/kernels/test_{additive,missing}.py \
    tests/_utils/test_weighted.py tests/cli/test_cli_{info,tables}.py
