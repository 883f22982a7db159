"""How often bands of two posterior standard deviations hold the true function, on simulated tables.

    python benchmarks/bench_bands.py [--out FILE.csv]

Prints the share of new rows whose true value is in `predict(X, return_std=True)`, the share of the curve of one feature
that is in the band of its effect, and the share of tables whose whole curve is in the band. 95 % is aimed at for the
first two; nothing is aimed at for the third.
"""

import os

for pool in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(pool, "1")

import warnings
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from conditions import Figures, size
from numpy.typing import NDArray

from salsa import SalsaRegressor, explain

Floats = NDArray[np.float64]
TABLES, NEW_ROWS = size((24, 500), (2, 50))
POINTS = np.linspace(0.02, 0.98, 25)  # of the curve of x0


def curve(x: Floats) -> Floats:
    """Return what the first feature does, in both truths."""
    return np.asarray(np.sin(6 * x))


def curves(X: Floats) -> Floats:
    return np.asarray(curve(X[:, 0]) + 2 * np.abs(X[:, 1] - 0.5) + X[:, 2])


def pairs(X: Floats) -> Floats:
    return np.asarray(curve(X[:, 0]) + 2 * np.sin(np.pi * X[:, 1] * X[:, 2]) + X[:, 3])


class Case(NamedTuple):
    """A truth of the first features of D, with noise whose standard deviation may follow the rows."""

    name: str
    truth: Callable[[Floats], Floats]
    n: int
    D: int
    noise: Callable[[Floats], Floats]
    each: int = 1  # rows per person
    slope: float = 0.0  # standard deviation of the slopes of persons in x0
    relevance: str = "learned"


CASES = [
    Case("curves, 150 rows", curves, 150, 6, lambda X: np.full(len(X), 0.5)),
    Case("curves, 300 rows", curves, 300, 6, lambda X: np.ones(len(X))),
    Case("a pair, little noise", pairs, 300, 10, lambda X: np.full(len(X), 0.2)),
    Case("a pair, much noise", pairs, 300, 10, lambda X: np.ones(len(X))),
    Case("noise from 0.1 to 2", curves, 300, 6, lambda X: 0.1 + 1.9 * X[:, 0] ** 2),
    Case("people of 6 rows with a level each", curves, 360, 6, lambda X: np.full(len(X), 0.3), 6),
    Case("people of 6 rows with a level and a slope each", curves, 360, 6, lambda X: np.full(len(X), 0.3), 6, 2.0),
    Case("curves, 150 rows, equal relevances", curves, 150, 6, lambda X: np.full(len(X), 0.5), relevance="equal"),
    Case("a pair, much noise, equal relevances", pairs, 300, 10, lambda X: np.ones(len(X)), relevance="equal"),
]


def trial(case: Case, seed: int) -> tuple[float, float, float]:
    """Return the shares of new rows and of the curve that are inside, and whether the whole curve is."""
    rng = np.random.default_rng(seed)
    X, new = rng.uniform(size=(case.n, case.D)), rng.uniform(size=(NEW_ROWS, case.D))
    y = case.truth(X) + case.noise(X) * rng.normal(size=case.n)
    person = np.arange(case.n) // case.each if case.each > 1 else None
    if person is not None:
        y += rng.normal(size=case.n)[person] + case.slope * rng.normal(size=case.n)[person] * (X[:, 0] - 0.5)
    model = SalsaRegressor(relevance=case.relevance, random_state=0, n_jobs=1).fit(X, y, groups=person)
    mean, sd = model.predict(new, return_std=True)
    effect = explain.decompose(model).effect("x0", points=[POINTS])
    missed = np.abs(effect.values - (curve(POINTS) - curve(X[:, 0]).mean())) > 2 * effect.sd
    return float(np.mean(np.abs(mean - case.truth(new)) <= 2 * sd)), 1 - float(missed.mean()), float(not missed.any())


def main() -> None:
    warnings.simplefilter("ignore")  # notes on new rows: the figures show their effect
    figures = Figures()
    print(f"{'case':48s} {'function':>9s} {'curve':>7s} {'whole curve':>12s}   (%, +- standard error)")
    for case in CASES:
        found = 100 * np.array([trial(case, seed) for seed in range(TABLES)])
        function, effect, whole = found.mean(axis=0)
        error = found.std(axis=0, ddof=1) / np.sqrt(TABLES)
        cells = f"{function:.1f} ± {error[0]:.1f}", f"{effect:.1f} ± {error[1]:.1f}", f"{whole:.0f}"
        figures.add(case=case.name, function=cells[0], curve=cells[1], whole=cells[2])
        print(f"{case.name:48s} {cells[0]:>9s} {cells[1]:>7s} {cells[2]:>12s}", flush=True)


if __name__ == "__main__":
    main()
