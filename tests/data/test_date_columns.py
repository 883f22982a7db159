"""Columns of dates and durations: parts, time zones, missing stamps, and equal features from every data frame."""

import datetime
import itertools
import json
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from salsa.data.blocks import RawBlock, survey
from salsa.data.columns import Columns
from salsa.data.date_parts import DATE_PARTS, DAY, DURATION, TREND, WEEK, WEEKDAYS, YEAR, Part
from salsa.data.stamps import are_iso
from salsa.data.table_columns import learn_columns
from salsa.persistence.function_state import columns_from, columns_state

BERLIN = "Europe/Berlin"
EPOCH = datetime.datetime(1970, 1, 1)
DAY_LENGTH = datetime.timedelta(days=1)


def hours(zone=None, n=400, start="2020-01-01", step="67h"):
    """Stamps over three years, one of them missing."""
    stamps = pd.Series(pd.date_range(start, periods=n, freq=step, tz="UTC"))
    stamps = stamps.dt.tz_convert(zone) if zone else stamps.dt.tz_localize(None)
    stamps[3] = pd.NaT
    return stamps


def naive_parts(stamp: datetime.datetime) -> list[float]:
    """The parts of one stamp, from the definitions."""
    offset = stamp.utcoffset() or datetime.timedelta()
    clock = stamp.replace(tzinfo=None)
    start, end = (datetime.datetime(year, 1, 1) for year in (clock.year, clock.year + 1))
    midnight = datetime.datetime(clock.year, clock.month, clock.day)
    trend = (clock - offset - EPOCH) / DAY_LENGTH
    return [trend, (clock - start) / (end - start), clock.weekday() / 7, (clock - midnight) / DAY_LENGTH]


def guises(stamps):
    """The same stamps as columns of every kind of table."""
    frame = pd.DataFrame({"when": stamps, "x": np.arange(len(stamps), dtype=float)})
    texts = [None if pd.isna(stamp) else stamp.isoformat() for stamp in stamps]
    as_text = frame.assign(when=texts)
    zone = "" if stamps.dt.tz is None else f", {stamps.dt.tz}"
    return {
        "ns": frame.assign(when=stamps.astype(f"datetime64[ns{zone}]")),
        "us": frame.assign(when=stamps.astype(f"datetime64[us{zone}]")),
        "ms": frame.assign(when=stamps.astype(f"datetime64[ms{zone}]")),
        "s": frame.assign(when=stamps.astype(f"datetime64[s{zone}]")),
        "objects": frame.assign(when=stamps.astype(object)),
        "python": frame.assign(
            when=np.array([None if pd.isna(s) else s.to_pydatetime() for s in stamps], dtype=object)
        ),
        "polars": pl.from_pandas(frame),
        "arrow": pa.Table.from_pandas(frame),
        "pandas with arrow": frame.convert_dtypes(dtype_backend="pyarrow"),
        "text": as_text,
        "polars text": pl.from_pandas(as_text),
        "arrow text": pa.Table.from_pandas(as_text),
        "rows": [[text, float(x)] for x, text in enumerate(texts)],
    }


@pytest.mark.parametrize("zone", [None, "UTC", BERLIN, "America/New_York"])
def test_every_kind_of_table_has_the_same_features_to_the_bit(zone):
    tables = guises(hours(zone))
    columns, expected = learn_columns(tables["ns"])
    assert columns.names == (*(f"when: {part}" for part in DATE_PARTS), "x")
    assert columns.table == ("when", "x")
    assert columns.cyclic.tolist() == [False, True, True, True, False]
    assert np.isnan(expected[3, :4]).all()
    for name, table in tables.items():
        np.testing.assert_array_equal(learn_columns(table)[1], expected, err_msg=name)
        np.testing.assert_array_equal(columns.encode(table), expected, err_msg=name)


@pytest.mark.parametrize("start", ["1894-01-01 06:00", "2040-01-01"])
def test_every_kind_of_table_knows_the_same_summer_time(start):
    tables = guises(hours(BERLIN, start=start))
    columns, expected = learn_columns(tables["ns"])
    for name, table in tables.items():
        np.testing.assert_array_equal(columns.encode(table), expected, err_msg=name)


def test_dates_without_times_agree_in_every_kind_of_table():
    days = [datetime.date(2020, 1, 1) + datetime.timedelta(days=5 * i) for i in range(100)]
    tables = [
        pd.DataFrame({"d": days}),
        pd.DataFrame({"d": np.array([np.datetime64(day) for day in days], dtype=object)}),
        pd.DataFrame({"d": pd.to_datetime(days)}),
        pd.DataFrame({"d": [day.isoformat() for day in days]}),
        pl.DataFrame({"d": days}),
        pa.table({"d": days}),
        np.array([days], dtype="datetime64[D]").T,
    ]
    expected = [naive_parts(datetime.datetime(day.year, day.month, day.day))[:3] for day in days]
    for table in tables:
        np.testing.assert_allclose(learn_columns(table)[1], expected, rtol=1e-14)


@given(st.lists(st.datetimes(timezones=st.none()), min_size=1, max_size=5))
def test_parts_are_those_of_the_definition(stamps):
    columns = Columns(DATE_PARTS, (None,) * 4, (False,) * 4, tuple(Part("d", name, None) for name in DATE_PARTS))
    X = columns.encode(pd.DataFrame({"d": np.array(stamps, dtype=object)}))
    np.testing.assert_allclose(X, [naive_parts(stamp) for stamp in stamps], rtol=1e-14, atol=1e-14)


def test_trend_is_in_utc_and_the_clock_is_local():
    """On 29 March 2020 and on 25 October 2020, clocks in Berlin were moved."""
    zone = ZoneInfo(BERLIN)
    noons = [datetime.datetime(2020, m, d, 12, tzinfo=zone) for m, d in ((3, 28), (3, 29), (10, 24), (10, 25))]
    more = [datetime.datetime(2021, 5, day, 11, tzinfo=zone) for day in range(1, 20)]
    columns, X = learn_columns(pd.DataFrame({"d": pd.Series([*noons, *more]).dt.tz_convert(BERLIN)}))
    trend, _, _, hour = X.T
    np.testing.assert_array_equal(hour[:4], 0.5)
    np.testing.assert_allclose(np.diff(trend[:4])[[0, 2]], [23 / 24, 25 / 24], rtol=1e-9)
    np.testing.assert_allclose(X, [naive_parts(stamp) for stamp in [*noons, *more]], rtol=1e-14)
    assert columns.parts[0].detail == BERLIN


def test_stamps_of_another_zone_are_converted_to_the_zone_of_training():
    stamps = hours(BERLIN)
    columns, X = learn_columns(pd.DataFrame({"d": stamps}))
    for zone in ("UTC", "Asia/Tokyo"):
        np.testing.assert_array_equal(columns.encode(pd.DataFrame({"d": stamps.dt.tz_convert(zone)})), X)
    texts = [None if pd.isna(s) else s.isoformat() for s in stamps.dt.tz_convert("Asia/Tokyo")]
    np.testing.assert_array_equal(columns.encode(pd.DataFrame({"d": texts})), X)


def test_texts_with_several_offsets_go_by_the_clock_that_is_written():
    texts = ["2020-01-01T12:00+01:00", "2020-07-01T12:00+02:00", "2021-07-02T13:30Z"]
    _, X = learn_columns(pd.DataFrame({"d": texts}))
    np.testing.assert_allclose(X, [naive_parts(datetime.datetime.fromisoformat(text)) for text in texts], rtol=1e-14)
    assert X[0, 3] == X[1, 3] == 0.5


@pytest.mark.parametrize("texts", [["2020-01-01T12:00", "2020-01-02T12:00Z"]])
def test_a_column_with_and_without_zones_is_refused(texts):
    with pytest.raises(ValueError, match="column 'd' has stamps with and without a time zone"):
        learn_columns(pd.DataFrame({"d": texts}))


@pytest.mark.parametrize(("trained", "given_zone"), [(None, BERLIN), (BERLIN, None)])
def test_new_rows_must_have_a_zone_if_and_only_if_training_rows_had(trained, given_zone):
    columns, _ = learn_columns(pd.DataFrame({"d": hours(trained)}))
    with pytest.raises(ValueError, match=r"column 'd': stamps had (no|a) time zone in training and have (one|none)"):
        columns.encode(pd.DataFrame({"d": hours(given_zone)}))


def test_a_leap_year_ends_where_the_next_year_begins():
    days = ["2020-12-31T23:59:59", "2021-12-31T23:59:59", "2021-01-01", "2022-01-01"]
    _, X = learn_columns(pd.DataFrame({"d": days}))
    np.testing.assert_allclose(X[:2, 1], 1.0, atol=1e-7)
    np.testing.assert_array_equal(X[2:, 1], 0.0)


class TestParts:
    @pytest.mark.parametrize(
        ("start", "step", "count", "kept"),
        [
            ("2020-01-01", "1D", 366 + 1, {TREND, YEAR, WEEK}),  # dates have no hours
            ("2020-01-01", "1D", 365, {TREND, WEEK}),  # less than a year
            ("2020-01-01", "1D", 14, {TREND}),  # less than two weeks
            ("2020-01-01", "7D", 80, {TREND, YEAR}),  # always a Wednesday
            ("2020-01-01", "1h", 14 * 24 + 1, {TREND, WEEK, DAY}),
            ("2020-01-01", "1h", 48, {TREND}),  # less than two days
            ("2020-01-01 08:00", "1D", 20, {TREND, WEEK}),  # always at eight
            ("2020-01-01", "1D", 1, {TREND}),
        ],
    )
    def test_parts_that_cannot_be_told_apart_are_left_out_with_a_reason(self, start, step, count, kept):
        table = pd.DataFrame({"d": pd.date_range(start, periods=count, freq=step)})
        columns, X = learn_columns(table)
        assert {part.name for part in columns.parts} == kept
        assert X.shape == (count, len(kept))
        (seen,) = [survey([RawBlock(table, np.arange(count))], "from_dtype")]
        left_out = [note.split(": no ")[1].split(", because")[0] for note in seen.notes]
        assert set(left_out) == set(DATE_PARTS) - kept

    def test_reasons_name_the_column_and_the_rule(self):
        seen = survey([RawBlock(pd.DataFrame({"d": pd.date_range("2020-01-01", periods=100)}), np.arange(100))], None)
        assert seen.notes == (
            "column 'd': no time of year, because 99 days are fewer than 365, so that it cannot be told from the trend",
            "column 'd': no hour of day, because it is the same in all rows",
        )

    def test_a_column_without_stamps_has_a_trend_of_missing_values(self):
        columns, X = learn_columns(pd.DataFrame({"d": pd.Series([pd.NaT, pd.NaT], dtype="datetime64[ns]")}))
        assert columns.names == ("d: trend",)
        assert np.isnan(X).all()

    @pytest.mark.parametrize(
        ("part", "value", "text"),
        [
            (TREND, 0.0, "1970-01-01"),
            (TREND, 18262.5, "2020-01-01 12:00"),
            (YEAR, 0.0, "1 January"),
            (YEAR, 364.5 / 365, "31 December"),
            (YEAR, 1.0, "1 January"),
            (DAY, 13.5 / 24, "13:30"),
            *((WEEK, day / 7, name) for day, name in enumerate(WEEKDAYS)),
        ],
    )
    def test_values_are_written_as_people_do(self, part, value, text):
        assert Part("d", part, None).written(value) == text

    @pytest.mark.parametrize("year", [1961, 2001, 2019])
    def test_every_day_of_a_common_year_is_written_as_itself(self, year):
        days = pd.Series(pd.date_range(f"{year}-01-01", f"{year}-12-31"))
        Y = Columns(("d",), (None,), (False,), (Part("d", YEAR, None),)).encode(days.to_frame("d"))
        assert [Part("d", YEAR, None).written(share) for share in Y[:, 0]] == [f"{d.day} {d:%B}" for d in days]


class TestIsoText:
    @pytest.mark.parametrize(
        "text",
        ["2026-01", "2026-01-31", "2026-01-31 12:00", "2026-01-31T12:00:05.25Z", "2026-01-31T12:00:00+0530"],
    )
    def test_dates_of_iso_8601_are_recognised(self, text):
        assert are_iso([text])

    @pytest.mark.parametrize(
        "text", ["2026", "20260131", "31/01/2026", "2026-13-01", "2026-02-30", "12:00", "soon", "", None, 2026.0]
    )
    def test_other_texts_are_not(self, text):
        assert not are_iso([text])

    def test_one_other_text_makes_categories(self):
        columns, _ = learn_columns(pd.DataFrame({"d": ["2026-01-31", "soon", None]}))
        assert columns.levels == (("2026-01-31", "soon"),)

    def test_declared_categories_stay_categories(self):
        texts = ["2026-01-31", "2026-02-01"]
        for table, chosen in ((pd.DataFrame({"d": texts}), ["d"]), (pd.DataFrame({"d": pd.Categorical(texts)}), None)):
            columns, _ = learn_columns(table, chosen or "from_dtype")
            assert columns.levels == (tuple(texts),)

    def test_dates_cannot_be_declared_categories(self):
        with pytest.raises(ValueError, match="column 'd' holds dates or durations; turn them into text"):
            learn_columns(pd.DataFrame({"d": hours()}), ["d"])


class TestNewRows:
    columns, _ = learn_columns(pd.DataFrame({"d": hours(), "x": range(400)}))

    def test_text_that_is_no_date_is_refused_with_its_row(self):
        with pytest.raises(ValueError, match=r"column 'd' has 'soon' in row 1 \(counted from 0\)"):
            self.columns.encode(pd.DataFrame({"d": ["2020-01-01", "soon"], "x": [1, 2]}))

    def test_numbers_are_refused(self):
        with pytest.raises(ValueError, match="column 'd' holds numbers; it held dates in training"):
            self.columns.encode(pd.DataFrame({"d": [1.0, 2.0], "x": [1, 2]}))

    def test_dates_are_refused_where_numbers_were(self):
        with pytest.raises(ValueError, match="column 'x' holds dates or durations; it held numbers in training"):
            self.columns.encode(pd.DataFrame({"d": hours()[:2], "x": hours()[:2]}))

    @pytest.mark.parametrize("missing", [None, np.nan, pd.NaT])
    def test_rows_without_any_stamp_are_missing(self, missing):
        X = self.columns.encode(pd.DataFrame({"d": [missing, missing], "x": [1, 2]}))
        assert np.isnan(X[:, :4]).all()


class TestDurations:
    @pytest.mark.parametrize(
        ("seconds", "unit", "length"),
        [
            ([1.0, 90.0], "seconds", 1),
            ([1, 600], "minutes", 60),
            ([60, 90000], "hours", 3600),
            ([0, 1e6], "days", 86400),
        ],
    )
    def test_durations_are_numbers_in_a_readable_unit(self, seconds, unit, length):
        frame = pd.DataFrame({"wait": pd.to_timedelta([*seconds, None], unit="s")})
        objects = frame.assign(wait=frame["wait"].astype(object))
        for table in (frame, objects, pl.from_pandas(frame), pa.Table.from_pandas(frame)):
            columns, X = learn_columns(table)
            assert columns.names == ("wait",)
            assert columns.parts == (Part("wait", DURATION, unit),)
            np.testing.assert_array_equal(X[:, 0], [*np.array(seconds, dtype=float) / length, np.nan])
            np.testing.assert_array_equal(columns.encode(table), X)

    def test_numbers_are_refused_where_durations_were(self):
        columns, _ = learn_columns(pd.DataFrame({"wait": pd.to_timedelta([1, 2], unit="s")}))
        with pytest.raises(ValueError, match="column 'wait' held durations in training"):
            columns.encode(pd.DataFrame({"wait": [1.0]}))


class TestBlocks:
    def test_blocks_have_the_parts_of_the_whole_table(self):
        table = pd.DataFrame({"d": hours(BERLIN), "wait": pd.to_timedelta(np.arange(400.0), unit="s")})
        blocks = [RawBlock(part, np.arange(len(part))) for part in (table[:10], table[10:200], table[200:])]
        seen, (columns, X) = survey(blocks, "from_dtype"), learn_columns(table)
        assert seen.columns == columns
        np.testing.assert_array_equal(seen.low, np.nanmin(X, axis=0))
        np.testing.assert_array_equal(seen.high, np.nanmax(X, axis=0))

    @pytest.mark.parametrize("empty", [[None] * 5, [np.nan] * 5], ids=["text", "numbers"])
    def test_blocks_without_stamps_take_the_parts_of_others(self, empty):
        dates, rows = pd.DataFrame({"d": hours(), "x": range(400)}), pd.DataFrame({"d": empty, "x": range(5)})
        for tables in ([dates, rows], [rows, dates], [rows, dates, rows]):
            seen = survey([RawBlock(table, np.arange(len(table))) for table in tables], "from_dtype")
            assert seen.columns == learn_columns(dates)[0]
            assert seen.counts.values.tolist() == [399] * 4 + [sum(map(len, tables))]

    def test_blocks_of_several_zones_are_refused(self):
        blocks = [RawBlock(pd.DataFrame({"d": hours(zone)}), np.arange(400)) for zone in (BERLIN, "UTC")]
        with pytest.raises(ValueError, match="column 'd' has stamps of different time zones"):
            survey(blocks, "from_dtype")


@pytest.mark.parametrize("zone", [None, BERLIN])
def test_columns_survive_json(zone):
    table = pd.DataFrame({"d": hours(zone), "wait": pd.to_timedelta(np.arange(400.0), unit="s"), "x": range(400)})
    columns, X = learn_columns(table)
    copy = columns_from(json.loads(json.dumps(columns_state(columns))))
    assert copy == columns
    np.testing.assert_array_equal(copy.encode(table), X)


@pytest.mark.parametrize(
    "parts",
    [
        [["d", "trend", None]],
        [["d", "trend", None], ["d", "season", None]],
        [["d", "trend", "Nowhere/Else"], []],
        [["e", "trend", None], []],
        [["d", "trend"], []],
        [[], ["d", "day of week", None]],
        [["wait", "duration", "parsecs"], []],
    ],
)
def test_files_with_wrong_parts_are_refused(parts):
    names = ["d: trend", "x"] if parts[0] else ["x", "d: day of week"]
    state = {"names": names, "levels": [None, None], "ordered": [False, False], "parts": parts}
    with pytest.raises(ValueError, match=r"its (parts|feature)"):
        columns_from(state)


def test_source_counts_the_columns_of_the_table():
    for dates in itertools.product([False, True], repeat=3):
        table = pd.DataFrame({f"c{j}": hours() if is_date else np.arange(400) for j, is_date in enumerate(dates)})
        columns, _ = learn_columns(table)
        assert columns.table == ("c0", "c1", "c2")
        assert columns.source.tolist() == [j for j, is_date in enumerate(dates) for _ in range(4 if is_date else 1)]
        assert columns.first.tolist() == [columns.source.tolist().index(j) for j in range(3)]
