"""The check of the figures of README and docs (tools/figures.py), and their measurement (tools/evidence.py)."""

import subprocess
import sys
from datetime import date, timedelta
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tools"))

import evidence  # noqa: E402
import figures  # noqa: E402

REGISTER = """
complete = ["docs/page.md"]

[results.parity]
command = "python benchmarks/parity.py"
keys = ["k", "method"]
date = 2026-11-18
commit = "1234567"
machine = "two cores"

[results.summary]
command = "python benchmarks/parity.py docs/results/parity.csv"
keys = ["method"]
date = 2026-11-18
commit = "1234567"
machine = "two cores"
"""
PARITY = "k,method,R2,rows\n2,salsa,0.9551,20000\n4,salsa,0.6149,20000\n2,ridge,-0.0004,20000\n4,ridge,,20000\n"
PAGE = """# Parity
Salsa has 0.61<!-- =parity.R2[4; salsa] -->, which is 61 %<!-- =parity.R2[4; salsa] --> of the variance.

<!-- table: parity | k | R2[salsa] | R2[ridge] | rows[salsa] | -->
*Measured on 18 November 2026 by `python benchmarks/parity.py`.*

| k | salsa | ridge | rows | |
|---|---|---|---|---|
| two<!-- 2 --> | **0.955** | 0.00 | 20 000 | text |
| 4 | 0.6 | | 20 000 | more text |
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A repository with one page and two result files, in which every figure is right."""
    files = {
        "README.md": "# A project\n",
        "CHANGELOG.md": "# Changelog\n\n## Unreleased\n",
        "docs/page.md": PAGE,
        "docs/results/register.toml": REGISTER,
        "docs/results/parity.csv": PARITY,
        "docs/results/summary.csv": "method,mean\nsalsa,0.785\n",
    }
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    assert figures.compare(tmp_path, write=False) == []
    return tmp_path


def replaced(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def commit_all(root: Path) -> None:
    for command in (["init"], ["add", "."], ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-m", "All"]):
        subprocess.run(["git", *command], cwd=root, check=True, capture_output=True)


def test_pages_of_this_repository_agree_with_their_files() -> None:
    assert figures.compare(ROOT, write=False) == []


@pytest.mark.parametrize(
    ("right", "wrong"),
    [("has 0.61<", "has 0.62<"), ("61 %<", "0.61 %<"), ("0.955", "0.956"), ("0.00", "0.01"), ("20 000", "20 001")],
)
def test_a_wrong_number_fails_and_is_mended(root: Path, right: str, wrong: str) -> None:
    page = root / "docs" / "page.md"
    replaced(page, right, wrong)
    assert any("docs/page.md: -" in failure and wrong in failure for failure in figures.compare(root, write=False))
    figures.compare(root, write=True)
    assert figures.compare(root, write=False) == []
    if wrong != "0.61 %<":  # whose digits it keeps: 61.49 %
        assert page.read_text() == PAGE


@pytest.mark.parametrize(
    ("name", "old", "new", "problem"),
    [
        ("page.md", "=parity.R2[4;", "=party.R2[4;", "party is not in the register"),
        ("page.md", "=parity.R2[4;", "=parity.R3[4;", "no column 'R3'"),
        ("page.md", "=parity.R2[4;", "=parity.R2[6;", "0 rows"),
        ("page.md", "=parity.R2[4; salsa]", "=parity.R2[4]", "2 rows"),
        ("page.md", "has 0.61<", "has <", "does not follow a number"),
        ("page.md", "0.61<!-- =parity.R2[4; salsa] -->", "0.61<!-- =parity -->", "is not name.column[keys]"),
        ("page.md", "| 0.6 | |", "| 0.6 | 0.3 |", "0.3"),
        ("page.md", "| 4 | 0.6 |", "| 5 | 0.6 |", "0 rows"),
        ("page.md", "more text |", "more text | |", "6 cells for 5 columns"),
        ("page.md", "18 November", "17 November", "Measured on 17 November"),
        ("page.md", "| 4 | 0.6", "| 4 | 0.6 or 0.7", "should have one number"),
        ("page.md", "<!-- table: parity | k | R2[salsa] | R2[ridge] | rows[salsa] | -->", "", "bound to no file"),
        ("results/parity.csv", "4,salsa", "2,salsa", "two rows have the same"),
        ("results/register.toml", "[results.parity]", "[results.other]", "parity.csv: not in the register"),
    ],
)
def test_what_has_no_source_fails(root: Path, name: str, old: str, new: str, problem: str) -> None:
    replaced(root / "docs" / name, old, new)
    assert any(problem in failure for failure in figures.compare(root, write=False))


def test_a_missing_file_fails_where_it_is_quoted(root: Path) -> None:
    (root / "docs" / "results" / "summary.csv").unlink()
    assert figures.compare(root, write=False) == []
    (root / "docs" / "results" / "parity.csv").unlink()
    assert any("parity.csv is missing" in failure for failure in figures.compare(root, write=False))


def test_a_file_fails_when_two_releases_have_newer_code(root: Path) -> None:
    first, second = date(2026, 12, 1), date(2027, 1, 1)
    result = figures.read_register(root / "docs" / "results")[0]["parity"]
    change = date(2026, 11, 20)
    assert not figures.is_stale(result, [first], change)
    assert figures.is_stale(result, [first, second], change)
    assert not figures.is_stale(result, [first, second], None)  # the code did not change
    assert not figures.is_stale(result, [first, second], date(2026, 12, 20))  # it changed after the first release

    replaced(root / "CHANGELOG.md", "## Unreleased", "## 9.1 - 2040-02-01\n\n## 9.0 - 2040-01-01")
    replaced(root / "docs" / "results" / "register.toml", "2026-11-18", "2001-01-01")
    assert sum("stale" in failure for failure in figures.compare(root, write=True)) == 2


def test_code_without_history_counts_as_changed(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(figures, "ROOT", root)
    measured = date.today() + timedelta(days=1)
    assert figures.first_change(["docs"], measured) == measured  # no repository
    commit_all(root)
    assert figures.first_change(["docs"], measured) is None
    shallow = root / "shallow"
    subprocess.run(["git", "clone", "--quiet", "--depth=1", root.as_uri(), shallow], check=True)
    monkeypatch.setattr(figures, "ROOT", shallow)
    assert figures.first_change(["docs"], measured) == measured


def test_a_file_fails_when_its_source_is_newer(root: Path) -> None:
    register = root / "docs" / "results" / "register.toml"
    register.write_text(evidence.entered(register.read_text(), "parity", date="2026-11-19"))
    failures = figures.compare(root, write=False)
    assert any("summary.csv: older than parity.csv" in failure for failure in failures)


@pytest.mark.parametrize(
    ("printed", "unit", "value", "expected"),
    [
        ("0.61", "", "0.6149", "0.61"),
        ("0.62", "", "0.6149", "0.61"),
        ("0.4", "", "0.35", "0.4"),  # a half may be rounded either way
        ("0.3", "", "0.35", "0.3"),
        ("62 000", "", "61432.7", "61 433"),
        ("-0.00", "", "-0.0004", "-0.00"),
        ("0.01", "", "-0.0004", "0.00"),
        ("1.2e-7", "", "1.34e-7", "1.3e-7"),
        ("89", " %", "0.9012", "90"),
    ],
)
def test_figures_keep_the_printed_precision(printed: str, unit: str, value: str, expected: str) -> None:
    assert figures.figure(printed, unit, value) == expected


def test_evidence_is_measured_and_written_into_the_page(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evidence, "ROOT", root)
    monkeypatch.setattr(figures, "ROOT", root)
    program = root / "benchmarks" / "parity.py"
    program.parent.mkdir()
    program.write_text(
        "import sys\nfrom pathlib import Path\n"
        "text = 'method,mean\\nsalsa,0.5\\n' if len(sys.argv) > 3 else\\\n"
        f"    {PARITY.replace('0.6149', '0.7149')!r}\n"
        "Path(sys.argv[-1]).write_text(text)\n"
    )
    commit_all(root)

    assert evidence.main(["parity"]) == 0
    assert "has 0.71<" in (root / "docs" / "page.md").read_text()
    assert (root / "docs" / "results" / "summary.csv").read_text().endswith("0.5\n")  # computed from parity.csv
    results, _ = figures.read_register(root / "docs" / "results")
    assert results["parity"].date == date.today()
    assert results["parity"].machine != "two cores"
    assert not (root / "build" / "evidence" / "parity").exists()
