"""Starting is quick (benchmarks/bench_start.py prints the times)."""

import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

from salsa import SalsaRegressor

resource = pytest.importorskip("resource", reason="Windows tells no CPU time of children")

HELP = "import sys; sys.argv = ['salsa', '--help']; from salsa.cli import main; main()"


def cpu_seconds(code: str) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def test_importing_the_regressor_takes_less_than_twice_scikit_learn():
    """Measured: 1.3 times `import sklearn`, half of which any estimator of scikit-learn needs too."""
    pairs = [(cpu_seconds("from salsa import SalsaRegressor"), cpu_seconds("import sklearn")) for _ in range(3)]
    ours, theirs = map(min, zip(*pairs, strict=True))
    assert ours < 2 * theirs


@pytest.mark.parametrize("code", ["import salsa", HELP], ids=["import salsa", "salsa --help"])
def test_nothing_heavy_is_imported_before_it_is_needed(code):
    """Measured: `salsa --help` in a sixth of the time of `import sklearn`."""
    probe = f"try:\n    {code}\nexcept SystemExit:\n    pass\nimport sys\nprint(*sys.modules, file=sys.stderr)"
    run = subprocess.run([sys.executable, "-c", probe], check=True, capture_output=True, text=True)
    assert not {"numpy", "scipy", "pandas", "sklearn", "matplotlib", "pyarrow"} & set(run.stderr.split())


HEAVY = {"scipy", "pandas", "sklearn", "narwhals", "matplotlib", "pyarrow"}
INFO = """
import sys
from salsa.cli import main
sys.argv = ["salsa", "info", {path!r}]
try:
    main()
except SystemExit:
    print(*sys.modules, file=sys.stderr)
"""
SERVE = """
import sys, salsa
model = salsa.load({path!r})
print(*model.predict({{"x0": 0.1, "x1": 0.2}}).tolist(), *model.predict([[0.1, 0.2]]).tolist())
print(*sys.modules, file=sys.stderr)
"""


def test_predictions_and_info_of_a_saved_model_import_neither_scipy_nor_pandas_nor_scikit_learn(tmp_path):
    """Measured: import, load and first prediction in 0.15 s of CPU time, a tenth of `import sklearn` and pandas."""
    X = np.random.default_rng(0).uniform(size=(30, 2))
    model = SalsaRegressor(relevance="equal", order=1, alpha=0.1).fit(X, X[:, 0])
    model.save(tmp_path / "model.salsa")
    info = [sys.executable, "-c", INFO.format(path=str(tmp_path / "model.salsa"))]
    assert not HEAVY & set(subprocess.run(info, check=True, capture_output=True, text=True).stderr.split())
    code = SERVE.format(path=str(tmp_path / "model.salsa"))
    run = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert not HEAVY & set(run.stderr.split())
    assert run.stdout.split() == 2 * [str(float(model.predict([[0.1, 0.2]])[0]))]


SERVE_DATES = """
import sys, salsa
model = salsa.load({path!r})
print(*sys.modules, file=sys.stderr)
print(*model.predict({{"when": "2021-05-01", "x": 0.2}}).tolist())
"""


def test_models_with_dates_are_loaded_and_described_without_scipy_pandas_and_scikit_learn(tmp_path):
    X = pd.DataFrame({"when": pd.date_range("2020-01-01", periods=30, freq="41D"), "x": np.linspace(0, 1, 30)})
    model = SalsaRegressor(relevance="equal", order=1, alpha=0.1).fit(X, X["x"])
    model.save(tmp_path / "model.salsa")
    for text in (INFO, SERVE_DATES):
        code = [sys.executable, "-c", text.format(path=str(tmp_path / "model.salsa"))]
        run = subprocess.run(code, check=True, capture_output=True, text=True)
        assert not HEAVY & set(run.stderr.split())
    assert run.stdout.split() == [str(float(model.predict({"when": "2021-05-01", "x": 0.2})[0]))]
