"""Tests of how the report shows categories: sorted dots with bands, and pairs of two-valued features as tables."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm

from explain.test_report import payload_of, quick_model, settle
from salsa.explain import decompose, write_report
from salsa.explain.effects import Axis, Effect
from salsa.explain.report.effect_section import _is_unsure
from salsa.kernels.marginals import Distribution

REGIONS = {"A": 1.0, "B": -2.0, "C": 0.0, "D": 3.0, "E": -1.0}


@pytest.fixture(scope="module")
def clinics(tmp_path_factory):
    """Return a model of categories and two-valued features, with an interaction of two of these, and its report."""
    rng, n = np.random.default_rng(0), 200
    X = pd.DataFrame({"smoker": rng.choice(["no", "yes"], n), "insured": rng.random(n) < 0.4})
    X["region"] = rng.choice(list(REGIONS), n)
    X["grade"] = pd.Categorical(rng.choice(["low", "mid", "high"], n), ["low", "mid", "high"], ordered=True)
    y = 3 * (X["smoker"] == "yes") * X["insured"] + X["region"].map(REGIONS) + 2 * (X["grade"] == "mid")
    X.loc[:9, "region"] = None
    model = quick_model(X, y + 0.5 * rng.normal(size=n))
    return model, write_report(model, tmp_path_factory.mktemp("clinics") / "r.html")


def open_effect(page, term):
    page.locator(".effects").get_by_role("button", name=term, exact=True).click()
    settle(page)
    return page.locator(".panel")


def test_levels_are_sorted_by_effect_with_missing_values_last(open_page, clinics):
    model, path = clinics
    panel = open_effect(open_page(path), "region")
    effect = decompose(model).effect("region").frame().set_index("region")["effect"]
    expected = effect.drop("missing").sort_values(ascending=False).index.tolist()
    assert expected[0] == "D"
    assert panel.locator("svg text.strong").all_text_contents() == [*expected, "missing"]
    assert panel.locator("circle.dot").count() == panel.locator("line.whisker").count() == 6


def test_levels_with_an_order_keep_it(open_page, clinics):
    panel = open_effect(open_page(clinics[1]), "grade")
    assert panel.locator("svg text.strong").all_text_contents() == ["low", "mid", "high"]


@pytest.mark.parametrize("width", [360, 1280])
def test_a_pair_of_two_valued_features_is_a_table_of_its_effect(width, open_page, clinics):
    model, path = clinics
    panel = open_effect(open_page(path, width=width), "smoker × insured")
    expected = decompose(model).effect("smoker", "insured")
    table = panel.locator("table.two-valued")
    read = [float(text.replace("−", "-")) for text in table.locator("td b").all_text_contents()]
    np.testing.assert_allclose(read, expected.values.ravel(), rtol=0.01)
    reach = [float(text.strip("± ")) for text in table.locator("td span").all_text_contents()]
    np.testing.assert_allclose(reach, 2 * expected.sd.ravel(), rtol=0.06)
    assert table.locator("tbody th").all_text_contents() == ["smoker = no", "smoker = yes"]
    assert table.locator("thead th").all_text_contents() == ["insured = 0", "insured = 1"]
    assert panel.locator("svg").count() == 0


def test_the_table_of_a_pair_can_hold_both_main_effects(open_page, clinics):
    """Standard deviations are those of the interaction alone, so the table of the sum has none."""
    model, path = clinics
    panel = open_effect(open_page(path), "smoker × insured")
    panel.get_by_label("with both main effects").check()
    settle(panel.page)
    anova = decompose(model)
    mains = anova.effect("smoker").values[:, None] + anova.effect("insured").values
    read = [float(text.replace("−", "-")) for text in panel.locator("td b").all_text_contents()]
    np.testing.assert_allclose(read, (anova.effect("smoker", "insured").values + mains).ravel(), rtol=0.01)
    assert panel.locator("td span").count() == 0


def test_only_pairs_of_two_valued_features_have_standard_deviations(clinics):
    pairs = {e["term"]: e for e in payload_of(clinics[1])["effects"] if len(e["features"]) == 2 and "axes" in e}
    assert pairs["smoker × insured"]["sd"] is not None
    assert all(pair["sd"] is None for name, pair in pairs.items() if "region" in name or "grade" in name)


def category(values, sd, weights):
    codes = np.arange(float(len(values)))
    axis = Axis("town", codes, tuple("abcdefgh"[: len(values)]), Distribution(codes, np.array(weights)))
    return Effect((axis,), np.array(values), np.array(sd), lambda: 1.0)


def test_a_category_with_one_rare_level_that_differs_is_not_unsure():
    """Zero is in the bands of 95 % of the rows, but the effect of the rare level is five standard deviations."""
    assert not _is_unsure(category([5.0, -0.3, -0.2], [1.0, 0.4, 0.4], [0.05, 0.5, 0.45]))
    assert _is_unsure(category([1.9, -0.3, -0.2], [1.0, 0.4, 0.4], [0.05, 0.5, 0.45]))


def test_noise_in_eight_levels_is_nearly_always_unsure():
    """The band of a level widens with the number of levels, so that the largest of eight noises is seldom an effect."""
    rng, sd, weights = np.random.default_rng(0), np.ones(8), np.full(8, 1 / 8)
    unsure = np.mean([_is_unsure(category(rng.normal(size=8), sd, weights)) for _ in range(2000)])
    assert unsure == pytest.approx(1 - 2 * norm.sf(2) * 8 / 7, abs=0.015)
