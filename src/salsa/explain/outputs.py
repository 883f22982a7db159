"""The number of the function that `output` names: a position, or the label of a class."""

from __future__ import annotations

from typing import Any

import numpy as np

MOST_NAMED = 10


def output_number(output: Any, functions: int, labels: list[Any] | None) -> int:
    """Return the number of the function that `output` names, of a model with these labels of classes, or None.

    Whole numbers are positions. Two classes have one function, the log odds of the second class.
    """
    is_position = isinstance(output, int | np.integer) and not isinstance(output, bool | np.bool_)
    if labels is None:
        if not is_position or not 0 <= output < functions:
            raise ValueError(f"output={output!r}: this model has {functions} outputs, numbered from 0")
        return int(output)
    if is_position:
        if not 0 <= output < len(labels):
            known = _some([f"{k} ({label!r})" for k, label in enumerate(labels)])
            raise ValueError(f"output={output!r}: the positions of the classes are {known}")
        return 0 if len(labels) == 2 else int(output)
    wanted = output.item() if isinstance(output, np.generic) else output
    if wanted not in labels:
        known = _some([repr(label) for label in labels])
        raise ValueError(f"output={output!r} is no class of the model: the classes are {known}")
    if len(labels) == 2 and wanted == labels[0]:
        raise ValueError(
            f"output={output!r}: two classes have one function, the log odds of {labels[1]!r}; leave output out"
        )
    return 0 if len(labels) == 2 else labels.index(wanted)


def _some(names: list[str]) -> str:
    """List names, the first ten of more."""
    more = len(names) - MOST_NAMED
    *most, last = names if more <= 0 else [*names[:MOST_NAMED], f"{more} more"]
    return f"{', '.join(most)} and {last}"
