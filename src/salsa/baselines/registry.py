"""All rivals in one table: their names, the functions that make them, and the grids that tune them.

``classifiers`` has the table of rivals that predict classes; both are found by a name and a task.
"""

from __future__ import annotations

from difflib import get_close_matches
from importlib.metadata import PackageNotFoundError, distribution
from typing import Any

from salsa.baselines import makers
from salsa.baselines.class_targets import CLASSIFICATION, REGRESSION
from salsa.baselines.classifiers import CLASSIFIER_TABLE
from salsa.baselines.rival import Rival
from salsa.baselines.tuning import tuned, tuned_classifier

# The paper tunes by 5-fold cross-validation and prints no grids. Our grids are small and logarithmic. For gamma,
# squared distances are means over standardised features, about 2 for two random rows. For C, epsilon and alpha, the
# target is standardised.
GAMMAS = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0)
KERNEL_RIDGE = {"alpha": (1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0), "gamma": GAMMAS}
NEIGHBOURS = {"n_neighbors": (1, 2, 3, 5, 8, 12, 20), "weights": ("uniform", "distance")}
EPSILON_SVR = {"C": (0.1, 1.0, 10.0, 100.0), "gamma": GAMMAS[1:5], "epsilon": (0.01, 0.1)}
NU_SVR = {"C": (0.1, 1.0, 10.0, 100.0), "gamma": GAMMAS[1:5], "nu": (0.3, 0.6)}
TREE = {"min_samples_leaf": (1, 2, 4, 8, 16, 32)}
GBRT = {"max_depth": (1, 2, 4), "n_estimators": (100, 400)}  # with the package's learning rate, 0.1
RBF = {"kernel": ("linear", "multiquadric"), "smoothing": (1e-6, 1e-3, 1e-1, 1.0, 10.0)}
M5 = {"pruning": (1.0, 2.0, 4.0), "smoothing": (0.0, 15.0)}
MARS = {"max_degree": (1, 2, 3)}  # MARS chooses the number of terms by generalised cross-validation
# Boosting: few or many slow steps, small or large trees, and otherwise the defaults of the packages.
FOREST = {"max_features": (0.33, 1.0)}
HIST_GBRT = {"max_leaf_nodes": (7, 31), "max_iter": (100, 400), "min_samples_leaf": (5, 20)}
LIGHTGBM = {"num_leaves": (7, 31), "n_estimators": (100, 400), "min_child_samples": (5, 20)}
XGBOOST = {"max_depth": (3, 6), "n_estimators": (100, 400), "min_child_weight": (1, 5)}
CATBOOST = {"depth": (4, 6, 8)}  # CatBoost chooses a learning rate for its 1000 steps
XRFM = {"bandwidth": (3.0, 10.0, 30.0), "reg": (1e-3, 1e-1), "diag": (False, True)}
CUBIST = {"n_committees": (1, 10), "neighbors": (None, 5, 9)}

_TABLE = (
    Rival("krr", "kernel ridge regression", makers.krr, KERNEL_RIDGE, in_paper="KRR"),
    Rival("knn", "k nearest neighbours", makers.knn, NEIGHBOURS, in_paper="kNN"),
    Rival("nw", "Nadaraya-Watson", makers.nadaraya_watson, in_paper="NW"),
    Rival("ll", "locally linear", makers.locally_linear, in_paper="LL"),
    Rival("lq", "locally quadratic", makers.locally_quadratic, in_paper="LQ"),
    Rival("svr-eps", "epsilon support vector regression", makers.svr_epsilon, EPSILON_SVR, in_paper="SVR-eps"),
    Rival("svr-nu", "nu support vector regression", makers.svr_nu, NU_SVR, in_paper="SVR-nu"),
    Rival("gp", "Gaussian process", makers.gp, in_paper="GP", note="by marginal likelihood, one length scale"),
    Rival("tree", "regression tree", makers.regression_tree, TREE, in_paper="RT"),
    Rival("gbrt", "gradient boosted trees", makers.gbrt, GBRT, in_paper="GBRT"),
    Rival("rbf", "radial basis functions", makers.rbf_interpolation, RBF, in_paper="RBFI"),
    Rival("m5", "M5' model tree", makers.m5, M5, in_paper="M5p"),
    Rival("shepard", "Shepard interpolation", makers.shepard, in_paper="SI"),
    Rival("backfitting", "back-fitting with cubic splines", makers.backfitting, in_paper="BF"),
    Rival("mars", "multivariate adaptive regression splines", makers.mars, MARS, "py-earth2", "MARS"),
    Rival("cosso", "component selection and smoothing", makers.cosso, in_paper="COSSO"),
    Rival("spam", "sparse additive models", makers.spam, in_paper="SpAM"),
    Rival("additive-gp", "additive Gaussian process", makers.additive_gp, in_paper="Add-GP", note="on our kernel"),
    Rival("ridge", "ridge regression", makers.ridge, in_paper="LR"),
    Rival("lasso", "lasso", makers.lasso, in_paper="LASSO"),
    Rival("lar", "least angle regression", makers.lar, in_paper="LAR", note="Table 1 shows zero predictions for it"),
    Rival("gp-ard", "Gaussian process, a length per feature", makers.gp_ard, note="on our kernel"),
    Rival("random-forest", "random forest", makers.random_forest, FOREST),
    Rival("hist-gbrt", "scikit-learn's histogram boosting", makers.hist_gbrt, HIST_GBRT),
    Rival("lightgbm", "LightGBM", makers.lightgbm, LIGHTGBM, "lightgbm"),
    Rival("xgboost", "XGBoost", makers.xgboost, XGBOOST, "xgboost"),
    Rival("catboost", "CatBoost", makers.catboost, CATBOOST, "catboost"),
    Rival("ebm", "explainable boosting machine", makers.ebm, None, "interpret-core", note="stops early; very slow"),
    Rival("gpgam", "additive model with pairs, as a GP", makers.gpgam, None, "imodels", note="by evidence; slow"),
    Rival("xrfm", "recursive feature machine", makers.xrfm, XRFM, "xrfm"),
    Rival("cubist", "Cubist rules", makers.cubist, CUBIST, "cubist"),
    Rival("salsa", "this package", makers.salsa, ours=True),
    Rival("salsa-paper", "SALSA as the paper describes it", makers.salsa_paper, in_paper="SALSA", ours=True),
)
RIVALS: dict[str, Rival] = {rival.name: rival for rival in _TABLE}
CLASSIFIER_RIVALS: dict[str, Rival] = {rival.name: rival for rival in CLASSIFIER_TABLE}
ALIASES = {"rf": "random-forest", "hgb": "hist-gbrt", "lgbm": "lightgbm", "xgb": "xgboost"}
CLASSIFIER_ALIASES = ALIASES | {"logreg": "logistic", "svc": "svm"}
BASELINES: tuple[str, ...] = tuple(rival.name for rival in _TABLE if not rival.ours)
CLASSIFIERS: tuple[str, ...] = tuple(rival.name for rival in CLASSIFIER_TABLE if not rival.ours)


def make_baseline(name: str, task: str = REGRESSION) -> Any:
    """Make an estimator by its name: one of ``BASELINES``, "salsa" or "salsa-paper". It tunes itself when it is fitted.

    It is tuned by 5-fold cross-validation of the squared error, as in the paper, or by the method's own procedure. It
    runs on one thread, with a fixed seed. With ``task="classification"``, the name is one of ``CLASSIFIERS`` or
    "salsa", and the log loss on stratified folds tunes it.
    """
    rival = find_rival(name, task)
    try:
        estimator = rival.make()
    except ImportError as error:
        if not rival.package:
            raise
        advice = f"pip install {rival.package}"
        raise ImportError(f"{rival.name} needs the package {rival.package} ({error}): {advice}") from error
    if rival.grid is None:
        return estimator
    return tuned(estimator, rival.grid) if task == REGRESSION else tuned_classifier(estimator, rival.grid)


def lacks_package(rival: Rival) -> bool:
    """Whether the package that a rival needs is not installed; nothing is imported."""
    try:
        return bool(rival.package) and not distribution(rival.package)
    except PackageNotFoundError:
        return True


def rivals_of(task: str) -> dict[str, Rival]:
    """Return the rivals that predict numbers ("regression") or classes ("classification"), by name."""
    if task not in (REGRESSION, CLASSIFICATION):
        raise ValueError(f"task={task!r} must be {REGRESSION!r} or {CLASSIFICATION!r}")
    return RIVALS if task == REGRESSION else CLASSIFIER_RIVALS


def find_rival(name: str, task: str = REGRESSION) -> Rival:
    """Return the rival of this name or alias, in letters of any case."""
    if not isinstance(name, str):
        raise TypeError(f"the name of a method is a text such as 'ridge', not {type(name).__name__}")
    rivals, aliases = rivals_of(task), ALIASES if task == REGRESSION else CLASSIFIER_ALIASES
    if (found := rivals.get(aliases.get(name.lower(), name.lower()))) is not None:
        return found
    if name.lower() in RIVALS | CLASSIFIER_RIVALS:
        other, target = ("classes", "a number") if task == REGRESSION else ("numbers", "a class")
        raise ValueError(f"{name!r} predicts {other}, and the target is {target}: there are {', '.join(rivals)}")
    raise _unknown(name, list(rivals))


def check_known(name: str) -> None:
    """Raise ValueError unless some method, for numbers or for classes, has this name."""
    if all(name.lower() not in (*rivals_of(task), *CLASSIFIER_ALIASES) for task in (REGRESSION, CLASSIFICATION)):
        raise _unknown(name, list(RIVALS | CLASSIFIER_RIVALS))


def _unknown(name: str, names: list[str]) -> ValueError:
    close = get_close_matches(name.lower(), names, n=1, cutoff=0.4)
    hint = f"did you mean {close[0]!r}? " if close else ""
    return ValueError(f"there is no method {name!r}: {hint}there are {', '.join(names)}")
