"""Exact fits of other losses by conjugate gradients: against fits by matrix factors, and what such models keep."""

import numpy as np
import pytest
from sklearn.model_selection import KFold, TimeSeriesSplit

import salsa
from salsa import AdditiveKernel, SalsaClassifier, SalsaRegressor
from salsa.data.splits import folds_by
from salsa.losses import Gamma, Huber, Logistic, Poisson, Quantile
from salsa.solvers import kernel_systems
from salsa.solvers.anchors import pivoted_cholesky
from salsa.solvers.kernel_systems import KernelSystems
from salsa.solvers.penalised import Systems
from salsa.solvers.tiles import KernelTiles

N = 240
LOSSES = {
    "classes": Logistic(),
    "poisson": Poisson(),
    "gamma": Gamma(),
    "huber": Huber(0.2),
    "quantile": Quantile(0.8, 0.1),
}
SETTINGS = {"order": 2, "relevance": "equal", "random_state": 0, "n_jobs": 1}
PCG = SETTINGS | {"solver": "pcg", "rank": 80}


def table(name, n=N, seed=0):
    """Return features, targets and weights; every twentieth target of Huber's loss is a gross error."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, 3))
    f = 2 * np.sin(3 * X[:, 0]) + X[:, 1] * X[:, 2]
    noisy = f + 0.3 * rng.normal(size=n)
    targets = {
        "classes": (rng.random(n) < 1 / (1 + np.exp(-f))).astype(float),
        "poisson": rng.poisson(np.exp(0.5 * f)).astype(float),
        "gamma": rng.gamma(2.0, np.exp(0.5 * f)),
        "huber": noisy + 50.0 * (np.arange(n) % 20 == 0),
        "quantile": noisy,
    }
    return X, targets[name], rng.uniform(0.5, 2.0, n)


def estimator(name, **settings):
    if name == "classes":
        return SalsaClassifier(**settings)
    return SalsaRegressor(**{"loss": name, "quantile": 0.8 if name == "quantile" else None} | settings)


def fitted(name, settings=PCG, n=N, **more):
    X, y, w = table(name, n)
    groups = more.pop("groups", None)
    return estimator(name, **settings | more).fit(X, y, sample_weight=w, groups=groups)


@pytest.mark.parametrize(("name", "alpha", "rank"), [*((name, 1e-2, 60) for name in LOSSES), ("classes", 1e-3, 8)])
def test_functions_are_those_of_fits_on_factors(name, alpha, rank):
    X, y, w = table(name)
    Y, loss, folds = y[:, None], LOSSES[name], list(folds_by(np.arange(N) % 4))
    kernel = AdditiveKernel(np.full(3, 0.8), np.ones(3), [0, 1.0, 1.0])
    F = pivoted_cholesky(kernel, X, rank, 0.0, np.random.RandomState(0)).F
    rest = KernelTiles(kernel, X, 1, 1e9, features=F)
    systems = KernelSystems(rest.times, F, Y, w, folds, loss, 1)
    begun = systems.begin(np.zeros((5, N)), np.full(5, systems.centre), alpha, 1e-4)
    found = systems.corrected(alpha, systems.solve(alpha, begun, 1e-12), lambda V: V @ kernel(X), 1e-12)
    factors = Systems(np.linalg.cholesky(kernel(X) + 1e-12 * np.eye(N)), Y, w, folds, loss)
    expected = factors.predict(factors.solve(alpha, factors.start(), 1e-14, certain=True))[:, :, 0].T
    assert found.converged
    np.testing.assert_allclose(found.f, expected, atol=1e-5 * expected.std())
    np.testing.assert_allclose(kernel(X) @ found.coef.T + found.offset, expected.T, atol=1e-5 * expected.std())


@pytest.mark.parametrize(
    ("name", "tolerance"), [("classes", 1e-5), ("poisson", 1e-5), ("gamma", 1e-5), ("quantile", 1e-3)]
)
def test_fits_agree_with_the_exact_solver(name, tolerance):
    """With folds that are given; the width of the quantile's corner, which is learned, differs in its last digits."""
    more = {"cv": list(KFold(4, shuffle=True, random_state=1).split(np.zeros(N))), "alpha": 0.05}
    exact, found = fitted(name, SETTINGS, solver="exact", **more), fitted(name, **more)
    new, (error, other) = table(name, 100, seed=1)[0], (m.search_.results[0].path.error for m in (exact, found))
    expected = exact.expansion_.predict(new)
    assert found.alpha_ == exact.alpha_
    assert other == pytest.approx(error, rel=1e-3)
    np.testing.assert_allclose(found.expansion_.predict(new), expected, atol=tolerance * expected.std())
    held, same = (m._fitted.uncertainty.held_out for m in (found, exact))
    np.testing.assert_array_equal(held.row, same.row)
    np.testing.assert_allclose(held.f, same.f, atol=2e-3 * same.f.std())


def test_gross_errors_have_no_influence():
    new = table("huber", seed=1)[0]
    f = 2 * np.sin(3 * new[:, 0]) + new[:, 1] * new[:, 2]
    error = np.sqrt(np.mean((fitted("huber").predict(new) - f) ** 2))
    assert error < 0.2 < np.sqrt(np.mean((fitted("huber", loss="squared_error").predict(new) - f) ** 2))


def test_rows_of_weight_two_are_rows_twice():
    X, y, _ = table("poisson")
    settings = PCG | {"alpha": 0.05, "cv": 3, "loss": "poisson"}
    weight = np.where(np.arange(N) < 100, 2.0, 1.0)
    doubled = SalsaRegressor(**settings).fit(np.vstack([X, X[:100]]), np.append(y, y[:100]))
    weighted = SalsaRegressor(**settings).fit(X, y, sample_weight=weight)
    np.testing.assert_allclose(doubled.predict(X), weighted.predict(X), rtol=1e-5)


def test_blocks_give_the_bits_of_rows_in_memory():
    X, y, _ = table("poisson")
    settings = PCG | {"alpha": 0.05, "loss": "poisson"}
    read = SalsaRegressor(**settings).fit_blocks([(X[:100], y[:100]), (X[100:], y[100:])])
    np.testing.assert_array_equal(read.predict(X), SalsaRegressor(**settings).fit(X, y).predict(X))


def test_threads_do_not_change_a_bit():
    one, two = (fitted("classes", n_jobs=jobs) for jobs in (1, 2))
    np.testing.assert_array_equal(one.expansion_.coef, two.expansion_.coef)
    assert one.alpha_ == two.alpha_


def test_alpha_goes_on_from_that_of_the_anchors():
    low, found = (fitted("classes", PCG | {"rank": 15, "solver": solver}) for solver in ("lowrank", "pcg"))
    path, before = (m.search_.results[-1].path for m in (found, low))
    steps = 2 * np.log10(path.alphas / before.alpha)
    np.testing.assert_allclose(steps, np.round(steps), atol=1e-9)
    assert path.error == min(path.errors)
    assert path.error < before.error
    assert any("15 anchors do not represent the kernel" in note for note in found.search_.notes)


def test_groups_are_held_out_whole_and_later_rows_judge():
    group = np.arange(N) // 8
    held = fitted("gamma", groups=group, alpha=0.05)._fitted.uncertainty.held_out
    assert held.units == group.max() + 1
    ordered = fitted("gamma", cv=TimeSeriesSplit(4), alpha=0.05)
    assert len(ordered.leave_one_out().target) == 4 * (N // 5)
    assert any("later rows judge" in note for note in ordered.search_.notes)


@pytest.mark.parametrize("name", ["classes", "poisson"])
def test_a_model_keeps_its_rows_and_its_uncertainty_in_a_file(name, tmp_path):
    X, y, _ = table(name)
    model = fitted(name, alpha=0.05)
    model.save(tmp_path / "m.salsa")
    loaded = salsa.load(tmp_path / "m.salsa")
    assert len(model.expansion_.anchors) == N
    assert all(one._fitted.uncertainty.keeps_rows for one in (model, loaded))
    if name == "classes":
        sets = [one.predict_set(X, coverage=0.9) for one in (model, loaded)]
        assert 0.8 < np.mean(sets[0][np.arange(N), y.astype(int)]) <= 1.0
    else:
        sets = [one.predict_interval(X, coverage=0.9) for one in (model, loaded)]
        assert 0.8 < np.mean((y >= sets[0][:, 0]) & (y <= sets[0][:, 1])) <= 1.0
        assert len(loaded.leave_one_out().target) == N
        np.testing.assert_array_equal(*(one.predict(X, return_std=True)[1] for one in (model, loaded)))
    np.testing.assert_array_equal(*sets)


def test_a_matrix_beyond_the_memory_limit_is_computed_again_with_a_note(monkeypatch):
    monkeypatch.setattr("salsa.solvers.iterated_likelihood.iterated_bytes", lambda *_: 10**15)
    model = fitted("poisson", alpha=0.05)
    assert any("100% of the kernel matrix" in note for note in model.search_.notes)
    np.testing.assert_array_equal(model.expansion_.coef, _held().coef)


def _held():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("salsa.solvers.iterated_likelihood.iterated_bytes", lambda *_: 0)
        return fitted("poisson", alpha=0.05).expansion_


def test_a_fit_that_does_not_converge_has_a_note(monkeypatch):
    monkeypatch.setattr(kernel_systems, "MOST_STEPS", 1)
    assert any("did not converge" in note for note in fitted("poisson", alpha=0.001).search_.notes)


def test_memory_is_checked_and_several_classes_are_refused_before_the_work(monkeypatch):
    monkeypatch.setattr("salsa.fitting.make_plan", None)  # the work begins there
    with pytest.raises(MemoryError, match="this fit"):
        fitted("poisson", memory_limit="1MB")
    X, y, _ = table("gamma")
    with pytest.raises(ValueError, match="solver='pcg' fits two classes, and y has 3: give solver='auto' or 'lowrank'"):
        SalsaClassifier(**PCG).fit(X, np.digitize(y, [0.5, 2.0]))


def test_an_interrupted_fit_leaves_the_model_as_it_was(monkeypatch):
    model = fitted("poisson", alpha=0.05)
    before = model.predict(table("poisson")[0])

    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(KernelSystems, "solve", interrupt)
    X, y, _ = table("poisson", seed=1)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y)
    np.testing.assert_array_equal(model.predict(table("poisson")[0]), before)
