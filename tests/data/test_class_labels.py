"""Tests of labels of classes: they are told from numbers, checked and coded in one place."""

import numpy as np
import pandas as pd
import pytest

from salsa.data.targets import checked_labels, class_labels, coded_labels, kind_of_classes


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
    ],
)
def test_invalid_labels_give_an_error(y, message):
    with pytest.raises(ValueError, match=message):
        class_labels(y)
