"""Tests of classes, losses and monotone columns from the command line: fit, info, predict and explain."""

import json
import re
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import accuracy_score, d2_tweedie_score, log_loss, roc_auc_score

import salsa
from salsa import SalsaClassifier, SalsaRegressor
from salsa._utils.progress import NULL_LOSS, VARIANCE
from salsa.cli import arguments, scores, training_file
from salsa.cli.show import Listener
from salsa.cli.tables import reading
from salsa.options import LOSSES, MONOTONE_ORDER
from salsa.persistence.archive import read_archive
from salsa.solvers.slopes import SMOOTH_BASES

QUICK = ["--out", "m.salsa", "--order", "1", "--alpha", "0.1", "--relevance", "equal"]
OTHERS = {"kind", "flag", "two", "count", "amount", "price", "rating", "late", "w", "g", "t"}


def make_targets(n=120, seed=0):
    """Return two numbers, a category, targets of several kinds, and weights, groups and times."""
    rng, row = np.random.default_rng(seed), np.arange(n)
    table = pd.DataFrame({"a": rng.uniform(-1, 1, n), "b": rng.uniform(-1, 1, n), "colour": rng.choice(["u", "v"], n)})
    rate = np.exp(np.sin(3 * table["a"]) + table["b"])
    kind = np.where(rate + rng.normal(size=n) > 2, "high", np.where(rate > 0.7, "mid", "low"))
    table = table.assign(kind=kind, flag=rate + rng.normal(size=n) > 1.5, count=rng.poisson(rate))
    table = table.assign(two=table["flag"].astype(int) + 1, amount=rate * rng.gamma(3, 1 / 3, n))
    table = table.assign(rating=np.clip(np.round(2 * rate) / 2, 0.5, 3), late=np.where(row < 80, "early", kind))
    table = table.assign(price=200_000 + 1000 * np.round(20 * rate))
    return table.assign(w=rng.uniform(0.5, 2, n), g=row // 4, t=row)


def chosen_columns(*kept):
    """Return options that drop all columns that are no features and not kept."""
    return [word for name in sorted(OTHERS - set(kept)) for word in ("--drop", name)]


@pytest.fixture
def targets(folder):
    """Return the working folder with targets.csv and targets.parquet, in which text is a dictionary."""
    table = make_targets()
    table.to_csv("targets.csv", index=False)
    table.astype({"kind": "category"}).to_parquet("targets.parquet")
    return folder


@pytest.fixture
def fitted(call, targets):
    """Give a function that fits a target and returns the printed text and the model."""

    def run(target, *options, data="targets.csv", kept=()):
        code, out, err = call("fit", data, "--target", target, *QUICK, *chosen_columns(target, *kept), *options)
        assert (code, err) == (0, "")
        return out, salsa.load("m.salsa")

    return run


def features_of(table):
    return table[["a", "b", "colour"]]


class TestKinds:
    @pytest.mark.parametrize(
        ("data", "target", "options", "kind", "classes"),
        [
            ("targets.csv", "kind", [], "text", ["high", "low", "mid"]),
            ("targets.parquet", "kind", [], "category", ["high", "low", "mid"]),
            ("targets.csv", "flag", [], "true or false", [False, True]),
            ("targets.parquet", "flag", [], "true or false", [False, True]),
            ("targets.csv", "two", ["--classes"], "--classes", [1, 2]),
            ("targets.csv", "rating", ["--classes"], "--classes", ["0.5", "1", "1.5", "2", "2.5", "3"]),
        ],
    )
    def test_classes_are_recognised_and_the_output_says_why(self, fitted, data, target, options, kind, classes):
        out, model = fitted(target, *options, data=data)
        assert isinstance(model, SalsaClassifier)
        assert model.classes_.tolist() == classes
        assert f"target    {target}: {len(classes)} classes ({kind}): {classes[0]} " in out

    def test_shares_of_classes_are_printed(self, fitted):
        shares = make_targets()["kind"].value_counts(normalize=True).sort_index()
        listed = ", ".join(f"{label} {100 * share:.3g} %" for label, share in shares.items())
        assert f"target    kind: 3 classes (text): {listed}\n" in fitted("kind")[0]

    @pytest.mark.parametrize(
        ("target", "hint"),
        [
            ("count", "column 'count' holds whole numbers: --loss poisson is for counts, --classes for classes"),
            ("two", "column 'two' has two values: --classes takes them as classes"),
            ("amount", None),
            ("price", None),
        ],
    )
    def test_numbers_are_regression_with_a_hint_at_whole_numbers(self, fitted, target, hint):
        out, model = fitted(target)
        assert isinstance(model, SalsaRegressor)
        assert f"target    {target}: numbers\n" in out
        assert re.findall(r"note +(column .*)\n", out) == ([] if hint is None else [hint])

    def test_an_option_for_counts_needs_no_hint(self, fitted):
        assert "holds whole numbers" not in fitted("count", "--loss", "poisson")[0]

    def test_the_classifier_equals_python(self, fitted):
        table = pd.read_csv("targets.csv")
        expected = SalsaClassifier(order=1, alpha=0.1, relevance="equal", random_state=0)
        expected.fit(features_of(table), table["kind"])
        np.testing.assert_array_equal(
            fitted("kind")[1].predict_proba(features_of(table)), expected.predict_proba(features_of(table))
        )


class TestScores:
    def test_scores_of_two_classes_equal_scikit_learn(self, fitted, call):
        out, model = fitted("flag")
        labels, p = model.held_out_proba()
        found = json.loads(call("info", "m.salsa", "--json")[1])["held_out"]
        assert found["log_loss"] == pytest.approx(log_loss(labels, p))
        assert found["accuracy"] == pytest.approx(accuracy_score(labels, p[:, 1] > 0.5))
        assert found["auc"] == pytest.approx(roc_auc_score(labels, p[:, 1]))
        constant = log_loss(labels, np.full(len(labels), labels.mean()))
        share = found["log_loss"] / constant
        assert re.search(rf"log loss  {found['log_loss']:.4f} on held-out rows: {share:.4f} \+/- 0\.\d+ of the", out)
        assert f"AUC       {found['auc']:.4f} on held-out rows\n" in out

    def test_three_classes_have_no_auc(self, fitted):
        assert "AUC" not in fitted("kind")[0]

    def test_weights_count_in_the_scores(self, fitted):
        out, model = fitted("flag", "--weights", "w", "--json", kept=["w"])
        labels, p = model.held_out_proba()
        assert json.loads(out)["held_out"]["log_loss"] != pytest.approx(log_loss(labels, p), rel=1e-6)

    @pytest.mark.parametrize(
        ("target", "options", "words"),
        [
            ("count", ["--loss", "poisson"], "Poisson deviance"),
            ("amount", ["--loss", "gamma"], "gamma deviance"),
            ("amount", ["--loss", "huber"], "Huber loss"),
            ("amount", ["--loss", "quantile", "--quantile", "0.9"], "pinball loss"),
        ],
    )
    def test_losses_show_the_share_that_is_explained(self, fitted, call, target, options, words):
        out, model = fitted(target, *options)
        assert model.loss == options[1]
        best = model.search_.table.query("chosen").iloc[0]
        line = f"D2        {1 - best['cv_error']:.4f} +/- {best['standard_error']:.4f} in cross-validation: "
        end = "\n" if 1 - best["cv_error"] >= 2 * best["standard_error"] else "; this is less than two standard errors"
        assert f"{line}the share of the {words} that is explained{end}" in out
        assert f"loss      {words}" in out
        assert "R2" not in out
        shown = call("info", "m.salsa")[1]
        assert line in shown
        assert f"loss      {words}" in shown

    def test_the_quantile_reaches_the_model_and_the_output(self, fitted):
        out, model = fitted("amount", "--loss", "quantile", "--quantile", "0.9")
        assert model.quantile == 0.9
        assert "loss      pinball loss: the quantile 0.9 is predicted\n" in out

    @pytest.mark.parametrize("name", ["noise", "luck"])
    def test_a_share_below_two_standard_errors_is_called_doubtful(self, call, tmp_path, monkeypatch, name):
        monkeypatch.chdir(tmp_path)
        rng = np.random.default_rng(0)
        noise = rng.normal(size=90)
        table = pd.DataFrame({"u": rng.uniform(size=90), "noise": noise, "luck": np.where(noise > 0, "good", "bad")})
        table[["u", name]].to_csv("noise.csv", index=False)
        out = call("fit", "noise.csv", "--target", name, "--out", "m.salsa", "--order", "1", "--relevance", "equal")[1]
        doubt = "; this is less than two standard errors: the model may be no better than "
        constant = {"noise": "the mean", "luck": "the class shares"}[name]
        assert f"{doubt}{constant}\n" in out
        assert f"{doubt}{constant}\n" in call("info", "m.salsa")[1]

    @pytest.mark.parametrize(("unit", "share"), [(VARIANCE, "R2"), (NULL_LOSS, "D2")])
    def test_progress_names_the_share_by_the_unit_of_the_error(self, unit, share):
        heard = []
        metadata = {"error": 0.25, "standard_error": 0.1, "seconds": 1.0, "unit": unit}
        Listener(heard.append).on_fit_task_end(None, SimpleNamespace(task_name="order 1"), metadata=metadata)
        assert heard == [f"Tried order 1: {share} 0.7500"]

    def test_names_of_losses_and_kernels_equal_the_library(self):
        assert tuple(scores.LOSSES) == LOSSES
        assert set(arguments.SMOOTH) == {"auto", *SMOOTH_BASES}
        assert arguments.MONOTONE_ORDER == MONOTONE_ORDER

    def test_a_race_is_said_to_be_on_coded_targets(self, call, targets):
        out = call("fit", "targets.csv", "--target", "flag", "--out", "m.salsa", *chosen_columns("flag"))[1]
        assert out.endswith("R2 is on coded targets, from which the kernels are first learned\n")


class TestMonotone:
    @pytest.mark.parametrize("sign", ["+1", "1", "-1"])
    def test_signs_reach_the_model_and_the_output(self, fitted, call, sign):
        pytest.importorskip("clarabel")
        out, model = fitted("amount", "--monotone", f"b={sign}")
        assert model.monotonic_cst == {"b": int(sign)}
        assert f"monotone  b {int(sign):+d}\n" in out
        assert f"monotone  b {int(sign):+d}\n" in call("info", "m.salsa")[1]
        rows = pd.DataFrame({"a": 0.0, "b": np.linspace(-0.9, 0.9, 20), "colour": "u"})
        assert (int(sign) * np.diff(model.predict(rows)) >= -1e-9).all()

    def test_a_missing_solver_gives_an_error_with_its_package(self, refused, targets, monkeypatch):
        monkeypatch.setattr(arguments, "find_spec", lambda name: None)
        options = ["--target", "amount", *QUICK, *chosen_columns("amount"), "--monotone", "b=1"]
        assert "needs the package clarabel: pip install" in refused("fit", "targets.csv", *options)


COMBINED = {
    "kind": [],
    "two": ["--classes"],
    "count": ["--loss", "poisson"],
    "amount": ["--loss", "quantile", "--quantile", "0.2"],
}


class TestCombinations:
    @pytest.mark.parametrize("target", COMBINED)
    @pytest.mark.parametrize("role", [["--weights", "w"], ["--group", "g"], ["--time", "t"]])
    def test_weights_groups_and_time_work_with_classes_and_losses(self, fitted, target, role):
        out, _ = fitted(target, *COMBINED[target], *role, kept=[role[1]])
        assert re.search(r"^(log loss|D2) ", out, re.MULTILINE)
        assert "of the noise variance is shared" not in out

    def test_a_class_may_first_appear_in_a_late_part(self, fitted):
        assert "target    late: 4 classes (text)" in fitted("late", "--time", "t", kept=["t"])[0]

    @pytest.mark.parametrize("suffix", ["csv", "parquet"])
    @pytest.mark.parametrize(("target", "options"), [*COMBINED.items(), ("flag", []), ("rating", ["--classes"])])
    def test_tables_in_chunks_give_the_same_model(self, fitted, monkeypatch, target, options, suffix):
        told = []
        for copies in (training_file.COPIES, 10**15):
            monkeypatch.setattr(training_file, "COPIES", copies)
            monkeypatch.setattr(reading, "CHUNK_VALUES", 500)
            monkeypatch.setattr(reading, "FIRST_ROWS", 17)
            summary = json.loads(fitted(target, *options, "--json", data=f"targets.{suffix}")[0])
            told.append(([{**row, "seconds": 0} for row in summary.pop("orders")], summary, read_archive("m.salsa")[1]))
        assert told[0][:2] == told[1][:2]
        for name, array in told[0][2].items():
            np.testing.assert_array_equal(array, told[1][2][name])


INVALID = [
    ("--target amount --quantile 0.5", "--quantile 0.5 needs --loss quantile"),
    ("--target amount --loss quantile", "--loss quantile needs the quantile to predict: give --quantile 0.9"),
    ("--target amount --loss quantile --quantile 0", "--quantile 0: give a number between 0 and 1, such as 0.9"),
    ("--target amount --loss quantile --quantile 1", "--quantile 1: give a number between 0 and 1, such as 0.9"),
    ("--target amount --loss logistic", "--loss logistic: give one of squared_error, huber, quantile, poisson, gamma"),
    ("--target amount --loss gamma --log", "--log and --loss gamma exclude each other"),
    ("--target two --classes --log", "--classes and --log exclude each other"),
    ("--target two --classes --loss poisson", "--classes and --loss poisson exclude each other"),
    ("--target two --classes --monotone a=1", "--monotone and --classes exclude each other"),
    ("--target amount --monotone a=1 --loss huber", "--monotone and --loss huber exclude each other"),
    ("--target amount --monotone a=2", "--monotone a=2: 2 is no sign; give +1 (predictions increase) or -1"),
    ("--target amount --monotone a", "--monotone a: give a column and a sign, such as --monotone area=+1"),
    ("--target amount --monotone a=1 --monotone a=-1", "column 'a' was given the other sign, too"),
    ("--target amount --monotone a=1 --kernel laplace", "--kernel laplace has no slope to constrain"),
    ("--target amount --monotone a=1 --order 3", "--order 3: terms with a monotone column have at most order 2"),
    ("--target amount --monotone a=1 --interact a,b", "--monotone has no fit within sets of columns (--interact)"),
    ("--target amount --monotone aa=1", "has no column 'aa' (did you mean 'a'?)"),
    ("--target amount --monotone colour=1", "column 'colour' holds categories, which have no order"),
    ("--target amount --monotone a=1 --category a", "column 'a' holds categories, which have no order"),
    ("--target amount --monotone amount=1", "--monotone amount: this column is no feature"),
    ("--target amount --monotone a=1 --drop a", "--monotone a: this column is no feature"),
    ("--target kind --loss gamma", "column 'kind' holds classes (text); --loss gamma needs numbers"),
    ("--target kind --log", "column 'kind' holds classes (text); --log needs numbers: leave --log out"),
    ("--target kind --monotone a=1", "column 'kind' holds classes (text); --monotone needs numbers"),
    ("--target a --loss poisson", "--loss poisson needs targets 0 or more: leave --loss poisson out"),
    ("--target count --loss gamma", "--loss gamma needs targets above 0: leave --loss gamma out"),
    ("--target amount --classes", "column 'amount' has 120 different numbers in 120 rows, and --classes takes 60 at"),
    ("--target same", "column 'same' has one class, 'x'; at least two are needed"),
    ("--target name", "column 'name' has 120 different texts in 120 rows, like names or identifiers"),
    ("--target day", "column 'day' holds dates, times or durations"),
    ("--target typo", "column 'typo' has '2x' in row 3, which is not a finite number"),
]


@pytest.mark.parametrize("large", [False, True])
@pytest.mark.parametrize(("options", "message"), INVALID)
def test_invalid_options_give_an_error_before_the_fit(refused, targets, monkeypatch, options, message, large):
    table = make_targets()
    odd = table.assign(same="x", name=[f"n{i}" for i in range(120)], typo=table["count"].astype(object))
    odd = odd.assign(day=[f"2026-01-{1 + i % 28:02d}" for i in range(120)], gap=table["kind"])
    odd.loc[4, "gap"], odd.loc[2, "typo"] = None, "2x"
    target = options.split()[1]
    odd[list(dict.fromkeys(["a", "b", "colour", target]))].to_csv("odd.csv", index=False)
    for kind in (SalsaRegressor, SalsaClassifier):
        monkeypatch.setattr(kind, "fit", None)
        monkeypatch.setattr(kind, "fit_blocks", None)
    if large:
        monkeypatch.setattr(training_file, "COPIES", 10**15)
        monkeypatch.setattr(reading, "CHUNK_VALUES", 200)
    assert message in refused("fit", "odd.csv", *options.split(), "--out", "m.salsa")


class TestPredictions:
    def test_classes_have_probabilities_and_sets(self, fitted, call):
        _, model = fitted("kind")
        X = features_of(pd.read_csv("targets.csv"))
        assert call("predict", "m.salsa", "targets.csv", "--interval", "0.9", "--out", "p.csv")[0] == 0
        found = pd.read_csv("p.csv")
        names = [*(f"{what}_{label}" for what in ("probability", "set") for label in model.classes_)]
        assert list(found) == ["prediction", *names]
        np.testing.assert_array_equal(found["prediction"], model.predict(X))
        np.testing.assert_allclose(found[names[:3]], model.predict_proba(X), rtol=1e-12)
        np.testing.assert_array_equal(found[names[3:]], model.predict_set(X, 0.9))

    def test_json_has_lists_of_probabilities_and_sets(self, fitted, call):
        _, model = fitted("flag")
        X = features_of(pd.read_csv("targets.csv"))
        found = json.loads(call("predict", "m.salsa", "targets.csv", "--interval", "0.8", "--json")[1])
        assert found["predictions"] == model.predict(X).tolist()
        assert found["sets"] == model.predict_set(X, 0.8).tolist()
        assert np.shape(found["probabilities"]) == (120, 2)

    @pytest.mark.parametrize("suffix", ["parquet", "feather"])
    def test_labels_keep_their_type_in_files(self, fitted, call, suffix):
        _, model = fitted("flag")
        assert call("predict", "m.salsa", "targets.csv", "--out", f"p.{suffix}")[0] == 0
        read = pd.read_parquet if suffix == "parquet" else pd.read_feather
        assert read(f"p.{suffix}")["prediction"].dtype == model.classes_.dtype == bool

    def test_too_few_rows_for_sets_are_told(self, fitted, call):
        fitted("kind")
        err = call("predict", "m.salsa", "targets.csv", "--interval", "0.999")[2]
        assert err == "salsa: there are too few training rows for sets of coverage 0.999: they hold all classes\n"

    def test_intervals_of_counts_are_whole_numbers(self, fitted, call):
        fitted("count", "--loss", "poisson")
        call("predict", "m.salsa", "targets.csv", "--interval", "0.9", "--out", "p.csv")
        ends = pd.read_csv("p.csv")[["lower", "upper"]].to_numpy()
        assert (ends == np.round(ends)).all()
        assert (ends >= 0).all()


class TestExplanations:
    @pytest.fixture
    def explained(self, call):
        """Give a function that explains m.salsa and returns the JSON summary."""

        def run(*arguments):
            code, out, err = call("explain", "m.salsa", *arguments, "--json")
            assert (code, err) == (0, "")
            return json.loads(out)

        return run

    def test_a_class_is_explained_by_its_own_function(self, fitted, explained):
        _, model = fitted("kind")
        means = [salsa.explain.decompose(model, output=j).mean for j in range(3)]
        assert [explained("--class", label)["mean"] for label in model.classes_] == pytest.approx(means)
        assert explained()["mean"] == pytest.approx(means[0])
        assert explained()["scale"].startswith("log probability of class high, up to a constant")

    def test_contributions_to_a_class_add_up_to_its_function(self, fitted, explained):
        _, model = fitted("kind")
        X = features_of(pd.read_csv("targets.csv"))
        row = explained("targets.csv", "--row", "3", "--class", "mid")["row"]
        total = row["base_value"] + sum(entry["contribution"] for entry in row["contributions"])
        assert total == pytest.approx(row["prediction"]) == pytest.approx(model.decision_function(X)[2, 2])
        assert row["response"]["name"] == "probability of mid"
        assert row["response"]["value"] == pytest.approx(model.predict_proba(X)[2, 2])

    def test_two_classes_are_explained_by_log_odds(self, fitted, call):
        fitted("two", "--classes")
        out = call("explain", "m.salsa", "targets.csv", "--row", "1")[1]
        assert "scale     log odds of class 2\n" in out
        assert re.search(r"^prediction of row 1 .*\nprobability of 2 +0\.\d+\n", out, re.MULTILINE)

    @pytest.mark.parametrize("target", ["kind", "flag", "two"])
    def test_scores_of_given_rows_equal_scikit_learn(self, fitted, explained, call, target):
        _, model = fitted(target, "--classes")
        table = pd.read_csv("targets.csv")
        found = explained("targets.csv", "--target", target)["data"]["scores"]
        p = model.predict_proba(features_of(table))
        assert found["log_loss"] == pytest.approx(log_loss(table[target], p, labels=model.classes_))
        assert found["accuracy"] == pytest.approx(model.score(features_of(table), table[target]))
        assert "log loss  " in call("explain", "m.salsa", "targets.csv", "--target", target)[1]

    def test_scores_of_counts_are_shares_of_the_deviance(self, fitted, explained):
        _, model = fitted("count", "--loss", "poisson")
        table = pd.read_csv("targets.csv")
        found = explained("targets.csv", "--target", "count")
        expected = d2_tweedie_score(table["count"], model.predict(features_of(table)), power=1)
        assert found["data"]["scores"] == {"d2": pytest.approx(expected)}
        assert found["scale"] == "log of the mean"

    @pytest.mark.parametrize("loss", [["huber"], ["quantile", "--quantile", "0.5"]])
    def test_scores_of_other_losses_are_below_one(self, fitted, explained, loss):
        fitted("amount", "--loss", *loss)
        found = explained("targets.csv", "--target", "amount")
        assert 0 < found["data"]["scores"]["d2"] < 1
        assert found["scale"] is None

    @pytest.mark.parametrize(
        ("target", "options", "message"),
        [
            ("kind", "--class hihg", "--class hihg: the classes of this model are high, low, mid"),
            ("flag", "--class False", "two classes have one function, the log odds of True"),
            ("count", "--class 1", "--class 1: this model predicts numbers; leave --class out"),
            ("kind", "targets.csv --target colour", "has 'u' in row 1, which is no class of the model: its classes"),
        ],
    )
    def test_unknown_classes_give_an_error(self, fitted, refused, target, options, message):
        table = make_targets().assign(colour="u")
        fitted(target)
        table.to_csv("targets.csv", index=False)
        assert message in refused("explain", "m.salsa", *options.split())
