# Needs Python >= 3.11, a C++17 compiler and make; everything else is installed into .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: help demo test test-all test-docs test-howto test-avx2 test-busy test-portable test-aarch64 packages rehearsal wheels bench bench-tiny lint docs
.PHONY: evidence
.PHONY: coverage sanitize races valgrind coverage-cpp seeded clean

help:
	@echo "make demo      install, fit the example from the command line, write salsa-demo/report.html"
	@echo "make test      the tests (test-all: slow ones too; test-docs: the examples of the documentation; test-howto)"
	@echo "make lint      ruff, mypy, words, figures   make docs      the site, in site/"
	@echo "make bench     benchmarks             make packages  wheel and sdist, tried in clean environments"
	@echo "make evidence  missing and stale result files, and their figures in the pages (docs/result_files.md)"
	@echo "make rehearsal a release into a local index   make wheels  all Linux wheels, on Debian (docs/releasing.md)"
	@echo "make coverage, coverage-cpp, sanitize, races, valgrind, seeded, test-avx2, test-busy, test-portable: docs/proofs.md"
	@echo "make clean     remove all that these made"

demo: $(VENV)/.demo
	$(BIN)/salsa demo --out salsa-demo

# Tests run side by side, one on every core: a BLAS thread of another core would only wait in loops for its turn.
test test-all test-docs test-avx2 test-busy bench-tiny coverage: export OPENBLAS_NUM_THREADS := 1

# Every worker begins with neighbouring tests, which share fixtures, and takes tests of another one when it has none.
SIDE_BY_SIDE := -n auto --dist worksteal

test: $(VENV)/.dev
	$(BIN)/python -m pytest $(SIDE_BY_SIDE) -m "not slow"

test-all: $(VENV)/.dev
	$(BIN)/python -m pytest $(SIDE_BY_SIDE) --hypothesis-profile=thorough

test-docs: $(VENV)/.dev
	$(BIN)/python -m pytest $(SIDE_BY_SIDE) tests/test_docs.py

# The page on adding a base kernel, followed in a copy of this tree
test-howto: $(VENV)/.dev
	$(BIN)/python -m pytest -q tests/test_howto.py

# Tests whose numbers depend on the processor's arithmetic, or whose time could depend on its speed
NUMBERS := $(addprefix tests/,_utils data/test_blocks.py data/test_rows.py kernels learning selection/test_order.py solvers \
    uncertainty test_golden.py test_fitting.py explain/test_shapley.py cli/test_cli_predict.py)

# These tests as a processor without AVX-512 runs them
test-avx2: $(VENV)/.dev
	$(BIN)/python tools/avx2.py $(BIN)/python -m pytest $(SIDE_BY_SIDE) -q -m "not slow" $(NUMBERS)

# These tests beside a busy process on every core
test-busy: $(VENV)/.dev
	$(BIN)/python tools/busy.py $(BIN)/python -m pytest $(SIDE_BY_SIDE) -q -m "not slow" $(NUMBERS) tests/paper/test_figures.py

# The core as other processors get it, without AVX
test-portable: $(VENV)/.dev
	$(BIN)/python tools/rebuilt.py portable -c 'from salsa import _core; assert _core.simd_levels() == ["portable"], _core.__file__'
	$(BIN)/python tools/rebuilt.py portable -m pytest $(SIDE_BY_SIDE) -q tests/kernels/test_core.py tests/kernels/test_additive.py \
	    --deselect tests/kernels/test_core.py::test_levels_are_those_of_the_processor

# The same on 64-bit ARM, in an emulator: Debian's g++-aarch64-linux-gnu and qemu-user
test-aarch64:
	mkdir -p build
	aarch64-linux-gnu-g++ -std=c++17 -O3 -fno-math-errno -fno-trapping-math -ffp-contract=fast -pthread -static \
	    -DSALSA_LEVEL=0 src/cpp/esp.cpp tools/check_core.cpp -o build/check_core_aarch64
	qemu-aarch64 build/check_core_aarch64

packages: $(VENV)/.release
	tools/check_packages.sh $(BIN)/python

# A release of what is committed, into an index on this machine, and its first user
rehearsal: $(VENV)/.release
	tools/rehearse_release.sh $(BIN)/python

# The sdist and all Linux wheels, into build/wheels, each tried with Debian's Python of its processor. On x86-64: needs
# Debian or Ubuntu with g++-aarch64-linux-gnu and qemu-user; WHEELS names some of the wheels, such as arm64-trixie.
WHEELS ?= amd64-bookworm amd64-trixie arm64-bookworm arm64-trixie
wheels: $(VENV)/.release
	rm -rf build/wheels
	$(BIN)/python -m build --sdist --outdir build/wheels .
	for wheel in $(WHEELS); do \
	    tools/debian_wheel.sh build/wheels/*.tar.gz build/wheels $${wheel%-*} $${wheel#*-} $(BIN)/python || exit 1; \
	done
	$(BIN)/python -m twine check --strict build/wheels/*
	$(BIN)/python tools/check_contents.py build/wheels
	$(BIN)/python -m abi3audit --strict $$(ls build/wheels/*abi3*.whl)

coverage: $(VENV)/.dev
	$(BIN)/python -m pytest $(SIDE_BY_SIDE) -m "not slow" --cov --cov-report=term

bench: $(VENV)/.dev
	$(BIN)/python benchmarks/bench_start.py
	$(BIN)/python benchmarks/bench_core.py
	$(BIN)/python benchmarks/bench_fit.py
	$(BIN)/python benchmarks/bench_relevance.py
	$(BIN)/python benchmarks/bench_explain.py

# Hours, and what is interrupted goes on: SINCE=2026-11-19 also measures anew what is older, NAMES="limits core" only these
evidence: $(VENV)/.dev
	$(BIN)/python tools/evidence.py $(if $(SINCE),--since $(SINCE)) $(NAMES)

bench-tiny: $(VENV)/.dev
	$(BIN)/python -m pytest $(SIDE_BY_SIDE) tests/test_benchmarks.py

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python tools/words.py
	$(BIN)/python tools/figures.py --check

docs: $(VENV)/.docs
	rm -rf docs/api
	$(BIN)/python -m sphinx -q -W --keep-going -b html -d build/doctrees docs site

# The compiled core under instruments (docs/proofs.md), each in an environment of its own under build/.
sanitize: $(VENV)/.dev
	$(BIN)/python tools/sanitize.py

races: $(VENV)/.dev
	$(BIN)/python tools/races.py

valgrind: $(VENV)/.dev
	$(BIN)/python tools/memcheck.py

coverage-cpp: $(VENV)/.dev
	$(BIN)/python tools/coverage_cpp.py

seeded: $(VENV)/.dev
	$(BIN)/python tools/seeded_bugs.py

# One stamp per set of packages; a change of the compiled core or of the packages' list installs anew.
SOURCES := pyproject.toml CMakeLists.txt $(wildcard src/cpp/*)

$(BIN)/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "salsa needs Python 3.11 or newer; try make PYTHON=python3.12")'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.demo: $(BIN)/python $(SOURCES)
	@echo "Compiling and installing salsa into $(VENV): one to five minutes ..."
	$(BIN)/pip install --quiet -e ".[cli,plots]"
	touch $@

$(VENV)/.dev: $(BIN)/python $(SOURCES)
	$(BIN)/pip install --quiet -e ".[dev]"
	touch $@

$(VENV)/.release: $(BIN)/python $(SOURCES)
	$(BIN)/pip install --quiet -e ".[release]"
	touch $@

$(VENV)/.docs: $(BIN)/python $(SOURCES)
	$(BIN)/pip install --quiet -e ".[docs]"
	touch $@

clean:
	rm -rf $(VENV) build site docs/api docs/gallery docs/sg_execution_times.rst salsa-demo
