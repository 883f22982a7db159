"""Writing of the HTML report by commands."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from salsa.cli.show import progress

if TYPE_CHECKING:
    from salsa.regressor import SalsaRegressor


def write_html(model: "SalsaRegressor", path: Path, X: Any = None, y: Any = None) -> None:
    """Write the report of a model completely or not at all; X and y are rows and targets to look at."""
    from salsa.explain import write_report

    with progress(f"Writing {path}"):
        write_report(model, path.resolve(), X, y)
