"""
The curse of dimension
======================

And what additive kernels make of it. The truth is a sum of curves of all D features (left), or of surfaces of two of
them each (right). The same 500 rows are fitted by Gaussian kernels of order 1, of order 2, and by the product of all
features, which is ordinary kernel ridge regression. Cross-validation chooses penalty and width of every kernel.

``python why_additive.py 10`` repeats this for ten seeds, two if no number is given. Writes ``why_additive.png``.
"""

import sys

import numpy as np
from matplotlib import pyplot as plt

from salsa import SalsaRegressor

SEEDS = int(sys.argv[1]) if len(sys.argv) > 1 else 2
ROWS, NOISE, DIMENSIONS = 500, 0.3, (2, 4, 8, 16, 32)
WIDTHS = (2.0, 4.0, 8.0, 16.0, 32.0, 64.0)  # times sd n^(-1/5)


def curves(X):
    """One curve per feature, of variance 1 together."""
    return np.sqrt(2 / X.shape[1]) * np.sin(np.pi * X).sum(axis=1)


def surfaces(X):
    """One surface for every two features, of variance about 1 together."""
    return np.sqrt(8 / X.shape[1]) * (np.sin(2 * X[:, 0::2]) * np.sin(2 * X[:, 1::2])).sum(axis=1)


def explained(truth, D, order, seed):
    """The share of the truth's variance that the best width explains on new rows, after a fit to 500 noisy rows."""
    rng = np.random.default_rng([D, seed])
    X, X_new = rng.uniform(-1, 1, (ROWS, D)), rng.uniform(-1, 1, (5000, D))
    y = truth(X) + NOISE * rng.standard_normal(ROWS)
    terms = {"interactions": "exact" if order == D else "up_to", "relevance": "equal", "kernel": "gaussian"}
    models = [SalsaRegressor(order, bandwidth=width, random_state=0, **terms).fit(X, y) for width in WIDTHS]
    best = min(models, key=lambda model: model.search_.table["cv_error"].item())
    return best.score(X_new, truth(X_new))


# %%
# Every line is a mean over the seeds, with its standard error.

KERNELS = {
    "order 1: curves": ("o-", "#0072b2"),
    "order 2: and surfaces": ("D--", "#d55e00"),
    "product of all features": ("s:", "black"),
}
plt.rcParams["font.size"] = 11
figure, axes = plt.subplots(1, 2, figsize=(9, 3.7), sharey=True, layout="constrained")
for ax, truth in zip(axes, (curves, surfaces), strict=True):
    for place, (kernel, (style, color)) in enumerate(KERNELS.items()):
        orders = [(1, min(2, D), D)[place] for D in DIMENSIONS]
        cases = list(zip(DIMENSIONS, orders, strict=True))
        scores = np.array([[explained(truth, D, order, seed) for D, order in cases] for seed in range(SEEDS)])
        mean, error = scores.mean(axis=0), scores.std(axis=0, ddof=1) / np.sqrt(SEEDS)
        print(
            f"truth: {truth.__name__:9} {kernel:24}", *np.round(mean, 3), " standard errors up to", error.max().round(3)
        )
        ax.errorbar(DIMENSIONS, mean, error, fmt=style, color=color, capsize=3, label=kernel)
    ax.set(title=f"the truth is a sum of {truth.__name__}", xlabel="features D", xscale="log", ylim=(-0.05, 1.03))
    ax.set_xticks(DIMENSIONS, [str(D) for D in DIMENSIONS])
    ax.minorticks_off()
    ax.spines[["top", "right"]].set_visible(False)
axes[0].set_ylabel(f"explained by {ROWS} rows (R²)")
axes[1].legend(frameon=False, loc="center left")
figure.savefig("why_additive.png", dpi=120)
