"""Sets of features that may interact."""

from itertools import combinations

import numpy as np
import pytest
from conftest import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from salsa.data.columns import Columns
from salsa.data.interaction_sets import Allowed, disjoint_layers, lone_features, maximal, parse_allowed, resolved

COLUMNS = Columns(("area", "rooms", "age", "heating", "floor"), (None,) * 5, (False,) * 5)
SETS = st.lists(st.sets(st.integers(0, 7), min_size=1, max_size=8), min_size=1, max_size=8)


class TestParsing:
    def test_words_are_largest_orders(self):
        assert parse_allowed("pairwise") == Allowed(2)
        assert parse_allowed("no_interactions") == Allowed(1)

    @pytest.mark.parametrize(
        "value", [[{0, 1}, {2}], ((0, 1), (2,)), [[0, 1], frozenset({2})], [np.array([0, 1]), [np.int64(2)]]]
    )
    def test_sequences_of_all_kinds_give_the_same_sets(self, value):
        assert resolved(parse_allowed(value), COLUMNS) == Allowed(sets=((0, 1), (2,), (3, 4)))

    @pytest.mark.parametrize(
        ("value", "message"),
        [
            ("pairs", "interaction_cst='pairs' must be None, 'pairwise', 'no_interactions' or a list of sets"),
            (3, "interaction_cst=3 must be None"),
            ({"area", "rooms"}, "must be None"),
            ([], "is empty: give None to allow all interactions"),
            ([{0, 1}, set()], r"set number 1 \(counted from 0\) is empty: leave it out"),
            (["area", "rooms"], r"set number 0 \(counted from 0\) is 'area': give a set"),
            ([0, 1], "is 0: give a set"),
            ([{0, 1.5}], "holds 1.5: features are names, or positions"),
            ([[True, 1]], "holds True"),
        ],
    )
    def test_wrong_values_are_refused_with_their_place_and_advice(self, value, message):
        with pytest.raises(ValueError, match=message):
            parse_allowed(value)


class TestPositions:
    def test_names_and_positions_mean_the_same(self):
        assert resolved(parse_allowed([{"area", "age"}, {3, "rooms"}]), COLUMNS).sets == ((0, 2), (1, 3), (4,))

    def test_features_in_no_set_form_one_additional_set(self):
        """The example of scikit-learn: with five features, [{0, 1}] is [{0, 1}, {2, 3, 4}]."""
        assert resolved(parse_allowed([{0, 1}]), COLUMNS) == resolved(parse_allowed([{0, 1}, {2, 3, 4}]), COLUMNS)

    @pytest.mark.parametrize("size", [1, 2, 3])
    def test_all_sets_of_a_size_are_a_largest_order(self, size):
        assert resolved(parse_allowed(list(combinations(range(5), size))), COLUMNS) == Allowed(size)

    def test_one_set_of_all_features_is_no_constraint(self):
        assert resolved(parse_allowed([list(range(5)), {1}]), COLUMNS) == Allowed()

    @pytest.mark.parametrize(
        ("value", "message"),
        [
            ([{"area"}, {"room"}], r"set number 1 .* holds 'room', which is no column .*; did you mean 'rooms'"),
            ([{"xyz"}], "columns are 'area', 'rooms', 'age'"),
            ([{5}], "holds 5: positions of this table are 0 to 4"),
            ([{-1}], "holds -1: positions of this table are 0 to 4"),
        ],
    )
    def test_unknown_features_are_refused(self, value, message):
        with pytest.raises(ValueError, match=message):
            resolved(parse_allowed(value), COLUMNS)

    def test_the_largest_order_is_the_size_of_the_largest_set(self):
        assert Allowed().most(9) == 9
        assert Allowed(2).most(9) == 2
        assert Allowed(2).most(1) == 1
        assert Allowed(sets=((0, 1, 2), (3, 4))).most(9) == 3


@settings(max_examples=examples(50))
@given(SETS)
def test_maximal_sets_allow_the_same_interactions(sets):
    """A set is allowed if it is within one of the sets; every kept set is needed."""
    kept = maximal(sets)
    assert all(any(set(S) <= set(other) for other in kept) for S in sets)
    assert all(set(S) in sets for S in kept)
    assert not any(set(one) <= set(other) for one in kept for other in kept if one != other)
    assert list(kept) == sorted(set(kept))


@settings(max_examples=examples(50))
@given(SETS)
def test_layers_hold_every_set_once_and_are_disjoint(sets):
    kept = maximal(sets)
    layers, lone = disjoint_layers(kept), lone_features(kept)
    assert sorted([S for layer in layers for S in layer] + [(j,) for j in lone]) == sorted(kept)
    for layer in layers:
        assert len({len(S) for S in layer}) == 1
        assert sum(map(len, layer)) == len(set().union(*layer))
