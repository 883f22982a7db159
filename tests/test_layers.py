"""The import arrows of docs/design.md: a module imports only from the layers below it."""

import ast
from pathlib import Path

import pytest

import salsa

ROOT = Path(salsa.__file__).parent

# layer -> the layers it may import from; a layer is a module or package directly below salsa
ARROWS = {
    "_core": set(),
    "_version": set(),
    "blas": set(),
    "files": set(),
    "warning": set(),
    "jsonable": set(),
    "archive": {"files"},
    "memory": set(),
    "textrules": set(),
    "tables": {"files", "textrules"},
    "kernels": {"_core"},
    "columns": {"kernels", "archive", "warning"},
    "doubts": {"columns", "kernels", "textrules"},
    "expansion": {"kernels", "archive"},
    "ranges": {"expansion", "kernels", "warning"},
    "solvers": {"expansion", "rows", "kernels", "_core"},
    "folds": {"solvers", "kernels"},
    "moments": {"kernels"},
    "selection": {"solvers", "moments", "kernels", "archive"},
    "progress": {"selection"},
    "intervals": {"solvers", "moments", "kernels"},
    "learning": {"blas", "moments", "kernels"},
    "guard": {"learning", "selection", "moments", "kernels"},
    "parameters": {"guard", "learning", "selection", "kernels", "_core"},
    "cvplus": {"intervals", "solvers", "kernels"},
    "rows": {"kernels"},
    "inputs": {"columns", "kernels", "warning"},
    "sources": {"columns", "doubts", "inputs", "rows", "kernels"},
    "blockwise": {"rows", "cvplus", "selection", "solvers", "kernels"},
    "large": {
        *("blockwise", "rows", "planning", "parameters", "learning", "guard", "folds", "selection", "progress"),
        *("moments", "cvplus", "solvers", "expansion", "kernels"),
    },
    "storing": {
        *("blas", "columns", "cvplus", "inputs", "selection", "solvers", "expansion", "kernels", "archive", "_version"),
    },
    "planning": {
        *("cvplus",),
        *("parameters", "guard", "learning", "folds", "selection", "progress", "moments"),
        *("solvers", "expansion", "kernels"),
    },
    "regressor": {
        *("blas", "doubts", "ranges"),
        *("large", "blockwise", "rows", "sources", "inputs", "storing", "cvplus", "warning"),
        *("planning", "parameters", "learning", "folds", "progress", "moments", "columns", "intervals"),
        *("solvers", "expansion", "kernels", "archive", "memory"),
    },
    "cluster": {"blas", "kernels", "sources", "rows", "columns"},
    "distributed": {"cluster", "regressor", "sources", "progress"},
    "baselines": {
        *("blas",),
        *("regressor", "planning", "parameters", "learning", "folds", "moments", "solvers", "expansion", "kernels"),
        *("columns", "guard", "memory", "jsonable", "explain"),
    },
    "paper": {"blas", "baselines", "files", "regressor", "selection", "solvers", "expansion", "kernels"},
    "cli": {
        *("baselines", "paper", "explain", "regressor", "tables", "archive", "files", "memory", "jsonable", "__init__"),
        *("moments", "ranges"),
    },
    "explain": {
        *("columns", "expansion", "moments", "kernels", "blas", "memory", "files", "jsonable", "warning", "_version"),
        "ranges",
    },
    "__init__": {"regressor", "selection", "expansion", "kernels", "_version"},
}


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
    assert layer in ARROWS, f"{layer} is new: give it a place in ARROWS and in docs/design.md"
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
