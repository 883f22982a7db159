"""
Rivals on the same folds
========================

Before you trust a model, see what others make of the same rows. Every method tunes itself on the training rows of each
fold, and the folds are the same for all.
"""

from matplotlib import pyplot as plt
from sklearn.datasets import make_friedman1
from sklearn.linear_model import HuberRegressor

from salsa.baselines import compare, make_baseline

X, y = make_friedman1(n_samples=300, n_features=10, noise=1.0, random_state=0)
comparison = compare(X, y, ["salsa", "salsa-paper", "ridge", "knn", "tree", "backfitting"], random_state=0)
print(comparison)

# %%
# ``mse_se`` is the standard error over folds: methods closer than that cannot be told apart by these rows.

figure, ax = plt.subplots(figsize=(7, 3.2), layout="constrained")
comparison.plot(ax=ax)
plt.show()

# %%
# An estimator of your own competes by its name; a rival by name is an ordinary estimator.

mine = {"huber": HuberRegressor(), "spline back-fitting": make_baseline("backfitting")}
print(compare(X, y, mine, random_state=0))
