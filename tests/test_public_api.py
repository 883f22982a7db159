"""The public names are exactly the names in docs/api.md, and each has a docstring."""

import importlib
import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

import salsa

API = (Path(__file__).parent.parent / "docs" / "api.md").read_text(encoding="utf-8")
SECTIONS = re.findall(r"^\.\. currentmodule:: ([\w.]+)$(.*?)^```$", API, flags=re.MULTILINE | re.DOTALL)
DOCUMENTED = [
    f"{module}.{name}"
    for module, section in SECTIONS
    for name in re.findall(r"^(?:   |\.\. py:data:: )(\w+)$", section, flags=re.MULTILINE)
]
MODULES = ("salsa", "salsa.baselines", "salsa.distributed", "salsa.explain", "salsa.paper")


@pytest.mark.parametrize("module", MODULES)
def test_exported_names_are_the_documented_ones(module):
    exported = {name for name in importlib.import_module(module).__all__ if name != "__version__"}
    documented = {name.rpartition(".")[2] for name in DOCUMENTED if name.rpartition(".")[0] == module}
    assert exported == documented


def test_every_documented_name_belongs_to_a_public_module():
    assert {name.rpartition(".")[0] for name in DOCUMENTED} == set(MODULES)


@pytest.mark.parametrize("name", DOCUMENTED)
def test_documented_names_have_docstrings(name):
    module, _, attribute = name.rpartition(".")
    thing = getattr(importlib.import_module(module), attribute)
    if callable(thing):
        assert inspect.getdoc(thing)


def test_the_regressor_has_exactly_these_parameters():
    names = (
        "order alpha loss quantile target_transform relevance interactions interaction_cst monotonic_cst kernel"
        " bandwidth solver rank cv categorical_features memory_limit n_jobs random_state verbose"
    )
    assert list(inspect.signature(salsa.SalsaRegressor).parameters) == names.split()


def test_the_classifier_has_exactly_these_parameters():
    names = (
        "order alpha class_weight relevance interactions interaction_cst monotonic_cst kernel bandwidth solver rank cv"
        " categorical_features memory_limit n_jobs random_state verbose"
    )
    assert list(inspect.signature(salsa.SalsaClassifier).parameters) == names.split()


def test_every_parameter_and_attribute_is_documented():
    doc = inspect.getdoc(salsa.SalsaRegressor)
    for name in inspect.signature(salsa.SalsaRegressor).parameters:
        assert re.search(rf"^{name} : ", doc, flags=re.MULTILINE), name
    for name in ("order_", "alpha_", "relevance_", "bandwidth_", "search_", "expansion_"):
        assert name in doc


def test_version_is_a_release_number():
    assert re.fullmatch(r"\d+\.\d+\.\d+(\.dev\d+)?", salsa.__version__)


def test_importing_salsa_is_quick_until_a_name_is_used():
    code = (
        "import sys, salsa; assert 'sklearn' not in sys.modules; salsa.SalsaRegressor; assert 'sklearn' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    assert set(dir(salsa)) == set(salsa.__all__)
    with pytest.raises(AttributeError, match="no attribute 'Salsa'"):
        _ = salsa.Salsa
