"""The HTML report, as the commands write it."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from salsa.cli.show import progress

if TYPE_CHECKING:
    from salsa.regressor import SalsaRegressor


def write_html(model: "SalsaRegressor", path: Path, X: Any = None, y: Any = None) -> None:
    """What a model says, as a page, whole or not at all; X and y: rows to look at."""
    from salsa.explain import write_report

    with progress(f"Writing {path}"):
        write_report(model, path.resolve(), X, y)
