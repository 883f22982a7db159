"""Fits of many rows to a likelihood: sums over rows against products of whole matrices, whatever is held of them."""

import re
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from conftest import additive_truth
from likelihoods import LOSSES, every_loss, table_for
from sklearn.base import clone
from sklearn.model_selection import ShuffleSplit, TimeSeriesSplit
from sums import use_kernel

from salsa import AdditiveKernel, SalsaClassifier, SalsaRegressor
from salsa._utils.blas import one_blas_thread
from salsa.data.rows import Observations, array_rows
from salsa.data.splits import Given, Splits, folds_by, given_splits
from salsa.solvers import anchored_likelihood, feature_rows
from salsa.solvers.anchored_likelihood import AllRows, AnchoredFits, AnchoredTask
from salsa.solvers.anchors import choose_anchors
from salsa.solvers.likelihood import held_out_of
from salsa.solvers.penalised import Systems
from salsa.solvers.row_systems import Problem, out_of_step

N = 300
CLOSE = {"huber": 2e-3, "quantile": 2e-3}  # the scale of these losses follows from fits of the search
ALL, HALF, NONE = 10**9, 160, 0  # rows whose features are held


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    """Cut the rows of these small tables into several blocks, and blocks into pieces."""
    monkeypatch.setattr(feature_rows, "BLOCK", 32)
    monkeypatch.setattr(feature_rows, "PIECE", 20)


def folds_of(kind):
    """Return splits that test every row once, that later rows judge, or that draw rows anew in each split."""
    draws = np.random.RandomState(0)
    if kind == "folds":
        return Splits(N, tuple(folds_by(np.arange(N) % 4)), draws)
    cv = TimeSeriesSplit(3) if kind == "time" else ShuffleSplit(4, test_size=0.3, train_size=0.5, random_state=0)
    splits = given_splits(cv, Given(np.ones(N, dtype=bool)), draws)
    assert splits is not None
    return splits


def fits_of(name, splits, held=ALL, threads=1):
    """Return fits on 40 anchors with the features of so many rows in memory, and the systems of all features."""
    X, Y, w = table_for(name)
    kernel = AdditiveKernel(np.full(3, 0.8), np.ones(3), [0, 1.0, 1.0])
    anchors = choose_anchors(kernel, X, 40, 0.0, np.random.RandomState(0))
    known = AllRows(array_rows(Observations(X, Y, w), threads), Y, w, splits)
    need = anchored_likelihood.systems_bytes(N, 3, Y.shape[1], len(anchors.points), len(splits.folds), 1)
    task = AnchoredTask(known, LOSSES[name], None, 40, 1, need + 4 * len(anchors.points) * held)
    systems = Systems(anchors.features(X), Y, w, splits.folds, LOSSES[name])
    return AnchoredFits(task, anchors, 1.0), systems, task


@every_loss
@pytest.mark.parametrize("held", [ALL, HALF, NONE])
@pytest.mark.parametrize("kind", ["folds", "time", "shuffled"])
def test_sums_over_rows_are_products_of_whole_matrices(name, held, kind):
    """The losses, slopes and curvatures of two penalties at once are those of ``Systems``, one by one."""
    splits = folds_of(kind)
    fits, systems, task = fits_of(name, splits, held)
    assert fits.features.count == min(held, N)
    rng, S, q = np.random.default_rng(1), len(splits.folds) + 1, task.known.Y.shape[1]
    x, p = rng.normal(size=(2, len(fits.anchors.points) + 1, 2 * S, q))
    problem = Problem(fits.systems, [2.0, 0.3], [task.loss] * 2)
    point = problem.at(x)
    for a in range(2):
        mine = slice(a * S, (a + 1) * S)
        f, penalty = systems._forward(x[:, mine]), problem.penalty[:, mine]
        away = x[:, mine] - problem.centre
        scale = np.abs(point.slope).max()
        slope = systems._back(task.loss.slope(task.known.Y[:, None], f)) + penalty * away
        np.testing.assert_allclose(point.value[mine], systems._value(away, f, penalty), rtol=1e-5)
        np.testing.assert_allclose(point.slope[:, mine], slope, atol=1e-5 * scale)
        bent = systems._bend(f, p[:, mine]) + penalty * p[:, mine]
        seen = {}

        def spy(times, precondition, slope, least, seen=seen):
            seen["bent"] = times(p)
            return np.zeros_like(slope), np.zeros(slope.shape[1]), 1

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("salsa.solvers.row_systems.newton_step", spy)
            fits.systems.factors.approach([2.0, 0.3])
            problem.newton_step(point, np.zeros(2 * S))
        np.testing.assert_allclose(seen["bent"][:, mine], bent, atol=1e-5 * np.abs(bent).max())


@every_loss
@pytest.mark.parametrize("kind", ["folds", "time", "shuffled"])
def test_penalties_side_by_side_have_the_minimum_of_each(name, kind):
    splits = folds_of(kind)
    fits, systems, task = fits_of(name, splits, HALF)
    alphas, losses = [3.0, 0.1, 0.01], [task.loss] * 3
    solved = fits.systems.solve(alphas, losses, fits.systems.start(3), 1e-12)
    assert solved.converged
    predicted = fits.systems.held_out(solved)
    judged = SimpleNamespace(splits=splits, counts=None)
    for a, alpha in enumerate(alphas):
        f = systems.predict(systems.solve(alpha, systems.start(), 1e-12))
        expected, own = held_out_of(judged, f), fits._held_out_of(predicted[:, a])
        np.testing.assert_array_equal(own.row, expected.row)
        atol = 2e-4 * max(1.0, np.abs(expected.f).max())
        np.testing.assert_allclose(task.loss.mean(own.f), task.loss.mean(expected.f), atol=atol)
        whole = fits.systems.fitted(solved.x[:, a, -1])
        np.testing.assert_allclose(task.loss.mean(whole), task.loss.mean(f[:, -1]), atol=atol)


@pytest.mark.parametrize("held", [ALL, HALF, NONE])
def test_threads_do_not_change_a_bit(held):
    found = []
    for threads in (1, 3):
        fits, *_ = fits_of("logistic", folds_of("folds"), held, threads)
        fits.features.threads = threads
        with one_blas_thread():
            candidate = fits.chosen(0.1)
        found.append(candidate)
    np.testing.assert_array_equal(found[0].f, found[1].f)
    np.testing.assert_array_equal(found[0].sums.xx, found[1].sums.xx)
    assert found[0].path.alpha == found[1].path.alpha


#: Places of the rows in ascending order, in which fits in memory take them: sums are then in the same order
ORDER = np.lexsort(table_for("huber")[0].T[::-1])
SETTINGS = {"order": 2, "relevance": "equal", "random_state": 0, "solver": "lowrank", "rank": 40}


def fitted(name, monkeypatch, held, **settings):
    """Return an estimator that was fitted with the features of so many rows in memory, and its table."""
    X, Y, w = (values[ORDER] for values in table_for(name))
    limit = 10**9
    monkeypatch.setattr(anchored_likelihood, "systems_bytes", lambda *_: limit - 4 * 40 * held)
    settings = {**SETTINGS, "memory_limit": limit, **settings}
    if name in ("logistic", "softmax"):
        y = np.argmax(Y, axis=1) if name == "softmax" else Y[:, 0]
        return SalsaClassifier(**settings).fit(X, y, w), X
    level = {"quantile": 0.7} if name == "quantile" else {}
    return SalsaRegressor(loss=name, **level, **settings).fit(X, Y[:, 0], w), X


@every_loss
def test_the_share_of_features_in_memory_changes_predictions_by_rounding_errors(name, monkeypatch):
    """Held features are rounded to float32; minima and the factor of calibration are found to about 1e-5."""
    models = [fitted(name, monkeypatch, held)[0] for held in (ALL, HALF, NONE)]
    X = table_for(name)[0]
    whole, *others = (model.expansion_.predict(X) for model in models)
    for model, f in zip(models[1:], others, strict=True):
        assert model.alpha_ == models[0].alpha_
        np.testing.assert_allclose(f, whole, atol=CLOSE.get(name, 1e-4) * np.ptp(whole))
        sd, expected = (m._fitted.uncertainty.inner.cvplus.root for m in (model, models[0]))
        np.testing.assert_allclose(sd @ sd.T, expected @ expected.T, atol=1e-5)
    notes = [" ".join(model.search_.notes) for model in models]
    assert "features" not in notes[0]
    share = int(re.search(r"memory holds the features of (\d+)% of the rows", notes[1])[1])
    assert 50 < share < 100
    assert "memory holds the features of 0% of the rows" in notes[2]
    assert "computed again in" in notes[2]


def in_blocks(X, y, *others):
    """Return a function that yields the rows in blocks of different sizes."""
    rows = np.split(np.arange(len(y)), [7, 7, 101, 250])
    return lambda: ((X[some], y[some], *(values[some] for values in others)) for some in rows)


def refuse_to_gather(*_):
    raise AssertionError("all rows were gathered")


@every_loss
@pytest.mark.parametrize("held", [ALL, HALF])
def test_blocks_give_the_bits_of_the_fit_in_memory(name, held, monkeypatch):
    X, Y, w = (values[ORDER] for values in table_for(name))
    model, _ = fitted(name, monkeypatch, held)
    monkeypatch.setattr("salsa.fitting._gathered", refuse_to_gather)
    y = Y[:, 0] if name != "softmax" else np.argmax(Y, axis=1)
    blocks = clone(model).fit_blocks(in_blocks(X, y, w))
    np.testing.assert_array_equal(blocks.predict(X), model.predict(X))
    np.testing.assert_array_equal(blocks.expansion_.coef, model.expansion_.coef)
    one, other = blocks._fitted.uncertainty, model._fitted.uncertainty
    np.testing.assert_array_equal(one.held_out.f, other.held_out.f)
    np.testing.assert_array_equal(one.target, other.target)
    assert blocks.search_.notes == model.search_.notes
    assert blocks.alpha_ == model.alpha_


@every_loss
def test_the_order_of_rows_changes_blocks_by_rounding_errors(name, monkeypatch):
    """Folds, samples and anchors do not depend on the order; sums of features in float32 do, in their last digits."""
    X, Y, w = table_for(name)
    model, _ = fitted(name, monkeypatch, ALL)
    y = Y[:, 0] if name != "softmax" else np.argmax(Y, axis=1)
    mixed = np.random.default_rng(3).permutation(N)
    blocks = clone(model).fit_blocks(in_blocks(X[mixed], y[mixed], w[mixed]))
    whole = model.expansion_.predict(X)
    np.testing.assert_array_equal(blocks.expansion_.anchors, model.expansion_.anchors)
    np.testing.assert_allclose(blocks.expansion_.predict(X), whole, atol=CLOSE.get(name, 1e-4) * np.ptp(whole))
    assert blocks.alpha_ == model.alpha_


def test_blocks_with_groups_give_the_bits_of_the_fit_in_memory(monkeypatch):
    X, Y, w = (values[ORDER] for values in table_for("poisson"))
    group = np.arange(N) // 3
    model = SalsaRegressor(loss="poisson", **SETTINGS).fit(X, Y[:, 0], w, groups=group)
    monkeypatch.setattr("salsa.fitting._gathered", refuse_to_gather)
    blocks = SalsaRegressor(loss="poisson", **SETTINGS).fit_blocks(in_blocks(X, Y[:, 0], w, group))
    np.testing.assert_array_equal(blocks.predict(X), model.predict(X))
    assert blocks._fitted.uncertainty.held_out.units == N // 3


def test_blocks_of_aggregated_counts_give_the_sets_of_the_fit_in_memory():
    """A weight is the number of observations that a row stands for, and counts as such in sets of classes."""
    X = table_for("logistic")[0][ORDER]
    X, y = np.repeat(X[:100], 2, axis=0), np.tile([0, 1], 100)
    w = np.random.default_rng(0).integers(1, 9, 200).astype(float)
    model = SalsaClassifier(**SETTINGS).fit(X, y, w)
    blocks = SalsaClassifier(**SETTINGS).fit_blocks(in_blocks(X, y, w))
    expected, found = (m._fitted.uncertainty.held_out for m in (model, blocks))
    np.testing.assert_array_equal(found.counts[np.argsort(found.row)], expected.counts[np.argsort(expected.row)])
    np.testing.assert_array_equal(blocks.predict_set(X, 0.9), model.predict_set(X, 0.9))


@pytest.mark.parametrize("cv", [TimeSeriesSplit(3), ShuffleSplit(4, test_size=0.3, random_state=0)])
def test_blocks_with_given_splits_give_the_bits_of_the_fit_in_memory(cv, monkeypatch):
    X, Y, w = (values[ORDER] for values in table_for("huber"))
    model = SalsaRegressor(loss="huber", cv=cv, **SETTINGS).fit(X, Y[:, 0], w)
    monkeypatch.setattr("salsa.fitting._gathered", refuse_to_gather)
    blocks = SalsaRegressor(loss="huber", cv=cv, **SETTINGS).fit_blocks(in_blocks(X, Y[:, 0], w))
    np.testing.assert_array_equal(blocks.predict(X), model.predict(X))
    np.testing.assert_array_equal(blocks.predict_interval(X), model.predict_interval(X))


def test_blocks_with_learned_kernels_and_texts_give_the_bits_of_the_fit_in_memory(monkeypatch):
    use_kernel(monkeypatch)
    X, Y, _ = (values[ORDER] for values in table_for("logistic"))
    table = pd.DataFrame(X, columns=list("abc")).assign(d=np.where(X[:, 0] > 0, "u", "v"))
    y = np.where(Y[:, 0] > 0, "yes", "no")
    settings = {"solver": "lowrank", "rank": 40, "random_state": 0}
    model = SalsaClassifier(**settings).fit(table, y)
    monkeypatch.setattr("salsa.fitting._gathered", refuse_to_gather)
    frames = [table.assign(y=y).iloc[rows] for rows in np.array_split(np.arange(N), 3)]
    blocks = SalsaClassifier(**settings).fit_blocks(frames, target="y")
    np.testing.assert_array_equal(blocks.predict_proba(table), model.predict_proba(table))
    np.testing.assert_array_equal(blocks.predict_set(table, 0.8), model.predict_set(table, 0.8))


def test_blocks_are_read_four_times_if_all_features_are_held():
    X, Y, w = table_for("poisson")
    readings = []

    def blocks():
        readings.append(1)
        return in_blocks(X, Y[:, 0], w)()

    SalsaRegressor(loss="poisson", **SETTINGS).fit_blocks(blocks)
    assert len(readings) == 4  # columns; targets and fingerprints; the sample; features


def test_blocks_with_monotone_features_are_gathered():
    pytest.importorskip("clarabel")
    X, Y, w = table_for("poisson")
    settings = {"loss": "poisson", "monotonic_cst": [1, 0, 0], **SETTINGS}
    model = SalsaRegressor(**settings).fit(X, Y[:, 0], w)
    blocks = SalsaRegressor(**settings).fit_blocks(in_blocks(X, Y[:, 0], w))
    np.testing.assert_allclose(blocks.predict(X), model.predict(X), rtol=1e-4)


def test_targets_of_blocks_are_checked():
    X, Y, _ = table_for("poisson")
    y = Y[:, 0].copy()
    y[200] = -1.0
    with pytest.raises(ValueError, match=r"row 200 has -1"):
        SalsaRegressor(loss="poisson", **SETTINGS).fit_blocks(in_blocks(X, y))
    with pytest.raises(ValueError, match="y has one class"):
        SalsaClassifier(**SETTINGS).fit_blocks(in_blocks(X, np.zeros(N)))


def test_a_limit_below_the_sums_is_refused_before_the_work(monkeypatch):
    X, Y, _ = table_for("poisson")
    monkeypatch.setattr("salsa.fitting.make_plan", refuse_to_gather)
    for fit in (lambda m: m.fit(X, Y[:, 0]), lambda m: m.fit_blocks(in_blocks(X, Y[:, 0]))):
        with pytest.raises(MemoryError, match="Give a smaller rank"):
            fit(SalsaRegressor(loss="poisson", **SETTINGS | {"memory_limit": "1MB"}))


def test_memory_is_that_of_the_given_splits(monkeypatch):
    """Every split has sums of its own: 40 splits take about 7 times the memory of 5."""
    X, Y, _ = table_for("poisson")
    monkeypatch.setattr("salsa.fitting.make_plan", refuse_to_gather)
    folds, many = (anchored_likelihood.anchored_bytes(N, 3, 1, 250, count, 1) for count in (5, 40))
    settings = SETTINGS | {"rank": 250, "n_jobs": 1, "memory_limit": (folds + many) // 2}
    for fit in (lambda m: m.fit(X, Y[:, 0]), lambda m: m.fit_blocks(in_blocks(X, Y[:, 0]))):
        with pytest.raises(AssertionError, match="gathered"):  # after the check
            fit(SalsaRegressor(loss="poisson", **settings))
        with pytest.raises(MemoryError, match="Give a smaller rank"):
            fit(SalsaRegressor(loss="poisson", cv=ShuffleSplit(40, random_state=0), **settings))


def test_short_columns_of_a_loss_without_noise_converge():
    """Values of the loss are rounded to float32 where features are held: the search for lower ones must not stall."""
    X, y = additive_truth(n=N, D=3, noise=0.0)
    model = SalsaRegressor(loss="huber", alpha=1e-6, **SETTINGS | {"rank": 200}).fit(X, y)
    assert not any("did not converge" in note for note in model.search_.notes)
    new, truth = additive_truth(n=500, D=3, seed=1, noise=0.0)
    assert np.sqrt(np.mean((model.predict(new) - truth) ** 2)) < 0.1 * truth.std()


def test_a_sample_of_the_rows_makes_good_enough_factors(monkeypatch):
    """Of very many rows, some have curvatures in the preconditioners: the minimum is the same."""
    whole, *_ = fits_of("logistic", folds_of("folds"), HALF)
    expected = whole.chosen(0.1)
    monkeypatch.setattr("salsa.solvers.row_systems.CURVED_ROWS", N // 3)
    some, *_ = fits_of("logistic", folds_of("folds"), HALF)
    found = some.chosen(0.1)
    assert found.fits.converged
    assert found.path.alpha == expected.path.alpha
    np.testing.assert_allclose(found.f, expected.f, atol=1e-4 * np.ptp(expected.f))


@pytest.mark.parametrize("kind", ["folds", "time", "shuffled"])
def test_grams_are_those_of_the_rows_of_every_system(kind):
    """With few splits the grams of parts of the rows are added; shuffled splits cut the rows into many parts."""
    fits, systems, _ = fits_of("gamma", folds_of(kind))
    fits.systems.factors.approach([1.0])
    Z = np.column_stack([np.ones(N), systems.F])
    for gram, w in zip(fits.systems.factors.grams, systems.W.T, strict=True):
        np.testing.assert_allclose(gram, np.tril((Z.T * w) @ Z), atol=1e-4)  # the curvature of the reference is 1


def test_a_short_last_block_may_have_none_of_the_sampled_rows():
    fits, *_ = fits_of("logistic", folds_of("folds"))
    seen = fits.features.total(lambda block, F: [len(block.Y)], list.__add__, 20)  # rows 0, 20, .., 280 of 300
    assert sum(seen) == N // 20
    assert min(seen) > 0


@pytest.mark.parametrize("held", [ALL, HALF, NONE])
def test_a_sample_of_the_rows_is_not_in_step_with_the_folds(held, monkeypatch):
    """Rows that are sorted by their targets go to the folds by turns: one row in 8 would be in one of 4 folds only."""
    monkeypatch.setattr("salsa.solvers.row_systems.CURVED_ROWS", N // 8)
    fits, *_ = fits_of("gamma", folds_of("folds"), held)
    fits.systems.factors.approach([1.0])
    weights = [gram[0, 0] for gram in fits.systems.factors.grams]  # the curvature of the reference is 1
    np.testing.assert_allclose(weights, fits.systems.weight, rtol=0.25)


def test_the_step_of_a_sample_shares_no_factor_with_the_folds_by_turns():
    assert [out_of_step(every, 5) for every in (1, 2, 5, 9, 10, 100)] == [1, 3, 7, 9, 11, 101]
    assert [out_of_step(every, 0) for every in (1, 2, 9)] == [1, 3, 9]


@pytest.mark.parametrize("name", ["poisson", "gamma"])
def test_a_gross_outlier_and_a_tiny_penalty_give_finite_predictions(name):
    """Trial steps have slopes beyond float32; conjugate gradients may break down, and a note then says so."""
    X, Y, _ = table_for(name)
    y = Y[:, 0].copy()
    y[3] = 1e6 if name == "poisson" else 1e9
    for alpha in (1e-8, 1e-3):
        model = SalsaRegressor(loss=name, alpha=alpha, **SETTINGS).fit(X, y)
        assert np.isfinite(model.predict(X)).all()


def test_a_step_that_is_not_a_number_is_not_taken():
    fits, *_, task = fits_of("poisson", folds_of("folds"))
    problem = Problem(fits.systems, [1.0], [task.loss])
    point = problem.at(fits.systems.start(1).x[:, 0])
    promised = np.array([1.0, np.nan, -1.0, 0.0, 1.0])
    step = -1e-6 * point.slope
    step[:, ~(promised > 0)] = np.nan
    found, moved = problem.descend(point, step, promised)
    assert moved
    np.testing.assert_array_equal(found.x[:, 1:4], point.x[:, 1:4])
    assert (found.value[[0, 4]] < point.value[[0, 4]]).all()
