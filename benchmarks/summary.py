"""Summarise the errors in docs/accuracy.md and docs/scale_measured.md: every method over exactly the same tables.

    python benchmarks/summary.py

Prints, as tables of Markdown, the figures that README.md, docs/accuracy.md and docs/scale_measured.md quote. Nothing
is fitted: the errors come from the pages, rounded to three or four digits. Last digits may therefore differ from the
figures that the benchmarks themselves print.
"""

from __future__ import annotations

from pathlib import Path

import pandas as pd
from accuracy import SIMULATED, geometric_mean

DOCS = Path(__file__).parents[1] / "docs"


def page_table(page: str, heading: str) -> pd.DataFrame:
    """Return the first table below a heading, as text; its first column is the index."""
    lines = (DOCS / page).read_text(encoding="utf-8").split(f"{heading}\n", 1)[1].split("\n## ")[0].splitlines()
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("|")]
    header, _, *body = cells
    return pd.DataFrame(body, columns=header).set_index(header[0])


def numbers(cells: pd.DataFrame) -> pd.DataFrame:
    return cells.map(lambda cell: float(cell.strip("*")))


def without_best(ratio: pd.Series, n: int) -> pd.Series:
    """Leave out the n smallest ratios."""
    return ratio.sort_values()[n:]


def summarise(cells: pd.DataFrame, reference: str) -> pd.DataFrame:
    """One row per column of errors; ratios are to the column `reference`, the lowest error of a row is bold."""
    error = numbers(cells)
    ratio = error.div(error[reference], axis=0)
    rows = {
        "geometric mean": ratio.apply(geometric_mean),
        "median": ratio.median(),
        "geometric mean without its five best": ratio.apply(lambda r: geometric_mean(without_best(r, 5))),
        "best": ratio.min(),
        "worst": ratio.max(),
        f"lower than {reference}": (ratio < 1).sum(),
        "lowest of all": cells.map(lambda cell: cell.startswith("**")).sum(),
        "mean rank": error.rank(axis=1).mean(),
    }
    return pd.DataFrame(rows).sort_values("mean rank")


def markdown(frame: pd.DataFrame) -> str:
    shown = frame.map(lambda value: f"{value:.2f}" if isinstance(value, float) else str(value)).reset_index(names="")
    lines = [shown.columns, ["---"] * shown.shape[1], *shown.to_numpy()]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def main() -> None:
    small = page_table("accuracy.md", "## Every table").drop(columns="n, D")
    real = small.drop(index=list(SIMULATED))
    best_rival = real.pop("salsa / best rival").astype(float)
    for title, cells in {"real tables": real, "tables with the simulators": small[list(real)]}.items():
        print(f"{len(cells)} {title}, at most 1500 training rows; ratios to CatBoost's squared error\n")
        print(markdown(summarise(cells, "catboost")), end="\n\n")
    print("salsa / best rival of each real table, chosen in hindsight:")
    print(f"geometric mean {geometric_mean(best_rival):.2f}, median {best_rival.median():.2f}", end=", ")
    print(f"worst {best_rival.max():.2f}, lower on {(best_rival < 1).sum()}\n")
    large = page_table("scale_measured.md", "## Real tables with low-rank fits").iloc[:, 2:5]
    for reference in ("LightGBM", "CatBoost"):
        print(f"{len(large)} larger tables, 15 000 to 45 000 training rows; ratios to {reference}'s squared error\n")
        print(markdown(summarise(large, reference)), end="\n\n")


if __name__ == "__main__":
    main()
