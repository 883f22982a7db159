"""Warnings that point at the user's line, however deep in the library they arise."""

from __future__ import annotations

import sys
import warnings


class OutsideRangeWarning(UserWarning):
    """Rows lie far outside the range of the training data."""


class TooFewRowsWarning(UserWarning):
    """The training rows are too few for intervals of the wanted coverage."""


def warn_user(message: str, category: type[UserWarning] = UserWarning) -> None:
    """Warn at the first frame outside of salsa and scikit-learn's wrappers."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and _is_inside(frame.f_globals.get("__name__", "")):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)


def _is_inside(module: str) -> bool:
    return module.split(".")[0] in ("salsa", "sklearn", "functools", "contextlib")
