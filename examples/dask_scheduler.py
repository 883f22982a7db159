"""
A Dask cluster that is already there
====================================

A fit by the address of the scheduler (shown, not run, for want of a cluster)::

    python examples/dask_scheduler.py tcp://10.0.0.1:8786 "s3://bucket/table/*.parquet" price model.salsa

Workers need salsa, and must be able to read the files. To try it here, start a scheduler and a worker first::

    dask scheduler --port 8786 &
    dask worker tcp://127.0.0.1:8786 --nworkers 2 --nthreads 1 --memory-limit 1GB &
"""

import sys

import dask.dataframe as dd
from dask.distributed import Client

from salsa.distributed import DaskSalsaRegressor


def main(address: str, files: str, target: str, out: str) -> None:
    with Client(address) as client:
        table = dd.read_parquet(files)
        model = DaskSalsaRegressor(client, random_state=0, verbose=1)
        model.fit(table.drop(columns=target), table[target])
        model.save(out)
        print(f"order {model.order_}, alpha {model.alpha_:.3g}, {len(model.expansion_.anchors)} anchors: {out}")


if __name__ == "__main__":
    if len(sys.argv) != 5:
        sys.exit(__doc__)
    main(*sys.argv[1:])
