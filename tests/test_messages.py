"""docs/messages.md has every note and warning of the source, and quotes no message that the source does not have.

The texts of notes and warnings are found by following the syntax tree: from what is given to a warning or put into
notes, through local names, constants and functions that return texts, to string literals.
"""

import ast
import re
from collections import defaultdict
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "salsa"
PAGE = ROOT / "docs" / "messages.md"
NOTES = {"note", "notes", "doubts"}  # names that hold notes, and ends of names of functions that return notes
WARN = ("warn_user", "warn")
FEWEST_WORDS = 3  # of the longest constant part of a text; shorter texts are names and units
ELSEWHERE = (  # notes that are no messages: sentences and captions of the report and of figures, columns of tables
    "explain/report/",
    "paper/",
    "baselines/registry.py",
    "baselines/classifiers.py",
)
#: One text from every place that notes and warnings come from: the test must find at least these
KNOWN = (
    "values not seen in training, such as",  # a warning
    "far outside the range of the training data",  # a warning, from a method __str__
    "has no values",  # a note, from a comprehension in another module
    "it is the same in all rows",  # a part of a note, from values of a dict
    "equal relevances are kept: on held-out rows they are clearly better than learned ones",  # a constant
    "used a pseudo-inverse for a singular matrix",  # the second value of a function
    "the file is no UTF-8: it is read as Windows-1252; look at letters with accents",  # appended to a list
)


class Source:
    """The syntax trees of modules, and what their names stand for."""

    def __init__(self, modules):
        self.trees = [ast.parse(module) for module in modules]
        self.nodes = [node for tree in self.trees for node in ast.walk(tree)]
        self.functions, self.constants = defaultdict(list), defaultdict(list)  # modules may use the same names
        self.classes, self.around = {}, {}  # the innermost function around a node
        for node in self.nodes:
            if isinstance(node, ast.FunctionDef):
                self.functions[node.name].append(node)
                self.around |= {inner: node for inner in ast.walk(node) if inner is not node}
            elif isinstance(node, ast.ClassDef):
                self.classes[node.name] = node
        for tree in self.trees:
            for name, value in (pair for node in tree.body for pair in assigned(node)):
                self.constants[name].append(value)

    def notes_and_warnings(self):
        """Return the nodes of all string literals that notes and warnings consist of."""
        self.seen, self.found = set(), []
        for node in self.nodes:
            for value in self.starts(node):
                self.follow(value)
        return self.found

    def starts(self, node):
        """Yield what a node gives to a warning or puts into notes."""
        yield from (value for name, value in assigned(node) if name in NOTES)
        if isinstance(node, ast.FunctionDef) and node.name.split("_")[-1] in NOTES:
            yield from returned(node)
        if isinstance(node, ast.Call):
            name = name_of(node.func)
            yield from (keyword.value for keyword in node.keywords if keyword.arg in NOTES)
            yield from node.args[:1] if name in WARN else node.args if name == "with_notes" else ()
            yield from (value for field, value in zip(self.fields(name), node.args, strict=False) if field in NOTES)

    def fields(self, name):
        """Return the names of the fields of a class."""
        body = self.classes[name].body if name in self.classes else ()
        return [statement.target.id for statement in body if isinstance(statement, ast.AnnAssign)]

    def follow(self, value):
        """Add the literals in an expression, and in all that its names and calls stand for."""
        if value in self.seen:
            return
        self.seen.add(value)
        for node in ast.walk(value):
            if isinstance(node, ast.Constant | ast.JoinedStr) and parts(node):
                self.found.append(node)
            for source in self.meanings(node):
                self.follow(source)

    def meanings(self, node):
        """Yield the expressions that a name or a call stands for."""
        if isinstance(node, ast.Name):
            function = self.around.get(node)
            yield from self.constants.get(node.id, ())
            yield from () if function is None else values_of(node.id, function)
        elif isinstance(node, ast.Call):
            name = name_of(node.func)
            methods = ast.walk(self.classes[name]) if name in self.classes else ()
            shown = [method for method in methods if getattr(method, "name", "") == "__str__"]
            for function in (*self.functions[name], *shown):
                if function.returns is not None and "str" in ast.unparse(function.returns):
                    yield from returned(function)


def assigned(node):
    """Yield the names that a node gives values to, with the values: by assignment, loop, list method or dict."""
    if isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign | ast.NamedExpr) and node.value is not None:
        for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
            pairs = [(target, node.value)]
            if isinstance(target, ast.Tuple):
                apart = isinstance(node.value, ast.Tuple) and len(node.value.elts) == len(target.elts)
                pairs = [(name, node.value.elts[k] if apart else node.value) for k, name in enumerate(target.elts)]
            yield from ((name_of(name), value) for name, value in pairs)
    elif isinstance(node, ast.For | ast.comprehension):
        yield from ((name.id, node.iter) for name in ast.walk(node.target) if isinstance(name, ast.Name))
    elif isinstance(node, ast.Call) and name_of(node.func) in ("append", "extend", "update"):
        yield from ((name_of(node.func.value), value) for value in node.args)
    elif isinstance(node, ast.Dict):
        keys = [key.value if isinstance(key, ast.Constant) else None for key in node.keys]
        yield from zip(keys, node.values, strict=True)


def values_of(name, function):
    """Yield all values that a function gives to a name."""
    return (value for node in ast.walk(function) for target, value in assigned(node) if target == name)


def name_of(node):
    """Return the last word of a name, an attribute or an item of one of these; None for other expressions."""
    if isinstance(node, ast.Subscript):
        return name_of(node.value)
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else None


def returned(function):
    return [node.value for node in ast.walk(function) if isinstance(node, ast.Return | ast.Yield) and node.value]


def parts(node):
    """Return the constant parts of a string or an f-string; a template of `format` is cut where values go."""
    values = node.values if isinstance(node, ast.JoinedStr) else [node]
    texts = [value.value for value in values if isinstance(value, ast.Constant) and isinstance(value.value, str)]
    return [part for text in texts for part in re.split(r"\{[^{}]*\}", text)]


def longest(node):
    return squeezed(max(parts(node), key=len)).strip(" :;,().")


def squeezed(text):
    return " ".join(text.split())


def told(source):
    """Return the longest constant part of every text of notes and warnings, but names and units."""
    texts = map(longest, source.notes_and_warnings())
    return {text for text in texts if len(text.split()) >= FEWEST_WORDS}


def modules():
    paths = {path.relative_to(SOURCE).as_posix(): path for path in sorted(SOURCE.rglob("*.py"))}
    return {name: path.read_text(encoding="utf-8") for name, path in paths.items()}


@pytest.fixture(scope="module")
def notes():
    """Return the texts of all notes and warnings that belong on the page."""
    return told(Source(text for name, text in modules().items() if not name.startswith(ELSEWHERE)))


@pytest.fixture(scope="module")
def page():
    return PAGE.read_text(encoding="utf-8")


def quoted(page):
    """Return the messages of a page: code before the line break of every entry of a list."""
    entries = re.findall(r"^- (`.*`)\\$", page, flags=re.MULTILINE)
    return [message for entry in entries for message in re.findall(r"`([^`]+)`", entry)]


def lacking(texts, page):
    return sorted(text for text in texts if text not in squeezed(page))


def pieces(message):
    """Return the parts of a quoted message between values and marks, of two words and more."""
    cut = re.split(r"""\.\.\.|[:;,()'"=]""", squeezed(message))
    return [piece.strip() for piece in cut if len(piece.split()) > 1]


def test_every_note_and_warning_is_on_the_page(notes, page):
    assert lacking(notes, page) == []


def test_every_message_of_the_page_is_in_the_source(page, literals):
    assert [message for message in quoted(page) if not pieces(message)] == []
    assert [message for message in quoted(page) if unknown(message, literals)] == []


@pytest.mark.parametrize("message", ["column ... has no legs", "the target is constantly late", "the target is orange"])
def test_a_message_that_the_source_does_not_have_is_noticed(message, literals):
    assert unknown(message, literals)


@pytest.fixture(scope="module")
def literals():
    """Return the constant parts of all strings of the source."""
    nodes = (node for node in Source(modules().values()).nodes if isinstance(node, ast.Constant | ast.JoinedStr))
    return {squeezed(part) for node in nodes for part in parts(node)}


def unknown(message, texts):
    return [piece for piece in pieces(message) if not is_in(piece, texts)]


def is_in(piece, texts):
    """Return whether the source has a piece, as a whole or as two parts, since a value may be a word such as "rows"."""
    words = piece.split()
    cuts = [[" ".join(part) for part in (words[:k], words[k:]) if part] for k in range(len(words))]
    return any(all(is_part(part, texts) for part in cut) for cut in cuts)


def is_part(part, texts):
    """Return whether a text has this part; a single word must be a text by itself."""
    return part in texts if " " not in part else any(part in text for text in texts)


def test_every_entry_says_what_the_message_means(page):
    entries = re.findall(r"^- `.*`\\\n(.*)", page, flags=re.MULTILINE)
    assert len(entries) == len(re.findall(r"^- `", page, flags=re.MULTILINE))
    assert all(re.match(r"  \S.*\.$", meaning) for meaning in entries)


def test_no_message_has_two_entries(page):
    messages = quoted(page)
    assert sorted(messages) == sorted(set(messages))


@pytest.mark.parametrize("text", KNOWN)
def test_known_messages_are_found_in_the_source(notes, text):
    assert text in notes


@pytest.mark.parametrize(
    "module",
    [
        "def f(n):\n    warn_user(f'{n} cats are in the table')",
        "def f(n):\n    warnings.warn(f'{n} cats are in the table', FutureWarning)",
        "CATS = 'cats are in the table'\ndef f(search):\n    return search.with_notes(CATS)",
        "def f(rows):\n    notes = [f'{cat}: cats are in the table' for cat in rows]",
        "def f(rows):\n    if rows:\n        rows.notes.append('cats are in the table')",
        "def cat_notes(n):\n    what = f'{n} cats are in the table'\n    return [f'{what}: {n}']",
        "class Plan(NamedTuple):\n    n: int\n    note: str\ndef f():\n    return Plan(1, 'cats are in the table')",
        "def g() -> str:\n    return 'cats are in the table'\ndef f():\n    return Search(notes=(g(),))",
    ],
)
def test_a_new_note_is_missed_on_the_page(module, page):
    assert lacking(told(Source([module])), page) == ["cats are in the table"]
