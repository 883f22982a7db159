"""Intervals beyond the range of the training rows, where nothing judged the model.

A kernel returns to its mean there; the truth may go on straight, or bend on, or bend the other way. So the interval
of a row x outside the range also holds the interval at the nearest point c of the range, moved along with the straight
line through the function at c and further inside, plus and minus what the parabola there adds to it, and widened by
the error of the slope; but not farther than the function varies over all training rows. Without this limit, the
interval of a row that lies several ranges outside would be a hundred times as wide as all targets. The interval of the
row itself, around the prediction there, is limited in the same way.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from salsa._utils.arrays import Floats
from salsa.expansion import KernelExpansion

NEAREST, FARTHEST = 1e-9, 1000.0  # shares of the range: rows not farther outside are inside, farther ones as far
STRAIGHT, BENT = 0.1, 0.4  # steps inwards, as shares of the range, that slopes and curvatures are taken over


class Outside(NamedTuple):
    """Rows outside the range: which they are (m,), the nearest points c (k, D), and how far f may move from there."""

    rows: NDArray[np.bool_]
    nearest: Floats
    moves: Floats  # (2, k, q): along the straight line, minus and plus the bend
    distance: Floats  # (k, 1) from c, as a share of the range
    span: Floats  # (q,) of f over the training rows: the farthest that f is taken to move


def find_outside(expansion: KernelExpansion, X: Floats, *, n_threads: int | None = None) -> Outside | None:
    """Return the rows outside the range of a feature that the model uses; None if all are inside."""
    low, high = expansion.ends
    with np.errstate(over="ignore", invalid="ignore"):  # values near the limits of float64 count as inside
        width = high - low
        used = (expansion.kernel.relevance > 0) & (width > 0) & expansion.kernel.terms[0].on_line
        counted, farthest = used & ~np.isnan(X), FARTHEST * np.where(used, width, 0.0)
        nearest = np.where(counted, np.clip(X, low, high), X)
        away = np.where(counted, np.clip(X, low - farthest, high + farthest) - nearest, 0.0)
        distance = np.max(np.abs(away) / np.where(used, width, 1.0), axis=1, keepdims=True)  # in shares of the range
    rows: NDArray[np.bool_] = (distance[:, 0] > NEAREST) & np.isfinite(distance[:, 0])
    if not rows.any():
        return None
    nearest, away, distance = nearest[rows], away[rows], distance[rows]
    direction = away / distance

    def at(share: float) -> Floats:
        return expansion.predict(nearest - share * direction, n_threads=n_threads)

    edge = at(0.0)
    straight = (edge - at(STRAIGHT)) * distance / STRAIGHT
    first, second = edge - at(BENT), edge - at(2 * BENT)
    slope, curvature = (4 * first - second) / (2 * BENT), (second - 2 * first) / BENT**2  # from three points
    bend = np.abs(slope * distance - 0.5 * curvature * distance**2 - straight)
    return Outside(rows, nearest, np.array([straight - bend, straight + bend]), distance, expansion.span)


def widened(ends: Floats, outside: Outside, at_nearest: Floats, sd: Floats, coverage: float) -> Floats:
    """Return intervals (m, q, 2) that hold those at the nearest points (k, q, 2) wherever these may have moved.

    sd (k, q) is the standard deviation of f at the nearest points. The difference of two such values, over STRAIGHT of
    the range, has an error of at most about sqrt(2) sd: it is carried on to the distance of the row.
    """
    finite = np.asarray(np.isfinite(at_nearest).all(axis=-1))  # with too few rows, all ends are infinite
    at_nearest = np.where(finite[..., None], at_nearest, 0.0)
    slope_error = float(norm.ppf(0.5 + 0.5 * coverage)) * np.sqrt(2.0) * sd * outside.distance / STRAIGHT
    centre, half = at_nearest.mean(axis=-1), 0.5 * np.ptp(at_nearest, axis=-1)
    half = np.hypot(half, slope_error)
    moved = np.stack([centre - half, centre + half], axis=-1) + outside.moves[..., None]  # (2, k, q, 2)
    low = np.maximum(moved[..., 0].min(axis=0), at_nearest[..., 0] - outside.span)
    high = np.minimum(moved[..., 1].max(axis=0), at_nearest[..., 1] + outside.span)
    low, high = np.where(finite, low, -np.inf), np.where(finite, high, np.inf)
    own = _limited(ends[outside.rows], 0.5 * np.ptp(at_nearest, axis=-1) + outside.span)
    ends = ends.copy()
    ends[outside.rows] = np.stack([np.minimum(own[..., 0], low), np.maximum(own[..., 1], high)], axis=-1)
    return ends


def _limited(ends: Floats, most: Floats) -> Floats:
    """Return intervals (k, q, 2) whose half-widths are at most `most` (k, q).

    Far outside, the posterior is as wide as the prior, which a wide bandwidth can make arbitrarily wide.
    """
    with np.errstate(invalid="ignore"):  # infinite ends stay infinite
        centre, half = ends.mean(axis=-1), 0.5 * np.ptp(ends, axis=-1)
    limited = np.stack([centre - most, centre + most], axis=-1)
    return np.where((half > most)[..., None] & np.isfinite(ends), limited, ends)
