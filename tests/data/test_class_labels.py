"""Tests of labels of classes: they are told from numbers, checked and coded in one place."""

import numpy as np
import pandas as pd
import pytest

from salsa.data.targets import checked_labels, class_labels, coded_labels, kind_of_classes, weights_of_classes


@pytest.mark.parametrize(
    ("y", "kind"),
    [
        (["a", "b"], "text"),
        ([True, False], "true or false"),
        (pd.Series(pd.Categorical([3, 1])), "category"),
        ([0, 1], None),
        (np.array([0.5, 1.5]), None),
    ],
)
def test_text_booleans_and_categories_are_classes(y, kind):
    assert kind_of_classes(y) == kind


@pytest.mark.parametrize("y", [["b", "a", "b"], np.array(["b", "a", "b"]), pd.Categorical(["b", "a", "b"])])
def test_labels_are_sorted_and_coded(y):
    labels = class_labels(y)
    assert labels.classes.tolist() == ["a", "b"]
    assert labels.code.tolist() == [1, 0, 1]
    assert coded_labels(labels.classes, checked_labels(y)).tolist() == [1.0, 0.0, 1.0]


def test_lists_of_numbers_keep_their_type():
    assert class_labels([2, 1, 2]).classes.dtype.kind == "i"


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (["a", 1], "labels of different types, number and text"),
        ([True, 1], "labels of different types, bool and number"),
        (["a", np.nan], "row 1 has no label"),
        (["a", None], "row 1 has no label"),
        (["a", "a"], "one class, 'a'"),
        ([0.5, 1.5], "Unknown label type: continuous"),
        ([[1, 2], [3, 4]], "one label per row"),
        (pd.cut(pd.Series([1.0, 2.0, 9.0]), 2), r"label type: Interval, such as \(.*texts or whole numbers; y.astype"),
    ],
)
def test_invalid_labels_give_an_error(y, message):
    with pytest.raises(ValueError, match=message):
        class_labels(y)


@pytest.mark.parametrize(
    ("class_weight", "message"),
    [
        ("balance", "class_weight='balance' must be \"balanced\", a dict of weights by label, or None"),
        ({"c": 2.0}, "class_weight: 'c' is no class of y; the classes are 'a', 'b'"),
    ],
)
def test_invalid_class_weights_give_an_error(class_weight, message):
    with pytest.raises(ValueError, match=message):
        weights_of_classes(class_weight, np.array(["a", "b", "b"]))


@pytest.mark.parametrize(("class_weight", "expected"), [("balanced", [1.5, 0.75, 0.75]), ({"b": 2.0}, [1.0, 2.0, 2.0])])
def test_class_weights_are_weights_of_rows(class_weight, expected):
    np.testing.assert_allclose(weights_of_classes(class_weight, np.array(["a", "b", "b"])), expected)
