"""
Why this prediction?
====================

Shapley values split one prediction into what every feature adds to the mean. They are computed in closed form, not
sampled, so that they add up to the last digits.
"""

import numpy as np
from matplotlib import pyplot as plt
from sklearn.datasets import load_diabetes

from salsa import SalsaRegressor, explain

X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
X = X.assign(sex=X["sex"].map({1.0: "1", 2.0: "2"}))
model = SalsaRegressor(random_state=0).fit(X, y)
values = explain.shapley(model, X)
print(f"mean prediction {values.base_value:.1f}")
print(f"values of the first patient and the mean: {values.base_value + values.values[0].sum():.10f}")
print(f"its prediction:                           {model.predict(X.iloc[[0]])[0]:.10f}")

# %%
# From the mean to one prediction.

values.plot(row=0)
plt.show()

# %%
# What pairs of features add to this prediction beyond what each adds alone: half of it stands on either side of the
# diagonal, and a row of the matrix adds up to the Shapley value of its feature.

pairs = values.interactions(0)
print(pairs.round(2).to_string())
print("rows add up to the values:", np.allclose(pairs.sum(axis=1), values.values[0]))

# %%
# All patients at once: one feature's values against what it adds.

figure, axes = plt.subplots(1, 2, figsize=(10, 3.6), sharey=True, layout="constrained")
for ax, name in zip(axes, ("bmi", "s5"), strict=True):
    ax.plot(X[name], values.values[:, values.features.index(name)], ".")
    ax.axhline(0, color="0.2", lw=0.8)
    ax.set(xlabel=name)
axes[0].set(ylabel="adds to the prediction")
plt.show()
