"""Figure 1: fits that are rows on disk, interrupted and continued, what the rows say, and the pictures."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from children import never_ending

from salsa import cli
from salsa.baselines.apart import OK, TIMED_OUT
from salsa.paper import trials as trials_module
from salsa.paper.curves import draw_figure, name_of, save_figure
from salsa.paper.figures import FIGURES, RIVALS, points, run_figure
from salsa.paper.functions import Sample
from salsa.paper.ledger import open_ledger, read_results
from salsa.paper.trials import Job, Row, make, measure

RESULTS = Path(__file__).parent.parent / "docs" / "results"
SMALL = replace(FIGURES["fig1a"], name="small", D=4, order=2, methods=("salsa-d2", "ridge"), sizes=(30, 60))
HEADER = "method,n,trial,mse,variance,order,seconds,status\n"


def linear(n, trial):
    """Ten rows to test on."""
    X = np.random.default_rng(trial).uniform(size=(n + 10, 3))
    y = X @ [1.0, 2.0, 3.0]
    return Sample(X[:n], y[:n], X[n:], y[n:])


def row(method="ridge", n=30, trial=0, share=0.5, status=OK, seconds=1.0):
    mse = 4 * share if status == OK else None
    return Row(method, n, trial, mse, None if mse is None else 4.0, None, seconds, status)


def write(path, rows):
    with open_ledger(path, Row) as ledger:
        for each in rows:
            ledger.add(each)


def read_rows(path):
    return read_results(path, Row)


class TestMeasure:
    def test_a_fit(self):
        found = measure(Job("salsa-d1", 60, 0), linear)
        model = make("salsa-d1").fit(*linear(60, 0)[:2])
        sample = linear(60, 0)
        assert found.mse == pytest.approx(np.mean((model.predict(sample.X_test) - sample.y_test) ** 2))
        assert (found.variance, found.order, found.status) == (np.var(sample.y_test), 1, OK)
        assert found.mse < 0.01 * found.variance

    def test_the_papers_method(self):
        model = make("salsa-d3")
        assert (model.order, model.relevance, model.interactions, model.bandwidth) == (
            *(3, "equal", "exact"),
            "rule_of_thumb",
        )

    def test_a_failure_is_told(self):
        def broken(n, trial):
            raise RuntimeError("no data today")

        assert measure(Job("ridge", 30, 0), broken).status == "failed: RuntimeError: no data today"

    def test_unknown_method(self, tmp_path):
        with pytest.raises(ValueError, match="no method 'rigde': did you mean 'ridge'"):
            list(run_figure(SMALL, tmp_path, methods=["rigde"]))
        with pytest.raises(ValueError, match="salsa-d5: the order is at most the number of features, 4"):
            list(run_figure(SMALL, tmp_path, methods=["salsa-d5"]))


class TestRows:
    def test_there_and_back(self, tmp_path):
        rows = [row(), row(n=60, status=TIMED_OUT), row(trial=1, status='failed: ValueError: "1, 2" is not 3')]
        rows.append(Row("salsa-d3", 100, 0, 1 / 3, 2 / 3, 3, 0.1, OK))
        write(tmp_path / "a.csv", rows)
        assert read_rows(tmp_path / "a.csv") == rows
        assert (tmp_path / "a.csv").read_text().startswith(HEADER)

    def test_none(self, tmp_path):
        assert read_rows(tmp_path / "a.csv") == []
        (tmp_path / "a.csv").write_text("method,n,tr")
        assert read_rows(tmp_path / "a.csv") == []

    def test_a_limit_is_the_time_of_what_was_ended(self, tmp_path):
        write(tmp_path / "a.csv", [row(status=TIMED_OUT, seconds=10.0)])
        with open_ledger(tmp_path / "a.csv", Row) as ledger:
            assert [ledger.is_done(row().job, limit) for limit in (5.0, 10.0, 11.0)] == [True, True, False]


class TestRuns:
    def test_interrupted_and_continued(self, tmp_path):
        fits = run_figure(SMALL, tmp_path, trials=2, n_jobs=2)
        first = [next(fits)[0] for _ in range(3)]
        fits.close()
        before = (tmp_path / "small.csv").read_bytes()
        assert read_rows(tmp_path / "small.csv") == first
        rest = list(run_figure(SMALL, tmp_path, trials=2, n_jobs=1))
        assert [left for _, left in rest] == [4, 3, 2, 1, 0]
        assert (tmp_path / "small.csv").read_bytes().startswith(before)
        assert {(r.method, r.n, r.trial) for r in read_rows(tmp_path / "small.csv")} == set(
            SMALL.jobs(2, SMALL.methods, SMALL.sizes)
        )
        assert list(run_figure(SMALL, tmp_path, trials=2)) == []
        here = measure(first[0].job, SMALL)
        assert first[0].mse == pytest.approx(here.mse, rel=1e-9)

    def test_kill_9_loses_nothing_that_was_finished_and_leaves_no_process(self, tmp_path):
        path, code = tmp_path / "fig1b.csv", "from salsa.cli import main; main()"
        methods = ["--methods", "salsa-d1,gbrt", "--rows", "1500,60", "--trials", "1", "--jobs", "1", "--out", tmp_path]
        arguments = [sys.executable, "-c", code, "reproduce", "fig1b", *methods]
        with subprocess.Popen(arguments, stdout=subprocess.PIPE) as process:
            deadline = time.monotonic() + 600
            while b"salsa" not in (path.read_bytes() if path.exists() else b"") and time.monotonic() < deadline:
                time.sleep(0.02)
            process.send_signal(signal.SIGKILL)  # while it boosts, which takes a minute
            assert process.communicate(timeout=600) == (b"", None)  # which is when nobody has its output any more
        before = path.read_bytes()
        assert [each.job for each in read_rows(path)] == [Job("salsa-d1", 1500, 0)]
        ((new, left),) = run_figure(FIGURES["fig1b"], tmp_path, trials=1, methods=["salsa-d1"], sizes=[1500, 60])
        assert (new.job, new.status, left) == (Job("salsa-d1", 60, 0), OK, 0)
        assert path.read_bytes().startswith(before)

    def test_time_limit(self, tmp_path, monkeypatch):
        """The one that never ends is ended, and the next is fitted in a new process."""
        command = never_ending("sklearn.ensemble.GradientBoostingRegressor", "pass")
        monkeypatch.setattr("salsa.baselines.apart.COMMAND", command)
        limit = 4.0  # CPU seconds; ridge regression takes a hundredth of them
        fits = run_figure(SMALL, tmp_path, trials=1, methods=["gbrt", "ridge"], sizes=[200], time_limit=limit)
        statuses = {each.method: (each.status, each.seconds) for each, _ in fits}
        assert statuses["gbrt"] == (TIMED_OUT, limit)
        assert statuses["ridge"][0] == OK

    def test_rows_of_another_truth_are_not_mixed_in(self, tmp_path):
        write(tmp_path / "small.csv", [row(n=999)])
        with pytest.raises(ValueError, match=r"small\.csv holds errors for another truth"):
            list(run_figure(SMALL, tmp_path))

    def test_trial_after_trial(self):
        jobs = SMALL.jobs(2, SMALL.methods, SMALL.sizes)
        assert [job.trial for job in jobs] == 4 * [0] + 4 * [1]
        assert jobs[0] == Job("salsa-d2", 60, 0)


class TestPoints:
    def test_means(self, tmp_path):
        shares = enumerate((0.1, 0.2, 0.6, 9.0))
        write(tmp_path / "small.csv", [row(trial=trial, share=share) for trial, share in shares])
        (point,) = points(SMALL, tmp_path, trials=3)
        assert point["share"] == pytest.approx(0.3)
        assert point["mse"] == pytest.approx(1.2)
        assert point["share_se"] == pytest.approx(np.std([0.1, 0.2, 0.6], ddof=1) / np.sqrt(3))
        assert (point["trials"], point["seconds"], point["status"]) == (3, 1.0, OK)

    def test_a_point_that_was_not_reached_has_no_error(self, tmp_path):
        write(tmp_path / "small.csv", [row(), row(trial=1, status=TIMED_OUT), row(method="salsa-d2")])
        ours, ridge = points(SMALL, tmp_path, trials=2)
        assert (ours["method"], ours["trials"], ours["share_se"]) == ("salsa-d2", 1, None)
        assert (ridge["trials"], ridge["share"]) == (1, None)
        assert ridge["status"] == "1 of 2 trials timed out"


class TestPicture:
    @pytest.fixture
    def some(self, tmp_path):
        shares = {"salsa-d2": 0.01, "ridge": 0.5, "salsa": 0.005}
        rows = [
            row(method, n, trial, share * 30 / n + 0.001 * trial)
            for trial in range(2)
            for n in (30, 60)
            for method, share in shares.items()
        ]
        rows += [row("lq", 60, trial, status=TIMED_OUT) for trial in range(2)]
        write(tmp_path / "small.csv", rows)
        return points(SMALL, tmp_path, trials=2)

    def test_lines_axes_and_words(self, some):
        figure = draw_figure(some, "a title")
        (ax,) = figure.axes
        assert (ax.get_xscale(), ax.get_yscale(), ax.get_title()) == ("log", "log", "a title")
        legend = ax.get_legend()
        assert [text.get_text() for text in legend.get_texts()] == ["LR", "SALSA, d = 2", "this package"]
        assert [text.get_text() for text in ax.get_xticklabels()] == ["30", "60"]
        note = " ".join(figure._supxlabel.get_text().split())
        assert note == (
            "Mean of 2 trials; bars: one standard error either side. Not drawn: LQ at n = 60 (2 of 2 trials timed out)."
        )
        drawn = {container.get_label(): container.lines[0].get_xydata() for container in ax.containers}
        np.testing.assert_allclose(drawn["LR"], [[30, 0.5005], [60, 0.2505]])
        figure.draw_without_rendering()
        assert legend.get_window_extent().x0 >= ax.get_window_extent().x1

    def test_file(self, some, tmp_path):
        save_figure(draw_figure(some, "a title"), tmp_path / "small.png")
        assert (tmp_path / "small.png").read_bytes().startswith(b"\x89PNG")
        assert sorted(path.name for path in tmp_path.iterdir()) == ["small.csv", "small.png"]

    def test_every_method_looks_different(self):
        methods = FIGURES["fig1c"].methods
        some = [{"method": m, "n": 50, "trials": 1, "share": 0.1, "share_se": None, "status": OK} for m in methods]
        (ax,) = draw_figure(some, "").axes
        looks = {(c.lines[0].get_color(), c.lines[0].get_linestyle()) for c in ax.containers}
        markers = {c.lines[0].get_marker() for c in ax.containers}
        assert len(looks) == len(methods)
        assert len(markers) >= len(methods) - 1

    def test_nothing_to_draw(self):
        with pytest.raises(ValueError, match="nothing to draw"):
            draw_figure([], "a title")

    def test_names(self):
        assert [name_of(m) for m in ("salsa-d8", "salsa-paper", "krr", "lightgbm")] == [
            *("SALSA, d = 8", "SALSA, d by CV", "KRR", "LightGBM")
        ]


class TestCommand:
    def run(self, monkeypatch, capsys, *arguments):
        monkeypatch.setattr(sys, "argv", ["salsa", "reproduce", *map(str, arguments)])
        with pytest.raises(SystemExit) as exit_:
            cli.main()
        return exit_.value.code or 0, *capsys.readouterr()

    def test_file_picture_table_and_json(self, monkeypatch, capsys, tmp_path):
        arguments = [
            "fig1b",
            "--methods",
            "salsa-d1,salsa-d2",
            "--rows",
            "50",
            "--trials",
            2,
            "--out",
            tmp_path / "new",
        ]
        code, out, err = self.run(monkeypatch, capsys, *arguments, "--jobs", 1)
        assert (code, err) == (0, "")
        assert [line.split()[0] for line in out.splitlines() if line.startswith("salsa")] == ["salsa-d1", "salsa-d2"]
        assert sorted(os.listdir(tmp_path / "new")) == ["fig1b.csv", "fig1b.png"]
        monkeypatch.setattr(trials_module, "make", None)  # nothing is left to fit
        code, out, err = self.run(monkeypatch, capsys, *arguments, "--json")
        assert (code, err) == (0, "")
        first, second = json.loads(out)
        assert (first["figure"], first["n"], first["trials"], second["order"]) == ("fig1b", 50, 2, 2)
        assert first["share"] < second["share"]

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ("--rows 50,many", "'50,many' is not a list of numbers"),
            ("--rows 5", "5 rows are too few"),
            ("--methods magic", "there is no method 'magic'"),
            ("--limit 0", "not a positive number of seconds"),
        ],
    )
    def test_what_cannot_be(self, monkeypatch, capsys, tmp_path, options, message):
        code, out, err = self.run(monkeypatch, capsys, "fig1b", "--out", tmp_path, *options.split())
        assert (code, out) == (2, "")
        assert message in err
        assert os.listdir(tmp_path) == []


class TestWhatWeMeasured:
    """The claims of docs/figures.md, from the rows in docs/results."""

    def errors(self, name, least):
        """method -> n -> error, means over trials, of which there are at least so many."""
        found: dict[str, dict[int, float]] = {}
        for point in points(FIGURES[name], RESULTS, trials=10):
            assert point["trials"] >= least or point["status"] != OK
            if point["share"] is not None:
                found.setdefault(point["method"], {})[point["n"]] = point["share"]
        return found

    def test_known_order_beats_every_rival_at_every_n(self):
        errors = self.errors("fig1a", least=10)
        assert set(RIVALS) < set(errors)
        for rival in RIVALS:
            assert all(errors["salsa-d3"][n] < error for n, error in errors[rival].items()), rival

    def test_the_best_order_grows_with_the_rows(self):
        errors = self.errors("fig1b", least=10)
        orders = {d: errors[f"salsa-d{d}"] for d in (1, 2, 4, 8, 15)}
        best = [min(orders, key=lambda d: orders[d][n]) for n in FIGURES["fig1b"].sizes]
        assert best[0] == 1
        assert best[-1] >= 4
        assert best == sorted(best)
