"""The choice of alpha where every penalty costs a solve: one after the other, in half decades from a first guess."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, NamedTuple, TypeVar

import numpy as np

from salsa.solvers.alpha import AlphaPath, indifference_limit

STEP, LARGE_STEP = 10.0**0.5, 100.0
T = TypeVar("T")


class Tried(NamedTuple, Generic[T]):
    """A penalty that was tried: its error (infinite if it could not be solved), standard error, and solutions.

    Solutions are kept of the best penalty and of the last one.
    """

    error: float
    standard_error: float
    solved: T | None


class Penalties(Generic[T]):
    """Penalties that were tried, and how another one is tried: from the solutions of the nearest one before."""

    def __init__(self, solve: Callable[[float, T | None], Tried[T]]) -> None:
        self.solve, self.tried = solve, dict[float, Tried[T]]()

    def search(self, first: float, least: float, most: float) -> None:
        """Go down while the error falls; if it does not fall at once, go up while it falls; from `least` to `most`.

        If the first penalty cannot be solved, go up in large steps to one that can.
        """
        self.attempt(first)
        while not np.isfinite(self.tried[first].error) and first < most:
            first = min(first * LARGE_STEP, most)
            self.attempt(first)
        self._walk(first, 1.0 / STEP, least)
        if self.best == first:
            self._walk(first, STEP, most)

    def attempt_all(self, alphas: Sequence[float]) -> None:
        """Try these penalties, the largest first: large ones are solved quickly, and small ones start from them."""
        for alpha in sorted(set(alphas), reverse=True):
            self.attempt(alpha)

    def attempt(self, alpha: float) -> None:
        known = [a for a, one in self.tried.items() if one.solved is not None and np.isfinite(one.error)]
        near = min(known, key=lambda other: abs(np.log(other / alpha)), default=None)
        self.tried[alpha] = self.solve(alpha, None if near is None else self.tried[near].solved)
        for other in self.tried.keys() - {alpha, self.best}:
            self.tried[other] = self.tried[other]._replace(solved=None)

    @property
    def best(self) -> float:
        """The largest of the equally good penalties."""
        limit = indifference_limit([one[:2] for one in self.tried.values()])
        return max(alpha for alpha, one in self.tried.items() if one.error <= limit)

    @property
    def path(self) -> AlphaPath:
        """The penalties that could be solved; all of them if none could."""
        solved = [alpha for alpha, one in self.tried.items() if np.isfinite(one.error)]
        alphas, best = sorted(solved or self.tried), self.best
        errors = np.array([self.tried[alpha].error for alpha in alphas])
        return AlphaPath(np.array(alphas), errors, best, *self.tried[best][:2])

    @property
    def unsolved(self) -> list[float]:
        """The penalties that could not be solved."""
        return [alpha for alpha, one in self.tried.items() if not np.isfinite(one.error)]

    def _walk(self, alpha: float, factor: float, limit: float) -> None:
        """Go on while the error falls, at most to the limit or to a penalty that cannot be solved."""
        while True:
            before, alpha = self.best, max(alpha * factor, limit) if factor < 1.0 else min(alpha * factor, limit)
            if alpha in self.tried:
                return
            self.attempt(alpha)
            if self.best == before or not np.isfinite(self.tried[alpha].error):
                return


def unsolved_note(unsolved: Sequence[float]) -> list[str]:
    """Return a note on penalties that could not be solved, if there are any."""
    if not unsolved:
        return []
    tried = ", ".join(f"{penalty:.1e}" for penalty in sorted(unsolved))
    return [f"conjugate gradients did not converge for alpha = {tried}: these were left out"]
