"""Any table gives finite numbers of the right shape or a ValueError with advice, never NaN or a warning."""

import traceback
from decimal import Decimal
from typing import NamedTuple

import numpy as np
import pandas as pd
import pytest
from conftest import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from salsa import SalsaRegressor
from salsa.data.copies import row_hashes
from salsa.kernels.base import NUMERIC_BASES

COVERAGE = 0.8
EXTREMES = [0.0, -0.0, 1.0, 5e-324, 1e-300, -1e-160, 1e8, 1e155, -1e300, 1.7e308, -1.7e308]
WIDE = [0.0, -0.0, 1.0, -1.0, 5e-324, 1e-300, -1e-120, 1e-8, 2.0**53 + 2, 1e60, -1e129]  # as wide as a column may be
TARGETS = [0.0, -0.0, 1.0, -3.0, 5e-324, 1e-300, 1e-160, 1e8, 1e140, -1e140]
WEIGHTS = [0.0, 1e-12, 0.1, 0.5, 1.0, 1.0, 1.0, 2.0, 1e6, 1e12]
INTEGERS = [0, 1, -1, 2**53, 2**53 + 1, -(2**63), 2**63 - 1]
LEVELS = ["a", "b", "c", "", " ", "NaN", "1"]
KERNELS = ["auto", *NUMERIC_BASES]
RELEVANCES = {
    "learned": lambda D: st.just("learned"),
    "equal": lambda D: st.just("equal"),
    "array": lambda D: st.lists(st.sampled_from([0.0, 1e-60, 1e-9, 1.0, 2.0, 1e20]), min_size=D, max_size=D),
}

pytestmark = [
    pytest.mark.filterwarnings("ignore:.* values not seen in training:UserWarning"),
    pytest.mark.filterwarnings("ignore:sample_weight sums to:UserWarning"),
]

# --- columns: (draw, number of rows, columns before it) -> values -------------------------------------------------


def drawn_from(values):
    return lambda draw, n, _: np.array(draw(st.lists(st.sampled_from(values), min_size=n, max_size=n)))


def ordinary(draw, n, _):
    return np.random.default_rng(draw(st.integers(0, 99))).normal(size=n)


def scaled(draw, n, _):
    """Draw numbers of any size, near zero or far from it, rounded or not."""
    x = ordinary(draw, n, _) + draw(st.sampled_from([0.0, 0.0, 1e3, 1e12, 1e17]))
    return 10.0 ** draw(st.integers(-140, 130)) * (np.round(x) if draw(st.booleans()) else x)


def constant(draw, n, _):
    return np.full(n, draw(st.sampled_from([*EXTREMES, np.nan])))


def constant_target(draw, n, _):
    return np.full(n, draw(st.sampled_from(TARGETS)))


def collinear(draw, n, before):
    last = np.asarray(before[-1]) if before else np.arange(n)
    return (last if last.dtype.kind in "fi" else np.arange(n)) / 4 + draw(st.sampled_from([0.0, 1.0, 1e6]))


def text(draw, n, _):
    values = draw(st.lists(st.sampled_from([*LEVELS, None]), min_size=n, max_size=n))
    return pd.Series(values, dtype=object).astype(draw(st.sampled_from([object, "str", "category"])))


def flags(draw, n, _):
    values = draw(st.lists(st.sampled_from([True, False, None]), min_size=n, max_size=n))
    return pd.Series(values, dtype=draw(st.sampled_from([bool, "boolean", "category", object])))


def ranks(draw, n, _):
    values = draw(st.lists(st.sampled_from(LEVELS[:3]), min_size=n, max_size=n))
    return pd.Series(pd.Categorical(values, categories=LEVELS[:4], ordered=True))


NUMBERS = [drawn_from(WIDE), scaled, ordinary, ordinary, constant, collinear]
ANYTHING = [*NUMBERS, drawn_from(EXTREMES), drawn_from(INTEGERS), text, flags, ranks]
OUTPUTS = [ordinary, ordinary, ordinary, scaled, scaled, drawn_from(TARGETS), drawn_from(TARGETS), constant_target]

# --- tables -------------------------------------------------------------------------------------------------------


class Table(NamedTuple):
    X: pd.DataFrame | np.ndarray
    y: np.ndarray  # (n,) or (n, q)
    weight: np.ndarray | None
    new: pd.DataFrame | np.ndarray


@st.composite
def tables(draw, rows):
    n, kinds = draw(rows), draw(st.sampled_from([NUMBERS, ANYTHING]))
    chosen = draw(st.lists(st.sampled_from(kinds), min_size=1, max_size=6))
    X, new = (columns_of(draw, chosen, size, kinds is NUMBERS) for size in (n, 4))
    if kinds is NUMBERS and draw(st.booleans()):
        new = np.column_stack([drawn_from(EXTREMES)(draw, 4, []) for _ in chosen])
    if draw(st.booleans()):
        X = np.take(X, np.arange(n) % draw(st.integers(1, n)), axis=0)  # repeated rows
    y = np.column_stack(
        [output(draw, n, []) for output in draw(st.lists(st.sampled_from(OUTPUTS), min_size=1, max_size=3))]
    )
    weight = draw(st.none() | st.lists(st.sampled_from(WEIGHTS), min_size=n, max_size=n).map(np.array))
    return Table(with_holes(draw, X), y[:, 0] if y.shape[1] == 1 else y, weight, with_holes(draw, new))


def columns_of(draw, kinds, n, as_array):
    columns = []
    for kind in kinds:
        columns.append(kind(draw, n, columns))
    return np.column_stack(columns) if as_array else pd.DataFrame({f"c{j}": x for j, x in enumerate(columns)})


def with_holes(draw, X):
    """Missing values here and there, in whole rows and in whole columns."""
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    holes = rng.uniform(size=X.shape) < draw(st.sampled_from([0.0, 0.0, 0.3, 0.9, 1.0]))
    holes[rng.uniform(size=len(X)) < draw(st.sampled_from([0.0, 0.0, 0.3]))] = True
    holes[:, rng.uniform(size=X.shape[1]) < draw(st.sampled_from([0.0, 0.0, 0.3]))] = True
    return X.mask(holes) if isinstance(X, pd.DataFrame) else np.where(holes, np.nan, X)


@st.composite
def models(draw, D, relevance, interactions):
    return SalsaRegressor(
        order=draw(st.sampled_from(["auto", "auto", "bisect", 1, D, list(range(1, D + 1))])),
        alpha=draw(st.sampled_from(["auto", "auto", "auto", 0.0, 1e-300, 1.0, 1e100, [0.0, 1.0]])),
        bandwidth=draw(st.sampled_from(["auto", "auto", "rule_of_thumb", 0.01, 1e6, np.geomspace(1e-3, 1e3, D)])),
        kernel=draw(st.sampled_from(KERNELS)),
        cv=draw(st.sampled_from([2, 5])),
        relevance=draw(RELEVANCES[relevance](D)),
        interactions=interactions,
        random_state=0,
    )


# --- the property -------------------------------------------------------------------------------------------------


def check(model, table):
    for Z, (value, sd, interval) in zip((table.X, table.new), answers(model, table), strict=False):
        shape = (len(Z), *table.y.shape[1:])
        assert (value.shape, sd.shape, interval.shape) == (shape, shape, (*shape, 2))
        assert np.isfinite(value).all()
        assert (sd >= 0).all()
        assert (interval[..., 0] <= interval[..., 1]).all()
        observations = model.expansion_.anchors  # copies are one observation, and a cell may be held out whole
        cells = len(np.unique(row_hashes(observations)))
        assert np.isfinite(sd).all() or len(observations) == 1
        assert np.isfinite(interval).all() or cells < COVERAGE * (cells + 1)


def answers(model, table):
    """Prediction, standard deviation and interval at the rows and at new ones; none after an error with advice."""
    try:
        model.fit(table.X, table.y, sample_weight=table.weight)
        return [(*model.predict(Z, return_std=True), model.predict_interval(Z, COVERAGE)) for Z in (table.X, table.new)]
    except ValueError as error:
        source = traceback.extract_tb(error.__traceback__)[-1].filename
        # a LinAlgError is a ValueError too, and what NumPy refuses has no advice
        if type(error) is ValueError and ("salsa" in source or "sklearn" in source) and len(str(error)) >= 20:
            return []
        raise


SETTINGS = {"derandomize": True, "suppress_health_check": list(HealthCheck)}


@pytest.mark.filterwarnings("ignore:.* far outside the range", "ignore:there are too few training rows")
@pytest.mark.parametrize("interactions", ["up_to", "exact"])
@pytest.mark.parametrize("relevance", RELEVANCES)
@settings(max_examples=examples(350), **SETTINGS)
@given(data=st.data())
def test_small_tables_give_finite_numbers_or_advice(relevance, interactions, data):
    table = data.draw(tables(st.integers(1, 12)))
    check(data.draw(models(table.X.shape[1], relevance, interactions)), table)


@pytest.mark.filterwarnings("ignore:.* far outside the range", "ignore:there are too few training rows")
@pytest.mark.parametrize("interactions", ["up_to", "exact"])
@settings(max_examples=examples(25), **SETTINGS)
@given(data=st.data())
def test_tables_of_80_rows_give_finite_numbers_or_advice(interactions, data):
    table = data.draw(tables(st.integers(80, 100)))
    check(data.draw(models(table.X.shape[1], "learned", interactions)), table)


# --- limits, with values on both sides -----------------------------------------------------------------------------

X, Y = np.random.default_rng(0).normal(size=(2, 20, 2))
COUNT = np.arange(20.0)
REFUSED = {
    "column too wide": ({"X": np.c_[COUNT, 1e150 * COUNT]}, "column 'x1' goes from 0 to 1.9e\\+151; .*: rescale it"),
    "column wider than float64": ({"X": np.c_[(-1.7e308) ** (COUNT % 2)]}, "column 'x0' goes from -1.7e\\+308 to 1; "),
    "column too narrow": ({"X": np.c_[1e-200 * COUNT]}, "column 'x0' goes from 0 to 1.9e-199; .*: rescale it"),
    "huge integer": ({"X": [[10**400 * int(c)] for c in COUNT]}, "'x0' has an infinite value in row 1"),
    "huge integer beside text": ({"X": [["a"], [10**400]] * 10}, "'x0' has an infinite value in row 1"),
    "huge decimal": ({"X": [[Decimal("1e400") * int(c)] for c in COUNT]}, "'x0' has an infinite value in row 1"),
    "huge long double": (
        {"X": np.c_[COUNT].astype("g") * np.longdouble("1e4000")},
        "'x0' has an infinite value in row 1",
    ),
    "target wider than float64": ({"y": np.resize([1.7e308, 1.7e308, -1.7e308], 20)}, "y has a value of size 1.7e"),
    "target too large": ({"y": 1e299 * COUNT}, "y has a value of size 1.9e\\+300; the largest allowed is 1e\\+150"),
    "huge integer as target": ({"y": [10**400, *range(19)]}, "y has an integer beyond float64; .*: rescale it"),
    "weight too large": ({"sample_weight": 1e100 * COUNT}, "sample_weight: .* between 1e-50 and 1e\\+50"),
    "weight too small": ({"sample_weight": 1e-100 * COUNT}, "sample_weight: .* between 1e-50 and 1e\\+50"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_values_beyond_limits_are_refused_with_advice(case):
    change, message = REFUSED[case]
    with pytest.raises(ValueError, match=message):
        SalsaRegressor().fit(**{"X": X, "y": COUNT, **change})


def test_relevances_that_make_the_kernel_vanish_are_refused_with_advice():
    with pytest.raises(ValueError, match=r"kernel of order 2 a diagonal of 1e-120, not between .* rescale them"):
        SalsaRegressor(order=2, relevance=[1e-60, 1e-60], interactions="exact").fit(X, COUNT)
    assert np.ptp(SalsaRegressor(relevance=[0.0, 0.0]).fit(X, COUNT).predict(X)) == 0  # the mean: that was asked for


@pytest.mark.parametrize("exponent", [-900, -600, 3, 400])
@pytest.mark.parametrize("n", [20, 90])
def test_targets_times_a_power_of_two_change_no_bit(exponent, n):
    """Predictions, standard deviations and intervals are compared in units of the target."""
    X = np.random.default_rng(1).normal(size=(n, 3))
    y = np.sin(2 * X) + X[:, ::-1]
    unit = np.array([1.0, 1.0, 2.0**exponent])
    plain, large = (SalsaRegressor(random_state=0).fit(X, target) for target in (y, unit * y))
    for ours, theirs in zip(large.predict(X, return_std=True), plain.predict(X, return_std=True), strict=True):
        np.testing.assert_array_equal(ours, unit * theirs)
    np.testing.assert_array_equal(large.predict_interval(X), unit[:, None] * plain.predict_interval(X))


OUTWEIGHED = {
    "in cross-validation": (
        {"cv": 5, "relevance": "equal", "interactions": "exact", "order": "bisect", "bandwidth": 0.01},
        [[0.96427908, 1.05311575], [np.nan, 1.05311575]],
        [1.0, 1.0],
        [1e-12, 1e12],
    ),
    "in the race": ({"kernel": "gaussian"}, [["b"], ["a"]], [[2.0, -0.3], [-2.5, 1.3]], [1e6, 1e-12]),
    "in a half of the race": ({}, [[np.nan], [np.nan], [1.1], [-0.9]], [0.0, -1e140, 1e-60, 0.0], [1e6, 2, 1e6, 2]),
}


@pytest.mark.filterwarnings("ignore:there are too few training rows")
@pytest.mark.parametrize("case", OUTWEIGHED)
def test_a_row_that_outweighs_all_others_is_fitted(case):
    parameters, X, y, weight = OUTWEIGHED[case]
    table = Table(np.array(X), np.array(y), np.array(weight), np.array(X))
    model = SalsaRegressor(random_state=0, **parameters)
    check(model, table)
    assert hasattr(model, "expansion_")  # it was not refused
