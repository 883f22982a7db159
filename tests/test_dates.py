"""Models of tables with dates: what they recover, and everything that meets the parts of a date."""

import json
import re
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import salsa
from salsa import SalsaClassifier, SalsaRegressor, explain
from salsa._utils.user_warning import OutsideRangeWarning
from salsa.baselines.encoding import TableEncoder, needs_encoding
from salsa.data.date_parts import DAY, TREND, YEAR, Part
from salsa.explain.part_ticks import part_ticks

START, ROWS = pd.Timestamp("2019-01-01"), 250
FAST = {"relevance": "equal", "order": 2, "random_state": 0}


def truth(when):
    """The effects of trend, time of year and day of week."""
    when = pd.DatetimeIndex(when)
    years = (when - START) / pd.Timedelta(days=365)
    weekend = when.day_of_week >= 5
    return np.asarray(0.4 * years), np.sin(2 * np.pi * np.asarray(when.day_of_year) / 365), 0.7 * np.asarray(weekend)


def simulated(seed, n=ROWS):
    rng = np.random.default_rng(seed)
    when = pd.Series(START + pd.to_timedelta(rng.integers(0, 4 * 365, n), unit="D"))
    X = pd.DataFrame({"size": rng.uniform(-1, 1, n), "when": when})
    return X, X["size"].to_numpy() + sum(truth(when)) + 0.2 * rng.standard_normal(n)


@pytest.fixture(scope="module")
def learned():
    """A model with a learned kernel, and a model of the same table without its date."""
    X, y = simulated(0)
    X.loc[7, "when"] = pd.NaT
    return SalsaRegressor(random_state=0).fit(X, y), SalsaRegressor(random_state=0).fit(X[["size"]], y)


@pytest.fixture(scope="module")
def fast():
    X, y = simulated(1)
    X["when"] = X["when"].dt.tz_localize("Europe/Berlin") + pd.to_timedelta(np.arange(ROWS) % 24, unit="h")
    X["wait"] = pd.to_timedelta(np.arange(ROWS) * 60.0, unit="s")
    X.loc[3, "when"] = pd.NaT
    return SalsaRegressor(**FAST).fit(X, y), X, y


# --- what is learned ----------------------------------------------------------------------------------


def test_trend_season_and_weekdays_are_recovered(learned):
    anova = explain.decompose(learned[0])
    days = pd.date_range(START, periods=208, freq="7D")
    week = pd.date_range("2020-06-01", periods=7)
    cases = {"trend": (days, 0), "time of year": (days, 1), "day of week": (week, 2)}
    for part, (points, place) in cases.items():
        effect = anova.effect(f"when: {part}", points=[points], band=False).values
        expected = truth(points)[place]
        assert np.std(effect - expected) < 0.06, part


def test_the_date_improves_predictions_of_new_rows(learned):
    with_date, without = learned
    X, y = simulated(5)
    noise = 0.04 / np.var(y)
    assert with_date.score(X, y) > 1 - 1.5 * noise
    assert without.score(X[["size"]], y) < 0.5
    assert with_date.n_features_in_ == 2
    assert with_date.feature_names_in_.tolist() == ["size", "when"]
    assert with_date.relevance_.shape == (4,)


def test_december_touches_january(learned, fast):
    for model, zone in ((learned[0], ""), (fast[0], "+01:00")):
        anova = explain.decompose(model)
        ends = [f"2020-12-31T23:59:59{zone}", f"2021-01-01T00:00:00{zone}"]
        before, after = anova.effect("when: time of year", points=[ends], band=False).values
        assert abs(before - after) < 1e-6 * np.sqrt(anova.variance)
        assert anova.effect("when: time of year", band=False).values[[0, 100]].std() < 1e-12
    before, after = anova.effect("when: hour of day", points=[[1 - 1e-9, 0.0]], band=False).values
    assert abs(before - after) < 1e-6


def test_hours_are_no_places_on_a_circle(fast):
    anova = explain.decompose(fast[0])
    hours = anova.effect("when: hour of day", band=False).axes[0].values
    with pytest.raises(ValueError, match=r"'when: hour of day' has no value 1\.\S*; give dates, or shares of a turn"):
        anova.effect("when: hour of day", points=[hours])


# --- tables, files and blocks -------------------------------------------------------------------------


def test_every_kind_of_table_gives_the_same_predictions(fast, tmp_path):
    model, X, y = fast
    expected = model.predict(X)
    texts = X.assign(when=[None if pd.isna(stamp) else stamp.isoformat() for stamp in X["when"]])
    tables = [pl.from_pandas(X), pa.Table.from_pandas(X), texts, X.assign(when=X["when"].dt.tz_convert("UTC"))]
    for table in tables:
        np.testing.assert_array_equal(model.predict(table), expected)
    for table in tables[:3]:
        np.testing.assert_array_equal(SalsaRegressor(**FAST).fit(table, y).predict(X), expected)
    model.save(tmp_path / "dates.salsa")
    loaded = salsa.load(tmp_path / "dates.salsa")
    assert loaded.columns_ == model.columns_
    np.testing.assert_array_equal(loaded.predict(X), expected)
    np.testing.assert_array_equal(loaded.predict_interval(X[:5]), model.predict_interval(X[:5]))


def test_missing_stamps_are_predicted(fast):
    model, X, _ = fast
    absent = model.predict(X.assign(when=pd.NaT))
    assert np.isfinite(absent).all()
    assert np.ptp(absent) < np.ptp(model.predict(X))


def test_models_from_blocks_have_the_parts_of_the_whole_table(fast):
    model, X, y = fast
    blocks = [(X[rows], y[rows]) for rows in (slice(0, 5), slice(5, 120), slice(120, None))]
    in_blocks = SalsaRegressor(**FAST).fit_blocks(blocks)
    assert in_blocks.columns_ == model.columns_
    np.testing.assert_allclose(in_blocks.predict(X), model.predict(X), rtol=1e-9)


def test_classes_from_dates():
    X, y = simulated(2)
    model = SalsaClassifier(**FAST).fit(X, np.where(y > np.median(y), "high", "low"))
    assert model.score(X, np.where(y > np.median(y), "high", "low")) > 0.8
    assert model.n_features_in_ == 2


def test_low_rank_and_random_features_take_dates():
    X, y = simulated(3)
    for solver in ("lowrank", "features"):
        model = SalsaRegressor(**FAST, alpha=0.1, solver=solver, rank=150).fit(X, y)
        assert model.score(X, y) > 0.7


def test_rivals_get_dates_as_numbers_with_cosine_and_sine():
    X, y = simulated(6, 120)
    rows = TableEncoder().fit(X, y).transform(X)
    assert needs_encoding(X)
    assert rows.shape == (120, 4 + 2 * 2)
    places = rows[:, 2:4]
    np.testing.assert_allclose(rows[:, 4:], np.hstack([np.cos(2 * np.pi * places), np.sin(2 * np.pi * places)]))


# --- parameters ---------------------------------------------------------------------------------------


def test_the_name_of_a_date_stands_for_all_of_its_parts():
    X, y = simulated(4)
    X["other"] = np.arange(ROWS) % 7 / 7.0
    model = SalsaRegressor(**FAST, interaction_cst=[["when"], ["size", "other"]]).fit(X, y)
    pairs = explain.decompose(model).interactions().set_index(["feature_1", "feature_2"])["variance_share"]
    assert pairs["size", "when: trend"] == pairs["size", "when: time of year"] == 0
    assert pairs["size", "other"] > 0
    assert pairs["when: trend", "when: time of year"] > 0


def test_monotone_dates_have_a_monotone_trend():
    pytest.importorskip("clarabel")
    X, y = simulated(4, 150)
    model = SalsaRegressor(**FAST, alpha=0.05, monotonic_cst={"when": -1}).fit(X, y)
    for day in ("2020-01-05", "2020-07-08"):
        later = pd.date_range(day, periods=3, freq="364D")  # the same day of the week, and nearly of the year
        anova = explain.decompose(model)
        trend = anova.effect("when: trend", points=[later], band=False).values
        assert (np.diff(trend) <= 1e-9).all()


def test_relevances_may_be_one_per_column():
    X, y = simulated(4, 100)
    for relevance in ([1.0, 0.5], [1.0, 0.5, 0.5, 0.5]):
        model = SalsaRegressor(relevance=relevance, order=1, alpha=0.1).fit(X, y)
        np.testing.assert_array_equal(model.relevance_, [1.0, 0.5, 0.5, 0.5])
    with pytest.raises(ValueError, match="relevance has 3 values"):
        SalsaRegressor(relevance=[1.0, 0.5, 0.5], order=1, alpha=0.1).fit(X, y)


def test_rows_far_after_the_training_table_give_a_warning_with_the_date(fast):
    model, X, _ = fast
    with pytest.warns(OutsideRangeWarning, match=r"'when: trend' above 2022-1\d-\d\d \d\d:\d\d in 250"):
        model.predict(X.assign(when=pd.Timestamp("2035-01-01", tz="UTC")))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.predict(X.assign(when=pd.Timestamp("2022-12-31 23:00", tz="UTC")))


# --- explanations -------------------------------------------------------------------------------------


def test_shapley_values_of_a_date_are_the_sum_of_its_parts(fast):
    model, X, _ = fast
    values = explain.shapley(model, X[:6])
    assert values.features == ("size", "when", "wait")
    assert values.values.shape == (6, 3)
    parts = values.parts()
    assert parts.columns.tolist() == list(model.columns_.names)
    np.testing.assert_allclose(values.values[:, 1], parts.filter(like="when:").sum(axis=1), rtol=1e-12)
    np.testing.assert_allclose(values.base_value + values.values.sum(axis=1), model.predict(X[:6]), rtol=1e-9)
    np.testing.assert_allclose(values.interactions(2).sum(axis=1), values.values[2], rtol=1e-9, atol=1e-12)
    assert values.data["when"].isna().tolist() == [False] * 3 + [True] + [False] * 2
    assert abs(values.data["when"].dt.tz_localize("UTC") - X["when"][:6]).max() < pd.Timedelta(seconds=1)


def test_effects_add_up_to_the_prediction(fast):
    model, X, _ = fast
    parts = explain.decompose(model).evaluate_orders(X[:10])
    np.testing.assert_allclose(parts.sum(axis=1), model.predict(X[:10]), rtol=1e-9)


def test_a_date_with_several_parts_has_no_effect_of_its_own(fast):
    anova = explain.decompose(fast[0])
    with pytest.raises(
        ValueError, match="'when' holds dates: give one of its parts, 'when: trend', 'when: time of year'"
    ):
        anova.effect("when")


def test_effects_show_dates_days_and_hours(fast):
    anova = explain.decompose(fast[0])
    frames = {name: anova.effect(name, band=False).frame()[name] for name in anova.features}
    assert pd.api.types.is_datetime64_any_dtype(frames["when: trend"])
    assert frames["when: time of year"].max() == 365.0
    assert frames["when: hour of day"].max() == 24.0
    assert frames["when: day of week"].tolist()[::6] == ["Monday", "Sunday"]
    assert anova.effect("wait", band=False).axes[0].title == "wait (hours)"


@pytest.mark.parametrize(
    ("part", "low", "high", "names"),
    [
        (TREND, 0.0, 1460.0, ["1970", "1971", "1972", "1973"]),
        (TREND, 18262.0, 18350.0, ["2020-01", "2020-02", "2020-03"]),
        (TREND, 18262.0, 18264.5, ["2020-01-01", "2020-01-02", "2020-01-03"]),
        (TREND, 18262.0, 18262.15, ["2020-01-01", "01:00", "02:00", "03:00"]),
        (YEAR, 0.0, 1.0, ["Jan", "Mar", "May", "Jul", "Sep", "Nov", "Jan"]),
        (DAY, 0.3, 0.8, ["08:00", "12:00", "16:00"]),
    ],
)
def test_ticks_are_round_dates(part, low, high, names):
    ticks = part_ticks(Part("d", part, None), low, high)
    assert [name for _, name in ticks] == names
    assert all(low <= value <= high for value, _ in ticks)


def test_pictures_and_report_name_the_parts(fast, tmp_path):
    plt = pytest.importorskip("matplotlib.pyplot")
    model, X, y = fast
    anova = explain.decompose(model)
    ax = anova.effect("when: time of year").plot().ax_
    assert [text.get_text() for text in ax.get_xticklabels()][:3] == ["Jan", "Mar", "May"]
    anova.effect("when: trend", "when: time of year", band=False).plot()
    explain.shapley(model, X[:2]).plot(0)
    plt.close("all")
    few = SalsaRegressor(relevance="equal", order=1, alpha=0.1).fit(X[:80], y[:80])
    explain.write_report(few, tmp_path / "r.html")
    page = (tmp_path / "r.html").read_text()
    payload = json.loads(re.search(r'<script[^>]*type="application/json"[^>]*>(.*?)</script>', page, re.S).group(1))
    effects = {entry["term"]: entry["axes"][0] for entry in payload["effects"]}
    assert effects["when: day of week"]["labels"][0] == "Monday"
    assert [name for _, name in effects["when: time of year"]["ticks"]][:2] == ["Jan", "Mar"]
    assert effects["when: time of year"]["names"][0] == "1 January"
    assert effects["wait"]["name"] == "wait (minutes)"
