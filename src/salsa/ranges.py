"""Rows far outside the range of the training data, where a prediction is a guess."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from salsa.expansion import KernelExpansion
from salsa.kernels import Floats
from salsa.warning import warn_user

SLACK = 1.0  # of the range: new rows of the same kind lie a little beyond its ends, too
MOST_NAMED = 3  # columns in a message


def warn_beyond(expansion: KernelExpansion, names: Sequence[str], X: Floats) -> None:
    """A warning that says how many of these encoded rows (n, D) are, if any."""
    beyond = Beyond(expansion, names)
    beyond.add(X)
    if told := str(beyond):
        warn_user(told)


class Beyond:
    """Counts them, over all pieces of a table, in the features that the model uses."""

    def __init__(self, expansion: KernelExpansion, names: Sequence[str]) -> None:
        self._low, self._high = low, high = expansion.ends
        width = high - low
        slack = np.where((expansion.kernel.relevance > 0) & (width > 0), SLACK * width, np.inf)
        self._limits = low - slack, high + slack
        self._names = names
        self._rows = self._all = 0
        self._below, self._above = np.zeros((2, len(names)), dtype=np.int64)

    def add(self, X: Floats) -> None:
        """Encoded rows (n, D); missing values are in any range."""
        below, above = self._limits[0] > X, self._limits[1] < X
        self._below += below.sum(axis=0)
        self._above += above.sum(axis=0)
        self._rows += int((below | above).any(axis=1).sum())
        self._all += len(X)

    def __str__(self) -> str:
        """How many, and where most of them are; empty where there are none."""
        if not self._rows:
            return ""
        counts = self._below + self._above
        places = [j for j in np.argsort(-counts, kind="stable") if counts[j]]
        named = [where for j in places[:MOST_NAMED] for where in self._where(int(j))]
        more = ", ..." if len(places) > MOST_NAMED else ""
        verb = "lies" if self._rows == 1 else "lie"
        count = f"{self._rows} of {self._all} rows {verb} far outside the range of the training data"
        return f"{count} ({', '.join(named)}{more}), where a prediction is a guess"

    def _where(self, j: int) -> list[str]:
        sides = ((self._below[j], "below", self._low[j]), (self._above[j], "above", self._high[j]))
        return [f"{self._names[j]!r} {side} {end:.4g} in {count}" for count, side, end in sides if count]
