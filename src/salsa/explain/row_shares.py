"""Shares of the variance over rows as they are, with the correlations of their features.

Over rows x with weights w that sum to one, an effect f_S of the function f has the share

    share_S = Cov(f_S, f) / Var f = sum_x g(x) f_S(x),    g(x) = w(x) (f(x) - mean f) / Var f.

The shares of all effects sum to one, because the effects sum to f. An effect that offsets others has a negative share.
Sobol indices refer to independent features: over a full grid of rows both kinds of shares are equal.

A Shapley value splits every effect equally among its features, so that sum_x g(x) phi_j(x) is the share of feature j:
the sum of share_S / |S| over all S that include j. These shares sum to one as well.
"""

from __future__ import annotations

import numpy as np

from salsa._utils.arrays import Floats
from salsa._utils.memory import row_blocks
from salsa.explain.closed_forms import kernel_shapley
from salsa.explain.kernel_term import KernelTerm
from salsa.explain.subject import Rows, Subject
from salsa.kernels.symmetric import each_outside

#: Shares use at most this many rows, drawn with a fixed seed; exact fits, by default of 3000 rows at most, use all
MOST_ROWS = 3000


def some_rows(rows: Rows) -> Rows:
    """Return the rows, or MOST_ROWS of them if there are more."""
    if len(rows.X) <= MOST_ROWS:
        return rows
    chosen = np.sort(np.random.default_rng(0).choice(len(rows.X), MOST_ROWS, replace=False))
    return Rows.weighted(rows.X[chosen], rows.weight[chosen])


def response(subject: Subject, coef: Floats, rows: Rows, rounding: float) -> Floats:
    """Return g (n,), where sum_x g(x) f_S(x) is the share of f_S; zeros if Var f over the rows is at most rounding."""
    kernel, anchors, *_ = subject.expansion.parts
    f = kernel.product(rows.X, anchors, coef[:, None])[:, 0]
    deviation: Floats = f - rows.weight @ f
    variance = float(rows.weight @ deviation**2)
    return rows.weight * deviation / variance if variance > rounding else np.zeros(len(f))


def feature_shares(subject: Subject, coef: Floats, rows: Rows, g: Floats) -> Floats:
    """Return the share (D,) of every feature: each effect is split equally among its features."""
    shares = np.zeros(len(subject.columns.names))
    for term in subject.terms:
        shares += g @ kernel_shapley(term.kernel, rows.X, term.anchors, coef[:, None], term.means)[:, :, 0]
    return shares


def term_shares(subject: Subject, coef: Floats, rows: Rows, g: Floats) -> tuple[Floats, Floats]:
    """Return the shares of all single features (D,) and of all pairs (D, D), symmetric with a zero diagonal."""
    D = len(subject.columns.names)
    mains, pairs = np.zeros(D), np.zeros((D, D))
    for term in subject.terms:
        mains[term.active] += (parts := _parts_of_shares(term, coef, rows, g))[0]
        pairs[np.ix_(term.active, term.active)] += parts[1]
    return mains, (pairs + pairs.T) / 2  # (j, k) and (k, j) differ by rounding only


def _parts_of_shares(term: KernelTerm, coef: Floats, rows: Rows, g: Floats) -> tuple[Floats, Floats]:
    """Return the parts of a term of the kernel in the shares of its A features (A,) and of their pairs (A, A).

    The part in share_jk is sum_i coef_i r_jk(i) sum_x g(x) c_j(x; i) c_k(x; i): for each anchor i one product of
    matrices gives all pairs. Memory does not depend on the number of anchors.
    """
    active, A = term.active, len(term.active)
    mains, pairs = np.zeros(A), np.zeros((A, A))
    for block in row_blocks(len(coef) if A else 0, len(g) * A):
        c = np.stack([term.centred(j, rows.X[:, j], block).T for j in active], axis=1)  # (anchors, A, n)
        means = term.means[block, active].T
        mains += (each_outside(means, term.weights) * (c @ g).T) @ coef[block]
        if term.order > 1:
            products = (c * g) @ c.transpose(0, 2, 1) * coef[block, None, None]
            for j in range(A):
                others = [k for k in range(A) if k != j]
                both = each_outside(means[others], term.weights[1:])  # r_S for S = {j, k}
                pairs[j, others] += np.sum(both.T * products[:, j, others], axis=0)
    return mains, pairs
