"""Models as ONNX files: what onnxruntime computes is what ``predict`` returns."""

import numpy as np
import pandas as pd
import pytest
from conftest import additive_truth
from sums import use_kernel

import salsa
from salsa import AdditiveKernel, SalsaClassifier, SalsaRegressor
from salsa.kernels.base import BASE_KERNELS, cyclic
from salsa.persistence.onnx_model import BASES

pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")
QUICK = {"order": 2, "alpha": 0.01, "relevance": "equal", "random_state": 0}


def outputs(model, X, path):
    """Return what onnxruntime computes for a table."""
    model.to_onnx(path)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    if not isinstance(X, pd.DataFrame):
        return session.run(None, {"X": X})
    kinds = {value.name: value.type for value in session.get_inputs()}
    read = {"tensor(double)": float, "tensor(string)": object, "tensor(bool)": bool}
    return session.run(None, {name: X[[name]].to_numpy(read[kinds[name]]) for name in X})


def check(model, X, path):
    predicted, (found, *_) = model.predict(X), outputs(model, X, path)
    assert found.shape == predicted.shape
    np.testing.assert_allclose(found, predicted, rtol=1e-9, atol=1e-9 * np.ptp(predicted))


def mixed(n=120, seed=0):
    """Return a table of numbers, texts and booleans, some missing, and a positive target."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame({"a": rng.normal(size=n), "b": rng.random(n), "c": rng.choice(["x", "y", "z"], n)})
    X["d"] = rng.random(n) < 0.5
    y = np.exp(np.sin(2 * X["a"]) + X["b"] * (X["c"] == "x") + 0.5 * X["d"])
    X.loc[::7, "a"] = np.nan
    X.loc[::11, "c"] = None
    return X, y.to_numpy()


def with_texts(X):
    """Return the table as a session takes it: a missing text is empty."""
    return X.assign(c=X["c"].fillna(""))


@pytest.mark.parametrize("kernel", sorted(BASES))
@pytest.mark.parametrize("interactions", ["up_to", "exact"])
def test_every_base_kernel(kernel, interactions, tmp_path):
    X, y = additive_truth(n=80, D=5)
    for order in (1, 3, 5):
        model = SalsaRegressor(**QUICK | {"order": order}, kernel=kernel, interactions=interactions).fit(X, y)
        check(model, X[:20] + 0.01, tmp_path / "m.onnx")


def test_all_base_kernels_of_numbers_are_known():
    assert set(BASES) == {name for name, row in BASE_KERNELS.items() if not row.for_categories}


@pytest.mark.parametrize("kernel", sorted(BASES))
def test_base_kernels_on_a_circle(kernel, tmp_path, monkeypatch):
    X, y = additive_truth(n=80, D=3)
    X[::9, 1] = np.nan

    def on_circles(bases, distributions):
        names = (cyclic(kernel), cyclic(kernel), kernel)
        return AdditiveKernel([0.2, 0.1, 0.7], np.ones(3), [0.0, 1.0, 1.0], names, distributions)

    use_kernel(monkeypatch, on_circles)
    model = SalsaRegressor(**QUICK).fit(X, y)
    check(model, X + np.array([0.3, 0.9, 0.01]), tmp_path / "m.onnx")


@pytest.mark.parametrize(
    ("column", "what"),
    [(pd.date_range("2026-01-01", periods=30), "dates"), (pd.to_timedelta(np.arange(30), unit="h"), "durations")],
    ids=["dates", "durations"],
)
def test_dates_and_durations_are_refused_with_advice(column, what, tmp_path):
    model = SalsaRegressor(**QUICK).fit(pd.DataFrame({"t": column, "a": np.arange(30.0)}), np.arange(30.0))
    with pytest.raises(ValueError, match=f"column 't' holds {what}, which ONNX files cannot take: give the parts as"):
        model.to_onnx(tmp_path / "m.onnx")
    assert list(tmp_path.iterdir()) == []


def test_a_learned_sum_of_kernels(tmp_path):
    X, y = additive_truth(n=150, D=4)
    model = SalsaRegressor(random_state=0).fit(X, y)
    check(model, X[:20] + 0.01, tmp_path / "m.onnx")


def test_two_targets_and_a_loaded_model(tmp_path):
    X, y = additive_truth(n=80, D=3)
    SalsaRegressor(**QUICK).fit(X, np.column_stack([y, -(y**2)])).save(tmp_path / "m.salsa")
    check(salsa.load(tmp_path / "m.salsa"), X, tmp_path / "m.onnx")


@pytest.mark.parametrize(
    "parameters",
    [{}, {"target_transform": "log"}, {"target_transform": "log1p"}, {"target_transform": "sqrt"}, {"loss": "gamma"}],
    ids=str,
)
def test_categories_missing_values_and_responses(parameters, tmp_path):
    X, y = mixed()
    model = SalsaRegressor(**QUICK, **parameters).fit(X, y)
    new, _ = mixed(seed=1)
    new.loc[3, "c"] = "unknown"
    with pytest.warns(UserWarning, match="not seen"):
        predicted = model.predict(new)
    found = outputs(model, with_texts(new), tmp_path / "m.onnx")[0]
    np.testing.assert_allclose(found, predicted, rtol=1e-9)


@pytest.mark.parametrize("labels", [np.array(["no", "yes"]), np.array([3, 5, 9]), np.array([False, True])], ids=str)
def test_labels_and_probabilities_of_classes_are_those_of_the_model(labels, tmp_path):
    X, y = mixed()
    code = np.digitize(y, np.quantile(y, np.arange(1, len(labels)) / len(labels)))
    model = SalsaClassifier(order=2, relevance="equal", random_state=0).fit(X, labels[code])
    label, p = outputs(model, with_texts(X), tmp_path / "m.onnx")
    np.testing.assert_allclose(p, model.predict_proba(X), atol=1e-9)
    assert label.tolist() == model.predict(X).tolist()


def test_category_codes_in_an_array(tmp_path):
    X, y = additive_truth(n=80, D=3)
    X[:, 1] = np.arange(80) % 4
    model = SalsaRegressor(**QUICK, categorical_features=[1]).fit(X, y)
    check(model, X, tmp_path / "m.onnx")


def test_a_failure_writes_nothing(tmp_path):
    X = pd.DataFrame({"a": np.arange(30.0), "b": pd.Categorical([1, "one", 2] * 10)})
    model = SalsaRegressor(**QUICK).fit(X, np.arange(30.0))
    with pytest.raises(ValueError, match="'b' has levels of several types"):
        model.to_onnx(tmp_path / "m.onnx")
    with pytest.raises(FileNotFoundError, match="there is no folder"):
        model.to_onnx(tmp_path / "none" / "m.onnx")
    assert list(tmp_path.iterdir()) == []
