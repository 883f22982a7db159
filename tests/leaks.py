"""Many fits in one process, with all that can be asked of a model: memory and open files before and after.

python tests/leaks.py 1000
"""

import gc
import json
import os
import sys
import tempfile
from pathlib import Path

import numpy as np
from children import table, thread_count

from salsa import SalsaRegressor, explain, load

WARM_UP = 10
EQUAL = {"relevance": "equal", "order": 2}
LOW_RANK = EQUAL | {"solver": "lowrank", "rank": 20}
MODELS = (EQUAL, LOW_RANK, EQUAL, LOW_RANK, {"relevance": "learned", "order": 1, "kernel": "matern52"})


def resident():
    """Bytes of this process that are in memory."""
    gc.collect()
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")


def open_files():
    return len(os.listdir("/proc/self/fd"))


def fit_and_ask(number, folder):
    X, y = table(90, D=3, seed=number)
    model = SalsaRegressor(**MODELS[number % len(MODELS)], random_state=number).fit(X, y)
    model.predict(X, return_std=True)
    model.predict_interval(X)
    anova = explain.decompose(model)
    anova.sobol()
    explain.shapley(model, X[:10])
    model.save(folder / "m.salsa")
    assert np.array_equal(load(folder / "m.salsa").predict(X[:5]), model.predict(X[:5]))


def main(count):
    with tempfile.TemporaryDirectory() as text:
        for number in range(WARM_UP):
            fit_and_ask(number, Path(text))
        before = resident(), open_files(), thread_count()
        for number in range(count):
            fit_and_ask(number, Path(text))
        after = resident(), open_files(), thread_count()
    grown = (b - a for a, b in zip(before, after, strict=True))
    print(json.dumps(dict(zip(("bytes", "files", "threads"), grown, strict=True))))


if __name__ == "__main__":
    main(int(sys.argv[1]))
