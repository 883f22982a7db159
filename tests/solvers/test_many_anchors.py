"""Low-rank fits on many anchors by conjugate gradients: they equal the fits by sums over rows."""

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import TimeSeriesSplit

from salsa import SalsaRegressor
from salsa.data.splits import ShuffledFolds, TableSplits
from salsa.solvers.lowrank import lowrank_bytes
from salsa.solvers.many_anchors import Parts, freedom, inverse_root


def simulated(n, seed=0):
    """Return rows and targets of order 2 in five of six features, with noise of sd 0.3."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, 6))
    truth = np.sin(3 * X[:, 0]) + X[:, 1] * X[:, 2] + X[:, 3] ** 2 + X[:, 4]
    return X, truth + rng.normal(scale=0.3, size=n)


def regressor(**options):
    settings = {"order": 2, "alpha": 0.1, "relevance": "equal", "rank": 80, "random_state": 0, "cv": 3}
    return SalsaRegressor(solver="lowrank", **(settings | options))


X, y = simulated(900)
NEW = simulated(200, seed=1)[0]
WEIGHT = np.random.default_rng(2).uniform(0.5, 2, 900)
GROUPS = np.arange(900) // 3


@pytest.fixture
def few(monkeypatch):
    """Let a sample of 400 rows precondition, as a sample of many more rows does."""
    monkeypatch.setattr("salsa.fitting.SAMPLE_ROWS", 400)


def both(monkeypatch, target=y, weight=None, groups=None, **options):
    """Return the fits by conjugate gradients and by sums, on the same anchors."""
    models = []
    for rank in (10, 3000):
        monkeypatch.setattr("salsa.solvers.lowrank.DIRECT_RANK", rank)
        models.append(regressor(**options).fit(X, target, weight, groups=groups))
    iterated, direct = models
    np.testing.assert_array_equal(iterated.expansion_.anchors, direct.expansion_.anchors)
    assert any("conjugate gradients on the anchors" in note for note in iterated.search_.notes)
    return iterated, direct


def cv_error(model):
    return model.search_.table["cv_error"].min()


def assert_close(iterated, direct):
    expected = direct.predict(NEW)
    difference = np.sqrt(np.mean((iterated.predict(NEW) - expected) ** 2, axis=0))
    assert (difference <= 2e-4 * expected.std(axis=0)).all()
    assert cv_error(iterated) == pytest.approx(cv_error(direct), rel=1e-3)
    ends = direct.predict_interval(NEW, 0.9)
    assert np.abs(iterated.predict_interval(NEW, 0.9) - ends).mean() < 0.03 * np.diff(ends).mean()


@pytest.mark.usefixtures("few")
class TestEqualsSums:
    @pytest.mark.parametrize("alpha", [1.0, 0.1, 1e-4])
    def test_for_a_given_alpha(self, alpha, monkeypatch):
        assert_close(*both(monkeypatch, alpha=alpha))

    def test_for_several_given_alphas(self, monkeypatch):
        iterated, direct = both(monkeypatch, alpha=[1e-3, 0.1, 10.0])
        assert_close(iterated, direct)
        paths = [model.search_.results[0].path for model in (iterated, direct)]
        np.testing.assert_array_equal(paths[0].alphas, paths[1].alphas)
        np.testing.assert_allclose(paths[0].errors, paths[1].errors, rtol=5e-3)

    def test_with_weights(self, monkeypatch):
        assert_close(*both(monkeypatch, weight=WEIGHT))

    def test_with_several_outputs(self, monkeypatch):
        assert_close(*both(monkeypatch, target=np.column_stack([y, 100 * X[:, 0] ** 2 + 7, y - X[:, 5]])))

    def test_with_later_rows_that_judge(self, monkeypatch):
        assert_close(*both(monkeypatch, cv=TimeSeriesSplit(3)))

    def test_with_groups_in_folds(self, monkeypatch):
        monkeypatch.setattr("salsa.solvers.lowrank.GROUP_NUMBERS", 1)  # sums leave the levels of groups out, too
        iterated, direct = both(monkeypatch, groups=GROUPS)
        assert_close(iterated, direct)
        for model in (iterated, direct):
            kept = model._fitted.uncertainty.cvplus
            assert kept.rho == 0.0
            assert kept.units == 300

    def test_small_penalties_converge(self, monkeypatch):
        iterated, direct = both(monkeypatch, alpha=1e-6, rank=200)
        assert cv_error(iterated) == pytest.approx(cv_error(direct), rel=1e-3)

    def test_a_searched_alpha_has_the_same_error(self, monkeypatch):
        iterated, direct = both(monkeypatch, alpha="auto")
        assert cv_error(iterated) == pytest.approx(cv_error(direct), rel=0.01)
        assert abs(np.log10(iterated.alpha_ / direct.alpha_)) < 0.75

    def test_standard_deviations_and_degrees_of_freedom_from_a_sample(self, monkeypatch):
        iterated, direct = both(monkeypatch, alpha=0.01)
        ratio = iterated.predict(NEW, return_std=True)[1] / direct.predict(NEW, return_std=True)[1]
        assert ratio.mean() == pytest.approx(1.0, abs=0.03)
        assert ratio.std() < 0.1
        freedoms = [model.search_.table["degrees_of_freedom"].item() for model in (iterated, direct)]
        assert freedoms[0] == pytest.approx(freedoms[1], rel=0.03)


def test_a_sample_of_all_rows_gives_the_exact_standard_deviations(monkeypatch):
    iterated, direct = both(monkeypatch, weight=WEIGHT)
    sd = direct.predict(NEW, return_std=True)[1]
    np.testing.assert_allclose(iterated.predict(NEW, return_std=True)[1], sd, rtol=1e-6)


@pytest.mark.usefixtures("few")
class TestRows:
    @pytest.fixture(autouse=True)
    def many(self, monkeypatch):
        monkeypatch.setattr("salsa.solvers.lowrank.DIRECT_RANK", 10)
        monkeypatch.setattr("salsa.solvers.lowrank.LEAST_ROWS", 128)  # several blocks
        monkeypatch.setattr("salsa.solvers.lowrank.BLOCK_NUMBERS", 1)

    def test_blocks_give_the_bits_of_the_fit_in_memory(self):
        memory = regressor(alpha="auto").fit(X, y)
        blocks = regressor(alpha="auto").fit_blocks([(X[:250], y[:250]), (X[250:], y[250:])])
        np.testing.assert_array_equal(blocks.predict(NEW), memory.predict(NEW))
        np.testing.assert_array_equal(blocks.predict_interval(NEW), memory.predict_interval(NEW))

    def test_bits_do_not_depend_on_the_number_of_threads(self, monkeypatch):
        monkeypatch.setattr("salsa.solvers.many_anchors.COLUMNS", 32)  # several tiles
        monkeypatch.setattr("salsa.solvers.many_anchors.ROWS", 64)
        monkeypatch.setattr("salsa.solvers.many_anchors.thread_count", lambda threads, *_: threads)
        one, two = (regressor(n_jobs=jobs).fit(X, y) for jobs in (1, 2))
        np.testing.assert_array_equal(one.predict(NEW), two.predict(NEW))
        np.testing.assert_array_equal(one.predict(NEW, return_std=True)[1], two.predict(NEW, return_std=True)[1])
        np.testing.assert_array_equal(one.predict_interval(NEW), two.predict_interval(NEW))

    def test_dask_gives_the_fit_in_memory(self):
        distributed, da = pytest.importorskip("dask.distributed"), pytest.importorskip("dask.array")
        from salsa.distributed import DaskSalsaRegressor

        options = {key: value for key, value in regressor().get_params().items() if key != "n_jobs"}
        memory = regressor().fit(X, y)
        with (
            distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster,
            distributed.Client(cluster) as client,
        ):
            rows, target = da.from_array(X, chunks=(250, 6)), da.from_array(y, chunks=250)
            model = DaskSalsaRegressor(client, **options).fit(rows, target)
        np.testing.assert_allclose(model.predict(NEW), memory.predict(NEW), atol=1e-8)
        np.testing.assert_allclose(model.predict_interval(NEW), memory.predict_interval(NEW), atol=1e-6)

    def test_a_fit_that_does_not_converge_comes_with_a_warning(self, monkeypatch):
        monkeypatch.setattr("salsa.solvers.many_anchors.MOST_ITERATIONS", 1)
        with pytest.warns(ConvergenceWarning, match="did not converge for alpha = 1.0e-04"):
            regressor(alpha=1e-4).fit(X, y)

    def test_penalties_that_do_not_converge_are_left_out_with_a_note(self, monkeypatch):
        monkeypatch.setattr("salsa.solvers.many_anchors.MOST_ITERATIONS", 4)
        monkeypatch.setattr("salsa.solvers.many_anchors.SOLVED", 1e-3)
        model = regressor(alpha="auto").fit(X, y)
        assert any("these were left out" in note for note in model.search_.notes)

    def test_groups_share_no_level_in_the_noise_and_a_note_says_so(self):
        shared = np.random.default_rng(3).normal(size=300)[GROUPS]
        model = regressor().fit(X, y + shared, groups=GROUPS)
        assert any("groups are held out whole, but share no level" in note for note in model.search_.notes)

    def test_a_constant_target_predicts_its_value(self):
        np.testing.assert_allclose(regressor().fit(X, np.full(900, 3.0)).predict(NEW), 3.0)


class TestMemory:
    def test_a_rank_beyond_memory_is_refused_with_a_way_out(self):
        with pytest.raises(MemoryError, match=r"this fit by solver='lowrank' needs about .* with rank=\d+ fits"):
            regressor(rank=10_000, memory_limit="1GB").fit(*simulated(20_000))

    def test_ten_thousand_anchors_need_five_matrices(self):
        need = lowrank_bytes(10**6, 10, 1, 10_000, 5, 2)
        assert 5 * 8e8 < need < 7 * 8e8

    def test_more_anchors_than_the_sample_has_rows_are_not_counted(self):
        need, most = (lowrank_bytes(10**6, 10, 1, rank, 5, 1) for rank in (20_000, 10**6))
        assert most == pytest.approx(need, rel=0.1)


def test_root_of_the_inverse_is_lower_triangular():
    rng = np.random.default_rng(0)
    F = rng.normal(size=(30, 7))
    root = inverse_root(F.T @ F, 0.3)
    expected = 0.3 * np.linalg.inv(F.T @ F + 0.3 * np.eye(7))
    assert not np.triu(root, 1).any()
    assert root.flags.f_contiguous
    np.testing.assert_allclose(root @ root.T, expected, rtol=1e-9, atol=1e-12)
    assert freedom(root) == pytest.approx(7 - np.trace(expected))


@pytest.mark.parametrize("forward", [False, True])
def test_parts_know_other_folds_or_earlier_ones(forward):
    parts = Parts.of(TableSplits(90, ShuffledFolds(3, 0), 3, np.random.RandomState(0), forward=forward))
    if forward:
        expected = [[1, 1, 1], [0, 1, 1], [0, 0, 1]], [[0, 0, 0], [1, 0, 0], [0, 1, 0]]
    else:
        expected = [[0, 1, 1, 1], [1, 0, 1, 1], [1, 1, 0, 1]], [[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0]]
    np.testing.assert_array_equal(parts.known, expected[0])
    np.testing.assert_array_equal(parts.tested, expected[1])
