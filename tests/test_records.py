"""Models take records, and their schema says which: for regressors, classifiers and models from files."""

import json

import numpy as np
import pandas as pd
import pytest

import salsa
from salsa import SalsaClassifier, SalsaRegressor, explain


def houses(n=80, seed=0):
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "area [m2]": rng.uniform(40, 200, n),
            "rooms": np.where(rng.uniform(size=n) < 0.1, np.nan, rng.integers(1, 7, n)),
            "garden": rng.integers(0, 2, n).astype(bool),
            "town": rng.choice(["Aalst", "Bree", "Genk"], n),
            "state": pd.Categorical(rng.choice(["poor", "good"], n), ["poor", "good"], ordered=True),
            "plan": rng.integers(1, 4, n),
        }
    )


X = houses()
PRICE = X["area [m2]"] * X["town"].map({"Aalst": 1.0, "Bree": 1.5, "Genk": 0.8}) + 20 * X["garden"]
RECORDS = X.to_dict("records")
OPTIONS = {"relevance": "equal", "order": 2, "alpha": 0.1, "categorical_features": ["plan"], "random_state": 0}


def reread(model, folder):
    model.save(folder / "model.salsa")
    return salsa.load(folder / "model.salsa")


@pytest.fixture(scope="module", params=["fitted", "loaded"])
def models(request, tmp_path_factory):
    pair = [
        SalsaRegressor(**OPTIONS).fit(X, PRICE),
        SalsaClassifier(**OPTIONS).fit(X, np.where(PRICE.median() < PRICE, "dear", "cheap")),
    ]
    return pair if request.param == "fitted" else [reread(model, tmp_path_factory.mktemp("models")) for model in pair]


def is_valid(schema, record):
    """Whether a record fulfils the keywords that `schema()` uses, read as the standard says."""
    kinds = {"number": (int, float), "boolean": bool, "string": str, "null": type(None)}
    if set(schema["required"]) - set(record) or set(record) - set(schema["properties"]):
        return False
    for name, value in record.items():
        field = schema["properties"][name]
        wanted = [field["type"]] if isinstance(field["type"], str) else field["type"]
        found = [kind for kind in wanted if isinstance(value, kinds[kind])]
        if isinstance(value, bool):
            found = [kind for kind in found if kind == "boolean"]
        if not found or ("enum" in field and value not in field["enum"]):
            return False
        if value is not None and not field.get("minimum", value) <= value <= field.get("maximum", value):
            return False
    return True


class TestRecords:
    def test_every_prediction_of_records_has_the_bits_of_the_frame(self, models):
        regressor, classifier = models
        calls = [regressor.predict, regressor.predict_interval, lambda X: regressor.predict(X, return_std=True)[1]]
        calls += [getattr(classifier, f"predict{name}") for name in ("", "_proba", "_log_proba", "_set")]
        for call in [*calls, classifier.decision_function]:
            np.testing.assert_array_equal(call(RECORDS[:9]), call(X[:9]))
            np.testing.assert_array_equal(call(RECORDS[3]), call(X[3:4]))

    def test_explanations_take_records(self, models):
        for model in models:
            values = explain.shapley(model, RECORDS[:3]).values
            np.testing.assert_array_equal(values, explain.shapley(model, X[:3]).values)

    def test_scores_take_records(self, models):
        assert models[0].score(RECORDS, PRICE) == models[0].score(X, PRICE)

    def test_records_cause_no_warning_about_names(self, models, recwarn):
        models[0].predict(RECORDS[0])
        assert not recwarn.list

    def test_records_far_outside_the_range_cause_a_warning(self, models):
        with pytest.warns(UserWarning, match=r"'area \[m2\]' above 19\d.* in 1"):
            models[0].predict([RECORDS[0], {**RECORDS[0], "area [m2]": 1e4}])

    def test_models_of_unnamed_features_take_x0_x1(self):
        Z = X[["area [m2]", "plan"]].to_numpy()
        model = SalsaRegressor(relevance="equal", order=1, alpha=0.1).fit(Z, PRICE)
        np.testing.assert_array_equal(model.predict({"x1": Z[0, 1], "x0": Z[0, 0]}), model.predict(Z[:1]))
        assert list(model.schema()["properties"]) == ["x0", "x1"]

    def test_models_that_are_not_fitted_say_so(self):
        with pytest.raises(ValueError, match="not fitted"):
            SalsaRegressor().predict(RECORDS)
        with pytest.raises(ValueError, match="not fitted"):
            SalsaRegressor().schema()


class TestSchema:
    def test_the_schema_is_json_and_tells_what_was_seen(self, models):
        for model in models:
            schema = json.loads(json.dumps(model.schema()))
            fields = schema["properties"]
            assert schema["$schema"].endswith("2020-12/schema")
            assert schema["required"] == list(X)
            area = X["area [m2]"]
            assert fields["area [m2]"]["x-range"] == [area.min(), area.max()]
            assert fields["area [m2]"]["x-unit"] == "m2"
            assert fields["rooms"] == {"type": ["number", "null"], "x-kind": "number", "x-range": [1.0, 6.0]}
            assert fields["garden"]["type"] == ["number", "boolean", "null"]
            assert fields["town"]["x-levels"] == ["Aalst", "Bree", "Genk"]
            assert fields["state"]["x-kind"] == "ordered category"
            assert fields["plan"]["x-levels"] == [1, 2, 3]

    @pytest.mark.parametrize("strict", [False, True])
    def test_training_rows_fulfil_the_schema(self, models, strict):
        rows = json.loads(json.dumps(X.astype(object).where(X.notna(), None).to_dict("records")))
        assert all(is_valid(models[0].schema(strict=strict), row) for row in rows)

    @pytest.mark.parametrize(
        ("name", "value"),
        [("rooms", "3"), ("rooms", [3]), ("rooms", {"n": 3}), ("town", ["Aalst"]), ("garden", "yes"), ("colour", 1)],
    )
    def test_records_that_break_the_schema_are_refused_by_name(self, models, name, value):
        record = {**RECORDS[0], name: value}
        assert not is_valid(models[0].schema(), record)
        for model in models:
            with pytest.raises((ValueError, TypeError), match=f"'{name}'"):
                model.predict(record)

    @pytest.mark.filterwarnings("ignore:column 'town' has values not seen", "ignore:1 of 1 rows lies far outside")
    @pytest.mark.parametrize(("name", "value"), [("town", "Gent"), ("rooms", 60), ("area [m2]", None), ("plan", 1.0)])
    def test_records_that_fulfil_the_schema_are_predicted(self, models, name, value):
        record = {**RECORDS[0], name: value}
        assert is_valid(models[0].schema(), record)
        assert np.isfinite(models[0].predict(record)).all()

    def test_a_strict_schema_refuses_new_levels_and_numbers_outside_the_range(self, models):
        schema = models[0].schema(strict=True)
        for name, value in (("town", "Gent"), ("rooms", 60), ("plan", 9)):
            assert not is_valid(schema, {**RECORDS[0], name: value})

    def test_a_model_without_distributions_allows_no_missing_values(self):
        model = SalsaRegressor(relevance="equal", order=1, alpha=0.1).fit(X[["plan"]], PRICE)
        kernel = model.expansion_.kernel
        bare = salsa.AdditiveKernel(kernel.bandwidth, kernel.relevance, kernel.order_weights)
        fitted = model._fitted
        object.__setattr__(fitted.expansion, "kernel", bare)
        assert model.schema()["properties"]["plan"]["type"] == "number"
        with pytest.raises(ValueError, match="'plan' has a missing value"):
            model.predict({"plan": None})


@pytest.fixture(scope="module", params=["fitted", "loaded"])
def timed(request, tmp_path_factory):
    """Return a model of a table with dates and durations, and the table."""
    rng = np.random.default_rng(3)
    table = pd.DataFrame(
        {
            "when": pd.date_range("2022-01-01 06:00", periods=80, freq="241h"),
            "wait": pd.to_timedelta(rng.integers(1, 600, 80), unit="min"),
            "town": rng.choice(["Aalst", "Bree"], 80),
        }
    )
    table.loc[5, "when"], table.loc[6, "wait"] = pd.NaT, pd.NaT
    options = {name: value for name, value in OPTIONS.items() if name != "categorical_features"}
    model = SalsaRegressor(**options).fit(table, table["wait"].dt.total_seconds().fillna(0) + 9000 * np.arange(80))
    return model if request.param == "fitted" else reread(model, tmp_path_factory.mktemp("timed")), table


class TestDates:
    def test_a_date_is_one_field(self, timed):
        model, table = timed
        schema = json.loads(json.dumps(model.schema()))
        assert schema["required"] == ["when", "wait", "town"]
        assert schema["properties"]["when"] == {
            "type": ["string", "null"],
            "x-kind": "date",
            "x-range": ["2022-01-01T06:00", f"{table['when'].max():%Y-%m-%dT%H:%M}"],
        }
        wait = schema["properties"]["wait"]
        assert (wait["type"], wait["x-kind"], wait["x-unit"]) == (["number", "null"], "duration", "hours")
        np.testing.assert_allclose(
            wait["x-range"], [end / pd.Timedelta(hours=1) for end in table["wait"].agg(["min", "max"])]
        )

    def test_the_format_asks_for_a_time_zone_only_if_training_rows_had_one(self, timed):
        model, table = timed
        zoned = SalsaRegressor(**model.get_params())
        zoned.fit(table.assign(when=table["when"].dt.tz_localize("Asia/Tokyo")), np.arange(80.0))
        with_zone = {"when": "2022-05-01T12:00:00Z", "wait": 1.0, "town": "Bree"}  # as RFC 3339 writes date-time
        assert zoned.schema()["properties"]["when"]["format"] == "date-time"
        assert np.isfinite(zoned.predict(with_zone)).all()
        assert "format" not in model.schema()["properties"]["when"]
        with pytest.raises(ValueError, match="stamps had no time zone in training"):
            model.predict(with_zone)

    def test_texts_dates_and_durations_have_the_bits_of_the_frame(self, timed):
        model, table = timed
        expected = model.predict(table)
        rows = table.to_dict("records")
        np.testing.assert_array_equal(model.predict(rows), expected)
        python = [{**row, "when": None if row["when"] is pd.NaT else row["when"].to_pydatetime()} for row in rows]
        np.testing.assert_array_equal(model.predict(python), expected)
        texts = [{**row, "when": None if row["when"] is pd.NaT else row["when"].isoformat()} for row in rows]
        np.testing.assert_array_equal(model.predict(texts), expected)
        np.testing.assert_array_equal(model.predict(texts[2]), expected[2:3])
        np.testing.assert_array_equal(model.predict(texts[5]), expected[5:6])

    def test_records_of_json_are_predicted_with_durations_in_their_unit(self, timed):
        model, table = timed
        hours = table["wait"] / pd.Timedelta(hours=1)
        texts = table.assign(when=table["when"].dt.strftime("%Y-%m-%dT%H:%M:%S"), wait=hours).astype(object)
        rows = json.loads(json.dumps(texts.where(texts.notna(), None).to_dict("records")))
        assert all(is_valid(model.schema(), row) for row in rows)
        np.testing.assert_allclose(model.predict(rows), model.predict(table), rtol=1e-9)

    def test_explanations_have_a_value_for_every_field(self, timed):
        model, table = timed
        values = explain.shapley(model, table[:3].to_dict("records")).values
        np.testing.assert_array_equal(values, explain.shapley(model, table[:3]).values)
        assert values.shape == (3, 3)

    @pytest.mark.parametrize(
        ("name", "value"), [("when", "soon"), ("when", 7), ("wait", "7 hours"), ("wait", [7]), ("when: trend", 7.0)]
    )
    def test_fields_that_hold_something_else_are_refused_by_name(self, timed, name, value):
        model, table = timed
        with pytest.raises(ValueError, match=f"'{name}'"):
            model.predict({**table.iloc[0].to_dict(), name: value})
