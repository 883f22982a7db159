"""Table 1 from rows: means over draws of noise columns, ratios to the published errors, and the ranks of SALSA.

The published numbers are Table 1 on the twelve released sets, and training times for speech only. Blog was left out of
the printed table; its numbers are in the paper's source. The additive Gaussian process was run on four of these sets
only: the other sets have no line for it in `published.csv`.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from statistics import mode
from typing import Any, NamedTuple, TypedDict

import numpy as np
import pandas as pd

from salsa._utils.cached import cached_property
from salsa.baselines.processes import OK
from salsa.paper.datasets import DATASETS
from salsa.paper.experiments import METHODS, PAPER_RIVALS
from salsa.paper.ledger import NAN, Row

FORMS = ("salsa", "svr-eps")  # methods that ``experiments`` has in several variants


class Published(NamedTuple):
    """Numbers that the paper published."""

    mse: float | None = None
    order: int | None = None  # for SALSA only
    seconds: float | None = None


@cache
def _published_table() -> dict[tuple[str, str], Published]:
    text = resources.files("salsa.paper").joinpath("published.csv").read_text("utf-8")
    return {
        (line["dataset"], line["method"]): Published(
            float(line["mse"]),
            int(line["order"]) if line["order"] else None,
            float(line["seconds"]) if line["seconds"] else None,
        )
        for line in csv.DictReader(text.splitlines())
    }


def published(dataset: str, method: str, protocol: str = "authors") -> Published:
    """Return the published numbers of a method or of a variant of it; they are None for "described"."""
    name = next((name for name in FORMS if method.startswith(name)), method)
    return _published_table().get((dataset, name), Published()) if protocol == "authors" else Published()


class Entry(TypedDict):
    """The means of mse and seconds over `seeds` draws of noise columns, the sd of mse, and the most frequent order."""

    dataset: str
    method: str
    protocol: str
    n: int
    D: int
    mse: float
    mse_sd: float
    seeds: int
    order: int | None
    seconds: float
    wall_seconds: float
    status: str
    published_mse: float | None
    published_order: int | None
    published_seconds: float | None
    ratio: float  # mse / published_mse


def as_entries(rows: Iterable[Row]) -> list[Entry]:
    """Return an entry per data set and method, in the order of DATASETS and METHODS; rows must have one protocol."""
    groups: dict[tuple[int, int], list[Row]] = {}
    for row in rows:
        groups.setdefault((DATASETS.index(row.dataset), list(METHODS).index(row.method)), []).append(row)
    return [as_entry(group) for _, group in sorted(groups.items())]


def as_entry(rows: Sequence[Row]) -> Entry:
    """Merge the draws of noise columns of one data set and method; error and times are NaN if a draw failed."""
    first = next((row for row in rows if row.status != OK), rows[0])
    mse, seconds, wall = np.mean([(row.mse, row.seconds, row.wall_seconds) for row in rows], axis=0).tolist()
    orders = [row.order for row in rows if row.order is not None]
    printed = published(first.dataset, first.method, first.protocol)
    return Entry(
        dataset=first.dataset,
        method=first.method,
        protocol=first.protocol,
        n=first.n,
        D=first.D,
        mse=mse,
        mse_sd=float(np.std([row.mse for row in rows])),
        seeds=len(rows),
        order=mode(orders) if orders else None,
        seconds=seconds if first.status == OK else NAN,
        wall_seconds=wall,
        status=first.status,
        published_mse=printed.mse,
        published_order=printed.order,
        published_seconds=printed.seconds,
        ratio=NAN if printed.mse is None else mse / printed.mse,
    )


@dataclass(frozen=True, eq=False)
class Table1:
    """The entries of one protocol as tables.

    frame : data frame, a row for every data set and method, with the fields of ``Entry`` as columns.
    """

    entries: Sequence[Entry]

    @cached_property
    def frame(self) -> pd.DataFrame:
        numbers = dict.fromkeys(("mse", "published_mse", "published_seconds", "ratio"), "float64")
        whole = dict.fromkeys(("order", "published_order"), "Int64")
        return pd.DataFrame(list(self.entries), columns=list(Entry.__annotations__)).astype(numbers | whole)

    @cached_property
    def errors(self) -> pd.DataFrame:
        """The mean squared errors, with a row per method and a column per data set."""
        return _wide(self.frame, "mse")

    @cached_property
    def published_errors(self) -> pd.DataFrame:
        """The published mean squared errors, with a row per method and a column per data set."""
        return _wide(self.frame, "published_mse")

    def methods(self) -> pd.DataFrame:
        """Return per method the median, smallest and largest ratio, the number of finished sets, and CPU seconds."""
        groups = self.frame.groupby("method", sort=False)
        summary = groups.agg(
            median_ratio=("ratio", "median"),
            min_ratio=("ratio", "min"),
            max_ratio=("ratio", "max"),
            done=("mse", "count"),
            sets=("mse", "size"),
        )
        return summary.assign(seconds=groups["seconds"].sum(min_count=1)).reset_index()

    def ranks(self) -> pd.DataFrame:
        """Return per data set the rank of SALSA among the rivals that have an error, published and here; 1 is the best.

        "equal" is SALSA here as the authors ran it, "learned" is this package with default parameters.
        """
        ranks = pd.DataFrame(
            {
                "published": _rank(self.published_errors, "salsa"),
                "equal": _rank(self.errors, "salsa"),
                "learned": _rank(self.errors, "salsa-learned"),
                "methods": 1 + _rivals(self.errors).count(),
            }
        )
        return ranks.rename_axis("dataset").reset_index()

    def average_ranks(self) -> dict[str, float]:
        """Return the means of ``ranks`` over the data sets."""
        ranks = self.ranks()
        return {name: float(ranks[name].mean()) for name in ("published", "equal", "learned")}

    def unfinished(self) -> pd.DataFrame:
        """Return the data sets and methods without an error, and the reasons."""
        return self.frame.loc[self.frame["status"] != OK, ["dataset", "method", "status"]].reset_index(drop=True)

    def to_json(self) -> str:
        """Return a JSON object of lists of rows; missing numbers are null."""
        parts = {"rows": self.frame, "methods": self.methods(), "ranks": self.ranks(), "unfinished": self.unfinished()}
        averages = pd.DataFrame([self.average_ranks()])
        return json.dumps(
            {name: _records(part) for name, part in parts.items()} | {"average_ranks": _records(averages)[0]}
        )

    def to_markdown(self) -> str:
        """Return four tables: errors here / published, ratios by method, ranks of SALSA, and unfinished fits."""
        parts = [
            ("Mean squared errors: here / published", self._both()),
            ("Ratio to the published error, and CPU seconds", _texts(self.methods())),
            ("Rank of SALSA among the rivals", _texts(pd.concat([self.ranks(), self._average_row()]))),
            ("Not finished", _texts(self.unfinished())),
        ]
        return "\n".join(f"## {title}\n\n{markdown(part)}\n" for title, part in parts if len(part))

    def _both(self) -> pd.DataFrame:
        """Return a table of texts "here / published", with a row per method and a column per data set."""
        here = [_result(entry) for entry in self.entries]
        printed = [number(mse) for mse in self.frame["published_mse"]]
        cells = self.frame.assign(both=[f"{a} / {b}" for a, b in zip(here, printed, strict=True)])
        return _wide(cells, "both").fillna("").rename_axis("method").reset_index()

    def _average_row(self) -> pd.DataFrame:
        return pd.DataFrame([{"dataset": "average", **self.average_ranks()}])


def _wide(frame: pd.DataFrame, column: str) -> pd.DataFrame:
    """Return a table with a row per method and a column per data set, both in order of appearance."""
    wide = frame.pivot_table(column, "method", "dataset", aggfunc="first", sort=False)
    return wide.reindex(frame["method"].unique(), columns=frame["dataset"].unique())


def _rivals(errors: pd.DataFrame) -> pd.DataFrame:
    return errors[errors.index.isin(PAPER_RIVALS)]


def _result(entry: Entry) -> str:
    """Return the error, or the kind of failure: "timed out" or "failed"."""
    return number(entry["mse"]) if entry["status"] == OK else entry["status"].split(":")[0]


def _rank(errors: pd.DataFrame, method: str) -> pd.Series[float]:
    """Return per data set 1 + the number of rivals with a smaller error; NaN if the method has no error."""
    if method not in errors.index:
        return pd.Series(np.nan, index=errors.columns)
    own = errors.T[method]
    better = _rivals(errors).lt(own, axis="columns").sum()
    return (1.0 + better).where(own.notna())


def number(value: Any) -> str:
    """Format a number with four significant digits; a missing number is -."""
    return "-" if pd.isna(value) else f"{value:.4g}"


def _texts(frame: pd.DataFrame) -> pd.DataFrame:
    """Format all numbers of a table as texts."""
    return frame.map(lambda value: value if isinstance(value, str) else number(value))


def _records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the rows as dictionaries for JSON; a missing number is None."""
    return [
        {name: None if pd.isna(value) else value for name, value in zip(frame.columns, row, strict=True)}
        for row in frame.astype(object).to_numpy().tolist()
    ]


def markdown(frame: pd.DataFrame) -> str:
    """Format a table of texts as Markdown."""
    return "\n".join(map(_line, [list(frame.columns), ["---"] * frame.shape[1], *frame.to_numpy().tolist()]))


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"
