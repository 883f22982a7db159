"""
Reading the search
==================

``model.search_`` keeps what was tried: kernels that raced, orders, penalties, and notes about anything unusual.
"""

from matplotlib import pyplot as plt
from sklearn.datasets import make_friedman1

from salsa import SalsaRegressor

X, y = make_friedman1(n_samples=400, n_features=8, noise=1.0, random_state=0)
model = SalsaRegressor(random_state=0).fit(X, y)

# %%
# The race: a learned sum of kernels, with all or fewer features, against equal relevances. Each is judged on rows that
# its kernel did not learn from. ``won`` marks the one that was kept; ``features`` counts those left after pruning.

print(model.search_.race.to_string(index=False))

# %%
# The orders of the kernel that won. Penalty and error come from exact cross-validation without refits; errors are
# shares of the target's variance.

print(model.search_.table.to_string(index=False))
print("notes:", model.search_.notes or "none")

# %%
# The paper's method has no race: all features count alike, and the order is the only question.

paper = SalsaRegressor(relevance="equal", interactions="exact", bandwidth="rule_of_thumb", random_state=0).fit(X, y)
print(paper.search_.table.to_string(index=False))

figure, (left, right) = plt.subplots(1, 2, figsize=(11, 3.8), layout="constrained")
model.search_.plot(ax=left)
paper.search_.plot(ax=right)
left.set(title="learned relevances: the race")
right.set(title="equal relevances: the orders")
plt.show()
