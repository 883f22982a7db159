"""Fits in forked, spawned and loky processes, in threads and nested give the same bits, without deadlocks."""

import json
import sys

import pytest
from children import bits, run, table
from sklearn.model_selection import GridSearchCV
from threadpoolctl import threadpool_info

from salsa import SalsaRegressor

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="counts threads in /proc")
SOME_SECONDS = 0.002  # of CPU time


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
    @pytest.mark.parametrize("methods", [["fork"], pytest.param(["spawn", "forkserver"], marks=pytest.mark.slow)])
    def test_children_give_the_same_bits_after_the_parent_used_threads(self, serial, methods):
        """No thread is left that a forked child would wait for, in the parent or in the child."""
        code = (
            "import json, multiprocessing; from children import bits_and_new_threads\n"
            "found = [bits_and_new_threads()]\n"
            f"for method in {methods}:\n"
            "    with multiprocessing.get_context(method).Pool(1) as pool:\n"
            "        found.append(pool.apply(bits_and_new_threads))\n"
            "print(json.dumps(found))"
        )
        assert json.loads(run(code)) == [[serial, 0]] * (1 + len(methods))

    def test_forked_children_use_threads(self):
        code = (
            "import multiprocessing; from children import seconds_of_other_threads\n"
            "seconds_of_other_threads()\n"
            "with multiprocessing.get_context('fork').Pool(1) as pool: print(pool.apply(seconds_of_other_threads))"
        )
        assert float(run(code, OPENBLAS_NUM_THREADS="1")) > SOME_SECONDS

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

    @pytest.mark.parametrize(("n_jobs", "variable"), [(1, "2"), (None, "1"), (-1, "1")])
    def test_fits_on_one_thread_take_no_time_of_others(self, n_jobs, variable):
        """The threads of BLAS, which wait for work in loops, have none during a fit."""
        code = (
            "import time; from children import bits, seconds_of_other_threads\n"
            "bits(); time.sleep(1)\n"  # BLAS's threads have spun when they were started
            f"print(seconds_of_other_threads({n_jobs}))"
        )
        assert float(run(code, OMP_NUM_THREADS=variable, OPENBLAS_NUM_THREADS="2")) < SOME_SECONDS

    def test_fits_on_two_threads_take_time_of_another(self):
        code = "from children import seconds_of_other_threads; print(seconds_of_other_threads(2))"
        assert float(run(code, OPENBLAS_NUM_THREADS="1")) > SOME_SECONDS

    def test_blas_has_its_threads_back_after_a_failure(self):
        before = threadpool_info()
        with pytest.raises(ValueError, match="order"):
            SalsaRegressor(order=7, relevance="equal").fit([[0.0], [1.0], [2.0]], [0.0, 1.0, 2.0])
        assert threadpool_info() == before
