"""Progress of a fit: lines on standard error, and scikit-learn's callbacks where it has them (from 1.9 on)."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, TypeVar

try:
    from sklearn.callback import CallbackSupportMixin, with_callbacks
except ImportError:  # scikit-learn before 1.9
    Fit = TypeVar("Fit", bound=Callable[..., Any])

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """A mixin without methods: this scikit-learn has no callbacks."""

    def with_callbacks(method: Fit) -> Fit:
        return method


__all__ = ["CallbackSupportMixin", "Progress", "with_callbacks"]


class Progress:
    """The progress of one fit; callbacks get a task for every kernel and every order that was tried."""

    def __init__(self, estimator: Any, X: Any, y: Any) -> None:
        self.estimator, self.data, self.verbose = estimator, {"X": X, "y": y}, estimator.verbose
        self.context: Any = None
        if getattr(estimator, "_skl_callbacks", None):
            self.context = estimator._init_callback_context(max_subtasks=None)
            self.context.call_on_fit_task_begin(estimator=estimator, **self.data)

    def begin(self, what: str) -> None:
        """Announce a step that may take long."""
        if self.verbose:
            print(f"[salsa] {what} ...", file=sys.stderr)

    def tried(self, name: str, error: float, standard_error: float, seconds: float) -> None:
        """Report a kernel or an order that was tried, with its held-out error as a share of the variance."""
        if self.verbose:
            what = f"{name}: error {error:.4g} +- {standard_error:.2g} of the variance, {seconds:.1f} s"
            print(f"[salsa] {what}", file=sys.stderr)
        if self.context is not None:
            task = self.context.subcontext(task_name=name)
            metadata = {"error": error, "standard_error": standard_error, "seconds": seconds}
            task.call_on_fit_task_begin(estimator=self.estimator, metadata=metadata, **self.data)
            task.call_on_fit_task_end(estimator=self.estimator, metadata=metadata, **self.data)

    def end(self) -> None:
        """Tell the callbacks that the model is complete."""
        if self.context is not None:
            nothing_lacks: dict[str, Any] = {}
            self.context.call_on_fit_task_end(
                estimator=self.estimator, reconstruction_attributes=nothing_lacks, **self.data
            )
