"""
What a model says about a table
===============================

Which features matter, how, together with which, and why this prediction? The table holds 442 diabetes patients and how
far the disease went within a year. Writes ``effects.png``.
"""

from matplotlib import pyplot as plt
from sklearn.datasets import load_diabetes

from salsa import SalsaRegressor
from salsa.explain import PredictionDisplay, decompose, shapley

NAMES = {
    "age": "age (years)",
    "bmi": "bmi (kg/m²)",
    "bp": "blood pressure (mm Hg)",
    "s1": "total cholesterol (mg/dl)",
    "s2": "LDL (mg/dl)",
    "s3": "HDL (mg/dl)",
    "s4": "cholesterol / HDL",
    "s5": "log triglycerides",
    "s6": "blood sugar (mg/dl)",
}
X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
X = X.rename(columns=NAMES).assign(sex=X["sex"].map({1.0: "1", 2.0: "2"}))

model = SalsaRegressor(random_state=0).fit(X, y)
print(f"order {model.order_}; R2 of rows left out: {PredictionDisplay.from_model(model).r2:.2f}")

# %%
# The model is a sum of curves of single features, surfaces of pairs, and so on. Each has its share of the variance of
# the predictions.

anova = decompose(model)
print(anova.importance().head(10).to_string(index=False))
print(anova.orders().to_string(index=False))

# %%
# Left: shares, leave-one-out predictions, and one prediction taken apart. Right: two curves with their bands, and what
# two features do together beyond their curves.

figure, axes = plt.subplots(3, 2, figsize=(10, 10.5), layout="constrained")
anova.plot(ax=axes[0, 0])
anova.effect("bmi (kg/m²)").plot(ax=axes[0, 1])
PredictionDisplay.from_model(model).plot(ax=axes[1, 0])
anova.effect("log triglycerides").plot(ax=axes[1, 1])
shapley(model, X).plot(row=0, ax=axes[2, 0])
anova.effect("age (years)", "sex").plot(ax=axes[2, 1])
figure.savefig("effects.png", dpi=75)
