"""Penalised likelihood fits against a general optimiser, refits without rows, and fits of squared errors."""

import naive
import numpy as np
import pytest
from conftest import additive_truth
from likelihoods import LOSSES, every_loss, table_for
from scipy.special import logit
from sklearn.model_selection import KFold

from salsa import AdditiveKernel, SalsaRegressor
from salsa._utils.blas import one_blas_thread
from salsa._utils.weighted import power_of_two
from salsa.data.splits import Fold, folds_by
from salsa.losses import PINBALL_WIDTH, Logistic, Softmax, robust_spread
from salsa.solvers.factor import exact_factor
from salsa.solvers.likelihood import ALIKE
from salsa.solvers.penalised import Systems

N = 60


def problem(name, n=N, seed=0):
    """Return a kernel matrix, targets, weights and folds."""
    X, Y, w = table_for(name, n, seed)
    K = AdditiveKernel(np.full(3, 0.8), np.ones(3), [0, 1.0, 1.0])(X)
    return K, Y, w, list(folds_by(np.arange(n) % 4))


def features(K):
    factor = exact_factor(K.copy())
    return factor.Q * np.sqrt(factor.l)


@every_loss
@pytest.mark.parametrize("alpha", [3.0, 0.1, 0.003])
def test_systems_find_the_minimum(name, alpha):
    K, Y, w, folds = problem(name)
    loss = LOSSES[name]
    systems = Systems(features(K), Y, w, folds, loss)
    fits = systems.solve(alpha, systems.start(), 1e-12)
    f = systems.predict(fits)
    assert fits.converged
    for s, held_out in enumerate([*(fold.held_out for fold in folds), []]):
        own = w.copy()
        own[held_out] = 0.0
        expected, _ = naive.penalised_fit(
            K, lambda f: loss.value(Y, f), lambda f: loss.slope(Y, f), alpha, own, Y.shape[1]
        )
        f_s = f[:, s]
        if name == "softmax":  # probabilities, because a constant may be added to all classes
            f_s, expected = loss.mean(f_s), loss.mean(expected)
        np.testing.assert_allclose(f_s, expected, atol=2e-4 * max(1.0, np.abs(expected).max()))


@every_loss
def test_short_orthogonal_columns_change_nothing_but_the_preconditioners(name):
    K, Y, _, folds = problem(name)
    factor = exact_factor(K.copy())
    F, lengths = np.ascontiguousarray((factor.Q * np.sqrt(factor.l))[:, ::-1]), factor.l[::-1]
    ones, fits = np.ones(N), []
    for given in (None, lengths):
        systems = Systems(F, Y, ones, folds, LOSSES[name], lengths=given)
        fits.append(systems.predict(systems.solve(0.5, systems.start(), 1e-12)))
    assert 0 < systems.preconditioners.lead < F.shape[1]
    np.testing.assert_allclose(fits[1], fits[0], atol=1e-4 * np.abs(fits[0]).max())


def test_large_penalties_leave_the_intercept_alone_in_the_preconditioners():
    K, Y, _, folds = problem("logistic")
    factor = exact_factor(K.copy())
    F = np.ascontiguousarray((factor.Q * np.sqrt(factor.l))[:, ::-1])
    systems = Systems(F, Y, np.ones(N), folds, Logistic(), lengths=factor.l[::-1])
    f = systems.predict(systems.solve(1e6, systems.start(), 1e-12))
    assert systems.preconditioners.lead == 0
    np.testing.assert_allclose(f[:, -1], np.zeros_like(Y) + Logistic().constant(Y, np.ones(N)), atol=1e-3)


def test_threads_do_not_change_a_bit():
    rng = np.random.default_rng(0)
    F, y = rng.normal(size=(3000, 150)), rng.integers(0, 2, (3000, 1)).astype(float)
    folds, found = folds_by(np.arange(3000) % 4), []
    for threads in (1, 2):
        systems = Systems(F, y, np.ones(3000), folds, Logistic(), threads=threads)
        assert systems.threads == threads
        with one_blas_thread():
            found.append(systems.predict(systems.solve(1.0, systems.start(), 1e-9)))
    np.testing.assert_array_equal(*found)


def test_a_warm_start_changes_nothing():
    K, Y, w, folds = problem("logistic")
    systems = Systems(features(K), Y, w, folds, Logistic())
    cold = systems.solve(0.01, systems.start(), 1e-12)
    warm = systems.solve(0.01, systems.solve(1.0, systems.start(), 1e-3), 1e-12)
    np.testing.assert_allclose(systems.predict(warm), systems.predict(cold), atol=1e-4)


def test_a_fold_without_a_class_stays_finite():
    K, Y, w, _ = problem("logistic")
    Y[:] = 0.0
    Y[:2] = 1.0
    fold = Fold(np.arange(2), np.arange(2))
    systems = Systems(features(K), Y, w, [fold], Logistic())
    fits = systems.solve(0.1, systems.start(), 1e-9)
    assert fits.converged
    assert np.abs(systems.predict(fits)).max() < 30


def test_multinomial_with_two_classes_is_the_binary_fit():
    """Of f0 = -f / 2 and f1 = f / 2, the penalty is half of the penalty of f."""
    K, Y, w, folds = problem("logistic")
    F = features(K)
    binary, multi = Systems(F, Y, w, folds, Logistic()), Systems(F, np.hstack([1 - Y, Y]), w, folds, Softmax())
    f = binary.predict(binary.solve(0.1, binary.start(), 1e-13))
    both = multi.predict(multi.solve(0.2, multi.start(), 1e-13))
    np.testing.assert_allclose(both[..., 1] - both[..., 0], f[..., 0], atol=1e-4)


SETTINGS = {"order": 2, "relevance": "equal", "random_state": 0}


def targets(loss, n=120, seed=0):
    rng = np.random.default_rng(seed)
    X, f = additive_truth(n=n, D=3, seed=seed, noise=0.0)
    made = {"poisson": rng.poisson(np.exp(f)), "gamma": rng.gamma(3.0, np.exp(f) / 3.0)}
    return X, made.get(loss, f + 0.3 * rng.standard_t(3, n))


@pytest.mark.parametrize("loss", ["poisson", "gamma", "huber"])
def test_coefficients_are_slopes_over_alpha(loss):
    """At the minimum, alpha c_i = -w_i l'(y_i, f_i), and the coefficients sum to zero."""
    X, y = targets(loss)
    model = SalsaRegressor(loss=loss, alpha=0.3, **SETTINGS).fit(X, y)
    expansion, rows = model.expansion_, model._fitted.uncertainty
    slope = rows.loss.slope(rows.target, expansion.predict(expansion.anchors))
    np.testing.assert_allclose(model.alpha_ * expansion.coef, -slope, atol=1e-6 * np.abs(slope).max())
    assert abs(expansion.coef.sum()) < 1e-6 * np.abs(expansion.coef).max()


@pytest.mark.parametrize("loss", ["poisson", "gamma"])
def test_approximate_leave_one_out_is_near_refits(loss):
    X, y = targets(loss, n=100)
    model = SalsaRegressor(loss=loss, alpha=0.5, **SETTINGS).fit(X, y)
    found, anchors = model.leave_one_out(), model.expansion_.anchors
    fixed = {"relevance": np.ones(3), "bandwidth": model.bandwidth_, "order": 2, "alpha": 0.5, "loss": loss}
    refitted = []
    for i in range(0, 100, 5):
        others = (anchors[i] != X).any(axis=1)
        refitted.append(SalsaRegressor(**fixed).fit(X[others], y[others]).predict(anchors[[i]])[0])
    refitted, left_out, inside = np.array(refitted), found.prediction[::5, 0], model.predict(anchors[::5])
    share = 0.1 if loss == "poisson" else 0.3  # the working weights of amounts are expected curvatures
    assert np.abs(left_out - refitted).max() < share * np.abs(inside - refitted).max() + 0.02 * refitted.std()


@pytest.mark.parametrize("loss", ["poisson", "gamma", "huber", "quantile"])
def test_a_weight_of_two_is_the_row_twice(loss):
    X, y = targets(loss)
    level = {"quantile": 0.7} if loss == "quantile" else {}
    twice = np.arange(len(y)) % 3 == 0
    weighted = SalsaRegressor(loss=loss, **SETTINGS, **level).fit(X, y, 1.0 + twice)
    repeated = SalsaRegressor(loss=loss, **SETTINGS, **level).fit(np.r_[X, X[twice]], np.r_[y, y[twice]])
    np.testing.assert_allclose(weighted.predict(X), repeated.predict(X), rtol=1e-6)


def test_poisson_with_large_counts_tends_to_weighted_squared_errors():
    """The logarithm of a large count is normal with the variance 1 / mu: ridge regression with the weights mu."""
    X, f = additive_truth(n=150, D=3, noise=0.0)
    K = AdditiveKernel(np.full(3, 1.0), np.ones(3), [0, 1.0, 1.0])
    fixed = {"relevance": np.ones(3), "bandwidth": np.full(3, 1.0), "order": 2}
    gaps = []
    for level in (1e2, 1e4, 1e6):
        y = np.random.default_rng(0).poisson(level * np.exp(f))
        poisson = SalsaRegressor(loss="poisson", alpha=1.0, **fixed).fit(X, y)
        c, b = naive.ridge(K(X), np.log(y)[:, None], 1.0, np.diag(1.0 / y))
        gaps.append(np.abs(np.log(poisson.predict(X)) - (K(X) @ c + b)[:, 0]).max())
    assert gaps[0] > gaps[1] > gaps[2]
    assert gaps[2] < 1e-3


def test_huber_without_large_residuals_is_squared_error(monkeypatch):
    monkeypatch.setattr("salsa.losses.HUBER", 1e6)
    X, y = targets("huber")
    huber, squared = (SalsaRegressor(loss=loss, alpha=0.3, **SETTINGS).fit(X, y) for loss in ("huber", "squared_error"))
    np.testing.assert_allclose(huber.predict(X), squared.predict(X), atol=1e-7 * y.std())


@pytest.mark.parametrize("loss", ["poisson", "gamma", "huber", "quantile"])
def test_lowrank_with_nearly_all_rows_is_the_exact_fit(loss, monkeypatch):
    monkeypatch.setattr("salsa.solvers.anchored_likelihood.LEFT_OF_ALPHA", 0.0)
    X, y = targets(loss)
    level = {"cv": KFold(5)} | ({"quantile": 0.7} if loss == "quantile" else {})  # own folds of equal targets differ
    exact = SalsaRegressor(loss=loss, **SETTINGS, **level).fit(X, y)
    lowrank = SalsaRegressor(loss=loss, solver="lowrank", rank=119, **SETTINGS, **level).fit(X, y)
    assert lowrank.alpha_ == pytest.approx(exact.alpha_)
    np.testing.assert_allclose(lowrank.predict(X), exact.predict(X), rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(
        lowrank.predict(X, return_std=True)[1], exact.predict(X, return_std=True)[1], rtol=0.02, atol=1e-6
    )


@pytest.mark.parametrize("loss", ["poisson", "gamma", "huber", "quantile"])
def test_intervals_cover_new_observations(loss):
    rng = np.random.default_rng(5)
    X, y = targets(loss, n=300)
    level = {"quantile": 0.7} if loss == "quantile" else {}
    model = SalsaRegressor(loss=loss, **SETTINGS, **level).fit(X, y)
    new, f = additive_truth(n=3000, D=3, seed=9, noise=0.0)
    made = {"poisson": rng.poisson(np.exp(f)), "gamma": rng.gamma(3.0, np.exp(f) / 3.0)}
    observed = made.get(loss, f + 0.3 * rng.standard_t(3, 3000))
    for coverage in (0.5, 0.9):
        low, high = model.predict_interval(new, coverage).T
        assert (low <= high).all()
        covered = np.mean((low <= observed) & (observed <= high))
        assert coverage - 0.05 < covered < coverage + (0.15 if loss == "poisson" else 0.07)
    if loss == "poisson":
        assert (low == np.floor(low)).all()
    if loss in ("poisson", "gamma"):
        assert (low >= 0).all()


def test_quantiles_have_their_share_of_new_observations_below():
    levels, shares = (0.1, 0.5, 0.9), np.empty((4, 3))
    for seed in range(4):  # the share of a single table of 300 rows has a standard deviation of up to 0.03
        X, y = additive_truth(n=300, D=3, seed=seed, noise=0.5)
        new, observed = additive_truth(n=4000, D=3, seed=100 + seed, noise=0.5)
        for number, level in enumerate(levels):
            model = SalsaRegressor(loss="quantile", quantile=level, **SETTINGS).fit(X, y)
            shares[seed, number] = np.mean(observed < model.predict(new))
    np.testing.assert_allclose(shares.mean(axis=0), levels, atol=0.03)


@pytest.mark.parametrize("level", [0.1, 0.5, 0.9])
def test_coefficients_of_quantiles_are_slopes_over_alpha_but_for_the_shift(level):
    """Of alpha c_i = level - sigma((f_i - shift - y_i) / width), every row gives the same shift."""
    X, y = targets("quantile", n=200)
    model = SalsaRegressor(loss="quantile", quantile=level, **SETTINGS).fit(X, y)
    expansion, rows = model.expansion_, model._fitted.uncertainty
    share = level - model.alpha_ * expansion.coef[:, 0] / power_of_two(rows.target)  # the unit of f in the fit
    near = (share > 1e-3) & (share < 1 - 1e-3)  # the logistic function can be inverted
    residual = (expansion.predict(expansion.anchors) - rows.target)[near, 0]
    shift = residual - rows.loss.width * logit(share[near])
    assert near.sum() > 20
    np.testing.assert_allclose(shift, shift.mean(), atol=1e-6)


@pytest.mark.parametrize("options", [{"loss": "huber"}, {"loss": "quantile", "quantile": 0.5}])
@pytest.mark.parametrize("alpha", ["auto", 1e-6])
def test_targets_without_noise_are_followed(options, alpha):
    """Residuals are far smaller than the spread of the targets: the scale of the loss must come down with them."""
    X, y = additive_truth(n=150, D=3, noise=0.0)
    new, truth = additive_truth(n=500, D=3, seed=1, noise=0.0)
    model = SalsaRegressor(alpha=alpha, **options, **SETTINGS).fit(X, y)
    assert model.search_.notes == ()
    assert np.sqrt(np.mean((model.predict(new) - truth) ** 2)) < 0.1 * truth.std()


@pytest.mark.parametrize("noise", [0.0, 0.5])
def test_the_corner_of_the_pinball_loss_follows_the_held_out_residuals(noise):
    X, y = additive_truth(n=150, D=3, noise=noise)
    model = SalsaRegressor(loss="quantile", quantile=0.7, **SETTINGS).fit(X, y)
    found = model._fitted.uncertainty
    residual = found.target[found.held_out.row] - found.held_out.f
    spread = robust_spread(residual, np.ones(len(residual)))
    assert 1 / ALIKE < found.loss.width / (PINBALL_WIDTH * spread) < ALIKE


def test_gross_errors_hardly_move_a_huber_fit():
    X, y = additive_truth(n=400, D=3, noise=0.2)
    new, truth = additive_truth(n=2000, D=3, seed=1, noise=0.2)
    wrong = y.copy()
    wrong[::20] += 30.0
    error = {
        (loss, name): np.mean((SalsaRegressor(loss=loss, **SETTINGS).fit(X, t).predict(new) - truth) ** 2)
        for loss in ("huber", "squared_error")
        for name, t in (("clean", y), ("wrong", wrong))
    }
    assert error["huber", "wrong"] < 1.1 * error["squared_error", "clean"]
    assert error["huber", "clean"] < 1.05 * error["squared_error", "clean"]
    assert error["squared_error", "wrong"] > 10 * error["squared_error", "clean"]


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("n", [2, 4])
@pytest.mark.parametrize("options", [{"loss": "huber"}, {"loss": "quantile", "quantile": 0.5}])
def test_a_fold_whose_rows_all_lie_where_the_loss_is_linear_is_solved(options, n):
    """There all curvatures vanish, and so do those of the preconditioner."""
    for seed in range(6):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(n, 2))
        y = X[:, 0] + rng.normal(size=n)
        model = SalsaRegressor(**options).fit(X, y)
        assert np.abs(model.predict(X) - y.mean()).max() <= 2 * np.ptp(y)


def test_rates_with_exposures_as_weights():
    """Counts in windows of different lengths: rates with the lengths as weights recover the rate."""
    rng = np.random.default_rng(0)
    X, f = additive_truth(n=400, D=3, noise=0.0)
    exposure = rng.uniform(0.2, 5.0, 400)
    rate = rng.poisson(exposure * np.exp(f)) / exposure
    new, truth = additive_truth(n=1000, D=3, seed=1, noise=0.0)
    errors = []
    for weight in (exposure, None):
        model = SalsaRegressor(loss="poisson", random_state=0).fit(X, rate, sample_weight=weight)
        errors.append(np.mean((np.log(model.predict(new)) - truth) ** 2))
    assert errors[0] < errors[1]


@pytest.mark.parametrize("loss", ["poisson", "huber"])
def test_groups_and_time_judge(loss):
    from sklearn.model_selection import TimeSeriesSplit

    X, y = targets(loss)
    group = np.arange(len(y)) // 4
    grouped = SalsaRegressor(loss=loss, **SETTINGS).fit(X, y, groups=group)
    held = grouped._fitted.uncertainty.held_out
    assert held.units == group.max() + 1
    ordered = SalsaRegressor(loss=loss, cv=TimeSeriesSplit(4), **SETTINGS).fit(X, y)
    assert len(ordered._fitted.uncertainty.held_out.row) == 4 * (len(y) // 5)
    assert any("later rows judge" in note for note in ordered.search_.notes)
    assert len(ordered.leave_one_out().target) == 4 * (len(y) // 5)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"loss": "hinge"}, "loss='hinge' must be one of"),
        ({"loss": "quantile"}, "needs the quantile to predict"),
        ({"loss": "quantile", "quantile": 0.0}, "a probability is a number between 0 and 1"),
        ({"quantile": 0.5}, "has no meaning with loss='squared_error'"),
        ({"loss": "gamma", "target_transform": "log"}, "goes with loss='squared_error' only"),
        ({"loss": "poisson", "solver": "divide"}, "solver='divide' fits squared errors only"),
    ],
)
def test_contradictory_parameters_are_refused(settings, message):
    X, y = targets("gamma")
    with pytest.raises(ValueError, match=message):
        SalsaRegressor(**settings).fit(X, y)


def test_a_limit_of_memory_is_checked_before_the_work():
    X, y = targets("poisson", n=400)
    with pytest.raises(MemoryError, match="Give a smaller rank"):
        SalsaRegressor(loss="poisson", memory_limit="1MB").fit(X, y)


@pytest.mark.parametrize("loss", ["poisson", "huber"])
def test_blocks_are_the_table(loss):
    X, y = targets(loss)
    whole = SalsaRegressor(loss=loss, **SETTINGS).fit(X, y)
    blocks = SalsaRegressor(loss=loss, **SETTINGS).fit_blocks([(X[:50], y[:50]), (X[50:], y[50:])])
    np.testing.assert_array_equal(blocks.predict(X), whole.predict(X))
