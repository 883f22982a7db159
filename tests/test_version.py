"""One version number: _version.py, the installed package, the changelog and the citation agree (docs/releasing.md)."""

import re
from importlib.metadata import version as installed_version
from pathlib import Path

import pytest

import salsa

ROOT = Path(__file__).parent.parent
CHANGELOG = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
CITATION = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
NUMBER = r"\d+\.\d+\.\d+"


def disagreements(version: str, changelog: str, citation: str) -> list[str]:
    """Return the mistakes that a release, or the way to one, would have."""
    found = []
    if not re.fullmatch(NUMBER + r"((a|b|rc)\d+)?(\.dev0)?", version):
        found.append("form of the version")
    sections = re.findall(r"^## (.*)$", changelog, re.MULTILINE)
    releases = [re.fullmatch(rf"({NUMBER}) - (\d{{4}}-\d\d-\d\d)", section) for section in sections]
    if version.endswith(".dev0") != (sections[0] == "Unreleased"):
        found.append("Unreleased is the first section between releases, and only then")
    releases = releases[1:] if sections[0] == "Unreleased" else releases
    if not all(releases):
        found.append("sections are called like 1.2.3 - 2026-01-31")
        return found
    numbers = [tuple(map(int, release[1].split("."))) for release in releases]
    if numbers != sorted(set(numbers), reverse=True):
        found.append("order of the sections")
    if not version.endswith(".dev0") and (not releases or releases[0][1] != version):
        found.append("a section for this version")
    cited = re.findall(r"^(version|date-released): (.*)$", citation, re.MULTILINE)
    last = [("version", releases[0][1]), ("date-released", releases[0][2])] if releases else []
    if sorted(cited) != sorted(last):
        found.append("the citation is of the last release")
    return found


def test_version_changelog_and_citation_agree():
    assert disagreements(salsa.__version__, CHANGELOG, CITATION) == []


def test_the_installed_package_has_this_version():
    assert installed_version("salsa-learn") == salsa.__version__


RELEASED = "# Changelog\n\n## 1.2.0 - 2026-02-01\n\n## 1.1.0 - 2026-01-01\n"
CITED = "version: 1.2.0\ndate-released: 2026-02-01\n"


def test_a_release_and_its_development_version_are_right():
    assert disagreements("1.2.0", RELEASED, CITED) == []
    assert disagreements("1.3.0.dev0", RELEASED.replace("## 1.2", "## Unreleased\n\n## 1.2"), CITED) == []


@pytest.mark.parametrize(
    ("version", "changelog", "citation"),
    [
        ("1.2", RELEASED, CITED),
        ("1.3.0", RELEASED, CITED),
        ("1.3.0.dev0", RELEASED, CITED),
        ("1.2.0", RELEASED.replace("## 1.2", "## Unreleased\n\n## 1.2"), CITED),
        ("1.2.0", RELEASED.replace(" - 2026-02-01", ""), CITED),
        ("1.2.0", RELEASED.replace("1.1.0", "1.10.0"), CITED),
        ("1.2.0", RELEASED, CITED.replace("2026-02-01", "2026-02-02")),
        ("1.2.0", RELEASED, ""),
    ],
)
def test_mistakes_are_found(version, changelog, citation):
    assert disagreements(version, changelog, citation)
