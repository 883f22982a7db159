"""The pages: links lead somewhere, each page belongs to one of the two parts, and searched words are prominent."""

import re
from functools import cache
from itertools import chain, pairwise
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PARTS = ("users", "developers")
PAGES = sorted(path for path in DOCS.glob("**/*.md") if not path.relative_to(DOCS).parts[0].startswith("_"))
LINKING = [ROOT / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md")] + PAGES
FIRST_LINES = 2  # paragraphs below the title that count as prominent

#: What people type into the search of the site, and the page whose title, headings or first lines must have the words
SEARCHED = {
    "categorical": "tables",
    "confidence interval": "trust",
    "feature importance": "explain",
    "GPU": "scale",
    "imbalanced": "targets",
    "install": "tutorial",
    "missing values": "tables",
    "monotone": "knowledge",
    "overfitting": "trust",
    "parameters": "parameters",
    "prediction interval": "trust",
    "time series": "limits",
    "too slow": "scale",
}


@cache
def parsed(page):
    return MarkdownIt().enable("table").parse(page.read_text(encoding="utf-8"))


def headings(page):
    """Return the texts of all headings."""
    tokens = parsed(page)
    return [text.content for opening, text in pairwise(tokens) if opening.type == "heading_open"]


@cache
def anchors(page):
    """Return the anchors of all headings, as GitHub and MyST name them."""
    texts = [re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", text) for text in headings(page)]
    return {re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-") for text in texts}


def links(page):
    """Return the targets of links to files of this repository."""
    children = chain.from_iterable(token.children or () for token in parsed(page))
    targets = [child.attrs.get("href") or child.attrs.get("src") for child in children]
    return [target for target in targets if target and not re.match(r"[a-z]+:", target)]


def children(page):
    """Return the pages in the toctrees of a page."""
    blocks = re.findall(r"```\{toctree\}\n(.*?)```", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    names = [name for block in blocks for name in re.findall(r"^(?!:)(\S+)$", block, flags=re.MULTILINE)]
    return [page.parent / f"{name}.md" for name in names]


def below(page):
    """Return all pages below a page of the navigation; the gallery is made when the site is built."""
    found = [child for child in children(page) if child.exists()]
    return [*found, *chain.from_iterable(below(child) for child in found)]


@pytest.mark.parametrize("page", [pytest.param(page, id=str(page.relative_to(ROOT))) for page in LINKING])
def test_links_lead_to_files_and_headings(page):
    for link in links(page):
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        assert target.exists(), link
        assert not anchor or target.suffix != ".md" or anchor in anchors(target), link


def test_every_page_is_in_one_place_of_one_part():
    pages = chain.from_iterable(below(DOCS / f"{part}.md") for part in PARTS)
    expected = [page for page in PAGES if page.stem not in {"index", *PARTS} or page.parent != DOCS]
    assert sorted(pages) == expected


@pytest.mark.parametrize(("words", "page"), SEARCHED.items())
def test_searched_words_are_prominent_on_their_page(words, page):
    path = DOCS / f"{page}.md"
    first = [token.content for token in parsed(path) if token.type == "inline" and token.level == 1]
    paragraphs = [text for text in first if text not in headings(path)][:FIRST_LINES]
    assert any(words.lower() in text.lower() for text in (*headings(path), *paragraphs))
