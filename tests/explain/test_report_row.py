"""Tests of the page of one row: its numbers, its address, and that it shows and prints nothing else."""

import numpy as np
import pandas as pd
import pytest

from explain.test_report import HOSTILE, mixed_table, overflow, payload_of, quick_model, settle
from explain.test_report_access import violations
from salsa import SalsaClassifier
from salsa.explain import shapley, write_report


@pytest.fixture(scope="module")
def homes(tmp_path_factory):
    """Return a model, rows that it has not seen, and its report on these rows."""
    X, y = mixed_table(130)
    model = quick_model(X[:100], y[:100])
    return model, X[100:], write_report(model, tmp_path_factory.mktemp("row") / "r.html", X[100:], y[100:])


def go(page, address):
    """Follow an address within the page."""
    page.evaluate("(address) => { location.hash = address; }", address)
    settle(page)
    settle(page)


def number_of(text):
    return float(text.replace("−", "-").replace(",", ""))


def table_of(page):
    rows = page.locator(".row-values tbody tr").all()
    return {row.locator("th").inner_text(): row.locator("td").all_inner_texts() for row in rows}


def test_the_page_of_a_row_has_its_contributions_values_and_interval(open_page, homes):
    model, X, path = homes
    page = open_page(path)
    for place in (1, 7, 20):
        go(page, f"row={place}")
        row = X.iloc[[place - 1]]
        assert float(page.locator(".prediction").get_attribute("data-value")) == pytest.approx(model.predict(row)[0])
        expected = dict(zip(X.columns, shapley(model, row).values[0], strict=True))
        found = table_of(page)
        for name, (*_, contribution) in found.items():
            assert number_of(contribution) == pytest.approx(expected[name], rel=0.01)
        assert found["town"][0] == row["town"].item()
        assert list(found) == sorted(expected, key=lambda name: -abs(expected[name]))
        low, high = model.predict_interval(row, 0.9)[0]
        ends = page.locator(".interval").inner_text().split("values: ")[1].rstrip(".").split(" to ")
        assert [number_of(end) for end in ends] == pytest.approx([low, high], rel=1e-3)


@pytest.mark.parametrize("transform", ["log", "log1p", "sqrt"])
def test_the_prediction_of_a_transformed_target_is_in_its_units(transform, open_page, tmp_path):
    X, y = mixed_table(80)
    model = quick_model(X[:60], np.exp(y[:60] / np.ptp(y)), target_transform=transform)
    page = open_page(write_report(model, tmp_path / "r.html", X[60:]))
    go(page, "row=2")
    shown = page.locator(".prediction")
    assert float(shown.get_attribute("data-response")) == pytest.approx(model.predict(X[61:62])[0], rel=1e-9)
    assert number_of(shown.inner_text()) == pytest.approx(model.predict(X[61:62])[0], rel=1e-3)
    assert f"{transform} of the target: " in page.locator(".probabilities").inner_text().lower()
    assert f"on the scale of the model, the {transform} of the target" in page.locator(".row-page").inner_text()


def test_the_address_of_a_row_shows_the_row_alone_and_any_other_the_report(open_page, homes):
    page = open_page(homes[2])
    shown = "[...document.querySelectorAll('main > section')].filter((s) => s.offsetParent).map((s) => s.id)"
    assert len(page.evaluate(shown)) == 8
    go(page, "row=2")
    assert page.evaluate(shown) == ["what-if"]
    assert page.get_by_role("heading", level=2).all_inner_texts() == ["Why this prediction"]
    assert not page.locator(".controls").is_visible()
    page.emulate_media(media="print")
    assert page.evaluate(shown) == ["what-if"]
    assert page.locator(".row-values").is_visible()
    page.emulate_media(media="screen")
    page.get_by_role("link", name="Show the whole report").click()
    settle(page)
    assert len(page.evaluate(shown)) == 8
    assert page.locator("#what-if h2").inner_text() == "What if"


def test_the_link_of_changed_values_opens_the_same_prediction(open_page, homes):
    page = open_page(homes[2])
    page.get_by_label("Start from").select_option("3")
    page.get_by_label("size, as a number").fill("250")
    page.get_by_label("size, as a number").blur()
    page.get_by_label("town", exact=True).select_option("Łódź")
    page.locator(".controls").get_by_label("heating").select_option("missing")
    settle(page)
    prediction = page.locator(".prediction").get_attribute("data-value")
    assert "before the change" in page.locator(".interval").inner_text()
    assert "outside the range" in table_of(page)["size"][0]
    address = page.get_by_role("link", name="Link to this row").get_attribute("href")
    other = open_page(homes[2])
    go(other, address[1:])
    assert other.locator(".prediction").get_attribute("data-value") == prediction
    assert table_of(other)["heating"][0] == "missing"
    go(other, "row=3")
    assert other.locator(".prediction").get_attribute("data-value") != prediction


def test_addresses_of_rows_that_are_not_here_show_the_report(open_page, homes):
    page = open_page(homes[2])
    for address in ("row=99", "row=", "row=-1", "row=x", "row=1.5", "good"):
        go(page, address)
        assert page.locator("#good").is_visible(), address
    go(page, "row=1&.size=much&.nothing=3&.town=Nowhere")
    assert table_of(page)["town"][0] == homes[1]["town"].iloc[0]


def test_names_and_levels_of_any_letters_survive_in_an_address(open_page, tmp_path):
    rng, name = np.random.default_rng(0), "a & b=c #1%"
    X = pd.DataFrame({name: rng.choice(HOSTILE, 60), "row": rng.uniform(size=60)})
    page = open_page(write_report(quick_model(X, (X[name] == HOSTILE[0]) + X["row"]), tmp_path / "r.html"))
    page.get_by_label("Start from").select_option("1")
    for level in HOSTILE:
        page.locator(".controls").get_by_label(name, exact=True).select_option(level)
        settle(page)
        prediction = page.locator(".prediction").get_attribute("data-value")
        address = page.get_by_role("link", name="Link to this row").get_attribute("href")
        go(page, "row=0")
        go(page, address[1:])
        assert page.locator(".prediction").get_attribute("data-value") == prediction
        go(page, "what-if")


def test_the_page_of_a_row_of_classes_has_its_set(open_page, tmp_path):
    X, y = mixed_table(160)
    labels = pd.Series(np.where(y > y.median(), "dear", "cheap"), name="class")
    model = SalsaClassifier(1, relevance="equal", alpha=0.1).fit(X[:140], labels[:140])
    path = write_report(model, tmp_path / "r.html", X[140:], labels[140:])
    sets = [example.get("set") for example in payload_of(path)["whatIf"]["model"]["examples"]]
    chosen = model.predict_set(X[140:], 0.9)
    assert sets == [None, *([str(label) for label in model.classes_[holds]] for holds in chosen)]
    page = open_page(path)
    go(page, "row=1")
    assert page.locator(".interval").inner_text().startswith("Row 1 of the table. Set of classes")


@pytest.mark.parametrize("width", [390, 1280])
def test_the_page_of_a_row_is_accessible_and_fits(width, open_page, homes):
    page = open_page(homes[2], width=width)
    go(page, "row=1")
    assert violations(page) == []
    assert overflow(page) <= 0
    assert page.locator("main").bounding_box()["width"] > 0.7 * min(width, 992)


def test_a_row_prints_on_one_sheet_and_the_report_on_more(open_page, homes):
    page = open_page(homes[2])
    sheets = [page.pdf(format="A4").count(b"/Type /Page\n")]
    go(page, "row=1")
    sheets.append(page.pdf(format="A4").count(b"/Type /Page\n"))
    assert sheets[0] > 3
    assert sheets[1] == 1


def test_training_rows_have_pages_without_intervals(open_page, tmp_path):
    """No rows were given: the examples are training rows, whose intervals would not be held out."""
    page = open_page(write_report(quick_model(*mixed_table(60)), tmp_path / "r.html"))
    go(page, "row=1")
    assert page.locator(".interval").inner_text() == "Training row with lowest prediction."


def test_a_record_is_a_row_with_a_page(tmp_path):
    X, y = mixed_table(60)
    path = write_report(quick_model(X, y), tmp_path / "r.html", X.iloc[0].to_dict())
    _, example = payload_of(path)["whatIf"]["model"]["examples"]
    assert len(example["interval"]) == 2
