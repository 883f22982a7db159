"""
A Dask cluster on this machine
==============================

A fit on a cluster of this machine's cores, from Parquet files that need not fit into memory::

    python examples/dask_local.py [folder of Parquet files] [target column]

Without arguments it makes a table of 100 000 rows first. Needs ``pip install ".[dask]"``. Workers start as
new processes that read this file, which is why the work is in functions, and the last lines ask for ``__main__``.
"""

import sys
import tempfile
from pathlib import Path

import dask.dataframe as dd
import numpy as np
import pandas as pd
from dask.distributed import Client, LocalCluster

from salsa.distributed import DaskSalsaRegressor


def make_table(folder: Path) -> None:
    """Four files; the target follows four of five columns."""
    for number in range(4):
        rng = np.random.default_rng(number)
        table = pd.DataFrame(rng.uniform(-1, 1, (25_000, 4)), columns=list("abcd"))
        table["site"] = pd.Categorical(rng.choice(["north", "south"], len(table)))
        signal = np.sin(3 * table["a"]) + table["b"] * table["c"] + (table["site"] == "north")
        table.assign(y=signal + 0.3 * rng.normal(size=len(table))).to_parquet(folder / f"{number}.parquet")


def main(folder: Path, target: str) -> None:
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster, Client(cluster) as client:
        table = dd.read_parquet(folder)
        X, y = table.drop(columns=target), table[target]
        model = DaskSalsaRegressor(client, random_state=0).fit(X, y)
        print(model.search_.table.to_string(index=False))
        print(f"R2 on the training rows: {model.score(X, y):.4f}")
        predictions = model.predict(X)  # lazy: nothing has been computed yet
        print("first predictions:", predictions.blocks[0].compute()[:3])
        model.save(folder / "model.salsa")  # a model like any other: salsa.load, salsa predict, salsa explain


if __name__ == "__main__":
    if len(sys.argv) == 3:
        main(Path(sys.argv[1]), sys.argv[2])
    else:
        with tempfile.TemporaryDirectory() as made:
            make_table(Path(made))
            main(Path(made), "y")
