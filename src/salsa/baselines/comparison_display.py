"""Display of a comparison: the error of every method with its standard error."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np
import pandas as pd

from salsa._utils.drawing import DARK, Display, axes_or_new, label, name_ticks

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LONG = {"mse": "mean squared error", "log_loss": "log loss"}
WIDE_RANGE = 20.0  # ratio of the largest to the smallest error above which the axis is logarithmic


@dataclass(frozen=True, eq=False)
class ComparisonDisplay(Display):
    """Display of the errors of methods, with one standard error on either side."""

    rows: pd.DataFrame  # the methods that finished, the best first
    error: str  # the column of errors: "mse" or "log_loss"

    def plot(self, ax: Axes | None = None) -> Self:
        """Draw a row for each method; the best is on top."""
        rows = self.rows[::-1]
        with axes_or_new(ax, 6.5, 1.2 + 0.3 * len(rows)) as ax:
            error, se = rows[self.error].to_numpy(), rows[f"{self.error}_se"].fillna(0.0).to_numpy()
            ax.errorbar(error, np.arange(len(rows)), xerr=se, fmt="o", color=DARK, capsize=2, markersize=5)
            ax.set_ylim(-0.6, len(rows) - 0.4)
            if error.min() > 0 and error.max() > WIDE_RANGE * error.min():
                ax.set_xscale("log", nonpositive="clip")
            ax.set_xlabel(f"{LONG[self.error]}, ± one standard error over folds")
            name_ticks(ax, "y", [label(name) for name in rows["method"]])
        return self._drawn(ax)
