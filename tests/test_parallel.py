"""Fits in forked, spawned and loky processes, in threads and nested give the same bits, without deadlocks."""

import json
import sys

import pytest
from children import bits, run, table
from sklearn.model_selection import GridSearchCV
from threadpoolctl import threadpool_info

from salsa import SalsaRegressor

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="counts threads in /proc")


@pytest.fixture(scope="module")
def serial():
    """The bits of a fit in this process."""
    return bits()


def searched(n_jobs, inner):
    """Return the scores and predictions of a grid search, to the last digit."""
    grid = {"order": [1, 2], "alpha": [0.01, 1.0]}
    model = SalsaRegressor(relevance="equal", random_state=0, n_jobs=inner)
    search = GridSearchCV(model, grid, cv=2, n_jobs=n_jobs).fit(*table())
    return [*search.cv_results_["mean_test_score"].tolist(), *search.predict(table(20, seed=5)[0]).tolist()]


class TestProcesses:
    @pytest.mark.parametrize(
        "threads",
        [{"parent": 1, "fork": 0}, pytest.param({"parent": 1, "spawn": 1, "forkserver": 1}, marks=pytest.mark.slow)],
    )
    def test_children_give_the_same_bits_after_the_parent_used_openmp(self, serial, threads):
        """A forked child runs on one thread: the parent's OpenMP threads, for which it would wait, are not there."""
        code = (
            "import json, multiprocessing; from children import bits_and_new_threads\n"
            "found = {'parent': bits_and_new_threads()}\n"
            f"for method in {list(threads)[1:]}:\n"
            "    with multiprocessing.get_context(method).Pool(1) as pool:\n"
            "        found[method] = pool.apply(bits_and_new_threads)\n"
            "print(json.dumps(found))"
        )
        assert json.loads(run(code)) == {name: [serial, new] for name, new in threads.items()}

    def test_forks_give_the_same_bits_while_other_threads_fit(self, serial):
        """Other threads may hold our locks. A first fit imports all modules: Python cannot fork an import."""
        code = (
            "import os, threading, time; from children import bits\n"
            "serial = bits()\n"
            "other = threading.Thread(target=lambda: [bits(seed) for seed in range(3)]); other.start()\n"
            "for _ in range(3):\n"
            "    time.sleep(0.1)\n"
            "    if os.fork() == 0: os._exit(bits() != serial)\n"
            "codes = [os.wait()[1] for _ in range(3)]\n"
            "other.join(); print(codes, serial)"
        )
        assert run(code) == f"[0, 0, 0] {serial}\n"

    @pytest.mark.slow
    def test_loky_workers_give_the_same_bits_on_their_share_of_cores(self, serial):
        """The library loky gives every worker cores / jobs threads, by OMP_NUM_THREADS."""
        code = (
            "import json; from joblib import Parallel, delayed; from children import bits_and_new_threads\n"
            "print(json.dumps(Parallel(2, backend='loky')(delayed(bits_and_new_threads)() for _ in range(2))))"
        )
        assert json.loads(run(code, OMP_NUM_THREADS=None, LOKY_MAX_CPU_COUNT="2")) == [[serial, 0]] * 2

    @pytest.mark.parametrize(
        "backends", [["threading", "multiprocessing"], pytest.param(["loky"], marks=pytest.mark.slow)]
    )
    def test_nested_parallel_grid_searches_give_the_same_bits(self, backends):
        """Two jobs with two threads each run as threads, as forked children and as new processes."""
        code = (
            "import json; from joblib import parallel_config; from test_parallel import searched\n"
            f"for backend in {backends}:\n"
            "    with parallel_config(backend): print(json.dumps(searched(2, 2)))"
        )
        assert list(map(json.loads, run(code).splitlines())) == [searched(None, 1)] * len(backends)


class TestThreads:
    def test_concurrent_fits_give_the_same_bits(self):
        """LAPACK's limit of one thread holds for the whole process until the last fit is done."""
        code = (
            "import json; from concurrent.futures import ThreadPoolExecutor\n"
            "from threadpoolctl import threadpool_info; from children import answers, bits, fitted\n"
            "blas = lambda: [pool['num_threads'] for pool in threadpool_info() if pool['user_api'] == 'blas']\n"
            "seeds, before = [0, 1, 2, 3], blas()\n"
            "one_by_one = [bits(seed) for seed in seeds]\n"
            "with ThreadPoolExecutor(4) as pool: at_once = list(pool.map(bits, seeds))\n"
            "model = fitted()\n"
            "with ThreadPoolExecutor(4) as pool: shared = list(pool.map(answers, [model] * 4))\n"
            "print(json.dumps([at_once == one_by_one, set(shared) == {one_by_one[0]}, blas() == before]))"
        )
        assert json.loads(run(code, OPENBLAS_NUM_THREADS="2")) == [True, True, True]

    def test_limits_of_threads_are_kept(self, serial):
        """OpenMP keeps the threads that it has started: none up to the last fit, which may have two."""
        code = (
            "import json; from threadpoolctl import threadpool_limits; from children import bits_and_new_threads\n"
            "fit = lambda n_jobs: print(json.dumps(bits_and_new_threads(n_jobs=n_jobs)))\n"
            "with threadpool_limits(1, 'openmp'): fit(None), fit(-1)\n"
            "fit(1), fit(None)"
        )
        assert list(map(json.loads, run(code).splitlines())) == [[serial, new] for new in (0, 0, 0, 1)]

    def test_blas_has_its_threads_back_after_a_failure(self):
        before = threadpool_info()
        with pytest.raises(ValueError, match="order"):
            SalsaRegressor(order=7, relevance="equal").fit([[0.0], [1.0], [2.0]], [0.0, 1.0, 2.0])
        assert threadpool_info() == before
