"""Tests of salsa compare on classes: text, booleans and numbers with --classes."""

import json
import re

import numpy as np
import pandas as pd
import pytest

from salsa.baselines import compare, leaderboard
from salsa.baselines.registry import CLASSIFIER_RIVALS
from salsa.cli.compare import _chosen

QUICK = ["--target", "kind", "--methods", "naive-bayes,tree"]


def make_classes(n=60, seed=0):
    """Return two numbers, a class of text that they tell, and the class as a boolean and as a number."""
    rng = np.random.default_rng(seed)
    code = np.arange(n) % 3
    table = pd.DataFrame({"a": rng.normal(size=n) + 2 * code, "b": rng.normal(size=n)})
    return table.assign(kind=np.array(["red", "green", "blue"])[code], first=code == 0, number=code)


@pytest.fixture
def classes(folder):
    """Return the working folder with kinds.csv (text), first.csv (booleans) and numbers.csv."""
    table = make_classes()
    for name, target in (("kinds", "kind"), ("first", "first"), ("numbers", "number")):
        table[["a", "b", target]].to_csv(f"{name}.csv", index=False)
    return folder


def test_json_equals_the_comparison_in_python(call, classes):
    code, out, err = call("compare", "kinds.csv", *QUICK, "--cv", "3", "--json")
    assert (code, err) == (0, "")
    table = make_classes()
    expected = compare(table[["a", "b"]], table["kind"], ["naive-bayes", "tree"], cv=3).frame
    kept = ["method", "log_loss", "log_loss_se", "brier", "accuracy", "status"]
    pd.testing.assert_frame_equal(pd.DataFrame(json.loads(out))[kept], expected[kept], rtol=1e-12)


def test_printed_table_tells_of_the_classes(call, classes):
    code, out, err = call("compare", "kinds.csv", *QUICK, "--cv", "3")
    assert (code, err) == (0, "")
    assert "target    kind: 3 classes (text): blue 33.3 %, green 33.3 %, red 33.3 %\n" in out
    assert re.search(r"^method +loss +\+/- +Brier +accuracy +seconds +seconds *$", out, re.MULTILINE)
    assert re.search(r"^naive-bayes +0\.\d+ +0\.\d+ +0\.\d{4} +0\.\d{4} +\d+\.\d\d +\d+\.\d{3}$", out, re.MULTILINE)
    assert max(map(len, out.splitlines())) <= 80


def test_a_boolean_target_holds_classes(call, classes):
    out = call("compare", "first.csv", "--target", "first", "--methods", "naive-bayes", "--cv", "3")[1]
    assert "target    first: 2 classes (true or false): False 66.7 %, True 33.3 %\n" in out


def test_numbers_are_classes_only_with_the_option(call, classes):
    target = ["compare", "numbers.csv", "--target", "number", "--cv", "3"]
    out = call(*target, "--classes", "--methods", "naive-bayes")[1]
    assert "target    number: 3 classes (--classes): 0 33.3 %, 1 33.3 %, 2 33.3 %\n" in out
    assert "mse" in call(*target, "--methods", "ridge", "--json")[1]


def test_all_stands_for_all_classifiers():
    assert _chosen("all", "classification") == list(CLASSIFIER_RIVALS)
    assert _chosen("RF, logreg", "classification") == ["random-forest", "logistic"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("kinds.csv --target kind --methods ridge", "'ridge' predicts numbers, and the target is a class"),
        ("kinds.csv --target kind --methods logistc", "there is no method 'logistc': did you mean 'logistic'?"),
        ("kinds.csv --target kind --methods paper", "the methods of the paper predict numbers"),
        ("kinds.csv --target kind --log", "column 'kind' holds classes (text); --log needs numbers"),
        ("numbers.csv --target number --classes --log", "--classes and --log exclude each other"),
        ("numbers.csv --target number --methods logistic", "'logistic' predicts classes, and the target is a number"),
        ("kinds.csv --target kind --cv 30", "class 'blue' has 20 of 60 rows, and 30 folds need 30"),
    ],
)
def test_invalid_options_give_an_error_before_methods_run(refused, classes, monkeypatch, options, message):
    monkeypatch.setattr(leaderboard, "run_all", None)
    assert message in refused("compare", *options.split())


def test_a_mistake_in_a_column_of_numbers_is_no_class(refused, classes):
    table = make_classes().astype({"number": object})
    table.loc[1, "number"] = "2x"
    table[["a", "number"]].to_csv("typo.csv", index=False)
    message = "column 'number' has '2x' in row 2, which is not a finite number"
    assert message in refused("compare", "typo.csv", "--target", "number", "--methods", "knn")


def test_rows_without_a_class_are_left_out_and_counted(call, classes):
    table = make_classes()
    table.loc[4, "kind"] = None
    table[["a", "kind"]].to_csv("gap.csv", index=False)
    code, _, err = call("compare", "gap.csv", "--target", "kind", "--methods", "knn")
    assert code == 0
    assert "salsa: 1 row without a value in column 'kind' left out\n" in err
