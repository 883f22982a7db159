"""Tests of reports on counts, rates, amounts, quantiles and gross errors: scores, checks by bins, and the page."""

import json

import numpy as np
import pandas as pd
import pytest
from scipy.stats import poisson
from sklearn.linear_model import PoissonRegressor
from sklearn.metrics import d2_pinball_score, d2_tweedie_score, mean_gamma_deviance, mean_poisson_deviance
from sklearn.model_selection import PredefinedSplit, cross_val_predict
from sklearn.pipeline import make_pipeline

from explain.test_report import OVERLAPS, overflow, payload_of, settle
from salsa import SalsaRegressor
from salsa.explain import write_report
from salsa.explain.report.held_out_rows import table_encoder
from salsa.explain.report.linear_rivals import PENALTIES, linear_cross_validated
from salsa.explain.report.number_quality import dispersion, dispersion_words, means_by_bins, rootogram
from salsa.explain.report.scored_rows import ScoredRows, held_out_rows_of
from salsa.fitted import fitted_of
from salsa.losses import Gamma, Poisson

QUICK = {"order": 2, "relevance": "equal", "alpha": 0.05, "random_state": 0}
LOSSES = {"poisson": {}, "gamma": {}, "huber": {}, "quantile": {"quantile": 0.8}}


def loss_table(loss, n=200, seed=0):
    """Return two numbers, a category and a target of the kind that the loss is for."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.uniform(-1, 1, (n, 2)), columns=["u", "v"]).assign(w=rng.choice(["a", "b"], n))
    f = np.sin(3 * X["u"]) + X["v"]
    if loss in ("poisson", "gamma"):
        y = rng.poisson(np.exp(f)) if loss == "poisson" else np.exp(f) * rng.gamma(4, 0.25, n)
        return X, pd.Series(y, name="claims")
    return X, f + rng.standard_t(3, n) / 3


def loss_model(loss, weight=None, **options):
    return SalsaRegressor(loss=loss, **LOSSES[loss], **QUICK, **options).fit(*loss_table(loss), sample_weight=weight)


def scored(loss, observed, mean, weight=None):
    """Return rows of a loss with a log link that predicts `mean`."""
    n = len(observed)
    weight = np.ones(n) if weight is None else weight
    return ScoredRows(loss, np.asarray(observed, float)[:, None], np.log(mean)[:, None], weight, np.ones(n))


@pytest.fixture(scope="module", params=LOSSES)
def loss(request):
    return request.param


@pytest.fixture(scope="module", params=["plain", "weighted"])
def model(loss, request):
    weight = None if request.param == "plain" else np.random.default_rng(1).uniform(0.2, 3, 200)
    return loss_model(loss, weight)


@pytest.fixture(scope="module")
def report(model, tmp_path_factory):
    return write_report(model, tmp_path_factory.mktemp("losses") / "r.html")


def test_the_first_score_is_the_share_of_the_loss_saved(loss, model, report):
    """scikit-learn's D2 scores agree; Huber's loss agrees with the score of the search."""
    rows = held_out_rows_of(fitted_of(model).uncertainty)
    y, predicted, w = rows.observed, rows.predicted, rows.weight
    first = payload_of(report)["quality"]["scores"][0]
    assert first["name"] == "salsa, cross-validation"
    if loss == "huber":
        expected = 1 - model.search_.table.query("chosen")["cv_error"].iloc[0]
        assert first["explained"] == pytest.approx(expected, abs=1e-3)  # the search solves less exactly
        return
    if loss == "quantile":
        expected = d2_pinball_score(y, predicted, sample_weight=w, alpha=0.8)
    else:
        expected = d2_tweedie_score(y, predicted, sample_weight=w, power=1 if loss == "poisson" else 2)
    assert first["explained"] == pytest.approx(expected, rel=2e-3)


@pytest.mark.parametrize(("loss", "deviance"), [("poisson", mean_poisson_deviance), ("gamma", mean_gamma_deviance)])
def test_the_sentence_states_the_deviance_of_scikit_learn(loss, deviance, tmp_path):
    model = loss_model(loss)
    rows = held_out_rows_of(fitted_of(model).uncertainty)
    sentence = payload_of(write_report(model, tmp_path / "r.html"))["quality"]["sentence"]
    value = deviance(rows.observed, rows.predicted)
    assert f"the {'Poisson' if loss == 'poisson' else 'gamma'} deviance is {value:.3g}." in sentence


def test_scores_are_named_by_their_loss_and_never_r2(loss, report):
    payload = payload_of(report)
    words = {
        "poisson": "Poisson deviance",
        "gamma": "gamma deviance",
        "huber": "Huber loss",
        "quantile": "pinball loss",
    }
    assert words[loss] in payload["quality"]["measure"]["caption"]
    assert words[loss] in payload["fitted"]["summary"]
    text = json.dumps(payload, ensure_ascii=False)
    assert not any(word in text for word in ("R²", "explains", "leave-one-out", "Normal intervals"))


def test_a_linear_model_of_the_same_loss_is_beside_the_model(loss, report):
    scores = {score["name"]: score["explained"] for score in payload_of(report)["quality"]["scores"]}
    assert 0.2 < scores["linear model, cross-validation"] < 1


def test_the_linear_model_of_counts_is_the_best_of_scikit_learn_on_the_same_folds():
    """The table is refitted in every fold, by scikit-learn's own cross-validation."""
    model = loss_model("poisson")
    kept, X = fitted_of(model).uncertainty, model.expansion_.anchors
    rows = ScoredRows(kept.loss, kept.target, np.zeros_like(kept.target), kept.weight, np.ones(len(X)))
    found = linear_cross_validated(model.columns_, X, rows, kept.inner.judged.fold)
    scores = []
    for alpha in PENALTIES:
        linear = make_pipeline(table_encoder(model.columns_), PoissonRegressor(alpha=alpha, max_iter=1000, tol=1e-8))
        predicted = cross_val_predict(linear, X, rows.observed, cv=PredefinedSplit(kept.inner.judged.fold))
        scores.append(d2_tweedie_score(rows.observed, predicted, power=1))
    assert found.explained().share == pytest.approx(max(scores), abs=1e-4)


def test_means_of_bins_hold_all_rows():
    rng = np.random.default_rng(0)
    mean, w = rng.uniform(0.5, 4, 500), rng.uniform(0.5, 2, 500)
    y = mean * rng.gamma(4, 0.25, 500)
    found = means_by_bins("Rows", scored(Gamma(), y, mean, w), log=True)
    order = np.argsort(mean)[:50]
    assert found["expected"][0] == pytest.approx(np.average(mean[order], weights=w[order]))
    assert found["observed"][0] == pytest.approx(np.average(y[order], weights=w[order]))
    away = np.abs(np.subtract(found["observed"], found["expected"])) / found["error"]
    assert away.max() < 3.5


def test_a_rootogram_has_observed_and_expected_frequencies_of_counts():
    rng = np.random.default_rng(0)
    mean = rng.uniform(0.5, 4, 400)
    y, w = rng.poisson(mean), rng.uniform(0.5, 2, 400)
    (found,) = rootogram("Rows", scored(Poisson(), y, mean, w))
    assert found["labels"][:3] == ["0", "1", "2"]
    assert found["observed"][1] == pytest.approx(w[y == 1].sum())
    assert found["expected"][1] == pytest.approx(w @ poisson.pmf(1, mean))
    for part in ("observed", "expected"):
        assert np.sum(found[part]) == pytest.approx(w.sum())
    assert found["labels"][-1].endswith("+")


def test_large_counts_are_grouped_into_at_most_31_bars():
    rng = np.random.default_rng(0)
    mean = rng.uniform(50, 500, 200)
    (found,) = rootogram("Rows", scored(Poisson(), rng.poisson(mean), mean))
    assert len(found["labels"]) <= 31
    assert "–" in found["labels"][0]
    assert np.sum(found["observed"]) == pytest.approx(200)
    assert np.sum(found["expected"]) == pytest.approx(200)


def test_the_dispersion_tells_overdispersed_counts_from_poisson_counts():
    rng = np.random.default_rng(0)
    mean = rng.uniform(0.5, 4, 2000)
    counts = scored(Poisson(), rng.poisson(mean), mean)
    assert dispersion(counts)[0] == pytest.approx(1, abs=4 * dispersion(counts)[1])
    assert "about as much as Poisson counts" in dispersion_words(counts)
    mixed = scored(Poisson(), rng.poisson(mean * rng.gamma(2, 0.5, 2000)), mean)
    expected = np.mean((mixed.observed - mean) ** 2 / mean)
    assert dispersion(mixed)[0] == pytest.approx(expected)
    assert dispersion_words(mixed).startswith(
        f"The counts are overdispersed: held-out Pearson dispersion {expected:.2f}"
    )


def test_rates_have_no_rootogram_and_no_dispersion(tmp_path):
    X, y = loss_table("poisson")
    exposure = np.random.default_rng(0).uniform(0.5, 4, len(y))
    model = SalsaRegressor(loss="poisson", **QUICK).fit(X, y / exposure, sample_weight=exposure)
    found = payload_of(write_report(model, tmp_path / "r.html"))
    assert [panel["kind"] for panel in found["quality"]["panels"]] == ["means"]
    assert "The targets are rates" in found["quality"]["notes"][0]
    assert found["whatIf"]["model"]["response"]["name"] == "Expected value"


def test_the_share_below_a_quantile_is_set_on_held_out_rows_and_checked_on_new_rows(tmp_path):
    X, y = loss_table("quantile", 300)
    model = SalsaRegressor(loss="quantile", quantile=0.8, **QUICK).fit(X[:200], y[:200])
    new, training = payload_of(write_report(model, tmp_path / "r.html", X[200:], y[200:]))["quality"]["panels"]
    assert new["title"].startswith("New rows: share of targets at or below the predicted 80\u202f% quantile")
    share = np.mean(y[200:] <= model.predict(X[200:]))
    assert f"Over all rows, {100 * share:.0f}\u202f% of the targets" in new["note"]
    assert np.mean(new["share"]) == pytest.approx(share)
    assert np.mean(training["share"]) == pytest.approx(0.8, abs=0.01)
    assert "shifted so that this holds over all of these rows" in training["note"]
    assert "shifted" not in new["note"]


def test_intervals_of_held_out_rows_cover_as_intended_by_construction(loss, model, report):
    found = payload_of(report)["calibration"]
    assert found["curves"] == []
    assert "by construction" in found["sentence"]
    (table,) = found["tables"]
    shares = [float(cell.split("\u202f")[0]) for cell in table["rows"][0][1:]]
    assert np.all(np.array(shares) >= [79, 89, 94])
    assert loss == "poisson" or np.all(np.array(shares) <= [82, 92, 97])


def test_effects_of_log_links_are_on_the_log_scale(loss, report):
    name = "logarithm of the mean" if loss in ("poisson", "gamma") else "prediction"
    assert payload_of(report)["effectName"] == f"effect on the {name}"


def test_new_counts_that_are_all_zero_have_no_share_saved(tmp_path):
    model = loss_model("poisson")
    X, y = loss_table("poisson", 40, seed=3)
    found = payload_of(write_report(model, tmp_path / "r.html", X, 0 * y))
    assert found["quality"]["scores"][0]["name"] == "salsa, cross-validation"


def test_the_page_predicts_in_the_units_of_the_target(loss, model, report, open_page):
    page = open_page(report)
    settle(page)
    shown = float(page.locator("output.prediction").get_attribute("data-response"))
    features = payload_of(report)["whatIf"]["model"]["features"]
    values = payload_of(report)["whatIf"]["model"]["examples"][0]["values"]
    row = {f["name"]: f["levels"][int(v)] if f["levels"] else v for f, v in zip(features, values, strict=True)}
    assert shown == pytest.approx(model.predict(pd.DataFrame([row])[["u", "v", "w"]])[0], rel=1e-9)
    assert page.locator("#good .chart").count() >= (3 if loss != "huber" else 2)


@pytest.mark.parametrize("width", [360, 1280])
def test_the_page_has_no_overflow_and_no_overlap(width, report, open_page):
    page = open_page(report, width=width)
    settle(page)
    assert overflow(page) <= 0
    assert page.evaluate(OVERLAPS, -1.5) == []
    assert page.locator("text=NaN").count() == 0
