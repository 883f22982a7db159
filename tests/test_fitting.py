"""The steps of a fit: what holds for every way into it."""

import re
import warnings
from types import SimpleNamespace

import numpy as np
import pytest
from conftest import additive_truth

import salsa
from salsa import SalsaRegressor
from salsa._utils.user_warning import OutsideRangeWarning, TooFewRowsWarning
from salsa.solvers.anchors import Anchors
from salsa.solvers.lowrank import tolerance
from salsa.uncertainty.cvplus import CVPlus

EQUAL = {"relevance": "equal", "random_state": 0}
TARGETS = {"constant": np.full(90, 2.0), "two values": np.r_[np.zeros(50), np.ones(40)]}


def memory_map(path, X):
    mapped = np.memmap(path, mode="w+", shape=X.shape, dtype=np.float64)
    mapped[:] = X
    return mapped


class TestTargetNotes:
    """Constant and two-valued targets are noted whatever the rows come from."""

    @pytest.mark.parametrize("name", TARGETS)
    @pytest.mark.parametrize("rank", [None, 30])
    def test_notes_on_targets_in_blocks(self, name, rank):
        X, y = np.random.default_rng(0).normal(size=(90, 2)), TARGETS[name]
        model = SalsaRegressor(order=1, rank=rank, **EQUAL).fit_blocks([(X[:45], y[:45]), (X[45:], y[45:])])
        assert any(name in note for note in model.search_.notes)

    def test_notes_on_targets_of_memory_maps(self, tmp_path):
        X, y = np.random.default_rng(0).normal(size=(90, 2)), TARGETS["constant"]
        model = SalsaRegressor(order=1, **EQUAL).fit(memory_map(tmp_path / "x.bin", X), y)
        assert "the target is constant" in model.search_.notes

    def test_a_third_value_in_a_later_block_is_seen(self):
        X, y = np.random.default_rng(0).normal(size=(90, 2)), np.r_[np.zeros(50), np.ones(39), 2.0]
        model = SalsaRegressor(order=1, **EQUAL).fit_blocks([(X[:80], y[:80]), (X[80:], y[80:])])
        assert not any("two values" in note for note in model.search_.notes)


class TestFewRows:
    """Rows are counted, not weights, to decide whether relevances are learned."""

    def test_weights_do_not_turn_60_rows_into_80(self):
        X, y = additive_truth(n=60)
        model = SalsaRegressor(random_state=0).fit(X, y, np.full(60, 1.5))
        assert "fewer than 80 rows: relevances are equal, not learned" in model.search_.notes

    @pytest.mark.filterwarnings("ignore:sample_weight sums to")
    def test_small_weights_do_not_make_100_rows_few(self):
        X, y = additive_truth(n=100)
        model = SalsaRegressor(order=1, random_state=0).fit(X, y, np.full(100, 0.3))
        assert len(model.search_.race) > 0


@pytest.mark.parametrize(
    "wrong", [{"alpha": "small"}, {"alpha": -1.0}, {"order": 0}, {"memory_limit": "much"}, {"n_jobs": 0}, {"cv": 1}]
)
def test_parameters_are_parsed_before_a_row_is_read(wrong):
    def blocks():
        raise AssertionError("the blocks were read")

    with pytest.raises(ValueError, match=next(iter(wrong))):
        SalsaRegressor(**EQUAL | wrong).fit_blocks(blocks)


def test_the_note_on_anchors_is_judged_at_the_chosen_alpha():
    X, y = additive_truth(n=260, D=5)
    model = SalsaRegressor(rank=60, **EQUAL).fit(X, y)
    note = next(note for note in model.search_.notes if "anchors leave" in note)
    task = SimpleNamespace(kernel=model.expansion_.kernel, sample=SimpleNamespace(X=X), rows=X)
    assert float(re.search(r"more than (\S+):", note)[1]) == pytest.approx(tolerance(task, model.alpha_), rel=0.05)


def test_the_mean_of_random_features_is_weighted(monkeypatch):
    X, y = additive_truth(n=120, D=3)
    weight = np.random.default_rng(0).integers(1, 4, 120).astype(float)
    means, calls = [], []
    transformed, features = CVPlus.transformed, Anchors.features
    monkeypatch.setattr(CVPlus, "transformed", lambda self, P, mean: means.append(mean) or transformed(self, P, mean))
    monkeypatch.setattr(
        Anchors, "features", lambda self, X, **others: calls.append((self, X)) or features(self, X, **others)
    )
    SalsaRegressor(order=1, alpha=0.1, solver="features", rank=40, **EQUAL).fit(X, y, weight)
    anchors, rows = next((anchors, rows) for anchors, rows in calls if len(rows) == 120)
    np.testing.assert_array_equal(rows, X)
    np.testing.assert_allclose(means[0], np.average(features(anchors, X), axis=0, weights=weight), rtol=1e-10)


class TestConjugateGradients:
    def test_many_rows_have_intervals_without_the_kernel_matrix(self, tmp_path):
        """The kernel matrix would exceed the limit: the low-rank fit on the same anchors gives the intervals."""
        X, y = additive_truth(n=3100, D=3)
        model = SalsaRegressor(order=1, alpha=0.1, solver="pcg", rank=50, memory_limit="200MB", **EQUAL)
        ends = model.fit(X[:3050], y[:3050]).predict_interval(X[3050:], 0.8)
        assert 0.5 < np.mean((ends[:, 0] <= y[3050:]) & (y[3050:] <= ends[:, 1])) <= 1.0
        model.save(tmp_path / "m.salsa")
        np.testing.assert_array_equal(salsa.load(tmp_path / "m.salsa").predict_interval(X[3050:], 0.8), ends)

    def test_weights_reach_the_uncertainty(self):
        X, y = additive_truth(n=150, D=3)
        weight = np.random.default_rng(0).uniform(0.5, 2.0, 150)
        settings = {"order": 1, "alpha": 0.1, **EQUAL}
        found = SalsaRegressor(solver="pcg", rank=40, **settings).fit(X, y, weight)
        exact = SalsaRegressor(solver="exact", **settings).fit(X, y, weight)
        np.testing.assert_allclose(
            found.predict(X, return_std=True)[1], exact.predict(X, return_std=True)[1], rtol=1e-5
        )
        assert set(found.search_.interval_scale) <= {"constant", "posterior", "local"}


class TestWarnings:
    """Warnings have types, so that they can be filtered without their text."""

    def test_rows_far_outside_the_range_have_a_warning_of_their_own(self):
        X, y = additive_truth(n=60)
        model = SalsaRegressor(order=1, alpha=0.1, **EQUAL).fit(X, y)
        with pytest.warns(OutsideRangeWarning, match="1 of 1 rows lies far outside"):
            model.predict(np.full((1, 6), 50.0))

    def test_too_few_rows_for_a_coverage_have_a_warning_of_their_own(self):
        X, y = additive_truth(n=20)
        model = SalsaRegressor(order=1, alpha=0.1, **EQUAL).fit(X, y)
        with pytest.warns(TooFewRowsWarning, match=r"coverage 0.99"):
            model.predict_interval(X, 0.99)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            warnings.simplefilter("ignore", TooFewRowsWarning)
            model.predict_interval(X, 0.99)
