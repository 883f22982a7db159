"""Rows one by one, and from several threads at once, have the bits of the whole table."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import pytest
from conftest import additive_truth

import salsa
from salsa import SalsaClassifier, SalsaRegressor

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
