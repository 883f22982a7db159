"""Target transforms: the model learns on the scale g(y) and answers in the units of y."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import salsa
from salsa import SalsaRegressor
from salsa.data.transforms import SMEARED, TRANSFORMS, TargetTransform, smearing, transformed

NAMES = tuple(TRANSFORMS)


def skewed(n=150, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, 3))
    return X, np.exp(X[:, 0] + np.sin(3 * X[:, 1]) + 0.4 * rng.normal(size=n))


@pytest.mark.parametrize("name", NAMES)
@given(y=arrays(float, (7, 2), elements=st.floats(1e-3, 1e3)))
def test_the_inverse_goes_back(name, y):
    np.testing.assert_allclose(TargetTransform(name, np.zeros((1, 2))).inverse(transformed(name, y)), y, rtol=1e-9)


@pytest.mark.parametrize("name", NAMES)
def test_slopes_are_derivatives_of_the_inverse(name):
    z, step = np.linspace(0.1, 2.0, 9), 1e-6
    rule = TRANSFORMS[name]
    difference = (rule.inverse(z + step) - rule.inverse(z - step)) / (2 * step)
    np.testing.assert_allclose(rule.slope(z), difference, rtol=1e-6)


@pytest.mark.parametrize(("name", "value"), [("log", 0.0), ("log", -2.0), ("log1p", -1.0), ("sqrt", -1e-9)])
def test_targets_outside_the_domain_are_named_with_their_row(name, value):
    X, y = skewed()
    y[17] = value
    with pytest.raises(
        ValueError, match=rf"target_transform='{name}' needs targets .*; row 17 has .*leave such rows out"
    ):
        SalsaRegressor(target_transform=name).fit(X, y)


def test_unknown_transforms_are_refused():
    with pytest.raises(ValueError, match="target_transform='exp' must be one of 'log', 'log1p', 'sqrt'"):
        SalsaRegressor(target_transform="exp").fit(*skewed())


def test_means_are_means_over_residuals():
    rng = np.random.default_rng(0)
    f, residual = rng.normal(size=(5, 2)), rng.normal(size=(30, 2))
    found = smearing("log", residual)
    np.testing.assert_allclose(found.mean(f), np.exp(f[:, None] + residual).mean(axis=1), rtol=1e-12)
    np.testing.assert_allclose(found.sd(f, np.full((5, 2), 0.1)), 0.1 * found.mean(f), rtol=1e-12)  # exp is its slope


def test_many_residuals_become_quantiles():
    residual = np.random.default_rng(0).normal(size=(20_000, 1))
    found = smearing("log", residual)
    assert len(found.residual) == SMEARED
    assert found.mean(np.zeros((1, 1)))[0, 0] == pytest.approx(np.exp(residual).mean(), rel=0.01)


@pytest.mark.parametrize("settings", [{}, {"solver": "lowrank", "rank": 60}, {"solver": "divide", "rank": 100}])
def test_predictions_are_conditional_means(settings):
    X, y = skewed(600)
    model = SalsaRegressor(target_transform="log", random_state=0, order=1, relevance="equal", **settings).fit(X, y)
    new, target = skewed(4000, seed=1)
    assert model.predict(new).mean() == pytest.approx(target.mean(), rel=0.06)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("settings", [{}, {"solver": "lowrank", "rank": 60}])
def test_intervals_stay_in_the_domain_and_hold_new_rows(name, settings):
    X, y = skewed(500)
    model = SalsaRegressor(target_transform=name, random_state=0, order=1, relevance="equal", **settings).fit(X, y)
    new, target = skewed(2000, seed=1)
    ends = model.predict_interval(new, 0.9)
    assert (ends >= TRANSFORMS[name].least).all()
    assert np.mean((ends[:, 0] <= target) & (target <= ends[:, 1])) == pytest.approx(0.9, abs=0.04)
    assert (model.predict(new, return_std=True)[1] > 0).all()


def test_files_keep_the_transform(tmp_path):
    X, y = skewed()
    model = SalsaRegressor(target_transform="sqrt", random_state=0).fit(X, np.column_stack([y, y**2]))
    model.save(tmp_path / "m.salsa")
    loaded = salsa.load(tmp_path / "m.salsa")
    assert loaded.target_transform == "sqrt"
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    np.testing.assert_array_equal(loaded.predict_interval(X), model.predict_interval(X))


def test_blocks_give_the_fit_in_memory():
    X, y = skewed(3300)
    settings = {"target_transform": "log", "order": 1, "relevance": "equal", "random_state": 0}
    whole = SalsaRegressor(**settings).fit(X, y)
    blocks = SalsaRegressor(**settings).fit_blocks([(X[:1000], y[:1000]), (X[1000:], y[1000:])])
    np.testing.assert_allclose(blocks.predict(X[:50]), whole.predict(X[:50]), rtol=1e-9)


def test_leave_one_out_is_in_the_units_of_the_target():
    X, y = skewed()
    left = SalsaRegressor(target_transform="log", random_state=0).fit(X, y).leave_one_out()
    np.testing.assert_allclose(np.sort(left.target[:, 0]), np.sort(y), rtol=1e-8)
    assert (left.prediction > 0).all()


def test_pictures_name_their_scale():
    X, y = skewed()
    model = SalsaRegressor(target_transform="log", order=1, random_state=0).fit(X, y)
    anova = salsa.explain.decompose(model)
    assert "log of the target" in anova.effect("x0").plot().ax_.get_ylabel()
    assert salsa.explain.shapley(model, X[:2]).plot(0).ax_.get_xlabel() == "log of the target"


def test_positive_skewed_targets_get_a_note():
    X, y = skewed(300)
    fits = {"order": 1, "relevance": "equal", "random_state": 0}
    assert any("target_transform='log'" in note for note in SalsaRegressor(**fits).fit(X, y).search_.notes)
    for other, transform in ((y, "log"), (y - y.mean(), None), (1 + X[:, 0] ** 2, None)):
        notes = SalsaRegressor(target_transform=transform, **fits).fit(X, other).search_.notes
        assert not any("target_transform" in note for note in notes)
