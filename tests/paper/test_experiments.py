"""Jobs of Table 1: in this process and in worker processes, on disk, timed out, killed and continued."""

import math
import os
import shutil
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from conftest import needs_data
from sklearn.dummy import DummyRegressor
from threadpoolctl import threadpool_info

from salsa.baselines import BASELINES
from salsa.paper import DATASETS, experiments, load_dataset
from salsa.paper.experiments import EVERY, METHODS, OURS, PAPER_RIVALS, measure_table1, plan, run_all
from salsa.paper.ledger import TABLE1, Job, Row, open_ledger, read_rows
from salsa.paper.table1_pages import as_entries, as_entry, published

needs_pgrep = pytest.mark.skipif(shutil.which("pgrep") is None, reason="pgrep is not installed")
NAME, HEADER = "results.csv", "dataset,method,protocol,seed,n,D,status,mse,order,seconds,wall_seconds,limit"


def job(dataset, method, seed=0):
    return Job(dataset, method, "authors", seed, n=256, D=12)


def the_job(dataset, method):
    """Return the only job of a data set and a method."""
    (only,) = plan([dataset], [method])
    return only


A, B = job("housing", "ridge"), job("housing", "knn")


def result(job=A, **fields):
    return Row(*job, **{"mse": 0.1 + 0.2, "seconds": 1 / 3, "wall_seconds": 2.0, **fields})


def results_in(folder):
    return open_ledger(folder / NAME, TABLE1)


def same(a, b):
    """Whether all values are equal; NaN equals NaN."""
    return [str(value) for value in a] == [str(value) for value in b]


class TestNames:
    def test_the_paper_has_21_rivals(self):
        assert len(PAPER_RIVALS) == 21
        assert set(PAPER_RIVALS) <= set(BASELINES)
        assert set(METHODS) == {*OURS, *PAPER_RIVALS, "svr-eps-untuned"}

    def test_all_stands_for_the_22_methods_of_the_paper_and_ours(self):
        assert ("salsa", "salsa-learned", *PAPER_RIVALS) == EVERY

    def test_only_additive_gp_lacks_published_numbers(self):
        missing = {(d, m) for d in DATASETS for m in ("salsa", *PAPER_RIVALS) if published(d, m).mse is None}
        assert {method for _, method in missing} == {"additive-gp"}
        assert len(missing) == 8

    def test_the_described_protocol_has_no_published_numbers(self):
        assert published("speech", "ridge", "described") == (None, None, None)

    def test_every_variant_of_salsa_has_the_published_numbers_of_salsa(self):
        assert published("speech", "salsa-learned") == published("speech", "salsa") == (0.02246, 2, 4.71)

    def test_untuned_svr_has_the_published_numbers_of_epsilon_svr(self):
        assert published("speech", "svr-eps-untuned") == published("speech", "svr-eps")


class TestLedger:
    def test_numbers_are_read_exactly_as_written(self, tmp_path):
        written = [result(order=3, limit=600.0), result(B, status='failed: ValueError: "a, b"', mse=math.nan)]
        with results_in(tmp_path / "new" / "folder") as ledger:
            for one in written:
                ledger.add(one)
        with results_in(tmp_path / "new" / "folder") as ledger:
            assert all(same(a, b) for a, b in zip(ledger.rows.values(), written, strict=True))

    @pytest.mark.parametrize(
        "torn", ["housing,knn,authors,0,256", "housing,knn,authors,0,256,12,ok,0.5,,1.0,1.0,60", "h"]
    )
    def test_an_incomplete_last_line_is_removed(self, tmp_path, torn):
        with results_in(tmp_path) as ledger:
            ledger.add(result())
        with (tmp_path / NAME).open("a") as file:
            file.write(torn)
        with results_in(tmp_path) as ledger:
            assert list(ledger.rows) == [A]
            ledger.add(result(B))
        with results_in(tmp_path) as ledger:
            assert list(ledger.rows) == [A, B]

    def test_a_torn_header_is_written_again(self, tmp_path):
        (tmp_path / NAME).write_text(HEADER[:20])
        with results_in(tmp_path) as ledger:
            ledger.add(result())
        assert (tmp_path / NAME).read_text().splitlines()[0] == HEADER

    def test_a_line_is_on_disk_when_it_is_added(self, tmp_path):
        with results_in(tmp_path) as ledger:
            ledger.add(result())
            assert (tmp_path / NAME).read_text().endswith("\n")
            assert len((tmp_path / NAME).read_text().splitlines()) == 2

    def test_the_last_line_of_a_job_counts(self, tmp_path):
        with results_in(tmp_path) as ledger:
            ledger.add(result(status="failed: no"))
            ledger.add(result(mse=7.0))
        with results_in(tmp_path) as ledger:
            assert ledger.rows[A].mse == 7.0

    def test_other_files_are_refused_and_not_changed(self, tmp_path):
        (tmp_path / NAME).write_text("a,b\n1,2\n")
        with (
            pytest.raises(ValueError, match=r"results\.csv is not a file of these results"),
            results_in(tmp_path),
        ):
            pass
        assert (tmp_path / NAME).read_text() == "a,b\n1,2\n"

    @pytest.mark.parametrize("line", ["housing,ridge,authors", result()._replace(seed="x")])
    def test_a_damaged_line_is_reported_with_its_number(self, tmp_path, line):
        text = line if isinstance(line, str) else ",".join(map(str, line[:-1]))
        (tmp_path / NAME).write_text(f"{HEADER}\n{text}\n")
        with (
            pytest.raises(ValueError, match=r"results\.csv, line 2 is not a result"),
            results_in(tmp_path),
        ):
            pass

    def test_results_can_be_read_while_they_are_written(self, tmp_path):
        with results_in(tmp_path) as ledger:
            ledger.add(result(status="failed: no"))
            ledger.add(result(B))
            ledger.add(result())
            assert [one.status for one in read_rows(tmp_path / NAME, TABLE1)] == ["ok", "ok"]

    def test_two_runs_cannot_write_one_file(self, tmp_path):
        with (
            results_in(tmp_path),
            pytest.raises(ValueError, match="another run"),
            results_in(tmp_path),
        ):
            pass

    @pytest.mark.parametrize(
        ("known", "limit", "done"),
        [
            (None, None, False),
            (result(), None, True),
            (result(), 60.0, True),
            (result(status="failed: ValueError: no"), None, False),
            (result(status="timed out", limit=60.0), 60.0, True),
            (result(status="timed out", limit=60.0), 30.0, True),
            (result(status="timed out", limit=60.0), 61.0, False),
            (result(status="timed out", limit=60.0), None, False),
            (result()._replace(protocol="described"), None, False),
            (result()._replace(seed=1), None, False),
        ],
    )
    def test_finished_jobs_and_timeouts_under_a_sufficient_limit_do_not_run_again(self, tmp_path, known, limit, done):
        with results_in(tmp_path) as ledger:
            if known is not None:
                ledger.add(known)
            assert ledger.is_done(A, limit) is done


class TestEntries:
    def test_an_entry_has_means_over_draws_of_noise_columns(self):
        draws = [result(job("airfoil", "salsa", s), mse=mse, order=d) for s, mse, d in ((0, 1.0, 5), (1, 3.0, 5))]
        entry = as_entry(draws)
        assert (entry["mse"], entry["mse_sd"], entry["seeds"], entry["order"]) == (2.0, 1.0, 2, 5)
        assert entry["ratio"] == pytest.approx(2.0 / 0.51756)

    def test_a_draw_without_an_error_gives_an_entry_without_an_error(self):
        entry = as_entry([result(), result(A._replace(seed=1), status="timed out", mse=math.nan)])
        assert entry["status"] == "timed out"
        assert math.isnan(entry["mse"])
        assert math.isnan(entry["ratio"])

    def test_entries_are_in_the_order_of_data_sets_and_methods(self):
        names = [("forestfires", "salsa"), ("housing", "lar"), ("housing", "salsa"), ("galaxy", "knn")]
        entries = as_entries(result(job(*pair)) for pair in names)
        assert [(entry["dataset"], entry["method"]) for entry in entries] == [names[2], names[1], names[3], names[0]]


@needs_data
def test_untuned_epsilon_svr_has_about_the_published_errors():
    """The tube is as wide as the standard deviation of the target, and nothing is tuned."""
    ratios = [entry["ratio"] for entry in as_entries(map(measure_table1, plan(DATASETS, ["svr-eps-untuned"])))]
    assert 0.9 < np.median(ratios) < 1.1
    assert 0.6 < min(ratios) < max(ratios) < 1.3


@needs_data
class TestPlan:
    def test_noise_columns_are_drawn_five_times_for_our_methods_only(self):
        jobs = plan(["airfoil", "housing"], ["salsa", "ridge"])
        seeds = {key: sorted(t.seed for t in jobs if t[:2] == key) for key in {t[:2] for t in jobs}}
        assert seeds.pop(("airfoil", "salsa")) == [0, 1, 2, 3, 4]
        assert list(seeds.values()) == [[0]] * 3

    def test_slow_methods_and_large_sets_come_first(self):
        jobs = plan(["forestfires", "galaxy"], ["ridge", "additive-gp"])
        assert jobs[0] == the_job("galaxy", "additive-gp")
        assert jobs[-1] == the_job("forestfires", "ridge")


class Recorder(DummyRegressor):
    def fit(self, X, y):
        self.threads = max(pool["num_threads"] for pool in threadpool_info())
        Recorder.last = self
        return super().fit(X, y)


@needs_data
class TestMeasure:
    def test_mean_squared_error_equals_a_direct_computation(self, monkeypatch):
        monkeypatch.setitem(METHODS, "ridge", DummyRegressor)
        data = load_dataset("forestfires")
        expected = np.mean((data.y_test - np.mean(data.y_train)) ** 2)
        measured = measure_table1(the_job("forestfires", "ridge"))
        assert measured.mse == pytest.approx(expected, rel=1e-12)
        assert (measured.n, measured.D, measured.status, measured.order) == (211, 10, "ok", None)

    def test_fits_run_on_one_thread(self, monkeypatch):
        monkeypatch.setitem(METHODS, "ridge", Recorder)
        measure_table1(the_job("forestfires", "ridge"))
        assert Recorder.last.threads == 1

    def test_an_error_becomes_the_status(self, monkeypatch):
        monkeypatch.setitem(METHODS, "ridge", lambda: DummyRegressor(strategy="magic"))
        measured = measure_table1(the_job("forestfires", "ridge"))
        assert measured.status.startswith("failed: InvalidParameterError: The 'strategy' parameter")
        assert math.isnan(measured.mse)

    def test_infinite_predictions_are_a_failure(self, monkeypatch):
        monkeypatch.setitem(METHODS, "ridge", lambda: DummyRegressor(strategy="constant", constant=1e200))
        assert (
            measure_table1(the_job("forestfires", "ridge")).status
            == "failed: ValueError: the mean squared error is inf"
        )

    def test_missing_data_raise_an_error_instead_of_a_status(self, monkeypatch, tmp_path):
        monkeypatch.setenv("SALSA_DATA", str(tmp_path))
        monkeypatch.setattr(experiments, "_shape", experiments._shape.__wrapped__)
        with pytest.raises(FileNotFoundError, match="housing"):
            plan(["housing"], ["ridge"])


@needs_data
class TestProcesses:
    def test_processes_give_the_same_numbers_and_no_job_runs_twice(self, tmp_path):
        jobs = plan(["forestfires"], ["salsa", "ridge"])
        with results_in(tmp_path) as ledger:
            first = sorted(run_all(jobs, measure_table1, ledger, n_jobs=2))
            again = sorted(run_all(jobs, measure_table1, ledger, limit=60.0))
        assert all(same(a, b) for a, b in zip(first, again, strict=True))
        for one in first:
            here = measure_table1(one.job)
            assert (one.mse, one.order) == (here.mse, here.order)

    def test_a_limit_kills_the_process(self, tmp_path):
        (stopped,) = run_all([the_job("speech", "svr-nu")], measure_table1, limit=0.2)
        assert (stopped.status, stopped.limit, stopped.n) == ("timed out", 0.2, 520)
        assert math.isnan(stopped.mse)

    @needs_pgrep
    def test_the_status_names_the_signal_that_killed_a_process(self):
        killer = threading.Thread(target=_kill_a_child)
        killer.start()
        (killed,) = run_all([the_job("galaxy", "svr-nu")], measure_table1)
        killer.join()
        assert killed.status == "failed: its process ended without an answer (SIGKILL)"

    @needs_pgrep
    def test_kill_9_loses_no_finished_row(self, tmp_path):
        command = [sys.executable, "-c", RUN, str(tmp_path)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            assert process.stdout.readline() == b"a row\n"  # and it waits
            children = _children(process.pid)
            assert children
            process.send_signal(signal.SIGKILL)
        before = _lines(tmp_path)
        assert _all_gone(children)
        with (tmp_path / NAME).open("a") as file:
            file.write("forestfires,kn")
        subprocess.run(command, check=True, stdin=subprocess.DEVNULL)
        after = _lines(tmp_path)
        assert after[: len(before)] == before
        assert sorted(line.split(",")[1] for line in after[1:]) == sorted(METHODS_OF_RUN)


METHODS_OF_RUN = ("salsa-learned", "krr")
RUN = f"""
import sys
from pathlib import Path
from salsa.paper.experiments import measure_table1, plan, run_all
from salsa.paper.ledger import TABLE1, open_ledger
with open_ledger(Path(sys.argv[1], "{NAME}"), TABLE1) as ledger:
    for _ in run_all(plan(["forestfires"], {METHODS_OF_RUN}), measure_table1, ledger, n_jobs=1):
        print("a row", flush=True)
        sys.stdin.readline()
"""


def _lines(folder):
    path = folder / NAME
    return path.read_text().splitlines() if path.exists() else []


def _children(pid):
    return [int(child) for child in subprocess.run(["pgrep", "-P", str(pid)], capture_output=True).stdout.split()]


def _kill_a_child():
    """Kill the first worker process that this process starts."""
    command = ["pgrep", "-P", str(os.getpid()), "-f", "baselines.processes"]
    while not (found := subprocess.run(command, capture_output=True).stdout.split()):
        time.sleep(0.05)
    os.kill(int(found[0]), signal.SIGKILL)


def _all_gone(pids, patience=600.0):
    """Whether all these processes end by themselves; a process that ended but was not waited for has state Z."""
    end = time.monotonic() + patience
    while time.monotonic() < end:
        command = ["ps", "-o", "stat=", "-p", ",".join(map(str, pids))]
        if all(state.startswith(b"Z") for state in subprocess.run(command, capture_output=True).stdout.split()):
            return True
        time.sleep(0.1)
    return False
