"""Tests of reports on classes: scores against scikit-learn, curves, sets, the page, and invalid requests."""

import json
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import (
    accuracy_score,
    average_precision_score,
    brier_score_loss,
    confusion_matrix,
    d2_log_loss_score,
    log_loss,
    precision_recall_curve,
    roc_auc_score,
)
from sklearn.model_selection import TimeSeriesSplit

import salsa
from explain.test_report import HOSTILE, OVERLAPS, overflow, payload_of, settle
from salsa import SalsaClassifier
from salsa.explain import decompose, shapley, write_report
from salsa.explain.report.class_quality import calibration_words, reliability, wilson
from salsa.explain.report.judging_rows import evidence_of, given_rows
from salsa.fitted import fitted_of

QUICK = {"order": 2, "relevance": "equal", "alpha": 0.1, "random_state": 0}


def class_table(n=150, classes=("no", "yes"), seed=0):
    """Return numbers, a category with missing values, and classes that depend on both."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame({"dose": rng.uniform(0, 10, n), "age": rng.integers(18, 90, n).astype(float)})
    X["ward"] = rng.choice(["east", "west"], n)
    X.loc[rng.random(n) < 0.1, "ward"] = None
    level = 0.5 * X["dose"] + (X["ward"] == "east") + rng.normal(size=n)
    places = np.searchsorted(np.quantile(level, np.arange(1, len(classes)) / len(classes)), level)
    return X, pd.Series(np.array(classes)[places], name="outcome")


def held_out(model):
    """Return labels, probabilities and weights of the held-out training rows."""
    kept = fitted_of(model).uncertainty
    return *model.held_out_proba(), kept.weight[kept.held_out.row]


@pytest.fixture(scope="module", params=[2, 3], ids=["two classes", "three classes"])
def classes(request):
    return ("no", "yes") if request.param == 2 else ("high", "low", "medium")


@pytest.fixture(scope="module", params=["plain", "weighted"])
def fitted(request, classes):
    """Return a model, with and without weights of rows and classes."""
    X, y = class_table(classes=classes)
    if request.param == "plain":
        return SalsaClassifier(**QUICK).fit(X, y)
    weight = np.random.default_rng(1).uniform(0.2, 3, len(y))
    return SalsaClassifier(class_weight="balanced", **QUICK).fit(X, y, sample_weight=weight)


@pytest.fixture(scope="module")
def report(fitted, tmp_path_factory):
    return write_report(fitted, tmp_path_factory.mktemp("classes") / "r.html")


def one_column(payload):
    """Return the scores of the only set of rows, by name."""
    return {row["name"]: row["cells"][0] for row in payload["quality"]["classes"]["table"]["rows"]}


# Numbers against scikit-learn -----------------------------------------------------------------------------------------


def test_scores_of_held_out_rows_equal_those_of_scikit_learn(fitted, report):
    y, p, w = held_out(fitted)
    labels, found = fitted.classes_, one_column(payload_of(report))
    assert found["Log loss"]["value"] == pytest.approx(log_loss(y, p, labels=labels, sample_weight=w))
    assert found["Accuracy"]["value"] == pytest.approx(accuracy_score(y, labels[p.argmax(axis=1)], sample_weight=w))
    if len(labels) == 2:
        expected = brier_score_loss(y, p[:, 1], pos_label=labels[1], sample_weight=w)
        assert found["AUC"]["value"] == pytest.approx(roc_auc_score(y == labels[1], p[:, 1], sample_weight=w))
    else:
        expected = brier_score_loss(y, p, labels=labels, sample_weight=w)
        for k, label in enumerate(labels):
            area = roc_auc_score(y == label, p[:, k], sample_weight=w)
            assert found[f"AUC of {label} against the rest"]["value"] == pytest.approx(area)
    assert found["Brier score"]["value"] == pytest.approx(expected)


def test_the_first_score_is_the_share_of_the_log_loss_saved(fitted, report):
    """The share agrees with scikit-learn, and with the search's own score where no factor calibrates f."""
    y, p, w = held_out(fitted)
    first = payload_of(report)["quality"]["scores"][0]
    assert first["name"] == "salsa, cross-validation"
    assert first["explained"] == pytest.approx(d2_log_loss_score(y, p, sample_weight=w, labels=fitted.classes_))
    assert first["explained"] >= 1 - fitted.search_.table.query("chosen")["cv_error"].iloc[0] - 1e-6


def test_class_shares_are_the_constant_that_scores_are_compared_with(fitted, report):
    y, _, w = held_out(fitted)
    shares = np.array([w[y == label].sum() for label in fitted.classes_]) / w.sum()
    found = one_column(payload_of(report))
    constant = np.tile(shares, (len(y), 1))
    expected = log_loss(y, constant, labels=fitted.classes_, sample_weight=w)
    assert found["Log loss"]["constant"] == pytest.approx(expected)
    assert found["Accuracy"]["constant"] == pytest.approx(shares.max())


def test_confusions_equal_those_of_scikit_learn(fitted, report):
    y, p, w = held_out(fitted)
    (found,) = payload_of(report)["quality"]["classes"]["confusions"]
    expected = confusion_matrix(y, fitted.classes_[p.argmax(axis=1)], labels=fitted.classes_, sample_weight=w)
    np.testing.assert_allclose(found["counts"], expected, atol=0.051)
    np.testing.assert_allclose(found["shares"], expected / expected.sum(axis=1, keepdims=True))
    assert found["labels"] == fitted.classes_.tolist()


def test_precision_and_recall_equal_those_of_scikit_learn(fitted, report):
    y, p, w = held_out(fitted)
    for part in payload_of(report)["quality"]["classes"]["curves"]:
        k = fitted.classes_.tolist().index(part["label"])
        precision, recall, _ = precision_recall_curve(y == part["label"], p[:, k], sample_weight=w)
        found = part["sets"][0]["recall"]
        points = set(zip(np.round(recall, 4), np.round(precision, 4), strict=True))
        assert set(zip(found["x"], found["y"], strict=True)) <= points
        mean = average_precision_score(y == part["label"], p[:, k], sample_weight=w)
        assert found["mean"] == pytest.approx(mean)


def test_reliability_bins_hold_equal_numbers_of_rows_and_all_weight():
    rng = np.random.default_rng(0)
    p, w = rng.random(1000), rng.uniform(0.5, 2, 1000)
    found = reliability(rng.random(1000) < p, p, w)
    assert len(found.share) == 10
    assert found.share.sum() == pytest.approx(1)
    assert found.error == pytest.approx(found.share @ np.abs(found.observed - found.predicted))
    assert found.error < 2 * found.chance
    assert reliability(rng.random(1000) < p**3, p, w).error > 4 * found.chance
    np.testing.assert_allclose(found.share @ found.predicted, np.average(p, weights=w))


def test_the_calibration_error_by_chance_is_its_mean_over_calibrated_tables():
    rng = np.random.default_rng(0)
    p, w = rng.random(400), np.ones(400)
    errors = [reliability(rng.random(400) < p, p, w).error for _ in range(300)]
    by_chance = reliability(rng.random(400) < p, p, w)
    assert np.mean(errors) == pytest.approx(by_chance.chance, rel=0.1)
    assert np.std(errors) == pytest.approx(by_chance.spread, rel=0.2)


def test_the_words_on_calibration_tell_chance_from_more_than_chance():
    rng = np.random.default_rng(0)
    p, w = rng.random(1000), np.ones(1000)
    assert "which chance can explain" in calibration_words(reliability(rng.random(1000) < p, p, w))
    assert "more than chance explains" in calibration_words(reliability(rng.random(1000) < p**2, p, w))


def test_intervals_of_shares_0_and_1_are_not_empty():
    low, high = wilson(np.array([0.0, 0.5, 1.0]), np.array([20.0, 20.0, 20.0]))
    assert low[0] == pytest.approx(0, abs=1e-12)
    assert high[2] == pytest.approx(1)
    assert (high - low > 0.15).all()


def test_sets_have_the_coverage_of_predict_set(tmp_path):
    X, y = class_table(400, ("a", "b", "c"))
    model = SalsaClassifier(**QUICK).fit(X[:250], y[:250])
    found = payload_of(write_report(model, tmp_path / "r.html", X[250:], y[250:]))["calibration"]
    assert found["title"] == "Can the sets of classes be trusted?"
    training, new = found["tables"]
    chosen = model.predict_set(X[250:], 0.9)
    holds = chosen[np.arange(150), np.searchsorted(model.classes_, y[250:])]
    cells = {row[0]: row[1 + new["head"][1:].index("90\u202f%")] for row in new["rows"]}
    assert cells["all rows"] == f"{100 * holds.mean():.0f}\u202f%"
    assert cells["rows of b"] == f"{100 * holds[y[250:] == 'b'].mean():.0f}\u202f%"
    assert cells["classes in a set"] == f"{chosen.sum(axis=1).mean():.2f}"
    shares = [float(cell.split("\u202f")[0]) for cell in training["rows"][0][1:]]
    np.testing.assert_allclose(shares, [80, 90, 95], atol=1)
    assert "by construction" in found["note"]


# Given rows -----------------------------------------------------------------------------------------------------------


def test_new_rows_are_scored_and_training_rows_among_them_left_out(tmp_path):
    X, y = class_table(220)
    model = SalsaClassifier(**QUICK).fit(X[:150], y[:150])
    found = payload_of(write_report(model, tmp_path / "r.html", X[100:], y[100:]))
    table = found["quality"]["classes"]["table"]
    assert table["head"] == ["New rows (70)", "Held-out training rows (150)"]
    assert table["rows"][0]["cells"][0]["value"] == pytest.approx(log_loss(y[150:], model.predict_proba(X[150:])))
    assert "they are training rows: 50 given rows" in found["quality"]["notes"][0]
    names = [score["name"] for score in found["quality"]["scores"]]
    assert names[:2] == ["salsa, new rows", "salsa, cross-validation"]
    assert {"linear model, cross-validation", "linear model, new rows", "always the class shares"} < set(names)
    assert found["title"] == "A model of outcome"


@pytest.mark.parametrize("class_weight", ["balanced", {"no": 1.0, "yes": 5.0}])
def test_new_rows_have_the_weights_of_their_classes(class_weight):
    X, y = class_table(250)
    y[:200:3] = "no"
    model = SalsaClassifier(class_weight=class_weight, **QUICK).fit(X[:200], y[:200])
    new = evidence_of(model, decompose(model).subject, given_rows(model, X[200:], y[200:], 0), 0).new
    totals = np.bincount(new.code, new.weight)
    sizes = np.bincount(new.code)
    expected = 1.0 if class_weight == "balanced" else 5.0 * sizes[1] / sizes[0]
    assert totals[1] / totals[0] == pytest.approx(expected)
    assert new.weight.mean() == pytest.approx(1)


def test_new_rows_of_one_class_have_no_auc_and_no_share_saved(tmp_path):
    X, y = class_table(200)
    model = SalsaClassifier(**QUICK).fit(X[:150], y[:150])
    only = y[150:] == "yes"
    found = payload_of(write_report(model, tmp_path / "r.html", X[150:][only], y[150:][only]))
    assert one_column(found)["AUC"]["value"] is None
    assert found["quality"]["scores"][0]["name"] == "salsa, cross-validation"


# Models of every kind -------------------------------------------------------------------------------------------------


def odd_class_reports(folder):
    """Yield names and reports of class models of every kind."""
    X, y = class_table(120)
    many, labels = class_table(300, [f"kind {k}" for k in range(25)])
    order = {"cv": TimeSeriesSplit(4)}
    hostile = class_table(120, HOSTILE)
    rare = y.copy()
    rare[0] = "seen once"
    fits = {
        "low rank": SalsaClassifier(solver="lowrank", rank=20, **QUICK).fit(X, y),
        "later rows judge": SalsaClassifier(**QUICK, **order).fit(X, y),
        "groups": SalsaClassifier(**QUICK).fit(X, y, groups=np.arange(120) // 4),
        "25 classes": SalsaClassifier(**QUICK).fit(many, labels),
        "hostile names": SalsaClassifier(**QUICK).fit(*hostile),
        "a class of one row": SalsaClassifier(**QUICK).fit(X, rare),
        "six rows": SalsaClassifier(**QUICK).fit(X[:6], ["a", "b"] * 3),
        "whole numbers": SalsaClassifier(**QUICK).fit(X, (y == "yes").astype(int) + 3),
        "booleans": SalsaClassifier(**QUICK).fit(X, y == "yes"),
        "a constant column": SalsaClassifier(**QUICK).fit(X.assign(same=1.0), y),
        "learned": SalsaClassifier(random_state=0).fit(X, y),
    }
    for i, (name, model) in enumerate(fits.items()):
        yield name, write_report(model, folder / f"{i}.html")


@pytest.fixture(scope="module")
def odd_reports(tmp_path_factory):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return dict(odd_class_reports(tmp_path_factory.mktemp("odd")))


def test_every_kind_of_class_model_has_a_report(odd_reports):
    found = {name: payload_of(path) for name, path in odd_reports.items()}
    assert dict(found["low rank"]["fitted"]["facts"])["Anchors"]
    assert "salsa, cross-validation" in [score["name"] for score in found["low rank"]["quality"]["scores"]]
    confusion = found["25 classes"]["quality"]["classes"]["confusions"][0]
    assert len(confusion["labels"]) == 20
    assert "most frequent of 25" in confusion["note"]
    assert found["booleans"]["effectName"] == "effect on the log odds of True"
    for name, payload in found.items():
        text = json.dumps(payload, ensure_ascii=False)
        for word in ("R²", "residual", "variance explained", "leave-one-out"):
            assert word not in text, (name, word)


def test_groups_widen_the_standard_errors_of_scores():
    X, y = class_table(120)
    model = SalsaClassifier(**QUICK).fit(pd.concat([X] * 4), pd.concat([y] * 4), groups=np.tile(np.arange(120) // 4, 4))
    subject = decompose(model).subject
    rows = evidence_of(model, subject, given_rows(model, None, None, 0), 0).training
    assert rows.unit is not None
    table = model.search_.table.query("chosen").iloc[0]
    assert rows.explained().error == pytest.approx(table["standard_error"], rel=0.2)


def test_a_saved_and_loaded_classifier_gives_an_equal_report(fitted, report, tmp_path):
    fitted.save(tmp_path / "m.salsa")
    first, second = payload_of(report), payload_of(write_report(salsa.load(tmp_path / "m.salsa"), tmp_path / "r.html"))
    assert {**first, "byline": ""} == {**second, "byline": ""}


# The chosen class -----------------------------------------------------------------------------------------------------


def test_output_chooses_the_class_by_position_or_label(tmp_path):
    X, y = class_table(120, ("a", "b", "c"))
    model = SalsaClassifier(**QUICK).fit(X, y)
    first, second = (
        payload_of(write_report(model, tmp_path / "r.html", output=output)) for output in (2, np.str_("c"))
    )
    assert {**first, "byline": ""} == {**second, "byline": ""}
    assert first["effectName"] == "effect on the log probability of c, centred over classes"
    further = "; write_report(..., output=0) or salsa explain --class 'a' --out is about 'a'."
    assert first["fitted"]["notes"][-1].endswith("log probability of c, centred over classes" + further)
    shares = {feature["name"]: feature["total"] for feature in first["importance"]["features"]}
    expected = decompose(model, output=2).sobol().set_index("feature")["total"]
    assert shares["dose"] == pytest.approx(expected["dose"])
    assert first["quality"]["classes"]["chosen"] == 2
    assert decompose(model, output="c").output == 2
    values = shapley(model, X[:2])
    np.testing.assert_array_equal(values.parts("c").to_numpy(), values.values[:, :, 2])
    assert values.interactions(1, "c").sum(axis=1).to_numpy() == pytest.approx(values.values[1, :, 2])
    assert values.plot(1, output="c").base_value == values.base_value[2]
    for refused in (lambda: decompose(model, output="d"), lambda: values.plot(output="d")):
        with pytest.raises(ValueError, match="output='d' is no class of the model: the classes are 'a', 'b' and 'c'"):
            refused()


def test_the_report_of_two_classes_is_about_the_second_class(tmp_path):
    X, y = class_table(80)
    model = SalsaClassifier(**QUICK).fit(X, y)
    for output in (0, 1, "yes"):
        found = payload_of(write_report(model, tmp_path / "r.html", output=output))
        assert found["effectName"] == "effect on the log odds of yes"


@pytest.mark.parametrize(
    ("count", "output", "message"),
    [
        (3, "d", r"output='d' is no class of the model: the classes are 'a', 'b' and 'c'"),
        (3, 3, r"output=3: the positions of the classes are 0 \('a'\), 1 \('b'\) and 2 \('c'\)"),
        (2, "a", r"two classes have one function, the log odds of 'b'"),
        (2, None, r"output=None is no class of the model"),
    ],
)
def test_an_unknown_class_is_an_error(count, output, message, tmp_path):
    X, y = class_table(60, ("a", "b", "c")[:count])
    model = SalsaClassifier(**QUICK).fit(X, y)
    with pytest.raises(ValueError, match=message):
        write_report(model, tmp_path / "r.html", output=output)
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_label_among_given_targets_is_an_error(tmp_path):
    X, y = class_table(60)
    model = SalsaClassifier(**QUICK).fit(X, y)
    with pytest.raises(
        ValueError, match="y has the label 'maybe', which is no class of the model \\('no' and 'yes'\\)"
    ):
        write_report(model, tmp_path / "r.html", X, y.replace("no", "maybe"))
    with pytest.raises(ValueError, match=r"y has the shape \(59,\)"):
        write_report(model, tmp_path / "r.html", X, y[:-1])
    assert list(tmp_path.iterdir()) == []


# The page -------------------------------------------------------------------------------------------------------------


def test_the_page_shows_the_probabilities_of_python(fitted, report, open_page):
    page = open_page(report)
    settle(page)
    X, _ = class_table(20, seed=5)
    codes, expected = salsa.data.training_range.encoded(fitted, X), fitted.predict_proba(X)
    names = [feature["name"] for feature in payload_of(report)["whatIf"]["model"]["features"]]
    order = [fitted.columns_.names.index(name) for name in names]
    values = shapley(fitted, X).all_values[:, :, 0]
    for i, row in enumerate(codes[:, order]):
        cells = [None if np.isnan(value) else float(value) for value in row]
        found = page.evaluate("(row) => salsaReport.explain(row)", cells)
        response = found["response"] if len(fitted.classes_) > 2 else [1 - found["response"], found["response"]]
        np.testing.assert_allclose(response, expected[i], atol=1e-9)
        np.testing.assert_allclose(found["contributions"], values[i, order], atol=1e-9)
    assert page.locator("output.prediction").inner_text().endswith("%")


def test_the_page_draws_the_curves_of_the_chosen_class(open_page, tmp_path):
    X, y = class_table(200, ("a", "b", "c"))
    model = SalsaClassifier(**QUICK).fit(X[:150], y[:150])
    page = open_page(write_report(model, tmp_path / "r.html", X[150:], y[150:], output="b"))
    settle(page)
    assert page.locator("#good").get_by_text("ROC curve of b").is_visible()
    page.get_by_label("Class", exact=True).select_option("c")
    settle(page)
    assert page.locator("#good").get_by_text("ROC curve of c").is_visible()
    assert page.locator("#good").get_by_text("Precision and recall of c").is_visible()
    assert page.locator(".probabilities li").count() == 3
    assert page.locator(".confusion").count() == 2
    assert "R²" not in page.locator("main").inner_text()


@pytest.mark.parametrize("width", [360, 1280])
def test_every_odd_class_report_opens_without_overflow_or_overlap(width, open_page, odd_reports):
    for name, path in odd_reports.items():
        page = open_page(path, width=width)
        settle(page)
        assert overflow(page) <= 0, name
        assert page.locator("text=NaN").count() == 0, name
        assert page.evaluate("[...document.querySelectorAll('.chart')].every((c) => c.childElementCount === 1)"), name
        assert page.evaluate(OVERLAPS, -1.5) == [], name
        page.context.close()
