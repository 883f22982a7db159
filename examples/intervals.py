"""
Honest intervals
================

``predict_interval`` leaves every training row out, exactly and without refits (jackknife+). Here its promise is checked
on rows that were kept apart.
"""

import numpy as np
from matplotlib import pyplot as plt
from sklearn.datasets import load_diabetes
from sklearn.model_selection import train_test_split

from salsa import SalsaRegressor
from salsa.explain import CalibrationDisplay

X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
X_train, X_test, y_train, y_test = train_test_split(X, y.to_numpy(), test_size=0.4, random_state=0)
model = SalsaRegressor(random_state=0).fit(X_train, y_train)

# %%
# How often does the truth lie inside? With 177 rows, a share of 0.9 is known to about 0.02.

for coverage in (0.5, 0.8, 0.9, 0.95):
    lower, upper = model.predict_interval(X_test, coverage).T
    inside = np.mean((lower <= y_test) & (y_test <= upper))
    print(f"intended {coverage:.2f}: inside {inside:.3f}, mean width {np.mean(upper - lower):.0f}")

# %%
# The same on the training rows, each left out in turn, is what the report shows. It needs no rows to spare.

figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
CalibrationDisplay.from_model(model).plot(ax=left)

lower, upper = model.predict_interval(X_test, 0.9).T
prediction = model.predict(X_test)
rank = np.argsort(prediction)
inside = ((lower <= y_test) & (y_test <= upper))[rank]
place = np.arange(len(rank))
right.vlines(place, lower[rank], upper[rank], color="0.85", lw=2)
right.plot(place[inside], y_test[rank][inside], ".", color="C0", label="inside")
right.plot(place[~inside], y_test[rank][~inside], ".", color="C1", label="outside")
right.plot(place, prediction[rank], color="0.2", lw=1, label="prediction")
right.set(xlabel="held-out patients, by their prediction", ylabel="disease progression", title="90 % intervals")
right.legend(frameon=False)
plt.show()

# %%
# ``return_std`` is something else: how sure the model is of the *function* there, not of the next observation. It grows
# away from the data.

mean, deviation = model.predict(X_test, return_std=True)
far = model.predict(X_test.iloc[[0]] * 1.5, return_std=True)[1][0]
print(f"typical deviation {np.median(deviation):.1f}; far from all patients {far:.1f}")
