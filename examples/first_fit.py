"""
A first fit
===========

Which features matter, how many of them interact, and how good is the model? Writes ``first_fit.png``.
"""

from matplotlib import pyplot as plt
from sklearn.datasets import make_friedman1
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import train_test_split

from salsa import SalsaRegressor

X, y = make_friedman1(n_samples=1000, n_features=10, noise=1.0, random_state=0)
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.5, random_state=0)

# %%
# Of the ten columns the first five matter, and the first two of them interact. The model does not know that. It learns
# a weight for every column, removes those that do not help, and finds the order of interaction.

model = SalsaRegressor(random_state=0).fit(X_train, y_train)
print(f"order {model.order_}; columns used: {[j for j, a in enumerate(model.relevance_) if a > 0]}")

# %%
# A learned sum of kernels, with all and with fewer columns, competed with equal relevances. The error is a share of
# the target's variance: 1 is as good as predicting the mean.

print(model.search_.race.to_string(index=False))

# %%
# Half of the rows were kept apart.

linear = LinearRegression().fit(X_train, y_train)
print(f"test R2: salsa {model.score(X_test, y_test):.3f}, linear {linear.score(X_test, y_test):.3f}")

# %%
# The race, and predictions for rows that the model has not seen.

figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.6), layout="constrained")
model.search_.plot(ax=left)
right.plot(y_test, linear.predict(X_test), "x", color="0.7", ms=5, label="linear model")
right.plot(y_test, model.predict(X_test), "o", color="C0", ms=3.5, label="salsa")
right.axline((15, 15), slope=1, color="0.2", lw=0.8)
right.set(xlabel="observed", ylabel="predicted", title="500 rows it has not seen")
right.legend(frameon=False)
figure.savefig("first_fit.png", dpi=130)
