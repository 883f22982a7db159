"""The table of classifiers is complete, and every row makes an estimator that tunes itself by log loss."""

from pathlib import Path

import numpy as np
import pytest
from sklearn.calibration import CalibratedClassifierCV
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV, StratifiedKFold

from salsa.baselines import CLASSIFIERS, make_baseline
from salsa.baselines.class_targets import brier_scores, true_class_score
from salsa.baselines.methods.gp_classifier import MOST_ROWS, SmallGPClassifier
from salsa.baselines.registry import CLASSIFIER_ALIASES, CLASSIFIER_RIVALS, check_known, find_rival
from salsa.baselines.tuning import stratified_folds

TASK = "classification"
SLOW = ("catboost", "ebm", "gbrt", "hist-gbrt", "lightgbm", "random-forest", "svm", "xgboost")
MARKED = [pytest.param(name, marks=pytest.mark.slow if name in SLOW else ()) for name in CLASSIFIERS]


def make_or_skip(name):
    try:
        return make_baseline(name, TASK)
    except ImportError as error:
        pytest.skip(str(error))


def three_classes(n=90, seed=0):
    """Return rows in units of 1, 100 and 0.01, and classes 0, 1, 2 of which the first feature tells most."""
    rng = np.random.default_rng(seed)
    code = np.arange(n) % 3
    X = rng.normal(size=(n, 3))
    X[:, 0] += 2.5 * code
    return X * [1.0, 100.0, 0.01], code


def test_the_table_has_rivals_of_every_kind_and_salsa():
    assert {"logistic", "svm", "knn", "naive-bayes", "gp", "random-forest", "gbrt", "ebm"} <= set(CLASSIFIERS)
    assert {name for name, rival in CLASSIFIER_RIVALS.items() if rival.ours} == {"salsa"}
    assert "salsa" not in CLASSIFIERS


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_every_grid_has_parameters_of_its_classifier(name):
    model = make_or_skip(name)
    if isinstance(model, GridSearchCV):
        first = {key: values[0] for key, values in model.param_grid.items()}
        assert model.estimator.set_params(**first).get_params().items() >= first.items()
        assert model.scoring is true_class_score
        assert isinstance(model.cv, StratifiedKFold)
        assert model.n_jobs is None


@pytest.mark.filterwarnings("ignore:For multiclass we cannot currently visualize pairs")
@pytest.mark.parametrize("name", MARKED)
def test_classifiers_predict_new_rows_better_than_the_shares_of_classes(name):
    X, code = three_classes()
    X_new, code_new = three_classes(seed=1)
    probability = make_or_skip(name).fit(X, code).predict_proba(X_new)
    assert probability.shape == (90, 3)
    np.testing.assert_allclose(probability.sum(axis=1), 1.0, atol=1e-5)
    assert brier_scores(probability, code_new).mean() < 0.9 * 2 / 3  # the shares of the classes have 2/3


def test_the_grid_is_searched_by_the_log_loss():
    X, code = three_classes()
    search = make_baseline("naive-bayes", TASK).fit(X, code)
    losses = []
    for value in search.param_grid["var_smoothing"]:
        model, scores = search.estimator.set_params(var_smoothing=value), []
        for train, test in stratified_folds().split(X, code):
            scores.append(-log_loss(code[test], model.fit(X[train], code[train]).predict_proba(X[test])))
        losses.append(np.mean(scores))
    np.testing.assert_allclose(search.cv_results_["mean_test_score"], losses, rtol=1e-12)


def test_folds_of_platt_scaling_are_not_replaced_by_folds_of_the_search():
    """Splits of all training rows do not fit the rows of one fold of the search."""
    model = make_baseline("svm", TASK)
    (inner,) = [v for v in model.estimator.named_steps.values() if isinstance(v, CalibratedClassifierCV)]
    assert inner.cv is None


@pytest.mark.filterwarnings("ignore:The least populated class")
def test_the_support_vector_machine_takes_a_class_of_four_rows():
    X, code = three_classes()
    rows = np.flatnonzero((code < 2) | (np.arange(90) < 12))
    model = make_baseline("svm", TASK)
    model.set_params(param_grid={name: values[1:2] for name, values in model.param_grid.items()})
    assert model.fit(X[rows], code[rows]).predict_proba(X).shape == (90, 3)


def test_gaussian_processes_refuse_many_rows():
    X = np.zeros((MOST_ROWS + 1, 1))
    with pytest.raises(ValueError, match="gp would take too long on 1001 rows: give at most 1000"):
        SmallGPClassifier().fit(X, np.arange(len(X)) % 2)


def test_names_are_found_by_task():
    assert [find_rival(name, TASK).name for name in CLASSIFIER_ALIASES] == list(CLASSIFIER_ALIASES.values())
    assert find_rival("KNN", TASK) is not find_rival("KNN")
    with pytest.raises(ValueError, match="'ridge' predicts numbers, and the target is a class: there are logistic"):
        make_baseline("ridge", TASK)
    with pytest.raises(ValueError, match="'logistic' predicts classes, and the target is a number: there are krr"):
        make_baseline("logistic")
    with pytest.raises(ValueError, match="there is no method 'logistc': did you mean 'logistic'"):
        make_baseline("logistc", TASK)
    with pytest.raises(ValueError, match="task='ranking' must be 'regression' or 'classification'"):
        make_baseline("knn", "ranking")


def test_names_of_either_task_are_known():
    for name in ("ridge", "logistic", "SVC", "rf"):
        check_known(name)
    with pytest.raises(ValueError, match="there is no method 'naive-byes': did you mean 'naive-bayes'"):
        check_known("naive-byes")


def test_the_page_on_rivals_lists_all_classifiers():
    page = (Path(__file__).parents[2] / "docs" / "rivals.md").read_text(encoding="utf-8").partition("## Classes")[2]
    lines = page.partition("| name | ")[2].partition("\n\n")[0].splitlines()
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines if line.startswith("| `")]
    assert [row[:3] for row in rows] == [[f"`{r.name}`", r.title, r.package] for r in CLASSIFIER_RIVALS.values()]
    assert all(row[3] for row in rows)
