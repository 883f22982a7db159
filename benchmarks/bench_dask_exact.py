"""An exact fit on a Dask cluster of two processes, neither of which could hold the kernel matrix alone.

    python benchmarks/bench_dask_exact.py [rows, default 40 000]

The truth is the robot arm of bench_exact.py. The first lines have the seconds of the fit, its products with the kernel
matrix, the bytes that a product moves, the largest memory of a worker, and the difference to a fit in one process with
fewer rows. Then single products are timed, and a model of their cost is fitted to them:

    seconds = a + b bytes moved + (h + g vectors) n^2 / workers

Workers tell their CPU seconds, which give h and g: to read the tiles, and to multiply them. Wall seconds depend on what
else runs. The lowest of several products counts; a and b explain the wall seconds that are no work of the workers.
"""

import resource
import time
from contextlib import contextmanager
from pathlib import Path

import dask.array as da
import numpy as np
from bench_exact import table
from conditions import number, size
from dask.distributed import Client, LocalCluster, wait
from scipy.optimize import nnls

from salsa import AdditiveKernel, SalsaRegressor
from salsa._utils.memory import tiled_bytes
from salsa.distributed import DaskSalsaRegressor
from salsa.solvers.cluster_tiles import SHARE, Cluster, ClusterTiles
from salsa.solvers.tiles import tile_groups

WORKERS, LIMIT, NEW_ROWS = 2, 4e9, 2000
COMPARED = size(8000, 200)  # rows of the fits whose predictions are compared
TIMED, VECTORS, REPEATS = size(((8000, 16_000, 24_000), (2, 12), 5), ((200, 400), (1, 2), 2))
FORECAST, MACHINES = 200_000, 10
SETTINGS = {"solver": "pcg", "relevance": "equal", "order": 4, "alpha": 0.01, "rank": size(1000, 50), "random_state": 0}


def peak_megabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3


def spilled_bytes(dask_worker) -> int:
    return sum(dask_worker.data.spilled_total)


def moved_bytes(n: int, vectors: int, workers: int) -> float:
    """Return the bytes of one product: vectors in float32 to every worker, and sums in float64 from every group."""
    spans = [side.stop - side.start for group in tile_groups(n) for side in group.span]
    return vectors * (4 * n * workers + 8 * sum(spans))


def local_traffic() -> int:
    """Return the bytes that this machine has sent to itself so far."""
    lines = Path("/proc/net/dev").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.strip().startswith("lo:"))


@contextmanager
def counted_products():
    """Yield a list of the numbers of vectors of all products, as they are made."""
    seen, attempt = [], ClusterTiles._attempt
    ClusterTiles._attempt = lambda tiles, V: seen.append(len(V)) or attempt(tiles, V)
    yield seen
    ClusterTiles._attempt = attempt


def fit(client: Client, n: int) -> None:
    """Fit n rows on the cluster, and print what the fit took."""
    X, y = table(n)
    before, traffic, start = max(client.run(peak_megabytes).values()), local_traffic(), time.perf_counter()
    with counted_products() as products:
        model = DaskSalsaRegressor(client, **SETTINGS).fit(da.from_array(X, chunks=(-(-n // 8), 8)), y)
    seconds, traffic = time.perf_counter() - start, local_traffic() - traffic
    after, spilled = max(client.run(peak_megabytes).values()), sum(client.run(spilled_bytes).values())
    print(f"matrix: {n} rows, {tiled_bytes(n) / 1e9:.2f} GB; one worker may take {SHARE * LIMIT / 1e9:.2f} GB")
    count, vectors = len(products), np.mean(products)
    print(f"fit: {seconds:.1f} s, {count} products with {vectors:.1f} vectors on average, alpha {model.alpha_:.1e}")
    each = moved_bytes(n, 1, WORKERS) * vectors / 1e6
    print(f"a product moves {each:.1f} MB; on this machine {traffic / count / 1e6:.1f} MB, every hop counted")
    print(f"a worker's memory: {before:.0f} MB before, at most {after:.0f} MB during the fit; spilled: {spilled} bytes")


def compare(client: Client, n: int) -> None:
    """Print the difference of predictions to a fit in one process."""
    X, y = table(n + NEW_ROWS)
    (X, new), y = np.split(X, [n]), y[:n]
    start = time.perf_counter()
    one = DaskSalsaRegressor(client, **SETTINGS).fit(da.from_array(X, chunks=(-(-n // 8), 8)), y)
    middle = time.perf_counter()
    other = SalsaRegressor(**SETTINGS).fit(X, y)
    seconds = middle - start, time.perf_counter() - middle
    gap = np.abs(one.predict(new) - other.predict(new)).max()
    print(f"{n} rows: cluster {seconds[0]:.1f} s, one process {seconds[1]:.1f} s, largest difference {gap:.1e}")


def timed_products(client: Client, n: int, workers: int) -> list[tuple[float, ...]]:
    """Return bytes moved, n^2 / workers, vectors, wall and a worker's CPU seconds of products."""
    X, rows = table(n)[0], []
    with Cluster(client) as cluster:
        for address in list(cluster.found)[workers:]:
            del cluster.found[address]
        tiles = cluster.tiles(AdditiveKernel(np.ones(8), np.ones(8), [0.0, 1.0, 1.0]), X, double=False, held=True)
        wait([share.tiles for share in tiles.shares])
        for c in VECTORS:
            wall, cpu = seconds_of_product(client, tiles, np.ones((c, n)))
            rows.append((moved_bytes(n, c, workers), n * n / workers, c, wall, cpu / workers))
            print(f"product: {n} rows, {workers} workers, {c} vectors: {wall:.3f} s, CPU of all workers {cpu:.3f} s")
    return rows


def seconds_of_product(client: Client, tiles: ClusterTiles, V: np.ndarray) -> tuple[float, float]:
    """Return the least wall seconds of a product, and the mean CPU seconds of all workers together."""
    before, wall = sum(client.run(time.process_time).values()), []
    for _ in range(REPEATS):
        start = time.perf_counter()
        tiles.times(V)
        wall.append(time.perf_counter() - start)
    return min(wall), (sum(client.run(time.process_time).values()) - before) / REPEATS


def relative_fit(terms: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return factors >= 0 of the terms (m, k) that give the values (m,), by least squares of relative errors."""
    unit = terms.max(axis=0)
    return nnls(terms / unit / values[:, None], np.ones(len(values)))[0] / unit


def cost_model(client: Client) -> None:
    """Fit the cost of a product, and print it with its forecast."""
    rows = [row for n in TIMED for workers in range(1, WORKERS + 1) for row in timed_products(client, n, workers)]
    moved, work, vectors, wall, cpu = np.array(rows).T
    ones = np.ones(len(rows))
    _, h, g = relative_fit(np.column_stack([ones, work, work * vectors]), cpu)
    rest = np.maximum(wall - work * (h + g * vectors), 0.1 * wall)
    a, b = relative_fit(np.column_stack([ones, moved]), rest)
    print(f"model: a = {a:.3f} s, b = {1e9 * b:.2f} s per GB, h = {1e9 * h:.3f}, g = {1e9 * g:.4f} s per 10^9 numbers")
    sent, share = moved_bytes(FORECAST, 5, MACHINES), FORECAST**2 / MACHINES
    parts = a, b * sent, share * (h + 5 * g)
    told = " + ".join(f"{part:.2f}" for part in parts)
    print(
        f"{FORECAST} rows, {MACHINES} workers of one core like here, 5 vectors: {told} = {sum(parts):.1f} s a product"
    )
    print(f"a product moves {sent / 1e9:.2f} GB; each worker holds {tiled_bytes(FORECAST) / MACHINES / 1e9:.1f} GB")


def main() -> None:
    options = {"threads_per_worker": 1, "memory_limit": LIMIT, "dashboard_address": ":0"}
    with LocalCluster(n_workers=WORKERS, **options) as cluster, Client(cluster) as client:
        fit(client, number(40_000, 300))
        compare(client, COMPARED)
        cost_model(client)


if __name__ == "__main__":
    main()
