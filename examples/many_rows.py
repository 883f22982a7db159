"""
A hundred thousand rows
=======================

Beyond 60 000 rows the fit is low-rank: some rows, the anchors, stand for all. Nothing has to be chosen for that.
"""

import numpy as np
from matplotlib import pyplot as plt
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.metrics import r2_score

from salsa import SalsaRegressor, explain


def draw(n, seed):
    """Rows, a truth of order 2 in four of five features, and the truth with noise."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, 5))
    truth = np.sin(3 * X[:, 0]) + X[:, 1] * X[:, 2] + X[:, 3] ** 2
    return X, truth, truth + 0.2 * rng.normal(size=n)


X, _, y = draw(100_000, seed=0)
X_test, truth, y_test = draw(10_000, seed=1)

# %%
# The kernel is learned on a sample; anchors, penalty and coefficients use all rows.

model = SalsaRegressor(random_state=0).fit(X, y)
print(f"{len(model.expansion_.anchors)} anchors, order {model.order_}")
print("columns used:", [j for j, a in enumerate(model.relevance_) if a > 0])

# %%
# R2 on new rows. The truth itself does no better than to leave the noise.

trees = HistGradientBoostingRegressor(random_state=0).fit(X, y)
print(f"salsa {model.score(X_test, y_test):.4f}")
print(f"trees {trees.score(X_test, y_test):.4f}")
print(f"truth {r2_score(y_test, truth):.4f}")

# %%
# The curve of the first feature, with its band, beside the truth.

ax = explain.decompose(model).effect(0).plot().ax_
grid = np.linspace(-1, 1, 200)
ax.plot(grid, np.sin(3 * grid), "--", color="0.2", label="truth")
ax.legend(frameon=False)
plt.show()

# %%
# Intervals are CV+: the held-out residuals of the folds, whatever the number of rows.

lower, upper = model.predict_interval(X_test, 0.9).T
print(f"90 % intervals hold {np.mean((lower <= y_test) & (y_test <= upper)):.3f} of the new rows")
