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


def public(kind):
    """Return the public classes or functions, with their names."""
    things = {
        name: getattr(importlib.import_module(name.rpartition(".")[0]), name.rpartition(".")[2]) for name in DOCUMENTED
    }
    return [pytest.param(thing, id=name) for name, thing in things.items() if kind(thing)]


def is_named(name, text):
    return re.search(rf"\b{name}\b", text) is not None


@pytest.mark.parametrize("cls", public(inspect.isclass))
def test_every_parameter_of_a_public_class_is_documented(cls):
    """By the docstring, or by a comment that the site shows beside a field."""
    doc, source = inspect.getdoc(cls), inspect.getsource(cls)
    names = set(inspect.signature(cls).parameters)
    if "All other parameters are as in ``SalsaRegressor``" in doc:
        names -= set(inspect.signature(salsa.SalsaRegressor).parameters)
    assert {
        name for name in names if not is_named(name, doc) and not re.search(rf"^    {name}: .*#: ", source, re.M)
    } == set()


@pytest.mark.parametrize("function", public(inspect.isfunction))
def test_every_parameter_of_a_public_function_is_documented(function):
    undocumented = {
        name for name in inspect.signature(function).parameters if not is_named(name, inspect.getdoc(function))
    }
    assert undocumented == set()


@pytest.mark.parametrize("cls", public(inspect.isclass))
def test_every_public_method_has_a_docstring(cls):
    for name in (name for name in dir(cls) if not name.startswith("_")):
        member = inspect.getattr_static(cls, name)
        if inspect.isfunction(member) or isinstance(member, property | classmethod):
            assert inspect.getdoc(member), name


@pytest.mark.parametrize("cls", [salsa.SalsaRegressor, salsa.SalsaClassifier])
def test_every_learnt_attribute_is_documented(cls):
    model = cls(order=1).fit([[float(i % 7)] for i in range(20)], [i % 2 for i in range(20)])
    learnt = {name for name in dir(model) if re.fullmatch(r"[a-z]\w*[^_]_", name)}
    assert {"alpha_", "order_", "search_"} <= learnt
    assert {name for name in learnt if not is_named(name, inspect.getdoc(cls))} == set()


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
