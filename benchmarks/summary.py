"""Summarise the errors of docs/results: every method over exactly the same tables.

    python benchmarks/summary.py [--out FILE]

Prints, as tables of Markdown, the figures that README.md and docs/ quote; --out writes them to a csv. Nothing is
fitted: the errors are in docs/results/tables_errors.csv (up to 1500 training rows) and large_lowrank.csv (more rows),
rounded to three or four digits. Last digits may therefore differ from the figures that the benchmarks themselves print.
"""

from __future__ import annotations

from pathlib import Path

import pandas as pd
from accuracy import SIMULATED, geometric_mean
from conditions import Figures

RESULTS = Path(__file__).parents[1] / "docs" / "results"
FIGURES = Figures()


def without_best(ratio: pd.Series, n: int) -> pd.Series:
    """Leave out the n smallest ratios."""
    return ratio.sort_values()[n:]


def summarise(error: pd.DataFrame, reference: str, lowest: pd.Series) -> pd.DataFrame:
    """One row per column of errors; ratios are to the column `reference`, and `lowest` names the best of each table."""
    ratio = error.div(error[reference], axis=0)
    rows = {
        "geometric mean": ratio.apply(geometric_mean),
        "median": ratio.median(),
        "geometric mean without its five best": ratio.apply(lambda r: geometric_mean(without_best(r, 5))),
        "best": ratio.min(),
        "worst": ratio.max(),
        f"lower than {reference}": (ratio < 1).sum(),
        "lowest of all": pd.Series({method: (lowest[error.index] == method).sum() for method in error}),
        "mean rank": error.rank(axis=1).mean(),
    }
    return pd.DataFrame(rows).sort_values("mean rank")


def markdown(frame: pd.DataFrame) -> str:
    shown = frame.map(lambda value: f"{value:.2f}" if isinstance(value, float) else str(value)).reset_index(names="")
    lines = [shown.columns, ["---"] * shown.shape[1], *shown.to_numpy()]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def show(tables: str, error: pd.DataFrame, reference: str, lowest: pd.Series) -> None:
    """Print the summary of some tables, and add it to the figures."""
    found = summarise(error, reference, lowest)
    print(f"{len(error)} {tables}; ratios to {reference}'s squared error\n\n{markdown(found)}\n")
    for method, row in found.rename(columns={f"lower than {reference}": "lower"}).iterrows():
        FIGURES.add(tables=tables, reference=reference, method=method, **row)


def main() -> None:
    small = pd.read_csv(RESULTS / "tables_errors.csv", index_col="table").drop(columns="n, D")
    lowest, best_rival = small.pop("lowest"), small.pop("salsa / best rival")
    real = small.drop(index=list(SIMULATED))
    show("real tables", real, "catboost", lowest)
    show("tables with the simulators", small, "catboost", lowest)
    compared = pd.DataFrame({"salsa": best_rival[real.index], "best rival": 1.0})  # chosen per table in hindsight
    show("real tables", compared, "best rival", compared.idxmin(axis=1))
    large = pd.read_csv(RESULTS / "large_lowrank.csv", index_col="table")[["salsa", "LightGBM", "CatBoost"]]
    for reference in ("LightGBM", "CatBoost"):
        show("larger tables", large, reference, large.idxmin(axis=1))


if __name__ == "__main__":
    main()
