"""
The curse of dimension
======================

And what additive kernels make of it. The truth is a sum of curves of all D features (left), or of surfaces of two of
them each (right). The same 500 rows are fitted by kernels of order 1, order 2, and by the product of all features,
which is ordinary kernel ridge regression. Writes ``why_additive.png``.
"""

import numpy as np
from matplotlib import pyplot as plt

from salsa import SalsaRegressor

ROWS, NOISE, DIMENSIONS = 500, 0.3, (2, 4, 6, 10, 16, 24)


def curves(X):
    """One curve per feature, of variance 1 together."""
    return np.sqrt(2 / X.shape[1]) * np.sin(np.pi * X).sum(axis=1)


def pairs(X):
    """One surface for every two features, of variance about 1 together."""
    return np.sqrt(8 / X.shape[1]) * (np.sin(2 * X[:, 0::2]) * np.sin(2 * X[:, 1::2])).sum(axis=1)


def explained(truth, D, order):
    """The share of the truth's variance that a fit to 500 noisy rows explains on new ones."""
    rng = np.random.default_rng(D)
    X, X_new = rng.uniform(-1, 1, (ROWS, D)), rng.uniform(-1, 1, (5000, D))
    y = truth(X) + NOISE * rng.standard_normal(ROWS)
    model = SalsaRegressor(order, relevance="equal", interactions="exact" if order == D else "up_to", random_state=0)
    return model.fit(X, y).score(X_new, truth(X_new))


figure, axes = plt.subplots(1, 2, figsize=(10, 3.6), sharey=True, layout="constrained")
styles = {"order 1": "o-", "order 2": "D--", "all features at once": "s:"}
for ax, truth, title in zip(axes, (curves, pairs), ("a sum of curves", "a sum of surfaces of two"), strict=True):
    for (label, style), color in zip(styles.items(), ("C0", "C1", "0.35"), strict=True):
        orders = [D if label.startswith("all") else int(label[-1]) for D in DIMENSIONS]
        scores = [explained(truth, D, order) for D, order in zip(DIMENSIONS, orders, strict=True)]
        print(f"{title:26} {label:22}", np.round(scores, 2))
        ax.plot(DIMENSIONS, scores, style, color=color, label=label)
    ax.set(title=f"truth: {title}", xlabel="features D", ylim=(-0.05, 1.02))
axes[0].set_ylabel("explained (R2), 500 rows")
axes[0].legend(frameon=False, loc="lower left")
figure.savefig("why_additive.png", dpi=110)
