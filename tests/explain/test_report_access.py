"""Tests that reports are accessible (axe-core, keyboard), small, and fit on a phone and on paper."""

import numpy as np
import pandas as pd
import pytest

from explain.test_report import mixed_table, overflow, quick_model, settle
from salsa import SalsaClassifier
from salsa.explain import write_report

MOST_BYTES = 3_000_000
PAPER = 688  # pixels between the margins of A4


@pytest.fixture(scope="module")
def reports(tmp_path_factory):
    """Write reports of numbers and of classes, both with new rows, categories, missing values and interactions."""
    folder, (X, y) = tmp_path_factory.mktemp("access"), mixed_table(160)
    X["garden"] = X["noise"] > 0
    y += 50 * (X["garden"] & (X["town"] == "Bern"))
    classes = pd.Series(np.where(y > y.median(), "dear", "cheap"), name="class")
    numbers, labels = quick_model(X[:100], y[:100]), SalsaClassifier(2, relevance="equal", alpha=0.1)
    labels.fit(X[:100], classes[:100])
    return {
        "numbers": write_report(numbers, folder / "n.html", X[100:], y[100:]),
        "classes": write_report(labels, folder / "c.html", X[100:], classes[100:]),
    }


def violations(page):
    """Return the serious and critical violations that axe-core finds, with everything that can unfold unfolded."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe-playwright-python is not installed")
    page.evaluate("document.querySelectorAll('details').forEach((part) => { part.open = true; })")
    settle(page)
    found = axe.Axe().run(page).response
    assert len(found["passes"]) > 20
    bad = [part for part in found["violations"] if part["impact"] in ("serious", "critical")]
    return [(part["id"], part["help"], [node["html"][:200] for node in part["nodes"]]) for part in bad]


@pytest.mark.parametrize("look", [(1280, "light"), (1280, "dark"), (390, "light"), (390, "dark")], ids=str)
@pytest.mark.parametrize("kind", ["numbers", "classes"])
def test_axe_finds_no_serious_or_critical_violation(kind, look, open_page, reports):
    width, scheme = look
    page = open_page(reports[kind], width=width, color_scheme=scheme)
    assert violations(page) == []
    for button in page.locator(".effects .open").all()[1:4]:
        button.click()
        assert violations(page) == []


def test_axe_would_find_a_button_without_a_name(open_page, reports):
    page = open_page(reports["numbers"])
    page.evaluate("document.querySelector('main').append(document.createElement('button'))")
    assert [name for name, *_ in violations(page)] == ["button-name"]


def test_everything_can_be_reached_and_used_by_keyboard(open_page, reports):
    """The tab key visits every control in the order of the page; Enter opens an effect and unfolds the groups."""
    page = open_page(reports["numbers"])
    settle(page)
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.tagName") == "SUMMARY"
    page.keyboard.press("Enter")
    assert page.get_by_role("region", name="Groups that were checked").is_visible()
    row = page.locator(".effects .open").nth(1)
    row.focus()
    page.keyboard.press("Enter")
    assert row.get_attribute("aria-pressed") == "true"
    assert page.locator(".panel h3").inner_text() == row.inner_text()


def test_the_levels_of_a_category_are_read_aloud_with_their_effects(open_page, reports):
    page = open_page(reports["numbers"])
    page.locator(".effects").get_by_role("button", name="town", exact=True).click()
    settle(page)
    spoken = page.locator(".panel svg").get_attribute("aria-label")
    assert all(f"{level} " in spoken for level in ("Bern", "Łódź", "東京"))


@pytest.mark.parametrize("kind", ["numbers", "classes"])
def test_a_phone_and_paper_show_everything_without_scrolling_sideways(kind, open_page, reports):
    page = open_page(reports[kind], width=390, height=800, has_touch=True)
    settle(page)
    assert overflow(page) <= 0
    page.set_viewport_size({"width": PAPER, "height": 1000})
    page.emulate_media(media="print")
    settle(page)
    assert overflow(page) <= 0
    cut = "[...document.querySelectorAll('.scroll')].filter((e) => e.scrollHeight > e.clientHeight + 1).length"
    assert page.evaluate(cut) == 0
    assert page.pdf(format="A4").startswith(b"%PDF")


def test_paper_keeps_the_colours_of_legends_and_is_never_dark(open_page, reports):
    page = open_page(reports["numbers"], color_scheme="dark")
    page.emulate_media(media="print", color_scheme="dark")
    style = "getComputedStyle(document.querySelector('.legend i'))"
    assert page.evaluate(f"{style}.printColorAdjust") == "exact"
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"


def test_the_largest_page_with_a_model_has_less_than_3_megabytes(tmp_path):
    """2000 rows and 30 features are the limit of what-if panels."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 30))
    model = quick_model(X, X[:, :3].sum(axis=1) + rng.normal(size=2000))
    path = write_report(model, tmp_path / "r.html", rng.normal(size=(1500, 30)), rng.normal(size=1500))
    assert "This panel is left out" not in path.read_text(encoding="utf-8")
    assert path.stat().st_size < MOST_BYTES
