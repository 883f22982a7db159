# Needs Python >= 3.11, a C++17 compiler and make; everything else is installed into .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: demo test test-all coverage bench lint docs clean

demo: $(VENV)/.demo
	$(BIN)/salsa demo --out salsa-demo

test: $(VENV)/.dev
	$(BIN)/python -m pytest -n auto -m "not slow"

test-all: $(VENV)/.dev
	$(BIN)/python -m pytest -n auto

coverage: $(VENV)/.dev
	$(BIN)/python -m pytest -n auto -m "not slow" --cov --cov-report=term

bench: $(VENV)/.dev
	$(BIN)/python benchmarks/bench_core.py
	$(BIN)/python benchmarks/bench_fit.py
	$(BIN)/python benchmarks/bench_relevance.py
	$(BIN)/python benchmarks/bench_explain.py

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

docs: $(VENV)/.docs
	$(BIN)/mkdocs build --strict

# One stamp per set of packages; a change of the compiled core or of the packages' list installs anew.
SOURCES := pyproject.toml CMakeLists.txt $(wildcard src/cpp/*)

$(BIN)/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "salsa needs Python 3.11 or newer; try make PYTHON=python3.12")'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.demo: $(BIN)/python $(SOURCES)
	@echo "Compiling and installing salsa into $(VENV): about a minute ..."
	$(BIN)/pip install --quiet -e ".[cli,plots]"
	touch $@

$(VENV)/.dev: $(BIN)/python $(SOURCES)
	$(BIN)/pip install --quiet -e ".[dev]"
	touch $@

$(VENV)/.docs: $(BIN)/python $(SOURCES)
	$(BIN)/pip install --quiet -e ".[docs]"
	touch $@

clean:
	rm -rf $(VENV) build site salsa-demo
