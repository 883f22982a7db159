"""Sizes of files and functions, and how much of them is docstrings: the row of the table in CONTRIBUTING.md.

python tools/sizes.py [FOLDER]
"""

import ast
import sys
from pathlib import Path
from statistics import median, quantiles

LONG = 50  # lines of a function, without its docstring
Node = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def docstring_lines(node: Node) -> int:
    first = node.body[0] if node.body else None
    return 0 if first is None or ast.get_docstring(node) is None else first.end_lineno - first.lineno + 1


def main(folder: Path) -> None:
    paths = [path for path in sorted(folder.rglob("*.py")) if "tests" not in path.parts]
    texts = [text for path in paths if (text := path.read_text(encoding="utf-8"))]
    nodes = [node for text in texts for node in ast.walk(ast.parse(text)) if isinstance(node, Node)]
    functions = [node for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    files = [len(text.splitlines()) for text in texts]
    lengths = [node.end_lineno - node.lineno + 1 - docstring_lines(node) for node in functions]
    documented = sum(map(docstring_lines, nodes)) / sum(files)
    print(
        f"| {folder.name} | {median(files):.0f} / {max(files)} "
        f"| {median(lengths):.0f} / {quantiles(lengths, n=10)[-1]:.0f} / {max(lengths)} "
        f"| {sum(length > LONG for length in lengths) / len(lengths):.1%} | {documented:.0%} |"
    )


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "src/salsa"))
