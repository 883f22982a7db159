"""
Categories and missing values
=============================

Text, ordered categories and gaps go into ``fit`` as they are. The table of flats is made here, so that the truth is
known: rent follows the area, the district and the energy class, and the lift matters only high up.
"""

import numpy as np
import pandas as pd
from matplotlib import pyplot as plt
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.model_selection import train_test_split

from salsa import SalsaRegressor, explain

n = 900
rng = np.random.default_rng(0)
flats = pd.DataFrame(
    {
        "area": rng.uniform(20, 140, n),
        "floor": rng.integers(0, 9, n),
        "year": rng.integers(1900, 2024, n),
        "district": rng.choice(["harbour", "old town", "park", "station"], n, p=[0.2, 0.3, 0.2, 0.3]),
        "energy": pd.Categorical(rng.choice(list("ABCD"), n), categories=list("ABCD"), ordered=True),
        "lift": rng.choice(["yes", "no"], n),
    }
)
rent = (
    8 * flats["area"]
    + flats["district"].map({"harbour": 180, "old town": 120, "park": 60, "station": 0})
    - 45 * flats["energy"].cat.codes
    - 35 * flats["floor"] * (flats["lift"] == "no")
    + 40 * rng.normal(size=n)
)
for column, share in {"year": 0.3, "energy": 0.2, "district": 0.1}.items():
    flats.loc[rng.uniform(size=n) < share, column] = None
print(flats.head().to_string())

# %%
# Nothing is imputed, encoded or scaled by hand. Text is a category, an ordered category counts by its rank, a gap
# stands for the distribution of its column.

X_train, X_test, y_train, y_test = train_test_split(flats, rent, test_size=0.4, random_state=0)
model = SalsaRegressor(random_state=0).fit(X_train, y_train)
boosting = HistGradientBoostingRegressor(categorical_features=["district", "lift"], random_state=0)
boosting.fit(X_train.assign(energy=X_train["energy"].cat.codes), y_train)
trees = boosting.score(X_test.assign(energy=X_test["energy"].cat.codes), y_test)
print(f"test R2: salsa {model.score(X_test, y_test):.3f}, histogram gradient boosting {trees:.3f}")

# %%
# The effects have the units of the rent. The year was made to mean nothing, and floor and lift act together.

anova = explain.decompose(model)
print(anova.importance().head(7).to_string(index=False))

figure, axes = plt.subplots(1, 3, figsize=(14, 3.8), layout="constrained")
anova.effect("district").plot(ax=axes[0])
anova.effect("energy").plot(ax=axes[1])
anova.effect("floor", "lift").plot(ax=axes[2])
plt.show()

# %%
# A district that training never saw counts as missing, and a warning would say so. Intervals work as always.

unknown = X_test.iloc[[0]].assign(district=None, year=None)
lower, upper = model.predict_interval(unknown, 0.9)[0]
print(f"{model.predict(unknown)[0]:.0f}, with 90 % between {lower:.0f} and {upper:.0f}; rent {y_test.iloc[0]:.0f}")
