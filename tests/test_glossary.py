"""docs/glossary.md: short entries in alphabetical order, each with a link to the page that uses the word."""

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parent.parent / "docs" / "glossary.md"
ENTRIES = re.findall(r"^## (.+)\n(.+)\n", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)
MOST_SENTENCES = 3  # besides the link


def test_entries_are_in_alphabetical_order():
    terms = [term.lower() for term, _ in ENTRIES]
    assert terms == sorted(set(terms))


@pytest.mark.parametrize(("term", "text"), ENTRIES, ids=[term for term, _ in ENTRIES])
def test_every_entry_is_short_and_names_the_page_that_uses_the_word(term, text):
    meaning, _, link = text.rpartition(" See ")
    assert 1 <= len(re.findall(r"\.(?= |$)", meaning)) <= MOST_SENTENCES
    assert re.fullmatch(r"\[[^\]]+\]\([\w/]+\.md(#[\w-]+)?\)\.", link)
