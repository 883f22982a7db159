"""Numbers that the paper published: Table 1 on the twelve released sets, and training times, for speech only.

Blog was left out of the printed table; its numbers are in the paper's source. The additive Gaussian process was run on
four of these sets only: the other sets have no line for it in `published.csv`.
"""

from __future__ import annotations

import csv
from functools import cache
from importlib import resources
from typing import NamedTuple

FORMS = ("salsa", "svr-eps")  # methods that ``experiments`` has in several variants


class Published(NamedTuple):
    mse: float | None = None
    order: int | None = None  # for SALSA only
    seconds: float | None = None


@cache
def _table() -> dict[tuple[str, str], Published]:
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
    return _table().get((dataset, name), Published()) if protocol == "authors" else Published()
