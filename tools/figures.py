"""Compare the figures of README.md and docs/ with the result files that they quote, or write them anew.

    python tools/figures.py --check      print every figure, caption or result file that fails; part of `make lint`
    python tools/figures.py --write      put the figures of the files into the pages
    python tools/figures.py --unbound    print the tables with decimal numbers that no file is named for

docs/results/register.toml has an entry for every file of docs/results: the command that makes it, the date, commit and
machine of the measurement, and the key columns, which tell its rows apart. A page names a figure in one of two ways:

1. A comment behind a number, `0.61<!-- =parity.R2[4; salsa] -->`: column R2 of parity.csv, where the key columns are 4
   and salsa.
2. A comment above a table, `<!-- table: parity | k | R2[salsa] | R2[LightGBM] -->`: what each column of the table
   shows. A key column takes its key from the cell (or from a comment in the cell, or from the cell above if it is
   empty). `R2[salsa]` has the other keys; `speed.seconds` is in another file. An empty place is text, which is not
   compared, and neither is an empty cell. Without places the table has the columns of the file. A line with date and
   command follows the comment.

A page may print fewer digits than the file. A number before % is 100 times the number in the file; a value that is no
number is compared as text. The check fails where

- a number is not the one of the file at the printed precision, or file, column, row or caption are missing;
- a file has no entry in the register;
- a file is stale: two releases of CHANGELOG.md contain code that it measures and that is newer than the measurement;
- a file is older than a file that it is computed from;
- a page of the list `complete` has a table with a decimal number that is bound to no file.
"""

import argparse
import csv
import difflib
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import date
from functools import cached_property
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
DIGITS = r"\d{1,3}(?: \d{3})+(?![\d.])|\d+(?:\.\d+)?(?:e[-+]?\d+)?"
NUMBER = re.compile(rf"(?<![\w.])[-−]?(?:{DIGITS})(?![\w]*\d)")
COMMENT = re.compile(r"<!--.*?-->")
QUOTED = re.compile(rf"(?<![\w.])(?P<number>[-−]?(?:{DIGITS}))(?P<unit>[^\d<>|]*)<!-- =(?P<place>.+?) -->")
PLACE = re.compile(r"(?P<name>[\w-]+)\.(?P<column>[^\[\]]+?)(?:\[(?P<keys>.*)\])?$")
TABLE = re.compile(r"<!-- table: (?P<name>[\w-]+)(?P<columns>(?: ?\|.*)?) -->$")
INDEX = "<!-- index of results -->"


class MissingError(LookupError):
    """A file, column, row or number that a page names and that is not there."""


@dataclass(frozen=True)
class Result:
    """One result file: its entry in the register, and its rows."""

    name: str
    path: Path
    command: str
    date: date
    commit: str
    machine: str
    keys: list[str] = field(default_factory=list)
    code: list[str] = field(default_factory=list)
    makes: str = ""
    by_hand: bool = False

    @property
    def shown_command(self) -> str:
        """Return the command without the place for its file."""
        return re.sub(r" --\w+ \{\w+\}\S*", "", self.command)

    @property
    def caption(self) -> str:
        return f"*Measured on {self.date.day} {self.date:%B %Y} by `{self.shown_command}`.*"

    @property
    def measured_code(self) -> list[str]:
        """Return the paths that the figures depend on: by default the library and the programs of the command."""
        return self.code or ["src", *re.findall(r"\b(?:benchmarks|tools|examples)/[\w/]+\.py", self.command)]

    @property
    def inputs(self) -> list[str]:
        """Return the names of the result files that this one is computed from."""
        return re.findall(r"docs/results/(\w+)\.csv", " ".join([self.command, *self.code]))

    @cached_property
    def rows(self) -> list[dict[str, str]]:
        """Return the rows; a fit that failed has another row if it was repeated."""
        if not self.path.exists():
            raise MissingError(f"{self.path.name} is missing; `{self.command}` makes it")
        with self.path.open(encoding="utf-8", newline="") as file:
            return [row for row in csv.DictReader(file) if row.get("status") != "failed"]

    @property
    def columns(self) -> list[str]:
        return list(self.rows[0]) if self.rows else []

    def value(self, column: str, keys: list[str]) -> str:
        """Return the cell in a column and in the only row that has these keys."""
        if column not in self.columns:
            raise MissingError(f"{self.path.name} has no column {column!r}: {', '.join(self.columns)}")
        found = [row for row in self.rows if all(map(same, (row[key] for key in self.keys), keys))]
        if len(keys) != len(self.keys) or len(found) != 1:
            raise MissingError(f"{self.path.name} has {len(found)} rows with {self.keys} = {keys}")
        return found[0][column]


def same(value: str, key: str) -> bool:
    """Whether two keys are equal as numbers or as text."""
    numbers = as_number(value), as_number(key)
    return value == key if None in numbers else numbers[0] == numbers[1]


def number_of(text: str) -> float:
    return float(text.replace("−", "-").replace(" ", ""))


def as_number(text: str) -> float | None:
    return number_of(text) if NUMBER.fullmatch(text.strip()) else None


def rounded(value: float, like: str) -> str:
    """Write a value with the decimals, exponent and groups of thousands of another number."""
    mantissa, exponent, _ = like.partition("e")
    decimals = len(mantissa.partition(".")[2])
    groups = "," if " " in like and abs(value) >= 10_000 else ""
    text = f"{value:{groups}.{decimals}{exponent or 'f'}}".replace(",", " ")
    text = re.sub(r"e([-+])0*", lambda sign: "e" + sign[1].strip("+"), text)
    return text if number_of(text) else text.lstrip("-")


def agree(value: float, text: str) -> bool:
    """Whether a printed number is the value, rounded either way at a half."""
    mantissa, _, exponent = text.partition("e")
    half = 0.5 * 10.0 ** (int(exponent or 0) - len(mantissa.partition(".")[2]))
    return abs(value - number_of(text)) <= half * (1 + 1e-9)


def figure(number: str, unit: str, value: str) -> str:
    """Return the number if it is the value at its precision, else the value with this precision."""
    exact = as_number(value)
    if exact is None:
        raise MissingError(f"{value!r} is no number")
    exact *= 100 if unit.lstrip(" *").startswith("%") else 1
    return number if agree(exact, number) else rounded(exact, number)


def plain(cell: str) -> str:
    """Return the text of a cell without emphasis, code marks, links and comments."""
    return re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", re.sub(r"<!--.*?-->|[*`]", "", cell)).strip()


def written(cell: str, value: str) -> str:
    """Return a cell of a table with the value of the file in place of its number or its text."""
    if "<!-- =" in cell:  # bound by its own comment
        return cell
    if as_number(value) is None:
        return cell if plain(cell) == value else f" {value} "
    numbers = list(NUMBER.finditer(cell))
    if len(numbers) != 1:
        raise MissingError(f"{cell.strip()!r} should have one number, {value}")
    (number,) = numbers
    new = figure(number[0], cell[number.end() :], value)
    return cell[: number.start()] + new + cell[number.end() :]


def key_of(cell: str) -> str:
    """Return the key in a cell: its comment, or its text."""
    comment = re.search(r"<!-- (?!=)(.*?) -->", cell)
    return comment[1] if comment else plain(cell)


def cells_of(line: str) -> list[str]:
    return re.split(r"(?<!\\)\|", line.strip())[1:-1]


class Page:
    """A page while it is compared: new lines and problems."""

    def __init__(self, text: str, results: dict[str, Result]) -> None:
        self.lines, self.results = text.splitlines(), results
        self.new: list[str] = []
        self.problems: list[tuple[int, str]] = []
        self.named: set[str] = set()
        self.unbound: list[int] = []
        self._read()

    def _read(self) -> None:
        at, fenced = 0, False
        while at < len(self.lines):
            line = self.lines[at]
            fenced ^= line.lstrip().startswith("```")
            if fenced:
                self.new.append(line)
            elif marker := TABLE.match(line):
                at = self._table(at, marker)
            elif line == INDEX:
                at = self._index(at)
            else:
                self._line(at, line)
            at += 1

    def result(self, name: str) -> Result:
        if name not in self.results:
            raise MissingError(f"{name} is not in the register")
        self.named.add(name)
        return self.results[name]

    def _line(self, at: int, line: str) -> None:
        """Take a line outside marked tables: only numbers with a comment are compared."""
        bare = COMMENT.sub("", QUOTED.sub("", line))
        if line.startswith("|") and re.search(r"(?<![\w.])\d+\.\d", re.sub(r"`[^`]*`", "", bare)):
            self.unbound.append(at + 1)
        pieces = re.split(r"(`[^`]*`)", line)  # text, code, text, ...
        pieces[::2] = [QUOTED.sub(lambda quoted: self._quoted(at, quoted), text) for text in pieces[::2]]
        self.new.append("".join(pieces))
        if any(text.count("<!-- =") > len(QUOTED.findall(text)) for text in pieces[::2]):
            self.problems.append((at + 1, "a comment `<!-- =...` does not follow a number"))

    def _quoted(self, at: int, quoted: re.Match[str]) -> str:
        number, unit, place = quoted["number"], quoted["unit"], quoted["place"]
        try:
            if not (parts := PLACE.match(place)):
                raise MissingError(f"{place!r} is not name.column[keys]")
            keys = [key.strip() for key in parts["keys"].split(";")] if parts["keys"] else []
            number = figure(number, unit, self.result(parts["name"]).value(parts["column"], keys))
        except MissingError as missing:
            self.problems.append((at + 1, str(missing)))
        return f"{number}{unit}<!-- ={place} -->"

    def _table(self, at: int, marker: re.Match[str]) -> int:
        """Take the lines of a marked table, with its caption; return the place of the last one."""
        first = next((i for i in range(at + 1, len(self.lines)) if self.lines[i].startswith("|")), len(self.lines))
        last = first
        while last + 1 < len(self.lines) and self.lines[last + 1].startswith("|"):
            last += 1
        try:
            result = self.result(marker["name"])
            columns = [part.strip() for part in marker["columns"].split("|")[1:]] or result.columns
            between = [line for line in self.lines[at + 1 : first] if line and not line.startswith("*Measured on ")]
            if between or first == len(self.lines):
                raise MissingError(f"a table must follow the comment on {result.name}")
        except MissingError as missing:
            self.problems.append((at + 1, str(missing)))
            self.new += self.lines[at : last + 1]
            return last
        self.new += [self.lines[at], result.caption, "", *self.lines[first : first + 2]]
        keys: dict[str, str] = {}
        for i in range(first + 2, last + 1):
            self.new.append(self._row(i, result, columns, keys))
        return last

    def _row(self, at: int, result: Result, columns: list[str], keys: dict[str, str]) -> str:
        """Return a row of a table with the figures of the file; keys are those of the row above, and are replaced."""
        cells = cells_of(self.lines[at])
        if len(cells) != len(columns):
            self.problems.append((at + 1, f"{len(cells)} cells for {len(columns)} columns: {' | '.join(columns)}"))
            return self.lines[at]
        for cell, column in zip(cells, columns, strict=True):
            if column in result.keys and (key_of(cell) or column not in keys):
                keys[column] = key_of(cell)
        new = []
        for cell, column in zip(cells, columns, strict=True):
            try:
                text = plain(cell) in ("", "-") or not column or column in result.keys
                new.append(cell if text else self._cell(cell, column, result, keys))
            except MissingError as missing:
                self.problems.append((at + 1, str(missing)))
                new.append(cell)
        return f"|{'|'.join(new)}|"

    def _cell(self, cell: str, column: str, result: Result, keys: dict[str, str]) -> str:
        name, _, given = column.rstrip("]").partition("[")
        file, dot, rest = name.partition(".")
        if dot and file in self.results:
            result, name = self.result(file), rest
        others = iter(key.strip() for key in given.split(";"))
        return written(
            cell, result.value(name, [keys[key] if key in keys else next(others, "") for key in result.keys])
        )

    def _index(self, at: int) -> int:
        """Take the table of all results."""
        last = at
        while last + 1 < len(self.lines) and self.lines[last + 1].startswith("|"):
            last += 1
        self.new += [INDEX, *index_of_results(self.results)]
        return last


def index_of_results(results: dict[str, Result]) -> list[str]:
    """Return the lines of a table of all results; those that are not measured yet have neither link nor date."""
    rows = []
    for result in results.values():
        link, day = f"[{result.name}](results/{result.path.name})", f"{result.date}"
        known = [link, day, result.machine] if result.path.exists() else [result.name, "not yet", ""]
        rows.append(f"| {' | '.join(known)} | `{result.shown_command}` |")
    return ["| file | date | machine | command |", "|---|---|---|---|", *rows]


def read_register(folder: Path) -> tuple[dict[str, Result], dict[str, Any]]:
    """Return the results of a folder by name, and the register as it stands."""
    register = tomllib.loads((folder / "register.toml").read_text(encoding="utf-8"))
    entries = register["results"].items()
    return {name: Result(name, folder / f"{name}.csv", **entry) for name, entry in entries}, register


def releases(changelog: str) -> list[date]:
    """Return the dates of the releases: headings such as `## 1.0.0 - 2026-12-01`."""
    return [date.fromisoformat(day) for day in re.findall(r"^## .*?(\d{4}-\d\d-\d\d)", changelog, re.MULTILINE)]


def first_change(paths: list[str], since: date) -> date | None:
    """Return when git first changed one of the paths after a day; this day itself if git does not know the history."""

    def git(*words: str) -> list[str]:
        return subprocess.run(["git", *words], cwd=ROOT, check=True, capture_output=True, text=True).stdout.split()

    try:
        shallow = git("rev-parse", "--is-shallow-repository") == ["true"]
        days = git("log", "--reverse", "--format=%cs", f"--since={since} 23:59:59", "--", *paths)
    except (OSError, subprocess.CalledProcessError):
        return since
    if shallow:  # a checkout without its history, as in CI
        return since
    return date.fromisoformat(days[0]) if days else None


def is_stale(result: Result, released: list[date], change: date | None) -> bool:
    """Whether two releases contain code that changed after the measurement."""
    return change is not None and sum(day > result.date and day >= change for day in released) > 1


def problems_of_files(results: dict[str, Result], folder: Path, released: list[date]) -> Iterator[str]:
    for path in sorted(folder.glob("*.csv")):
        if path.stem not in results:
            yield f"{path.name}: not in the register"
    for result in results.values():
        if not result.path.exists():  # not measured yet; a page that quotes it fails
            continue
        if missing := [key for key in result.keys if key not in result.columns]:
            yield f"{result.path.name}: no key columns {missing}"
        if len({tuple(row.get(key) for key in result.keys) for row in result.rows}) < len(result.rows):
            yield f"{result.path.name}: two rows have the same {result.keys}"
        for name in result.inputs:
            if name not in results:
                yield f"{result.path.name}: computed from {name}.csv, which is not in the register"
            elif results[name].path.exists() and results[name].date > result.date:
                yield f"{result.path.name}: older than {name}.csv, which it is computed from"
        if is_stale(result, released, first_change(result.measured_code, result.date) if len(released) > 1 else None):
            yield f"{result.path.name}: stale, two releases are newer than its date, {result.date}: make evidence"


def pages(root: Path) -> list[Path]:
    made = {"api", "gallery", "results"}
    return [root / "README.md", *(p for p in sorted(root.glob("docs/**/*.md")) if not made & set(p.parts))]


def differences(path: Path, page: Page) -> list[str]:
    """Return the lines of a page that the files would change, before and after."""
    lines = difflib.unified_diff(page.lines, page.new, n=0, lineterm="")
    return [f"{path}: {line}" for line in lines if re.match(r"[-+](?![-+]{2} )", line)]


def compare(root: Path, write: bool) -> list[str]:
    """Return the failures of all pages and result files; `write` puts the figures of the files into the pages."""
    folder = root / "docs" / "results"
    results, register = read_register(folder)
    released = releases((root / "CHANGELOG.md").read_text(encoding="utf-8"))
    failures = list(problems_of_files(results, folder, released))
    for path in pages(root):
        text, shown = path.read_text(encoding="utf-8"), path.relative_to(root)
        page = Page(text, results)
        failures += [f"{shown}:{line}: {problem}" for line, problem in page.problems]
        if shown.as_posix() in register.get("complete", []):
            failures += [f"{shown}:{line}: a table with figures is bound to no file" for line in page.unbound]
        new = "\n".join(page.new) + "\n"
        if write and new != text:
            path.write_text(new, encoding="utf-8")
        elif new != text:
            failures += differences(shown, page)
    return failures


def unbound(root: Path) -> list[str]:
    results, _ = read_register(root / "docs" / "results")
    found = [(path.relative_to(root), Page(path.read_text(encoding="utf-8"), results)) for path in pages(root)]
    return [
        f"{path}:{line}: {page.lines[line - 1][:100]}"
        for path, page in found
        for line in page.unbound
        if line - 1 not in page.unbound  # the first of the lines
    ]


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    mode = parser.add_mutually_exclusive_group(required=True)
    for name in ("check", "write", "unbound"):
        mode.add_argument(f"--{name}", action="store_true")
    options = parser.parse_args(arguments)
    lines = unbound(ROOT) if options.unbound else compare(ROOT, options.write)
    print("\n".join(lines) or "Every figure is the figure of its file.")
    return int(bool(lines) and not options.unbound)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
