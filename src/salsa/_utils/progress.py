"""Progress of a fit: lines on standard error, and scikit-learn's callbacks where it has them (from 1.9 on)."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import count
from typing import Any, Self, TypeVar

try:
    from sklearn.callback import CallbackSupportMixin, with_callbacks
except ImportError:  # scikit-learn before 1.9
    Fit = TypeVar("Fit", bound=Callable[..., Any])

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """A mixin without methods: this scikit-learn has no callbacks."""

    def with_callbacks(method: Fit) -> Fit:
        return method


__all__ = [
    "NULL_LOSS",
    "SILENT",
    "VARIANCE",
    "CallbackSupportMixin",
    "Line",
    "Progress",
    "Steps",
    "Told",
    "each",
    "rows_counted",
    "unheard",
    "with_callbacks",
]

T = TypeVar("T")
Told = Callable[[float], None]  # gets the share of a phase that is done
TERMINAL_PAUSE, LOG_PAUSE = 0.2, 10.0  # least seconds between two steps on a terminal, and in a file
VARIANCE, NULL_LOSS = "variance", "loss of the best constant"  # the units of errors


class Steps:
    """A silent listener to the phases of a fit. Only the main thread may call it."""

    def step(self, phase: str, share: float | None = None, detail: str = "") -> None:
        """Say how far a phase is: its share, if that is known, and anything else; a share of 1 ends the phase."""

    def done(self, phase: str, detail: str = "") -> None:
        """Say that a phase is over."""

    def share(self, phase: str) -> Told:
        """Return the function that takes the share of this phase."""
        return partial(self.step, phase)

    def counting(self, phase: str, units: str) -> Callable[[], None]:
        """Return a function that counts its calls, for a phase of unknown length."""
        numbers = count(1)
        return lambda: self.step(phase, None, f"{next(numbers)} {units}")


SILENT = Steps()


class Progress(Steps):
    """The progress of one fit; callbacks get a task for every kernel and every order that was tried.

    A callback that has a method ``on_step`` is also given the text of every step.
    """

    def __init__(self, estimator: Any, X: Any, y: Any) -> None:
        self.estimator, self.data = estimator, {"X": X, "y": y}
        self.line = Line() if estimator.verbose else None
        self.begun: dict[str, float] = {}
        self.context: Any = None
        callbacks = getattr(estimator, "_skl_callbacks", None) or []
        self.listeners = [callback.on_step for callback in callbacks if hasattr(callback, "on_step")]
        if callbacks:
            self.context = estimator._init_callback_context(max_subtasks=None)
            self.context.call_on_fit_task_begin(estimator=estimator, **self.data)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.line is not None:
            self.line.close()

    def begin(self, what: str) -> None:
        """Announce a step that may take long."""
        self._say(f"{what} ...")

    def step(self, phase: str, share: float | None = None, detail: str = "") -> None:
        if share is not None and share >= 1.0:
            self.done(phase, _joined("100 %", detail))
            return
        self.begun.setdefault(phase, time.perf_counter())
        if self.line is not None or self.listeners:
            known = _joined("" if share is None else f"{int(100 * share)} %", detail)
            self._show(f"{phase}: {known}" if known else f"{phase} ...")

    def done(self, phase: str, detail: str = "") -> None:
        begun = self.begun.pop(phase, None)
        seconds = "" if begun is None else f"{time.perf_counter() - begun:.1f} s"
        self._say(f"{phase}: {_joined(detail, seconds)}")

    def tried(self, name: str, error: float, standard_error: float, seconds: float, unit: str = VARIANCE) -> None:
        """Report a kernel or an order that was tried, with its held-out error as a share of `unit`."""
        if self.line is not None:
            self.line.write(f"{name}: error {error:.4g} +- {standard_error:.2g} of the {unit}, {seconds:.1f} s")
        if self.context is not None:
            task = self.context.subcontext(task_name=name)
            metadata = {"error": error, "standard_error": standard_error, "seconds": seconds, "unit": unit}
            task.call_on_fit_task_begin(estimator=self.estimator, metadata=metadata, **self.data)
            task.call_on_fit_task_end(estimator=self.estimator, metadata=metadata, **self.data)

    def end(self) -> None:
        """Tell the callbacks that the model is complete."""
        if self.context is not None:
            nothing_lacks: dict[str, Any] = {}
            self.context.call_on_fit_task_end(
                estimator=self.estimator, reconstruction_attributes=nothing_lacks, **self.data
            )

    def _show(self, text: str) -> None:
        """Show a text that the next one replaces."""
        if self.line is not None:
            self.line.rewrite(text)
        for listener in self.listeners:
            listener(text)

    def _say(self, text: str) -> None:
        """Show a text that stays."""
        if self.line is not None:
            self.line.write(text)
        for listener in self.listeners:
            listener(text)


class Line:
    """The last line of standard error: a terminal has it rewritten, a file gets new lines, but few."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock, self.terminal, self.width = clock, sys.stderr.isatty(), 0
        self.pause = TERMINAL_PAUSE if self.terminal else LOG_PAUSE
        self.last = clock()

    def rewrite(self, text: str) -> None:
        """Show a text in place of the last one, unless that was shown just now."""
        if self.clock() - self.last < self.pause:
            return
        if not self.terminal:
            self.write(text)
            return
        room = shutil.get_terminal_size().columns - 1  # a longer line would wrap, and could not be rewritten
        text = f"[salsa] {text}"[:room]
        print(f"\r{text:<{self.width}}", end="", file=sys.stderr, flush=True)
        self.last, self.width = self.clock(), len(text)

    def write(self, text: str) -> None:
        """Show a text that stays; on a terminal, a step may follow at once."""
        start = "\r" if self.width else ""
        print(f"{start}{f'[salsa] {text}':<{self.width}}", file=sys.stderr, flush=True)
        self.last, self.width = -float("inf") if self.terminal else self.clock(), 0

    def close(self) -> None:
        """Remove a text that was to be replaced."""
        if self.width:
            print(f"\r{'':<{self.width}}", end="\r", file=sys.stderr, flush=True)
            self.width = 0


def unheard(*_: object) -> None:
    """Take the place of a function that is told of progress, if nobody listens."""


def each(items: Iterable[T], told: Told, total: int) -> Iterator[T]:
    """Yield the items, and tell which share of `total` there were so far."""
    told(0.0)
    for number, item in enumerate(items, 1):
        told(number / total)
        yield item


def _joined(*texts: str) -> str:
    return ", ".join(filter(None, texts))


def rows_counted(blocks: Iterable[T], steps: Steps) -> Iterator[T]:
    """Yield blocks of rows X, and tell how many rows of the table were read."""
    rows = 0
    for block in blocks:
        yield block
        rows += len(block.X)  # type: ignore[attr-defined]
        steps.step("reading the table", None, f"{rows} rows")
    steps.done("reading the table", f"{rows} rows")
