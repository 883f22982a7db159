"""Fits on a Dask cluster of two processes: the model of one machine, also where a worker dies."""

import os
import pickle
import signal
import time
import warnings
from contextlib import suppress

import numpy as np
import pandas as pd
import pytest
from conftest import additive_truth
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import TimeSeriesSplit
from sums import use_kernel

import salsa
from salsa import AdditiveKernel, SalsaRegressor, explain

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe")
distributed = pytest.importorskip("dask.distributed")

from salsa.distributed import DaskSalsaRegressor  # noqa: E402
from salsa.solvers.cluster_tiles import Cluster, ClusterTiles, WorkerMemory, homes_of, worker_memory  # noqa: E402
from salsa.solvers.tiles import KernelTiles, tile_groups  # noqa: E402

PARAMETERS = {"relevance": "equal", "order": 2, "random_state": 0, "rank": 60}


def test_a_fit_without_a_cluster_is_refused():
    """This test comes first, before a cluster exists."""
    X, y = additive_truth(n=100)
    with pytest.raises(ValueError, match="no Dask cluster"):
        DaskSalsaRegressor(rank=20).fit(da.from_array(X, chunks=(50, 6)), y)


@pytest.fixture(scope="module")
def client():
    """Two workers, which come back after they were killed.

    15 seconds after a death, Dask removes for good a worker that is missing at that moment. A worker that these tests
    have just killed a second time would be removed, so Dask waits for longer than they take.
    """
    options = {"n_workers": 2, "threads_per_worker": 1, "processes": True, "dashboard_address": ":0"}
    with (
        dask.config.set({"distributed.deploy.lost-worker-timeout": "1 hour"}),
        distributed.LocalCluster(**options) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


@pytest.fixture(scope="module")
def known():
    X, y = additive_truth(n=600)
    return X, y, SalsaRegressor(**PARAMETERS).fit(X, y)


def close(one, other, X):
    """Compare two models; sums are added in another order, so bits differ."""
    np.testing.assert_allclose(one.predict(X), other.predict(X), atol=1e-8)
    np.testing.assert_array_equal(one.expansion_.anchors, other.expansion_.anchors)
    np.testing.assert_allclose(one.predict_interval(X[:50]), other.predict_interval(X[:50]), atol=1e-6)
    assert one.alpha_ == other.alpha_


class TestFit:
    def test_arrays_in_any_chunks_give_the_fit_in_memory(self, client, known):
        X, y, model = known
        arrays = da.from_array(X, chunks=(170, 4)), da.from_array(y, chunks=99)
        close(DaskSalsaRegressor(client, **PARAMETERS).fit(*arrays), model, X)

    def test_relevances_are_learned_with_the_current_client(self, client):
        X, y = additive_truth(n=600)
        one = DaskSalsaRegressor(order=2, rank=60, random_state=0).fit(da.from_array(X, chunks=(200, 6)), y)
        other = SalsaRegressor(order=2, rank=60, random_state=0).fit(X, y)
        close(one, other, X)
        assert not one.relevance_[3:].any()

    def test_data_frames_with_categories_gaps_and_weights_give_the_fit_in_memory(self, client):
        X, y = additive_truth(n=600)
        rng = np.random.default_rng(1)
        table = pd.DataFrame(X, columns=list("abcdef"))
        table["kind"] = pd.Categorical(rng.choice(["u", "v", "w"], 600))
        table["word"] = np.where(np.arange(600) < 500, "early", "late")
        table.loc[rng.random(600) < 0.1, "b"] = np.nan
        table["y"], table["weight"] = y + (table["kind"] == "u"), rng.integers(0, 3, 600).astype(float)
        features = [name for name in table if name not in ("y", "weight")]
        frame = dd.from_pandas(table, npartitions=5)
        one = DaskSalsaRegressor(client, **PARAMETERS).fit(frame[features], frame["y"], frame["weight"])
        other = SalsaRegressor(**PARAMETERS).fit(table[features], table["y"], table["weight"])
        close(one, other, table[features])
        assert one.columns_ == other.columns_
        np.testing.assert_array_equal(one.feature_names_in_, features)
        np.testing.assert_allclose(one.predict(frame[features]).compute(), one.predict(table[features]))
        assert one.score(frame[features], frame["y"]) == pytest.approx(one.score(table[features], table["y"]))

    def test_sets_of_columns_by_name_give_the_fit_in_memory(self, client, known):
        X, y, _ = known
        table = pd.DataFrame(X, columns=list("abcdef"))
        options = PARAMETERS | {"interaction_cst": [{"a", "d"}, {"b", "c"}], "kernel": "matern52"}
        frame = dd.from_pandas(table.assign(y=y), npartitions=3)
        found = DaskSalsaRegressor(client, **options).fit(frame.drop(columns="y"), frame["y"])
        close(found, SalsaRegressor(**options).fit(table, y), table)
        assert [np.flatnonzero(term.relevance).tolist() for term in found.expansion_.kernel.terms] == [
            [0, 3],
            [1, 2],
            [4, 5],
        ]

    def test_counts_give_the_fit_in_memory(self, client, known):
        X, y, _ = known
        counts = np.random.default_rng(0).poisson(np.exp(0.5 * y / y.std()))
        options = {"loss": "poisson", "order": 2, "relevance": "equal", "kernel": "matern52", "random_state": 0}
        found = DaskSalsaRegressor(client, **options).fit(da.from_array(X, (100, -1)), da.from_array(counts, 100))
        expected = SalsaRegressor(**options).fit(X, counts)
        np.testing.assert_allclose(found.predict(X), expected.predict(X), rtol=1e-5)

    @pytest.mark.parametrize("loss", ["poisson", "gamma", "huber", "quantile"])
    def test_losses_on_anchors_give_the_fit_in_memory_without_gathering(self, client, known, loss, monkeypatch):
        X, f, _ = known
        rng, options = np.random.default_rng(0), {**PARAMETERS, "loss": loss, "solver": "lowrank"}
        options |= {"quantile": 0.8} if loss == "quantile" else {}
        options |= {} if loss == "poisson" else {"alpha": [0.1, 0.01]}  # one whole search is enough
        y = {"poisson": rng.poisson(np.exp(0.5 * f)), "gamma": rng.gamma(2.0, np.exp(f))}.get(loss, f)
        weight = rng.uniform(0.5, 2.0, len(y))
        expected = SalsaRegressor(**options).fit(X, y, weight)
        monkeypatch.setattr("salsa.fitting._gathered", None)  # whoever gathers all rows fails
        found = DaskSalsaRegressor(client, **options)
        found.fit(da.from_array(X, (170, -1)), da.from_array(y, 99), sample_weight=da.from_array(weight, 99))
        scale = np.ptp(expected.predict(X))
        close = 2e-3 if loss in ("huber", "quantile") else 1e-4  # their scale follows from fits of the search
        np.testing.assert_allclose(found.predict(X), expected.predict(X), atol=close * scale)
        np.testing.assert_allclose(found.predict_interval(X), expected.predict_interval(X), atol=0.02 * scale)
        assert found.alpha_ == expected.alpha_

    def test_groups_give_the_fit_in_memory(self, client, known):
        """The rows of a group lie in several partitions."""
        X, y, _ = known
        person = np.arange(600) % 150
        y = y + np.random.default_rng(1).normal(size=150)[person]
        model = SalsaRegressor(**PARAMETERS).fit(X, y, groups=person)
        arrays = (da.from_array(values, chunks=(100, *values.shape[1:])) for values in (X, y, person))
        rows, target, groups = arrays
        found = DaskSalsaRegressor(client, **PARAMETERS).fit(rows, target, groups=groups)
        close(found, model, X)
        assert found.search_.rho == pytest.approx(model.search_.rho, rel=1e-6)
        assert model.search_.rho > 1

    def test_later_rows_judge_as_in_memory(self, client, known):
        X, y, plain = known
        options = PARAMETERS | {"cv": TimeSeriesSplit(5)}
        model = SalsaRegressor(**options).fit(X, y)
        found = DaskSalsaRegressor(client, **options).fit(
            da.from_array(X, chunks=(170, 6)), da.from_array(y, chunks=99)
        )
        close(found, model, X)
        assert any("later rows judge" in note for note in found.search_.notes)
        errors = [m.search_.table["cv_error"].min() for m in (found, model, plain)]
        assert errors[0] == pytest.approx(errors[1])
        assert errors[0] != pytest.approx(errors[2])

    def test_parquet_files_give_the_fit_in_memory(self, client, known, tmp_path):
        """Dask merges small files if few columns are read, unless graphs are not optimised."""
        X, y, model = known
        table = pd.DataFrame(X, columns=list("abcdef")).assign(y=y)
        for number, rows in enumerate(np.array_split(np.arange(600), 4)):
            table.iloc[rows].to_parquet(tmp_path / f"{number}.parquet")
        frame = dd.read_parquet(tmp_path)
        one = DaskSalsaRegressor(client, **PARAMETERS).fit(frame.drop(columns="y"), frame["y"])
        np.testing.assert_allclose(one.predict(table[list("abcdef")]), model.predict(X), atol=1e-8)
        np.testing.assert_allclose(one.predict(frame.drop(columns="y")).compute(), model.predict(X), atol=1e-8)

    def test_empty_partitions_do_not_change_the_fit(self, client, known, monkeypatch):
        X, y, model = known
        frame = dd.from_pandas(pd.DataFrame(X, columns=list("abcdef")).assign(y=y, keep=True), npartitions=12)
        frame = frame[frame["keep"] & (frame["a"] == frame["a"])]
        empty = frame[frame["a"] > 1e9]
        both = dd.concat([empty, frame])
        one = DaskSalsaRegressor(client, **PARAMETERS).fit(both[list("abcdef")], both["y"])
        np.testing.assert_allclose(one.predict(pd.DataFrame(X, columns=list("abcdef"))), model.predict(X), atol=1e-8)
        monkeypatch.setattr("salsa.solvers.lowrank.SCORE_ROWS", 6)  # every 100th row, of partitions of 50
        some = DaskSalsaRegressor(client, **PARAMETERS).fit(frame[list("abcdef")], frame["y"])
        assert some._fitted.uncertainty.cvplus.below[0, :, -1].sum() == pytest.approx(600)

    def test_few_rows_are_fitted_in_this_process(self, client):
        X, y = additive_truth(n=200)
        one = DaskSalsaRegressor(client, order=2, relevance="equal", random_state=0).fit(da.from_array(X, (50, 6)), y)
        other = SalsaRegressor(order=2, relevance="equal", random_state=0).fit(X, y)
        np.testing.assert_array_equal(one.predict(X), other.predict(X))

    def test_several_outputs_are_fitted_and_predicted(self, client, known):
        X, y, model = known
        Y = da.from_array(np.column_stack([y, -y]), chunks=(100, 1))
        one = DaskSalsaRegressor(client, **PARAMETERS).fit(da.from_array(X, chunks=(200, 6)), Y)
        lazy = one.predict(da.from_array(X, chunks=(200, 6)))
        assert lazy.shape == (600, 2)
        np.testing.assert_allclose(lazy.compute(), np.column_stack([model.predict(X), -model.predict(X)]), atol=1e-6)

    def test_other_tables_are_fitted_in_this_process(self, known):
        X, y, model = known
        np.testing.assert_array_equal(DaskSalsaRegressor(**PARAMETERS).fit(X, y).predict(X), model.predict(X))


def dies_when_read(X, folder, reading):
    """Return the rows; the process that reads them for the given time is killed, once."""
    with open(f"{folder}/readings", "ab") as log:
        log.write(b"x")
    if os.path.getsize(f"{folder}/readings") == reading and not os.path.exists(f"{folder}/died"):
        with open(f"{folder}/died", "w"):
            os.kill(os.getpid(), signal.SIGKILL)
    return X


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("reading", [1, 3, 4], ids=["while the columns are learned", "in the sums", "in the residuals"])
def test_a_killed_worker_does_not_change_the_fit(client, known, tmp_path, reading):
    X, y, model = known
    parts = [dask.delayed(dies_when_read)(X[:200], str(tmp_path), reading), *map(dask.delayed, (X[200:400], X[400:]))]
    array = da.concatenate([da.from_delayed(part, shape=(200, 6), dtype=float) for part in parts])
    close(DaskSalsaRegressor(client, **PARAMETERS).fit(array, y), model, X)
    assert (tmp_path / "died").exists()


def kernel_of(X):
    return AdditiveKernel(np.ones(X.shape[1]), np.ones(X.shape[1]), np.array([0.0, 1.0, 1.0]))


def held_keys(client):
    """Return the keys of all data on the workers."""
    return {key for keys in client.run(lambda dask_worker: list(dask_worker.data)).values() for key in keys}


def soon(condition):
    """Wait up to a minute until the condition holds: workers free memory, and come back, a little later."""
    end = time.monotonic() + 60
    while not condition() and time.monotonic() < end:
        time.sleep(0.05)
    return condition()


def killed_before(monkeypatch, client, product):
    """Kill the worker that holds a group of tiles before the given product of a fit; return the products so far."""
    seen, attempt = [], ClusterTiles._attempt

    def attempt_after_death(tiles, V):
        seen.append(len(V))
        if len(seen) == product:
            held = tiles.shares[0].tiles
            distributed.wait(held)
            home = client.who_has([held])[held.key][0]
            with suppress(OSError):  # the connection breaks
                client.run(lambda: os.kill(os.getpid(), signal.SIGKILL), workers=[home], on_error="ignore")
        return attempt(tiles, V)

    monkeypatch.setattr(ClusterTiles, "_attempt", attempt_after_death)
    return seen


EXACT = PARAMETERS | {"solver": "pcg"}


def cut_small(monkeypatch):
    """Use small tiles; the client cuts the matrix, so that workers need not know the size of a tile."""
    monkeypatch.setattr("salsa.solvers.tiles.TILE", 50)
    monkeypatch.setattr("salsa.solvers.tiles.GROUPS_PER_SIDE", 3)


@pytest.fixture(scope="module")
def exact(known):
    """The exact fit in this process."""
    X, y, _ = known
    with pytest.MonkeyPatch.context() as patch:
        cut_small(patch)
        return SalsaRegressor(**EXACT).fit(X, y)


class TestExactFits:
    """The kernel matrix on the workers, in six groups of 16 or ten small tiles."""

    @pytest.fixture(autouse=True)
    def small_tiles(self, monkeypatch):
        cut_small(monkeypatch)

    def same(self, one, other, X):
        """Compare all bits: sums have the same order on a cluster and in one process."""
        assert one.alpha_ == other.alpha_
        np.testing.assert_array_equal(one.expansion_.coef, other.expansion_.coef)
        np.testing.assert_array_equal(one.predict(X), other.predict(X))
        np.testing.assert_array_equal(one.predict_interval(X[:50]), other.predict_interval(X[:50]))

    @pytest.mark.parametrize("double", [False, True])
    def test_products_have_the_bits_of_one_process_whatever_is_held(self, client, known, double):
        X, V = known[0], np.random.default_rng(0).normal(size=(3, 600))
        local = KernelTiles(kernel_of(X), X, 1, 10**9, double=double)
        sizes = [group.bytes(double=double) for group in tile_groups(600)]
        with Cluster(client) as cluster:
            whole, none = (cluster.tiles(kernel_of(X), X, double=double, held=held) for held in (True, False))
            first = next(iter(cluster.found))
            cluster.found.update({name: WorkerMemory("", -1.0, 1) for name in cluster.found})
            working = cluster._working(*X.shape, 1)
            cluster.found[first] = WorkerMemory("", working + 2.5 * max(sizes), 1)
            some = cluster.tiles(kernel_of(X), X, double=double, held=True)
            assert [whole.held, none.held] == [1.0, 0.0]
            assert 0 < some.held < 1
            for tiles in (whole, none, some):
                np.testing.assert_array_equal(tiles.times(V), local.times(V))

    def test_a_fit_on_a_cluster_has_the_bits_of_one_process(self, client, known, exact):
        X, y, _ = known
        before = held_keys(client)
        found = DaskSalsaRegressor(client, **EXACT).fit(da.from_array(X, chunks=(170, 6)), y)
        self.same(found, exact, X)
        assert soon(lambda: held_keys(client) <= before)

    def test_several_outputs_with_weights_and_groups_give_the_fit_of_one_process(self, client, known):
        X, y, _ = known
        person, weight = np.arange(600) % 150, np.random.default_rng(1).uniform(0.5, 2.0, 600)
        Y = np.column_stack([y, X[:, 0] - y]) + np.random.default_rng(2).normal(size=(150, 1))[person]
        rows, targets = da.from_array(X, chunks=(170, 6)), da.from_array(Y, chunks=(100, 2))
        found = DaskSalsaRegressor(client, **EXACT).fit(rows, targets, weight, person)
        other = SalsaRegressor(**EXACT).fit(X, Y, weight, person)
        np.testing.assert_allclose(found.predict(X), other.predict(X), atol=1e-5)
        np.testing.assert_allclose(found.predict_interval(X[:50]), other.predict_interval(X[:50]), atol=1e-5)

    def test_a_small_alpha_is_solved_in_float64_on_the_workers(self, client, known):
        X, y, _ = known
        settings = EXACT | {"alpha": 1e-7, "order": 1}
        with warnings.catch_warnings(action="ignore", category=ConvergenceWarning):
            found = DaskSalsaRegressor(client, **settings).fit(da.from_array(X, chunks=(300, 6)), y)
            self.same(found, SalsaRegressor(**settings).fit(X, y), X)

    @pytest.mark.filterwarnings("ignore")
    @pytest.mark.parametrize("product", [2, 9])
    def test_a_killed_worker_does_not_change_the_bits(self, client, known, exact, monkeypatch, product):
        X, y, _ = known
        assert soon(lambda: len(client.nthreads()) == 2)
        seen = killed_before(monkeypatch, client, product)
        found = DaskSalsaRegressor(client, **EXACT).fit(da.from_array(X, chunks=(170, 6)), y)
        self.same(found, exact, X)
        assert len(seen) > product

    @pytest.mark.parametrize("held", [True, False])
    def test_rows_that_were_lost_are_sent_again(self, client, known, held):
        X, V = known[0], np.ones((1, 600))
        with Cluster(client) as cluster:
            tiles = cluster.tiles(kernel_of(X), X, double=False, held=held)
            first = tiles.times(V)
            client.cancel([tiles.rows, *(share.tiles for share in tiles.shares)], force=True)
            np.testing.assert_array_equal(tiles.times(V), first)
            np.testing.assert_array_equal(tiles.times(V), first)
            assert tiles.held == held

    def test_too_little_memory_is_told_before_tiles_are_computed(self, client, known, monkeypatch):
        X, y, _ = known
        memory = {name: WorkerMemory("", 200_000.0, 1) for name in "ab"}
        monkeypatch.setattr("salsa.solvers.cluster_tiles.worker_memory", lambda _: memory)
        monkeypatch.setattr(Cluster, "tiles", None)
        message = r"600 rows needs about .* on each of the 2 workers.* 200 kB more .*more workers.*solver='lowrank'"
        with pytest.raises(MemoryError, match=message):
            DaskSalsaRegressor(client, **EXACT).fit(da.from_array(X, chunks=(300, 6)), y)

    @pytest.mark.parametrize(
        ("rows_for_one", "room", "solver"), [(500, 1e9, "pcg"), (300, 1e9, "low"), (500, 1e5, "low")]
    )
    def test_the_automatic_choice_counts_workers_and_their_memory(
        self, client, known, monkeypatch, rows_for_one, room, solver
    ):
        """Two workers may have 2 * 500^2 kernel values, which are more than the 600^2 of the table."""
        X, y, _ = known
        monkeypatch.setattr("salsa.fitting.EXACT_ROWS", 100)
        monkeypatch.setattr("salsa.fitting.DEFAULT_RANK", 60)
        monkeypatch.setattr("salsa.fitting.ITERATED_ROWS", rows_for_one)
        memory = {name: found._replace(room=room) for name, found in worker_memory(client).items()}
        monkeypatch.setattr("salsa.solvers.cluster_tiles.worker_memory", lambda _: memory)
        settings = {name: value for name, value in PARAMETERS.items() if name != "rank"}
        found = DaskSalsaRegressor(client, **settings).fit(da.from_array(X, chunks=(300, 6)), y)
        assert any("conjugate gradients" in note for note in found.search_.notes) == (solver == "pcg")

    def test_an_interrupted_fit_leaves_the_workers_and_the_model_as_they_were(self, client, known, monkeypatch):
        X, y, _ = known
        before, rows = held_keys(client), da.from_array(X, chunks=(300, 6))
        regressor = DaskSalsaRegressor(client, **EXACT).fit(rows, y)
        coef = regressor.expansion_.coef

        def interrupted(*_):
            raise KeyboardInterrupt

        monkeypatch.setattr("salsa.solvers.cluster_tiles.TileGroup.add", interrupted)
        with pytest.raises(KeyboardInterrupt):
            regressor.fit(rows, y)
        assert regressor.expansion_.coef is coef
        assert soon(lambda: held_keys(client) <= before)

    def test_groups_go_to_the_worker_with_the_least_to_hold(self):
        assert homes_of([4, 1, 2, 3], {"a": 6.0, "b": 6.0}) == ["a", "a", "b", "b"]
        assert homes_of([5, 5, 5], {"a": 9.0, "b": 7.0}) == ["a", "b", None]
        assert homes_of([5], {}) == [None]

    def test_unlimited_workers_share_the_memory_of_their_machine(self, monkeypatch):
        asked = {"a": ("h", np.inf, 1000, 2), "b": ("h", 300.0, 1000, 2), "c": ("i", np.inf, 1000, 1)}
        client = type("Client", (), {"run": lambda *_, **__: asked})()
        found = worker_memory(client)
        assert {name: memory.room for name, memory in found.items()} == {"a": 400.0, "b": 300.0, "c": 800.0}


class TestSums:
    def test_a_sum_of_kernels_gives_the_fit_in_memory(self, client, known, monkeypatch):
        use_kernel(monkeypatch)
        X, y, _ = known
        model = SalsaRegressor(**PARAMETERS).fit(X, y)
        one = DaskSalsaRegressor(client, **PARAMETERS).fit(da.from_array(X, chunks=(170, 6)), y)
        assert len(one.expansion_.kernel.terms) == 3
        close(one, model, X)
        local = one.local()
        assert type(local) is SalsaRegressor
        np.testing.assert_array_equal(local.predict(X), one.predict(X))
        np.testing.assert_array_equal(local.predict_interval(X), one.predict_interval(X))
        np.testing.assert_array_equal(local.relevance_, one.relevance_)


class TestPredictions:
    def test_predictions_for_dask_arrays_are_lazy(self, client, known):
        X, y, _ = known
        array = da.from_array(X, chunks=(170, 4))
        one = DaskSalsaRegressor(client, **PARAMETERS).fit(array, y)
        for lazy, now in (
            (one.predict(array), one.predict(X)),
            (one.predict_interval(array, 0.8), one.predict_interval(X, 0.8)),
            *zip(one.predict(array, return_std=True), one.predict(X, return_std=True), strict=True),
        ):
            assert isinstance(lazy, da.Array)
            assert lazy.shape == now.shape
            np.testing.assert_allclose(lazy.compute(), now, rtol=1e-9)  # blocks are multiplied in other shapes

    def test_a_model_works_without_its_cluster(self, client, known, tmp_path):
        X, y, _ = known
        one = DaskSalsaRegressor(client, **PARAMETERS).fit(da.from_array(X, chunks=(200, 6)), y)
        one.save(tmp_path / "m.salsa")
        for other in (one.local(), salsa.load(tmp_path / "m.salsa"), pickle.loads(pickle.dumps(one))):
            np.testing.assert_array_equal(other.predict(X), one.predict(X))
            np.testing.assert_array_equal(other.predict_interval(X), one.predict_interval(X))
        assert type(one.local()) is SalsaRegressor
        assert explain.decompose(one).sobol().shape == (6, 4)

    def test_clones_share_the_client(self, client):
        one = clone(DaskSalsaRegressor(client, rank=7))
        assert one.client is client
        assert one.rank == 7


class TestErrors:
    def test_targets_that_do_not_match_the_rows_are_refused(self, client):
        X, y = additive_truth(n=100)
        array, frame = da.from_array(X, chunks=(50, 6)), dd.from_pandas(pd.DataFrame(X, columns=list("abcdef")), 2)
        regressor = DaskSalsaRegressor(client, rank=20)
        with pytest.raises(ValueError, match="X has 100 rows and y has 99"):
            regressor.fit(array, da.from_array(y[:99], chunks=50))
        with pytest.raises(ValueError, match="X has 2 partitions and y has 3"):
            regressor.fit(frame, dd.from_pandas(pd.Series(y), 3))
        with pytest.raises(ValueError, match="do not tell their lengths"):
            regressor.fit(frame, y)
        with pytest.raises(ValueError, match="inconsistent numbers of samples"):
            regressor.fit(frame, dd.from_pandas(pd.Series(y[:90]), 2))

    def test_wrong_values_are_named(self, client):
        X, y = additive_truth(n=100)
        with pytest.raises(ValueError, match="contains NaN"):
            DaskSalsaRegressor(client, rank=20).fit(da.from_array(X, chunks=(50, 6)), np.where(y == y[3], np.nan, y))
