"""SalsaClassifier: scikit-learn's contract, labels of every kind, probabilities, sets, bad input, files."""

import numpy as np
import pandas as pd
import pytest
from conftest import additive_truth
from sklearn.base import clone
from sklearn.datasets import load_wine
from sklearn.metrics import log_loss
from sklearn.model_selection import GroupKFold, TimeSeriesSplit, train_test_split
from sklearn.utils.estimator_checks import parametrize_with_checks

import salsa
from salsa import SalsaClassifier, explain
from salsa.losses import Logistic, Softmax
from salsa.selection.deviance import UNCONFIRMED
from salsa.uncertainty.scored import HeldOut

QUICK = {"order": 2, "relevance": "equal", "random_state": 0}


def classes(n=200, seed=0, D=4, count=2):
    """Return rows, numbers of classes, and the probabilities of the truth."""
    X, f = additive_truth(n=n, D=D, seed=seed, noise=0.0)
    scores = np.stack([2.0 * f, np.zeros(n), -2.0 * f][:count], axis=1)
    p = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    u = np.random.default_rng(seed + 100).random(n)
    return X, (u[:, None] > np.cumsum(p, axis=1)[:, :-1]).sum(axis=1), p


@parametrize_with_checks([SalsaClassifier(order=1, relevance="equal", random_state=0)])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.mark.slow
@parametrize_with_checks([SalsaClassifier(random_state=0), SalsaClassifier(random_state=0, rank=15, order=1)])
def test_scikit_learn_checks_of_other_settings(estimator, check):
    check(estimator)


@pytest.mark.parametrize(
    "labels",
    [np.array(["no", "yes"]), np.array([False, True]), np.array([-1, 1]), np.array([2.0, 5.0]), np.array(["b", "ä"])],
    ids=["text", "bool", "int", "float", "unicode"],
)
def test_labels_of_any_type(labels, tmp_path):
    X, code, _ = classes(n=80)
    model = SalsaClassifier(**QUICK).fit(X, labels[code])
    assert model.classes_.tolist() == sorted(labels.tolist())
    assert model.classes_.dtype == labels.dtype
    assert set(model.predict(X)) <= set(labels)
    model.save(tmp_path / "model.salsa")
    loaded = salsa.load(tmp_path / "model.salsa")
    assert loaded.classes_.dtype == labels.dtype
    np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))


@pytest.mark.parametrize("kind", ["category", "string", "object"])
def test_labels_of_pandas(kind):
    X, code, _ = classes(n=80)
    y = pd.Series(np.array(["a", "b"])[code]).astype(kind)
    assert SalsaClassifier(**QUICK).fit(X, y).classes_.tolist() == ["a", "b"]


@pytest.mark.parametrize("count", [2, 3])
@pytest.mark.parametrize("solver", ["exact", "lowrank"])
def test_probabilities_are_near_the_truth(count, solver):
    X, code, _ = classes(n=700, count=count)
    rank = 80 if solver == "lowrank" else None
    model = SalsaClassifier(solver=solver, rank=rank, **QUICK).fit(X, code)
    new, observed, p = classes(n=2000, seed=1, count=count)
    found = model.predict_proba(new)
    np.testing.assert_allclose(found.sum(axis=1), 1.0)
    assert log_loss(observed, found) < log_loss(observed, p) + 0.05
    assert np.mean(np.abs(found - p)) < 0.07
    np.testing.assert_array_equal(model.predict(new), np.argmax(found, axis=1))
    f = model.decision_function(new)
    assert f.shape == ((2000,) if count == 2 else (2000, 3))
    np.testing.assert_array_equal((f > 0) if count == 2 else f.argmax(axis=1), model.predict(new))


def test_swapped_labels_swap_probabilities():
    X, code, _ = classes(n=120)
    one, other = (SalsaClassifier(**QUICK).fit(X, y).predict_proba(X) for y in (code, 1 - code))
    np.testing.assert_allclose(one, other[:, ::-1], atol=2e-3)


def test_learned_kernels_find_the_relevant_features():
    X, code, _ = classes(n=400, D=10)
    relevance = SalsaClassifier(random_state=0).fit(X, code).relevance_
    assert set(np.argsort(-relevance)[:3]) == {0, 1, 2}


@pytest.mark.parametrize("count", [2, 3])
def test_sets_cover_new_rows(count):
    X, code, _ = classes(n=500, count=count)
    model = SalsaClassifier(**QUICK).fit(X, code)
    new, observed, _ = classes(n=4000, seed=1, count=count)
    sizes = []
    for coverage in (0.8, 0.9, 0.95):
        chosen = model.predict_set(new, coverage)
        assert chosen.shape == (4000, count)
        assert np.mean(chosen[np.arange(4000), observed]) == pytest.approx(coverage, abs=0.05)
        sizes.append(chosen.sum(axis=1).mean())
    assert sizes == sorted(sizes)


def test_sets_of_too_few_rows_hold_all_classes():
    X, code, _ = classes(n=12)
    model = SalsaClassifier(**QUICK).fit(X, code)
    with pytest.warns(UserWarning, match="too few training rows for sets"):
        assert model.predict_set(X, 0.99).all()


def test_weights_are_repeated_rows():
    X, code, _ = classes(n=100, count=3)
    twice = np.arange(100) % 4 == 0
    weighted = SalsaClassifier(**QUICK).fit(X, code, 1.0 + twice)
    repeated = SalsaClassifier(**QUICK).fit(np.r_[X, X[twice]], np.r_[code, code[twice]])
    np.testing.assert_allclose(weighted.predict_proba(X), repeated.predict_proba(X), atol=1e-6)


def test_class_weights_multiply_the_weights_of_rows():
    X, code, _ = classes(n=100)
    given = SalsaClassifier(class_weight={0: 3.0, 1: 1.0}, **QUICK).fit(X, code)
    by_rows = SalsaClassifier(**QUICK).fit(X, code, np.where(code == 0, 3.0, 1.0))
    np.testing.assert_allclose(given.predict_proba(X), by_rows.predict_proba(X))
    assert SalsaClassifier(class_weight="balanced", **QUICK).fit(X, code).predict(X).shape == (100,)


def test_missing_values_and_categories():
    X, code, _ = classes(n=200)
    frame = pd.DataFrame(X, columns=list("abcd")).mask(np.random.default_rng(0).random(X.shape) < 0.1)
    frame["kind"] = np.where(code == 1, "u", "v")
    model = SalsaClassifier(random_state=0).fit(frame, code)
    assert model.score(frame, code) > 0.95
    with pytest.warns(UserWarning, match="values not seen in training"):
        assert np.isfinite(model.predict_proba(frame.assign(kind="w"))).all()


def test_groups_and_time_judge():
    X, code, _ = classes(n=120)
    group = np.arange(120) // 3
    held = SalsaClassifier(**QUICK).fit(X, code, groups=group)._fitted.uncertainty.held_out
    assert held.units == 40
    SalsaClassifier(cv=GroupKFold(3), **QUICK).fit(X, code, groups=group)
    model = SalsaClassifier(cv=TimeSeriesSplit(3), **QUICK).fit(X, code)
    assert any("later rows judge" in note for note in model.search_.notes)


def test_separable_classes_have_finite_functions():
    X = np.linspace(-1, 1, 60)[:, None]
    model = SalsaClassifier(random_state=0).fit(X, X[:, 0] > 0.01)
    assert model.score(X, X[:, 0] > 0.01) == 1.0
    assert np.abs(model.decision_function(X)).max() < 60


def test_few_rows_that_can_be_separated_do_not_make_sure_of_everything():
    """Without the half of a random label, a true class has a probability of 1e-38, and the log loss is 1.2."""
    X, y = load_wine(return_X_y=True)
    X, Z, y, label = train_test_split(X, y, train_size=0.4, stratify=y, random_state=5)
    p = SalsaClassifier(random_state=0).fit(X, y).predict_proba(Z)
    assert p[np.arange(len(label)), label].min() > 1e-3
    assert log_loss(label, p) < 0.15


@pytest.mark.parametrize(("loss", "q"), [(Logistic(), 1), (Softmax(), 3)])
def test_half_a_random_label_is_judged_with_the_held_out_rows(loss, q):
    rng = np.random.default_rng(0)
    code = rng.integers(max(q, 2), size=30)
    Y = code[:, None].astype(float) if q == 1 else np.eye(q)[code]
    w, f, row = rng.random(30) + 0.5, rng.normal(size=(20, q)), rng.permutation(30)[:20]
    held_out = HeldOut(row, f, np.ones(20), units=30)
    labels = np.array([[0.0], [1.0]]) if q == 1 else np.eye(q)
    shares = [w[code == k].sum() / w.sum() for k in range(max(q, 2))]
    for i, loss_of_row in enumerate(held_out.losses(loss, Y, w, f)):
        own = loss.judge(Y[row[i]], f[i])
        random = sum(share * loss.judge(label, f[i]) for share, label in zip(shares, labels, strict=True))
        assert loss_of_row == pytest.approx(own + 0.5 / 30 * random)


def test_a_class_of_one_row():
    X, code, _ = classes(n=60)
    code[0] = 2
    model = SalsaClassifier(**QUICK).fit(X, code)
    p = model.predict_proba(X)
    assert p.shape == (60, 3)
    assert np.isfinite(p).all()
    assert np.isfinite(model.search_.table["cv_error"]).all()


def test_probabilities_of_noise_are_the_frequencies():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(300, 3)), rng.random(300) < 0.2
    p = SalsaClassifier(random_state=0).fit(X, y).predict_proba(rng.normal(size=(500, 3)))[:, 1]
    assert p.mean() == pytest.approx(y.mean(), abs=0.05)
    assert p.std() < 0.1


@pytest.mark.parametrize("seed", range(6))
def test_a_constant_function_has_the_frequencies(seed):
    """Folds without a share of a class have more of it to test: calibration by them must not move the shares."""
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(60, 3)), rng.random(60) < 0.3
    model = SalsaClassifier(relevance=np.zeros(3), random_state=seed).fit(X, y)
    np.testing.assert_allclose(model.predict_proba(X)[:, 1], y.mean(), atol=1e-6)


def test_learned_relevances_must_lower_the_log_loss_clearly():
    X, y = load_wine(return_X_y=True)
    X, X_new, y, y_new = train_test_split(X, y, test_size=0.3, stratify=y, random_state=3)
    model = SalsaClassifier(random_state=0).fit(X, y)
    assert UNCONFIRMED in model.search_.notes
    assert model.search_.winner.origin == "equal"
    assert log_loss(y_new, model.predict_proba(X_new)) < 0.1


def test_held_out_probabilities_are_honest():
    X, code, _ = classes(n=300)
    model = SalsaClassifier(**QUICK).fit(X, code)
    labels, p = model.held_out_proba()
    new, observed, _ = classes(n=3000, seed=1)
    assert log_loss(labels, p) == pytest.approx(log_loss(observed, model.predict_proba(new)), abs=0.08)


def test_blocks_are_the_table():
    X, code, _ = classes(n=150)
    y = np.array(["no", "yes"])[code]
    parts = [(X[:70], y[:70]), (X[70:], y[70:])]
    whole, blocks = SalsaClassifier(**QUICK).fit(X, y), SalsaClassifier(**QUICK).fit_blocks(parts)
    np.testing.assert_array_equal(blocks.predict_proba(X), whole.predict_proba(X))


def test_same_result_for_any_number_of_threads():
    X, code, _ = classes(n=150, count=3)
    one, two = (SalsaClassifier(n_jobs=jobs, random_state=0).fit(X, code).predict_proba(X) for jobs in (1, 2))
    np.testing.assert_array_equal(one, two)


def test_explanations_are_of_the_log_odds():
    X, code, _ = classes(n=200)
    model = SalsaClassifier(**QUICK).fit(X, code)
    values = explain.shapley(model, X[:5])
    np.testing.assert_allclose(values.values.sum(axis=1) + values.base_value, model.decision_function(X[:5]))
    anova = explain.decompose(model)
    assert anova.subject.target == "log odds of the target"
    assert anova.importance()["variance_share"].sum() == pytest.approx(1.0, abs=1e-6)
    assert np.isfinite(anova.effect("x0").sd).all()


def test_every_class_is_explained():
    X, code, _ = classes(n=150, count=3)
    model = SalsaClassifier(**QUICK).fit(X, code)
    values = explain.shapley(model, X[:3])
    np.testing.assert_allclose(values.values.sum(axis=1) + values.base_value, model.decision_function(X[:3]))
    assert repr(explain.decompose(model, output=2)).startswith("Anova of class 2, 4 features, ")


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (np.linspace(0, 1, 30), "Unknown label type: continuous"),
        (np.zeros(30, dtype=int), "y has one class, 0: a classifier needs rows of at least two classes"),
        (np.array(["a"] * 29 + [None], dtype=object), "row 29 has no label"),
        (np.array(["a"] * 29 + [1], dtype=object), "labels of different types, number and text"),
        (np.zeros((30, 2)), "takes one label per row"),
    ],
)
def test_bad_labels_are_refused(y, message):
    with pytest.raises(ValueError, match=message):
        SalsaClassifier().fit(np.ones((30, 2)), y)


def test_a_class_without_weight_is_no_class():
    X, code, _ = classes(n=60)
    weight = np.ones(60)
    code[:3], weight[:3] = 2, 0.0
    assert SalsaClassifier(**QUICK).fit(X, code, weight).classes_.tolist() == [0, 1]


def test_a_failed_fit_leaves_the_model_as_it_was():
    X, code, _ = classes(n=60)
    model = SalsaClassifier(**QUICK).fit(X, code)
    before = model.predict_proba(X)
    with pytest.raises(ValueError, match="one class"):
        model.fit(X, np.zeros(60, dtype=int))
    np.testing.assert_array_equal(model.predict_proba(X), before)


def test_clones_and_solvers_of_squared_errors():
    model = SalsaClassifier(order=2, class_weight="balanced")
    assert clone(model).get_params() == model.get_params()
    with pytest.raises(ValueError, match="solver='features' fits squared errors only"):
        SalsaClassifier(solver="features").fit(np.eye(4), [0, 1, 0, 1])


def test_damaged_class_labels_are_refused(tmp_path):
    import json
    import zipfile

    from salsa.persistence.archive import read_archive, write_archive

    X, code, _ = classes(n=60)
    path = tmp_path / "model.salsa"
    SalsaClassifier(**QUICK).fit(X, code).save(path)
    header, arrays = read_archive(path)
    for change in (
        {"classes": {"labels": [1, 0], "type": "<i8"}},
        {"classes": {"labels": [0, 1, 2], "type": "<i8"}},
        {"classes": {"labels": [0, 1], "type": "O"}},
        {"loss": {"name": "Poisson", "parameters": {}}},
        {"loss": {"name": "Softmax", "parameters": {}}},
    ):
        wrong = {key: value for key, value in header.items() if key not in ("format", "version", "checksums")} | change
        write_archive(path, json.loads(json.dumps(wrong)), arrays)
        assert zipfile.is_zipfile(path)
        with pytest.raises(ValueError, match="damaged or not a salsa model file"):
            salsa.load(path)
