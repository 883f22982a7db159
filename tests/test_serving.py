"""Rows one by one, and from several threads at once, have the bits of the whole table."""

import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import pytest
from conftest import additive_truth
from sklearn.base import clone

import salsa
from salsa import SalsaClassifier, SalsaRegressor, explain
from salsa.loading import LoadedModel, load_quickly
from salsa.persistence.archive import read_archive, write_archive

X, Y = additive_truth(n=90, D=4)
TABLE = pd.DataFrame(X, columns=list("abcd")).assign(town=np.where(X[:, 3] > 0, "Genk", "Bree"))
NEW = pd.DataFrame(additive_truth(n=40, D=4, seed=1)[0] * 1.2, columns=list("abcd")).assign(town="Genk")
NEW = NEW.where(np.random.default_rng(0).uniform(size=NEW.shape) > 0.15)  # training rows have no missing values
MODELS = {
    "learned": lambda: SalsaRegressor(random_state=0).fit(TABLE, Y),
    "equal": lambda: SalsaRegressor(relevance="equal", order=2, alpha=0.1).fit(TABLE, Y),
    "lowrank": lambda: SalsaRegressor(
        relevance="equal", order=5, interactions="exact", solver="lowrank", rank=40, random_state=0
    ).fit(TABLE, Y),
    "pcg": lambda: SalsaRegressor(
        relevance="equal", order=5, interactions="exact", solver="pcg", rank=40, random_state=0
    ).fit(TABLE, Y),
    "transformed": lambda: SalsaRegressor(relevance="equal", order=2, target_transform="log").fit(TABLE, np.exp(Y)),
    "poisson": lambda: SalsaRegressor(relevance="equal", order=2, alpha=0.1, loss="poisson").fit(TABLE, np.floor(Y**2)),
    "classes": lambda: SalsaClassifier(relevance="equal", order=2, alpha=0.1).fit(TABLE, np.floor(Y)),
}


@pytest.fixture(scope="module", params=MODELS)
def saved(request, tmp_path_factory):
    path = tmp_path_factory.mktemp("models") / "model.salsa"
    MODELS[request.param]().save(path)
    return path


def calls(model):
    if isinstance(model, SalsaClassifier):
        return [model.predict_proba, model.decision_function, model.predict_set]
    return [model.predict, model.predict_interval, lambda X: np.column_stack(model.predict(X, return_std=True))]


def records(frame):
    return frame.astype(object).where(frame.notna(), None).to_dict("records")


def test_one_row_has_the_bits_of_the_table(saved):
    model = salsa.load(saved)
    rows = records(NEW)
    for call in calls(model):
        whole = call(NEW)
        np.testing.assert_array_equal(np.concatenate([call(row) for row in rows]), whole)
        np.testing.assert_array_equal(np.concatenate([call(NEW[i : i + 1]) for i in range(9)]), whole[:9])
        np.testing.assert_array_equal(np.concatenate([call(rows[:13]), call(rows[13:])]), whole)


def test_threads_that_share_a_fresh_model_get_the_same_bits(saved):
    expected, model, rows = calls(salsa.load(saved)), salsa.load(saved), records(NEW)
    expected = [call(NEW) for call in expected]

    def ask(number):
        place = number % len(rows)
        return [call(rows[place]) for call in calls(model)]

    with ThreadPoolExecutor(8) as pool:
        for number, found in enumerate(pool.map(ask, range(120))):
            for one, whole in zip(found, expected, strict=True):
                np.testing.assert_array_equal(one[0], whole[number % len(rows)])


class TestLoadedModels:
    def test_quick_predictions_have_the_bits_of_the_estimator(self, saved):
        quick, model, rows = load_quickly(saved), salsa.load(saved), records(NEW)
        names = ["predict", "predict_proba"] if isinstance(model, SalsaClassifier) else ["predict"]
        for name in names:
            ask, expected = getattr(quick, name), getattr(model, name)(NEW)
            np.testing.assert_array_equal(ask(rows), expected)
            np.testing.assert_array_equal(ask(rows[5]), expected[5:6])
            np.testing.assert_array_equal(ask(NEW[:9]), expected[:9])
            assert ask(rows[:3]).dtype == expected.dtype
        assert issubclass(type(quick), LoadedModel)

    def test_everything_else_is_asked_of_the_estimator(self, saved):
        model, row = salsa.load(saved), records(NEW)[0]
        for ask in (
            lambda model: [call(row) for call in calls(model)],
            lambda model: model.get_params(),
            lambda model: clone(model).get_params(),
            lambda model: pickle.loads(pickle.dumps(model)).alpha_,
            lambda model: model.schema(),
            lambda model: explain.shapley(model, row).values,
            repr,
            dir,
        ):
            quick = load_quickly(saved)
            np.testing.assert_equal(ask(quick), ask(model))
            assert type(quick) is type(model)
            np.testing.assert_array_equal(quick.predict(row), model.predict(row))

    def test_a_loaded_model_is_an_instance_of_its_estimator(self, saved):
        quick, model = load_quickly(saved), salsa.load(saved)
        assert isinstance(quick, SalsaRegressor) == isinstance(model, SalsaRegressor)
        assert isinstance(quick, SalsaClassifier) == isinstance(model, SalsaClassifier)

    def test_attributes_can_be_set(self, saved):
        quick = load_quickly(saved)
        quick.n_jobs = 1
        assert quick.get_params()["n_jobs"] == 1

    @pytest.mark.filterwarnings("error")
    @pytest.mark.parametrize(
        "table",
        [
            {**records(TABLE)[0], "a": "one"},
            {**records(TABLE)[0], "a": 99.0},
            {**records(TABLE)[0], "town": "Gent"},
            TABLE.to_numpy(),
            TABLE[["b", "a", "c", "d", "town"]],
            {},
            [],
        ],
        ids=["text", "outside", "unknown level", "without names", "order of columns", "no field", "no row"],
    )
    def test_errors_and_warnings_are_those_of_the_estimator(self, saved, table):
        messages = []
        for model in (salsa.load(saved), load_quickly(saved)):
            with pytest.raises((ValueError, UserWarning)) as failure:
                model.predict(table)
            messages.append(str(failure.value))
        assert messages[0] == messages[1]

    def test_contradictions_in_other_parts_are_found_when_they_are_needed(self, saved, tmp_path):
        header, arrays = read_archive(saved)
        version = header.pop("version")
        header["search"]["order"] = 77
        del header["format"], header["checksums"]
        write_archive(tmp_path / "wrong.salsa", header, arrays, version)
        quick = load_quickly(tmp_path / "wrong.salsa")
        assert len(quick.predict(records(NEW)[0])) == 1
        with pytest.raises(ValueError, match=r"wrong.salsa is damaged"):
            quick.get_params()

    def test_threads_go_on_while_the_model_becomes_an_estimator(self, saved):
        quick, rows = load_quickly(saved), records(NEW)
        expected = salsa.load(saved).predict(NEW)

        def ask(number):
            if number == 30:
                assert quick.n_features_in_ == 5
            return quick.predict(rows[number % len(rows)])

        with ThreadPoolExecutor(8) as pool:
            found = np.concatenate(list(pool.map(ask, range(120))))
        np.testing.assert_array_equal(found, np.tile(expected, 3))
