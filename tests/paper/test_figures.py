"""Figure 1: fits as rows on disk, interrupted and continued runs, means over the rows, and the pictures."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from children import never_ending
from matplotlib.text import Text

from salsa import cli
from salsa.baselines.processes import OK, TIMED_OUT
from salsa.paper import figures
from salsa.paper.curves import draw_figure, draw_parts, name_of, save_figure
from salsa.paper.experiments import measure
from salsa.paper.figures import FIGURES, RIVALS, SYNTHETIC, make, points, run_figure
from salsa.paper.functions import Sample
from salsa.paper.ledger import Job, Row, open_ledger, read_rows

RESULTS = Path(__file__).parents[2] / "docs" / "results"
SMALL = replace(FIGURES["fig1a"], name="small", D=4, order=2, methods=("salsa-d2", "ridge"), sizes=(30, 60))
HEADER = "method,n,trial,mse,variance,order,seconds,status"


def linear(job):
    """Return n training rows and ten test rows of a linear truth."""
    X = np.random.default_rng(job.seed).uniform(size=(job.n + 10, 3))
    y = X @ [1.0, 2.0, 3.0]
    return Sample(X[: job.n], y[: job.n], X[job.n :], y[job.n :])


def job(method="ridge", n=30, trial=0, name="small", D=4):
    return Job(name, method, SYNTHETIC, trial, n, D)


def row(method="ridge", n=30, trial=0, share=0.5, status=OK, seconds=1.0, order=None):
    numbers = {"mse": 4 * share, "variance": 4.0} if status == OK else {}
    return Row(*job(method, n, trial), status, order=order, seconds=seconds, **numbers)


def point(method, n, share):
    return {"figure": "fig1a", "method": method, "n": n, "trials": 1, "share": share, "share_se": None, "status": OK}


def write(path, rows):
    with open_ledger(path, SMALL.layout) as ledger:
        for each in rows:
            ledger.add(each)


def rows_of(path, experiment=SMALL):
    """Return the rows in a file as texts, in which NaN equals NaN."""
    return as_texts(read_rows(path, experiment.layout))


def as_texts(rows):
    """Return rows without the fields that a file of figure 1 does not hold."""
    return [str(each._replace(wall_seconds=0.0, limit=0.0)) for each in rows]


class TestMeasure:
    def test_a_row_holds_the_error_variance_order_and_status_of_its_fit(self):
        found = measure(job("salsa-d1", 60), linear, make)
        sample = linear(job(n=60))
        model = make("salsa-d1").fit(*sample[:2])
        assert found.mse == pytest.approx(np.mean((model.predict(sample.X_test) - sample.y_test) ** 2))
        assert (found.variance, found.order, found.status) == (np.var(sample.y_test), 1, OK)
        assert found.mse < 0.01 * found.variance

    def test_salsa_d3_has_the_parameters_of_the_paper(self):
        model = make("salsa-d3")
        assert (model.order, model.relevance, model.interactions, model.bandwidth) == (
            *(3, "equal", "exact"),
            "rule_of_thumb",
        )

    def test_an_error_becomes_the_status(self):
        def broken(method):
            raise RuntimeError("no method today")

        assert measure(job(), linear, broken).status == "failed: RuntimeError: no method today"

    def test_unknown_methods_and_too_large_orders_are_refused(self, tmp_path):
        with pytest.raises(ValueError, match="no method 'rigde': did you mean 'ridge'"):
            list(run_figure(SMALL, tmp_path, methods=["rigde"]))
        with pytest.raises(ValueError, match="salsa-d5: the order is at most the number of features, 4"):
            list(run_figure(SMALL, tmp_path, methods=["salsa-d5"]))


class TestRows:
    def test_rows_are_read_as_they_were_written(self, tmp_path):
        rows = [row(), row(n=60, status=TIMED_OUT), row(trial=1, status='failed: ValueError: "1, 2" is not 3')]
        rows.append(row("salsa-d3", 100, share=1 / 3, order=3, seconds=0.1))
        write(tmp_path / "a.csv", rows)
        assert rows_of(tmp_path / "a.csv") == as_texts(rows)
        lines = (tmp_path / "a.csv").read_text().splitlines()
        assert lines[:3] == [HEADER, "ridge,30,0,2.0,4.0,,1.0,ok", "ridge,60,0,,,,1.0,timed out"]

    def test_a_missing_file_or_an_incomplete_header_has_no_rows(self, tmp_path):
        assert rows_of(tmp_path / "a.csv") == []
        (tmp_path / "a.csv").write_text("method,n,tr")
        assert rows_of(tmp_path / "a.csv") == []

    def test_a_job_that_timed_out_runs_again_only_with_a_higher_limit(self, tmp_path):
        write(tmp_path / "a.csv", [row(status=TIMED_OUT, seconds=10.0)])
        with open_ledger(tmp_path / "a.csv", SMALL.layout) as ledger:
            assert [ledger.is_done(row().job, limit) for limit in (5.0, 10.0, 11.0)] == [True, True, False]


class TestRuns:
    def test_an_interrupted_run_continues_with_the_missing_jobs(self, tmp_path):
        fits = run_figure(SMALL, tmp_path, trials=2, n_jobs=2)
        first = [next(fits)[0] for _ in range(3)]
        fits.close()
        before = (tmp_path / "small.csv").read_bytes()
        assert rows_of(tmp_path / "small.csv") == as_texts(first)
        rest = list(run_figure(SMALL, tmp_path, trials=2, n_jobs=1))
        assert [left for _, left in rest] == [4, 3, 2, 1, 0]
        assert (tmp_path / "small.csv").read_bytes().startswith(before)
        done = {each.job for each in read_rows(tmp_path / "small.csv", SMALL.layout)}
        assert done == set(SMALL.jobs(2, SMALL.methods, SMALL.sizes))
        assert list(run_figure(SMALL, tmp_path, trials=2)) == []
        here = measure(first[0].job, SMALL.load, make)
        assert first[0].mse == pytest.approx(here.mse, rel=1e-9)

    def test_kill_9_loses_nothing_that_was_finished_and_leaves_no_process(self, tmp_path):
        path, code = tmp_path / "fig1b.csv", "from salsa.cli import main; main()"
        methods = ["--methods", "salsa-d1,gbrt", "--rows", "1500,60", "--trials", "1", "--jobs", "1", "--out", tmp_path]
        arguments = [sys.executable, "-c", code, "reproduce", "fig1b", *methods]
        with subprocess.Popen(arguments, stdout=subprocess.PIPE) as process:
            deadline = time.monotonic() + 600
            while b"salsa" not in (path.read_bytes() if path.exists() else b"") and time.monotonic() < deadline:
                time.sleep(0.02)
            process.send_signal(signal.SIGKILL)  # boosting is running, which takes a minute
            assert process.communicate(timeout=600) == (b"", None)  # it returns when no process holds the output
        before = path.read_bytes()
        whole = FIGURES["fig1b"]
        assert [each.job for each in read_rows(path, whole.layout)] == whole.jobs(1, ["salsa-d1"], [1500])
        ((new, left),) = run_figure(whole, tmp_path, trials=1, methods=["salsa-d1"], sizes=[1500, 60])
        assert ([new.job], new.status, left) == (whole.jobs(1, ["salsa-d1"], [60]), OK, 0)
        assert path.read_bytes().startswith(before)

    def test_a_slow_fit_times_out_and_the_next_fit_runs(self, tmp_path, monkeypatch):
        """The fit that never ends is killed, and the next fit runs in a new process."""
        command = never_ending("sklearn.ensemble.GradientBoostingRegressor", "pass")
        monkeypatch.setattr("salsa.baselines.processes.COMMAND", command)
        limit = 4.0  # CPU seconds; ridge regression takes a hundredth of them
        fits = run_figure(SMALL, tmp_path, trials=1, methods=["gbrt", "ridge"], sizes=[200], time_limit=limit)
        statuses = {each.method: (each.status, each.seconds) for each, _ in fits}
        assert statuses["gbrt"] == (TIMED_OUT, limit)
        assert statuses["ridge"][0] == OK

    def test_a_file_with_rows_of_another_truth_is_refused(self, tmp_path):
        write(tmp_path / "small.csv", [row(n=999)])
        with pytest.raises(ValueError, match=r"small\.csv holds errors for another truth"):
            list(run_figure(SMALL, tmp_path))

    def test_jobs_are_ordered_by_trial_and_falling_n(self):
        jobs = SMALL.jobs(2, SMALL.methods, SMALL.sizes)
        assert [each.seed for each in jobs] == 4 * [0] + 4 * [1]
        assert jobs[0] == job("salsa-d2", 60)


class TestPoints:
    def test_a_point_has_means_over_the_first_trials(self, tmp_path):
        shares = enumerate((0.1, 0.2, 0.6, 9.0))
        write(tmp_path / "small.csv", [row(trial=trial, share=share) for trial, share in shares])
        (point,) = points(SMALL, tmp_path, trials=3)
        assert point["share"] == pytest.approx(0.3)
        assert point["mse"] == pytest.approx(1.2)
        assert point["share_se"] == pytest.approx(np.std([0.1, 0.2, 0.6], ddof=1) / np.sqrt(3))
        assert (point["trials"], point["seconds"], point["status"]) == (3, 1.0, OK)

    def test_a_point_with_an_unfinished_trial_has_no_error(self, tmp_path):
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

    def test_lines_axes_names_and_note_show_the_points(self, some):
        figure = draw_figure(some, "a title")
        (ax,) = figure.axes
        assert (ax.get_xscale(), ax.get_yscale(), ax.get_title()) == ("log", "log", "a title")
        assert [text.get_text() for text in ax.get_xticklabels()] == ["30", "60"]
        assert {"0.5", "0.1", "0.01"} <= {text.get_text() for text in ax.get_yticklabels()}
        note = " ".join(figure._supxlabel.get_text().split())
        assert note == (
            "Mean of 2 trials; bars: one standard error on either side. Predicting the mean has an error of 1. "
            "Not drawn: LQ at n = 60 (2 of 2 trials timed out)."
        )
        drawn = {container.get_label(): container.lines[0].get_xydata() for container in ax.containers}
        np.testing.assert_allclose(drawn["LR"], [[30, 0.5005], [60, 0.2505]])

    def test_names_stand_beside_the_axes_in_the_order_of_the_last_points_without_overlap(self):
        ends = {"salsa-d1": 0.20, "salsa-d2": 0.201, "salsa": 0.202, "krr": 0.5}
        figure = draw_figure([point(method, 50, share) for method, share in ends.items()], "")
        figure.draw_without_rendering()
        (ax,) = figure.axes
        boxes = [Text.get_window_extent(text) for text in sorted(ax.texts, key=lambda text: text.xyann[1])]
        assert [text.get_text() for text in ax.texts] == ["SALSA, d = 1", "SALSA, d = 2", "salsa", "KRR"]
        assert all(low.y1 <= high.y0 for low, high in pairwise(boxes))
        assert ax.get_window_extent().x1 < min(box.x0 for box in boxes)
        assert max(box.x1 for box in boxes) <= figure.bbox.x1

    def test_several_parts_share_their_axes_and_one_legend(self):
        parts = {name: [point(method, 50, 0.1 * k) for k, method in enumerate(("salsa", "krr"), 1)] for name in "abc"}
        figure = draw_parts(parts)
        assert [ax.get_title() for ax in figure.axes] == ["a", "b", "c", ""]
        assert len({ax.get_ylim() for ax in figure.axes}) == 1
        (legend,) = figure.legends
        assert [text.get_text() for text in legend.get_texts()] == ["KRR", "salsa"]

    def test_saving_writes_a_png_file_and_no_temporary_file(self, some, tmp_path):
        save_figure(draw_figure(some, "a title"), tmp_path / "small.png")
        assert (tmp_path / "small.png").read_bytes().startswith(b"\x89PNG")
        assert sorted(path.name for path in tmp_path.iterdir()) == ["small.csv", "small.png"]

    def test_every_method_looks_different(self):
        methods = FIGURES["fig1c"].methods
        (ax,) = draw_figure([point(method, 50, 0.1) for method in methods], "").axes
        assert len({c.lines[0].get_color() for c in ax.containers}) == len(methods)
        assert len({c.lines[0].get_marker() for c in ax.containers}) == len(methods)

    def test_drawing_without_finished_points_is_refused(self):
        with pytest.raises(ValueError, match="nothing to draw"):
            draw_figure([], "a title")

    def test_names_in_the_legend_are_the_names_of_the_paper(self):
        assert [name_of(m) for m in ("salsa-d8", "salsa-paper", "salsa", "krr", "lightgbm")] == [
            *("SALSA, d = 8", "SALSA, d by CV", "salsa", "KRR", "LightGBM")
        ]


class TestCommand:
    def run(self, monkeypatch, capsys, *arguments):
        monkeypatch.setattr(sys, "argv", ["salsa", "reproduce", *map(str, arguments)])
        with pytest.raises(SystemExit) as exit_:
            cli.main()
        return exit_.value.code or 0, *capsys.readouterr()

    def test_the_command_writes_a_file_a_picture_a_table_and_json(self, monkeypatch, capsys, tmp_path):
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
        monkeypatch.setattr(figures, "make", None)  # nothing is left to fit
        code, out, err = self.run(monkeypatch, capsys, *arguments, "--json")
        assert (code, err) == (0, "")
        first, second = json.loads(out)
        assert (first["figure"], first["n"], first["trials"], second["order"]) == ("fig1b", 50, 2, 2)
        assert first["share"] < second["share"]

    def test_stored_results_are_drawn_without_fits_and_the_last_four_parts_in_one_picture(
        self, monkeypatch, capsys, tmp_path
    ):
        code, out, err = self.run(monkeypatch, capsys, "figures", RESULTS, "--out", tmp_path, "--json")
        assert (code, err) == (0, "")
        assert [Path(path).name for path in json.loads(out)] == ["fig1a.png", "fig1b.png", "fig1c_to_f.png"]
        assert sorted(os.listdir(tmp_path)) == ["fig1a.png", "fig1b.png", "fig1c_to_f.png"]
        code, _, err = self.run(monkeypatch, capsys, "figures", tmp_path, "--out", tmp_path / "new")
        assert code == 2
        assert "has none of fig1a.csv" in err

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ("--rows 50,many", "'50,many' is not a list of numbers"),
            ("--rows 5", "5 rows are too few"),
            ("--methods magic", "there is no method 'magic'"),
            ("--limit 0", "not a positive number of seconds"),
        ],
    )
    def test_invalid_options_give_an_error_and_no_files(self, monkeypatch, capsys, tmp_path, options, message):
        code, out, err = self.run(monkeypatch, capsys, "fig1b", "--out", tmp_path, *options.split())
        assert (code, out) == (2, "")
        assert message in err
        assert os.listdir(tmp_path) == []


class TestMeasuredResults:
    """The claims of docs/figures.md, tested on the rows in docs/results."""

    def errors(self, name, least):
        """Return method -> n -> mean error over trials; at least `least` trials must be finished."""
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
