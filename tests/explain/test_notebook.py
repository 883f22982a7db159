"""The summary of a fitted model in notebooks: its numbers, its texts, and scikit-learn's display beside it."""

import re
from html import escape, unescape
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest
import sklearn
from conftest import additive_truth
from IPython.core.formatters import DisplayFormatter
from sklearn.pipeline import make_pipeline

import salsa
from salsa import SalsaClassifier, SalsaRegressor
from salsa.explain import decompose
from salsa.explain.notebook import FEWEST_ROWS, MOST_OUTPUTS, learned_html
from salsa.loading import load_quickly

PLAIN = {"relevance": "equal", "order": 2, "random_state": 0}
BOTH = [SalsaRegressor(**PLAIN), SalsaClassifier(**PLAIN)]
VOID = {"br"}


class Page(HTMLParser):
    """The texts of a page by tag; unbalanced tags raise an error."""

    def __init__(self, text):
        super().__init__()
        self.open, self.texts = [], []
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attrs):
        if tag not in VOID:
            self.open.append(tag)
            self.texts.append((tag, ""))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        tag, text = self.texts[-1]
        self.texts[-1] = tag, text + data

    def of(self, tag):
        return [text for name, text in self.texts if name == tag]


def facts(model):
    """Return the facts of a summary by name."""
    found = re.findall(r"<dt>(.*?)</dt><dd>(.*?)</dd>", learned_html(model))
    return {name: unescape(text) for name, text in found}


def shares(model):
    """Return the texts of shares by feature, one for each function."""
    rows = re.findall(r'<tr><th scope="row">(.*?)</th>(.*?)</tr>', learned_html(model))
    return {unescape(name): re.findall(r"</span>(.*?)</td>", cells) for name, cells in rows}


def shown(model):
    """Return the HTML that a notebook shows, and the plain text."""
    bundle, _ = DisplayFormatter().format(model)
    return bundle.get("text/html"), bundle["text/plain"]


@pytest.fixture(scope="module")
def data():
    return additive_truth(120, 4)


@pytest.fixture(scope="module")
def model(data):
    return SalsaRegressor(**PLAIN).fit(*data)


class TestBesideScikitLearn:
    @pytest.mark.parametrize("estimator", BOTH, ids=["regressor", "classifier"])
    def test_unfitted_estimators_show_parameters_only(self, estimator):
        html, text = shown(estimator)
        assert "sk-top-container" in html
        assert "salsa-learned" not in html
        assert text == repr(estimator)

    @pytest.mark.parametrize("estimator", BOTH, ids=["regressor", "classifier"])
    def test_fitted_estimators_show_parameters_and_then_what_was_learned_once(self, data, estimator):
        model = sklearn.clone(estimator).fit(data[0], data[1] > 0)
        for html in (shown(model)[0], model._repr_html_()):
            assert html.count('<div class="salsa-learned">') == 1
            assert 0 < html.index("sk-top-container") < html.index(learned_html(model))

    def test_the_display_as_text_has_no_html(self, model):
        with sklearn.config_context(display="text"):
            assert not hasattr(model, "_repr_html_")
            assert shown(model) == (None, repr(model))

    def test_a_pipeline_still_shows_its_diagram(self, data):
        html, _ = shown(make_pipeline(SalsaRegressor(**PLAIN)).fit(*data))
        assert "SalsaRegressor" in html

    def test_loaded_models_show_the_same(self, model, tmp_path):
        model.save(tmp_path / "m.salsa")
        for load in (salsa.load, load_quickly):
            assert shown(load(tmp_path / "m.salsa"))[0].endswith(learned_html(model))


class TestNumbers:
    def test_the_error_is_the_one_of_cross_validation_with_its_standard_error(self, model):
        error, standard_error = model.search_.table.loc[model.search_.table["chosen"]].to_numpy()[0, 2:4]
        pattern = r"(\S+) ± (\S+) of the variance of the target.* \(R² = (\S+)\)"
        found = re.match(pattern, facts(model)["Held-out error"])
        written = [float(text) for text in found.groups()]
        np.testing.assert_allclose(written, [error, standard_error, 1 - error], rtol=0.02)

    @pytest.mark.parametrize(
        ("parameters", "of"),
        [
            ({"target_transform": "log"}, "the variance of the log of the target"),
            ({"loss": "poisson"}, "the Poisson deviance of the mean"),
            ({"loss": "quantile", "quantile": 0.9}, "the pinball loss of the constant 90 % quantile"),
        ],
    )
    def test_the_error_is_a_share_of_the_error_of_a_constant(self, data, parameters, of):
        fitted = SalsaRegressor(**PLAIN, **parameters).fit(data[0], np.exp(data[1]))
        assert of in facts(fitted)["Held-out error"].replace("\u202f", " ")

    def test_an_error_that_was_not_measured_is_no_number(self):
        fitted = SalsaRegressor(order=1, alpha=1.0).fit([[1.0], [2.0]], [0.0, 1.0])
        assert facts(fitted)["Held-out error"] == "not measured: nothing was searched"

    def test_shares_are_the_shares_over_rows_of_the_decomposition(self, model):
        table = decompose(model).sobol()
        expected = table.set_index("feature")["share_over_rows"]
        for name, (text,) in (found := shares(model)).items():
            assert float(text.removesuffix(" %").replace("−", "-")) / 100 == pytest.approx(expected[name], rel=0.1)
        assert list(found) == expected.abs().sort_values(ascending=False).index.tolist()[: len(found)]

    def test_order_and_terms_are_those_of_the_kernel(self):
        X, y = additive_truth(150, 6)
        fitted = SalsaRegressor(random_state=0).fit(X, y)
        found, terms = facts(fitted), fitted.search_.terms
        assert found["Order"] == str(fitted.order_)
        described = found["Terms of the kernel" if len(terms) > 1 else "Kernel"].split("<br>")
        assert len(described) == len(terms)
        assert all(f"{term.features} feature" in words for term, words in zip(terms, described, strict=True))

    def test_features_of_relevance_0_are_left_out_by_name(self, data):
        X = pd.DataFrame(data[0], columns=["a", "b", "c & d", "e"])
        fitted = SalsaRegressor(order=1, relevance=[1.0, 1.0, 0.0, 0.0]).fit(X, data[1])
        assert facts(fitted)["Features left out"] == "c & d and e"
        assert set(shares(fitted)) <= {"a", "b"}
        assert "a function of 2 of 4 features, from 120 rows" in learned_html(fitted)

    def test_notes_of_the_search_are_shown(self, data):
        X, y = np.r_[data[0], data[0]], np.r_[data[1], data[1]]
        fitted = SalsaRegressor(**PLAIN).fit(X, y)
        assert fitted.search_.notes
        for note in fitted.search_.notes:
            assert note[1:] in facts(fitted)["Notes"]

    def test_groups_share_a_part_of_the_noise(self, data):
        groups = np.arange(120) % 12
        fitted = SalsaRegressor(**PLAIN).fit(data[0], data[1] + np.sin(groups), groups=groups)
        rho = fitted.search_.rho
        assert facts(fitted)["Groups"].startswith(f"{100 * rho / (1 + rho):.0f} %")


class TestKindsOfModels:
    def test_low_rank_models_have_shares_of_drawn_rows(self, data):
        fitted = SalsaRegressor(**PLAIN, solver="lowrank", rank=30).fit(*data)
        page = learned_html(fitted)
        assert "by 30 anchors for all rows" in page
        assert "drawn rows with independent features" in page
        total = sum(float(text.removesuffix(" %").replace("−", "-")) for (text,) in shares(fitted).values())
        assert total == pytest.approx(100, abs=3)

    def test_some_rows_are_used_where_the_model_has_many_anchors(self, data, monkeypatch):
        monkeypatch.setattr("salsa.explain.notebook.MOST_PAIRS", 1)
        X, y = additive_truth(250, 4)
        fitted = SalsaRegressor(**PLAIN).fit(X, y)
        assert f"over {FEWEST_ROWS} of the 250 training rows" in learned_html(fitted)

    def test_every_class_has_a_column(self, data):
        labels = np.array(["<b>low</b>", "mid", "high"])[np.digitize(data[1], np.quantile(data[1], [0.3, 0.7]))]
        fitted = SalsaClassifier(**PLAIN).fit(data[0], labels)
        page = Page(learned_html(fitted))
        assert page.of("th")[1:4] == ["<b>low</b>", "high", "mid"]
        assert all(len(texts) == 3 for texts in shares(fitted).values())
        assert "one function of 4 features for each of 3 classes" in page.of("div")[1]

    def test_two_classes_have_one_function(self, data):
        fitted = SalsaClassifier(**PLAIN).fit(data[0], np.where(data[1] > 0, "yes", "no"))
        assert "the log odds of yes, a function of 4 features" in learned_html(fitted)
        assert "of the log loss of the class shares" in facts(fitted)["Held-out error"]

    def test_the_first_outputs_have_columns(self, data):
        fitted = SalsaRegressor(**PLAIN).fit(data[0], np.outer(data[1], np.arange(1.0, 7.0)))
        assert all(len(texts) == MOST_OUTPUTS for texts in shares(fitted).values())
        assert f"({MOST_OUTPUTS} of {fitted.expansion_.coef.shape[1]} shown)" in learned_html(fitted)
        assert "6 functions of 4 features, one for each output" in learned_html(fitted)

    def test_a_constant_function_has_no_shares(self, data):
        assert not shares(SalsaRegressor(**PLAIN).fit(data[0], np.ones(120)))

    def test_a_model_without_features_says_so(self, data):
        fitted = SalsaRegressor(order=1, relevance=np.zeros(4)).fit(*data)
        assert "a function of 0 of 4 features" in learned_html(fitted)
        assert facts(fitted)["Kernel"].endswith(", no features")
        assert facts(fitted)["Features left out"] == "x0, x1, x2 and x3"

    def test_missing_values_categories_and_dates_have_shares(self, data):
        rng = np.random.default_rng(0)
        X = pd.DataFrame({"a": data[0][:, 0], "when": pd.date_range("2024-01-01", periods=120, freq="7D")})
        X["b"] = rng.choice(["x", "y"], 120)
        X.loc[::9, "a"] = np.nan
        X.loc[::7, "b"] = None
        y = data[1] + (X["b"] == "x")
        for options in ({}, {"solver": "lowrank", "rank": 40}):
            fitted = SalsaRegressor(**PLAIN, **options).fit(X, y)
            assert {"a", "b"} <= set(shares(fitted)) <= {"a", "b", "when: trend", "when: time of year"}

    @pytest.mark.parametrize("solver", ["exact", "lowrank", "pcg", "features", "divide"])
    def test_fits_by_every_solver_have_a_summary(self, data, solver):
        rank = None if solver == "exact" else 40
        page = Page(learned_html(SalsaRegressor(**PLAIN, alpha=0.1, solver=solver, rank=rank).fit(*data)))
        assert page.of("caption")


#: How JupyterLab styles the tables of outputs
JUPYTER = (
    ".output table {font-size: 12px; border: none} .output tbody tr:nth-child(odd) {background: rgb(255, 255, 255)}"
    " .output td, .output th, .output tr {text-align: right; vertical-align: middle; padding: 0.5em; border: none}"
)


@pytest.mark.parametrize(("paper", "ink"), [("#ffffff", "#111111"), ("#111111", "#dddddd")], ids=["light", "dark"])
def test_texts_have_the_colour_of_the_page_and_bars_stand_out(browser, model, paper, ink):
    page = browser.new_page()
    style = f"body {{background: {paper}; color: {ink}}} {JUPYTER}"
    page.set_content(f'<style>{style}</style><div class="output">{learned_html(model)}</div>')
    colours = "e => [getComputedStyle(e).color, getComputedStyle(e).backgroundColor]"
    for element in page.query_selector_all(".salsa-learned :is(dt, dd, th, td, tr, caption)"):
        own, behind = element.evaluate(colours)
        assert own == f"rgb({int(ink[1:3], 16)}, {int(ink[3:5], 16)}, {int(ink[5:7], 16)})"
        assert behind == "rgba(0, 0, 0, 0)"
    bar = page.query_selector(".salsa-learned .bar")
    assert contrast(bar.evaluate(colours)[1], paper) > 3  # WCAG's limit for graphics
    assert page.query_selector(".salsa-learned th").evaluate("e => getComputedStyle(e).textAlign") == "left"
    page.close()


def contrast(rgb, paper):
    """Return the contrast ratio of WCAG of a colour such as rgb(61, 133, 198) on paper such as #ffffff."""
    one = [int(part) for part in re.findall(r"\d+", rgb)]
    low, high = sorted(map(luminance, (one, [int(paper[k : k + 2], 16) for k in (1, 3, 5)])))
    return (high + 0.05) / (low + 0.05)


def luminance(rgb):
    parts = np.array(rgb) / 255
    return np.where(parts <= 0.03928, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4) @ [0.2126, 0.7152, 0.0722]


def test_names_and_labels_are_text_and_never_html(data):
    evil = "<script>alert(1)</script>&\"'"
    X = pd.DataFrame(data[0], columns=[evil, "b", "c", "<img src=x>"])
    fitted = SalsaClassifier(**PLAIN | {"relevance": [1.0, 1.0, 1.0, 0.0]}).fit(X, np.where(data[1] > 0, evil, "no"))
    page = learned_html(fitted)
    assert "<script" not in page
    assert "<img" not in page
    assert escape(evil) in page
    assert evil in Page(page).of("th")
