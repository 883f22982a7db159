"""The import arrows of docs/architecture.md: a module imports only from the layers below it."""

import ast
from pathlib import Path

import pytest

import salsa

ROOT = Path(salsa.__file__).parent

# layer -> the layers it may import from; a layer is a module or package directly below salsa. Everything may import
# _utils, which imports nothing of ours but the compiled core.
ARROWS = {
    "_core": set(),
    "_version": set(),
    "_utils": {"_core"},
    "kernels": {"_core"},
    "expansion": {"kernels"},
    "data": set(),
    "losses": set(),
    "uncertainty": {"losses", "expansion", "data", "kernels"},
    "solvers": {"uncertainty", "losses", "expansion", "data", "kernels"},
    "learning": {"losses", "data", "kernels"},
    "options": {"solvers", "data", "kernels"},
    "selection": {"options", "learning", "solvers", "losses", "data", "kernels"},
    "fitted": {"selection", "losses", "uncertainty", "expansion", "data"},
    "fitting": {"fitted", "selection", "learning", "solvers", "losses", "options", "data", "kernels"},
    "persistence": {
        *("fitted", "selection", "options", "solvers", "losses", "uncertainty", "expansion", "data", "kernels"),
        "_version",
    },
    "kernel_model": {"explain", "fitted", "persistence", "options", "uncertainty", "data"},
    "regressor": {"kernel_model", "fitting", "fitted", "options", "uncertainty", "data"},
    "classifier": {"kernel_model", "fitting", "fitted", "options", "uncertainty", "data"},
    "loading": {"classifier", "regressor", "persistence"},
    "distributed": {"regressor", "fitting", "fitted", "options", "solvers", "data"},
    "explain": {"fitted", "selection", "losses", "uncertainty", "expansion", "data", "kernels", "_core", "_version"},
    "baselines": {"regressor", "options", "learning", "solvers", "expansion", "data", "kernels", "explain"},
    "paper": {"baselines", "regressor", "selection", "solvers", "expansion", "data", "kernels"},
    "cli": {
        "paper",
        "baselines",
        "explain",
        "classifier",
        "regressor",
        "fitted",
        "options",
        "uncertainty",
        "persistence",
        "data",
        "kernels",
        "__init__",
    },
    "__init__": {"loading", "classifier", "regressor", "selection", "expansion", "kernels", "_version"},
}
ARROWS = {layer: below | ({"_utils"} - {layer}) for layer, below in ARROWS.items()}
for bottom in ("_core", "_version", "_utils"):
    ARROWS[bottom] -= {"_utils"}


def layer_of(path: Path) -> str:
    return path.relative_to(ROOT).parts[0].removesuffix(".py").removesuffix(".pyi")


def imported_layers(path: Path) -> set[str]:
    """Layers of salsa that a file imports, at its top or lazily."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module == "salsa":
            found |= {alias.name if alias.name in ARROWS else "__init__" for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("salsa."):
            found.add(node.module.split(".")[1])
        elif isinstance(node, ast.Import):
            found |= {
                [*alias.name.split("."), "__init__"][1] for alias in node.names if alias.name.split(".")[0] == "salsa"
            }
    return found


FILES = sorted(path for path in ROOT.rglob("*.py"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_point_downwards(path):
    layer = layer_of(path)
    assert layer in ARROWS, f"{layer} is new: give it a place in ARROWS and in docs/architecture.md"
    assert imported_layers(path) <= ARROWS[layer] | {layer}


def test_arrows_have_no_cycle():
    remaining = {layer: set(below) for layer, below in ARROWS.items()}
    while remaining:
        free = [layer for layer, below in remaining.items() if not below]
        assert free, f"cycle among {sorted(remaining)}"
        for layer in free:
            del remaining[layer]
        for below in remaining.values():
            below.difference_update(free)


def test_the_compiled_core_does_not_depend_on_python_layers():
    """The mathematics in C++ knows no Python: only bindings.cpp includes nanobind."""
    cpp = Path(__file__).parent.parent / "src" / "cpp"
    users = {
        path.name for path in cpp.iterdir() if "nanobind" in path.read_text(encoding="utf-8").replace("// nanobind", "")
    }
    assert users == {"bindings.cpp"}


def test_no_file_name_appears_twice():
    """A name tells which file is meant."""
    names = [path.name for path in FILES if path.name != "__init__.py"]
    assert sorted(set(names)) == sorted(names)


def test_no_package_holds_one_small_file():
    packages = {path.parent for path in FILES if path.name == "__init__.py" and path.parent != ROOT}
    assert all(len(list(package.glob("*.py"))) > 2 for package in packages)
