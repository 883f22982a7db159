"""Check the words of docstrings, comments and test names by the rules that a program can check.

    python tools/words.py [--all] [PATH ...]

The first sentence of a docstring
1. opens with a verb or a noun phrase: not with a preposition, a question word, a pronoun, an exception, a participle
   ("Shuffled, so that ...") or a verb in the third person ("Returns ..."); "Whether ..." may open a predicate;
2. opens with a word: a formula may lead only if a colon and an explanation follow, and a bare shape never leads;
3. has at least three words, and its paragraph ends with a full stop, or with a colon if more follows.
Comments do not open with the words of LOOSE, and neither docstrings nor comments hold a phrase of COINAGES. Test names
have at least two words after ``test_``. Each failure is printed as file:line, rule and text (without --all at most
SHOWN per kind). The exit code is 1 if more than LIMIT of the docstrings, of the comments or of the test names fail.
Without PATH, all of src/salsa and the test names of tests/ are checked.
"""

import argparse
import ast
import io
import re
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

LIMIT = 0.02
SHOWN = 20


def _any_of(words: str) -> str:
    return rf"(?:{'|'.join(words.split())})(?![\w'-])"


LOOSE = r"(?:of|where|what|that|the same)\b"
OPENINGS = _any_of(
    "whatever whichever which who how when while if unless until because so also and but or not than such exactly only "
    "enough with without within from in into on at by for as to before after between over about per among like through "
    "those these it its they their them none nothing nobody something [a-z]*error returns gives makes gets takes reads "
    "writes ends says tells finds computes checks raises calls keeps counts"
)
PARTICIPLE = (
    r"(?:[a-z]+ed|told|written|found|given|taken|drawn|made|kept|held|read|spread|done)(?:,| "
    + _any_of("by at in on to so as once only with without about again evenly from for into over when where")
    + ")"
)
SHAPE = r"\([^()]*,[^()]*\)"
FORMULA = r"[^A-Z`]|[B-Z](?![\w'-])|[A-Z][a-z]?[_^(\[|]"
EXPLAINED = r": .*[a-z]{2,} .*[a-z]{2,}"
COINAGES = (
    r"beside (?:the )?memory|(?:large|small) beside|what there is|says? nothing|are (?-i:none)|learned nothing|"
    r"(?:that|those) of\b|what (?:\w+ )?\w+ leaves?\b|cannot be meant|is no news|there are such|next to nothing"
)
Documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


class Text(NamedTuple):
    """A docstring, comment or test name, and the place where it stands."""

    kind: str
    path: Path
    line: int
    words: str

    def broken_rule(self) -> str | None:
        """Return the first rule that the text breaks, or None."""
        return {"docstring": docstring_rule, "comment": comment_rule, "test name": name_rule}[self.kind](self.words)


def docstring_rule(text: str) -> str | None:
    paragraph = re.split(r"\n\s*\n", text.strip())[0]
    line, sentence = paragraph.splitlines()[0], re.split(r"(?<=[.?!])\s+(?=[A-Z`])", paragraph)[0]
    if re.match(f"{LOOSE}|{OPENINGS}|{PARTICIPLE}", sentence, re.IGNORECASE):
        return "open with a verb or a noun phrase"
    if re.match(SHAPE, sentence):
        return "say what has this shape"
    if re.match(FORMULA, sentence) and not re.search(EXPLAINED, sentence, re.DOTALL):
        return "explain the formula after a colon, or open with a word"
    if len(sentence.split()) < 3:
        return "write at least three words"
    if not any(part.endswith("." if part == text.strip() else (".", ":")) for part in (line, paragraph)):
        return "end the first paragraph with a full stop"
    return coinage(text)


def comment_rule(text: str) -> str | None:
    return "open with a subject or a verb" if re.match(LOOSE, text, re.IGNORECASE) else coinage(text)


def name_rule(name: str) -> str | None:
    return None if "_" in name.removeprefix("test_") else "say what must hold"


def coinage(text: str) -> str | None:
    found = re.search(COINAGES, " ".join(text.split()), re.IGNORECASE)
    return f"write {found[0]!r} in usual terms" if found else None


def texts(path: Path) -> Iterator[Text]:
    """Yield the docstrings, test names and comments of a Python file."""
    source = path.read_text(encoding="utf-8")
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, Documented) and (docstring := ast.get_docstring(node)):
            yield Text("docstring", path, node.body[0].lineno, docstring)
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            yield Text("test name", path, node.lineno, node.name)
    for line, comment in comments(source).items():
        yield Text("comment", path, line, comment)


def comments(source: str) -> dict[int, str]:
    """Return the comments by their first line; lines that contain only a comment are joined to the comment above."""
    found: dict[int, str] = {}
    first = last = (-1, -1)  # line and column of the first and of the latest line of a comment
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            row, column = token.start
            follows = (row - 1, column) == last and not token.line[:column].strip()
            first, last = first if follows else token.start, token.start
            found[first[0]] = f"{found.get(first[0], '')} {token.string.lstrip('#! ')}".strip()
    return found


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="*", type=Path, metavar="PATH", help="default: src/salsa, and names in tests")
    parser.add_argument("--all", action="store_true", help="print all failures")
    options = parser.parse_args(arguments)
    folders = options.paths or [Path("src/salsa"), Path("tests")]
    total, failed = Counter[str](), Counter[str]()
    for path in sorted(path for folder in folders for path in (folder.rglob("*.py") if folder.is_dir() else [folder])):
        for text in texts(path):
            if not options.paths and path.parts[0] == "tests" and text.kind != "test name":
                continue
            total[text.kind] += 1
            if rule := text.broken_rule():
                failed[text.kind] += 1
                if options.all or failed[text.kind] <= SHOWN:
                    print(f"{text.path}:{text.line}: {rule}: {text.words.splitlines()[0]}")
    for kind, count in total.items():
        print(f"{failed[kind]} of {count} {kind}s fail ({failed[kind] / count:.1%}; the limit is {LIMIT:.0%})")
    return int(any(failed[kind] > LIMIT * count for kind, count in total.items()))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
