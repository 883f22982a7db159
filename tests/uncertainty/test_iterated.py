"""The posterior on many anchors: computed when it is asked for, equal to the one that fits with few anchors keep."""

import pickle

import numpy as np
import pytest
from conftest import additive_truth

import salsa
from salsa import SalsaRegressor
from salsa.persistence.archive import read_archive
from salsa.uncertainty import iterated

X, Y = additive_truth(n=120)
NEW = additive_truth(n=20, seed=1)[0]
WEIGHT = np.random.default_rng(0).uniform(0.5, 2, len(Y))
OPTIONS = {"relevance": "equal", "order": 2, "alpha": 0.1, "solver": "pcg", "rank": 60, "random_state": 0}


def fitted(**options):
    return SalsaRegressor(**OPTIONS).fit(X, Y, **options)


@pytest.fixture
def computed(monkeypatch):
    monkeypatch.setattr(iterated, "KEPT_ANCHORS", 10)


def answers(model):
    return [model.predict(NEW), model.predict_interval(NEW), model.predict(NEW, return_std=True)[1]]


@pytest.mark.parametrize("options", [{}, {"sample_weight": WEIGHT}], ids=["plain", "weights"])
def test_the_computed_posterior_is_the_kept_one(options, monkeypatch):
    kept = answers(fitted(**options))
    monkeypatch.setattr(iterated, "KEPT_ANCHORS", 10)
    model = fitted(**options)
    assert not model._fitted.uncertainty.cvplus.root.size
    for one, other in zip(answers(model), kept, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-7)


@pytest.mark.usefixtures("computed")
def test_files_without_the_posterior_give_the_same_bits(tmp_path):
    model = fitted(sample_weight=WEIGHT)
    model.save(tmp_path / "before.salsa")
    expected = answers(model)
    model.save(tmp_path / "after.salsa")
    assert (tmp_path / "before.salsa").read_bytes() == (tmp_path / "after.salsa").read_bytes()
    assert "cv_root" not in read_archive(tmp_path / "after.salsa")[1]
    for copy in (salsa.load(tmp_path / "after.salsa"), pickle.loads(pickle.dumps(model))):
        for one, other in zip(answers(copy), expected, strict=True):
            np.testing.assert_array_equal(one, other)


@pytest.mark.usefixtures("computed")
def test_groups_that_share_a_level_keep_the_posterior():
    groups = np.arange(len(Y)) // 4
    level = np.random.default_rng(0).normal(size=len(Y))[groups]
    model = SalsaRegressor(**OPTIONS).fit(X, Y + level, groups=groups)
    assert model.search_.rho > 0
    assert model._fitted.uncertainty.cvplus.root.size
