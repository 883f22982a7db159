"""How far to believe the two errors of a search: that of the winner of the race, and that of cross-validation.

Both as shares of the error on new rows, over several simulated tables: 1 is right, less is too good.
"""

import warnings

import numpy as np
from conditions import size
from sklearn.datasets import make_friedman1

from salsa import SalsaRegressor

SEEDS, NEW_ROWS = size((8, 4000), (2, 200))


def houses(n, rng):
    """Skewed features, and noise with heavy tails that grows with one of them."""
    income, rooms, people = rng.lognormal(1.2, 0.5, n), rng.lognormal(1.6, 0.3, n), rng.lognormal(1, 0.3, n)
    age, latitude, longitude = rng.uniform(1, 52, n), rng.uniform(32, 42, n), rng.uniform(-124, -114, n)
    f = 0.4 * income + 0.3 * np.sin(latitude) * np.cos(longitude) + 0.005 * age + 0.05 * income * np.sin(latitude)
    y = f + 0.2 * np.log(rooms) - 0.3 * np.log(people) + 0.125 * np.sqrt(income) * rng.standard_t(5, n)
    return np.column_stack([income, age, rooms, people, latitude, longitude]), y


def friedman(n, rng):
    return make_friedman1(n, 10, noise=1.0, random_state=rng.integers(2**31))


def errors(make, n, seed):
    """Of the winner, by cross-validation, and on new rows."""
    rng = np.random.default_rng(100 * n + seed)
    (X, y), (X_new, y_new) = make(n, rng), make(NEW_ROWS, rng)
    model = SalsaRegressor(random_state=0).fit(X, y)
    race, table = model.search_.race, model.search_.table
    true = np.mean((model.predict(X_new) - y_new) ** 2) / np.var(y_new)
    return race["error"][race["won"]].item(), table["cv_error"][table["chosen"]].item(), true


if __name__ == "__main__":
    warnings.filterwarnings("ignore", ".* far outside the range")
    print("table     rows   race / new rows   cross-validation / new rows   (means over seeds; least to largest)")
    for make in (houses, friedman):
        for n in size((400, 1500), (100,)):
            winner, cv, true = np.array([errors(make, n, seed) for seed in range(SEEDS)]).T
            cells = [
                f"{e.mean() / true.mean():.2f} ({(e / true).min():.2f} to {(e / true).max():.2f})" for e in (winner, cv)
            ]
            print(f"{make.__name__:8}  {n:4}   {cells[0]:20}   {cells[1]}", flush=True)
