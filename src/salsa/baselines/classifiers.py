"""All rivals that predict classes: their names, the functions that make them, and the grids that tune them by log loss.

Classes are 0, 1, ..., K - 1. A class is imported when its first estimator is made.
"""

from __future__ import annotations

from typing import Any

from salsa.baselines.makers import maker
from salsa.baselines.rival import Rival
from salsa.baselines.tuning import SEED, near, scaled

# The grids are small and logarithmic, as in the table of regressions. For gamma, squared distances are means over
# standardised features. Few rounds and large leaves are candidates, because log loss punishes certainty.
LOGISTIC = {"C": tuple(10.0**power for power in range(-4, 5))}
SVM = {"estimator__C": (0.1, 1.0, 10.0, 100.0), "estimator__gamma": (0.03, 0.1, 0.3, 1.0)}
NEIGHBOURS = {"n_neighbors": (3, 5, 8, 12, 20), "weights": ("uniform", "distance")}
NAIVE_BAYES = {"var_smoothing": (1e-9, 1e-6, 1e-3, 1e-2, 1e-1, 1.0)}
TREE = {"min_samples_leaf": (2, 4, 8, 16, 32, 64)}
FOREST = {"min_samples_leaf": (1, 3, 10)}
GBRT = {"max_depth": (1, 3), "n_estimators": (30, 100, 300)}
HIST_GBRT = {"max_leaf_nodes": (7, 31), "max_iter": (50, 200), "min_samples_leaf": (5, 20)}
LIGHTGBM = {"num_leaves": (7, 31), "n_estimators": (50, 200), "min_child_samples": (5, 20)}
XGBOOST = {"max_depth": (3, 6), "n_estimators": (50, 200), "min_child_weight": (1, 5)}
CATBOOST = {"depth": (4, 6)}
_SLOW_STEPS = {"learning_rate": 0.05, "random_state": SEED}


def svm() -> Any:
    """Make a support vector machine; a sigmoid of its held-out values gives probabilities (Platt scaling)."""
    from sklearn.svm import SVC

    return maker("sklearn.calibration.CalibratedClassifierCV", near, estimator=SVC(), ensemble=False)()


def gp() -> Any:
    """Make a Gaussian process with one length scale, by its marginal likelihood, one class against the rest."""
    from sklearn.gaussian_process.kernels import RBF, ConstantKernel

    kernel = ConstantKernel(1.0, (1e-3, 1e5)) * RBF(1.0, (1e-2, 1e3))
    return maker(".gp_classifier.SmallGPClassifier", near, kernel=kernel, random_state=SEED)()


logistic = maker("sklearn.linear_model.LogisticRegression", scaled, max_iter=1000)
knn = maker("sklearn.neighbors.KNeighborsClassifier", scaled)
naive_bayes = maker("sklearn.naive_bayes.GaussianNB")
tree = maker("sklearn.tree.DecisionTreeClassifier", random_state=SEED)
random_forest = maker("sklearn.ensemble.RandomForestClassifier", n_estimators=300, n_jobs=1, random_state=SEED)
gbrt = maker("sklearn.ensemble.GradientBoostingClassifier", random_state=SEED)
hist_gbrt = maker("sklearn.ensemble.HistGradientBoostingClassifier", early_stopping=False, **_SLOW_STEPS)
lightgbm = maker("lightgbm.LGBMClassifier", n_jobs=1, verbosity=-1, **_SLOW_STEPS)
xgboost = maker("xgboost.XGBClassifier", n_jobs=1, verbosity=0, **_SLOW_STEPS)
catboost = maker(
    "catboost.CatBoostClassifier", thread_count=1, verbose=False, allow_writing_files=False, random_seed=SEED
)
ebm = maker("interpret.glassbox.ExplainableBoostingClassifier", n_jobs=1, random_state=SEED)
salsa = maker("salsa.classifier.SalsaClassifier", n_jobs=1, random_state=SEED)

CLASSIFIER_TABLE = (
    Rival("logistic", "logistic regression", logistic, LOGISTIC),
    Rival("svm", "support vector machine", svm, SVM, note="probabilities by Platt scaling"),
    Rival("knn", "k nearest neighbours", knn, NEIGHBOURS),
    Rival("naive-bayes", "Gaussian naive Bayes", naive_bayes, NAIVE_BAYES),
    Rival("gp", "Gaussian process", gp, note="by marginal likelihood, one length scale; at most 1000 rows"),
    Rival("tree", "classification tree", tree, TREE),
    Rival("random-forest", "random forest", random_forest, FOREST),
    Rival("gbrt", "gradient boosted trees", gbrt, GBRT),
    Rival("hist-gbrt", "scikit-learn's histogram boosting", hist_gbrt, HIST_GBRT),
    Rival("lightgbm", "LightGBM", lightgbm, LIGHTGBM, "lightgbm"),
    Rival("xgboost", "XGBoost", xgboost, XGBOOST, "xgboost"),
    Rival("catboost", "CatBoost", catboost, CATBOOST, "catboost"),
    Rival("ebm", "explainable boosting machine", ebm, None, "interpret-core", note="stops early; very slow"),
    Rival("salsa", "this package", salsa, ours=True),
)
