"""The table of rivals is complete and quick to import, and every row makes an estimator that tunes itself."""

import csv
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from conftest import additive_truth, needs_data
from numpy.testing import assert_allclose
from sklearn.model_selection import GridSearchCV
from sklearn.utils.estimator_checks import parametrize_with_checks

import salsa.baselines
from salsa.baselines import BASELINES, make_baseline
from salsa.baselines.methods.rbf import RBFInterpolationRegressor
from salsa.baselines.registry import ALIASES, RIVALS, find_rival

SLOW = ("ebm", "gpgam", "catboost", "random-forest", "hist-gbrt", "lightgbm", "xgboost", "gbrt", "svr-eps", "svr-nu")


def make_or_skip(name):
    try:
        return make_baseline(name)
    except ImportError as error:
        pytest.skip(str(error))


def test_the_table_has_the_21_alternatives_of_the_paper_and_more():
    assert len(BASELINES) >= 30
    assert len({rival.in_paper for rival in RIVALS.values() if rival.in_paper}) == 22  # 21 rivals and SALSA
    assert {name for name, rival in RIVALS.items() if rival.ours} == {"salsa", "salsa-paper"}
    assert not {"salsa", "salsa-paper"} & set(BASELINES)


@needs_data
def test_names_in_the_paper_equal_the_names_in_its_table():
    with (Path(os.environ["SALSA_DATA"]) / "paper_table1.csv").open(encoding="utf-8") as table:
        published = {row["method"] for row in csv.DictReader(table)}
    assert {rival.in_paper for rival in RIVALS.values() if rival.in_paper} == published


@pytest.mark.parametrize("name", RIVALS)
def test_every_grid_has_parameters_of_its_method(name):
    model = make_or_skip(name)
    if isinstance(model, GridSearchCV):
        first = {key: values[0] for key, values in model.param_grid.items()}
        assert model.estimator.set_params(**first).get_params().items() >= first.items()
        assert model.n_jobs is None
        assert model.scoring == "neg_mean_squared_error"


@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.slow if n in SLOW else ()) for n in BASELINES])
def test_offset_targets_and_unequal_column_units_are_fitted(name):
    """The target is far from zero and in thousands: methods without an intercept must not fall back to zero."""
    X, y = additive_truth(100, 3)
    model = make_or_skip(name).fit(X * [1.0, 100.0, 0.01], 5000 + 1000 * y)
    prediction = model.predict(X * [1.0, 100.0, 0.01])
    assert prediction.shape == (100,)
    assert np.mean((prediction - 5000 - 1000 * y) ** 2) < 1000**2 * y.var()


def test_two_fits_give_identical_predictions():
    X, y = additive_truth(80, 3)
    for name in ("tree", "gp-ard", "lasso"):
        assert np.array_equal(make_baseline(name).fit(X, y).predict(X), make_baseline(name).fit(X, y).predict(X))


def test_the_grid_is_searched_by_five_shuffled_folds():
    search = make_baseline("tree").fit(*additive_truth(100, 3))
    assert search.n_splits_ == 5
    assert (
        search.best_params_["min_samples_leaf"]
        == min(zip(-search.cv_results_["mean_test_score"], search.cv_results_["param_min_samples_leaf"], strict=True))[
            1
        ]
    )


def test_names_are_found_in_any_case_and_a_similar_name_is_suggested():
    assert find_rival("KRR").name == "krr"
    assert [find_rival(name).name for name in ALIASES] == list(ALIASES.values())
    with pytest.raises(ValueError, match="there is no method 'lightgmb': did you mean 'lightgbm'"):
        make_baseline("lightgmb")
    with pytest.raises(ValueError, match="there are krr, knn"):
        make_baseline("zzzzzz")
    with pytest.raises(TypeError, match="not int"):
        make_baseline(3)


def test_a_missing_package_gives_the_command_that_installs_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyearth", None)
    with pytest.raises(ImportError, match=r"mars needs the package py-earth2 .*pip install py-earth2"):
        make_baseline("mars")


def test_importing_the_package_imports_no_rival():
    heavy = "('sklearn', 'torch', 'lightgbm', 'xgboost', 'catboost', 'interpret', 'imodels', 'pandas')"
    code = f"import sys, salsa.baselines; assert not set(sys.modules) & set({heavy})"
    subprocess.run([sys.executable, "-c", code], check=True)
    code = f"import sys, salsa.baselines; salsa.baselines.BASELINES; assert not set(sys.modules) & set({heavy}[1:7])"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_dir_lists_exactly_the_exported_names():
    assert set(dir(salsa.baselines)) == set(salsa.baselines.__all__)
    for _ in range(2):  # a module of the same name would replace it after the first import
        assert all(callable(getattr(salsa.baselines, name)) for name in salsa.baselines.__all__ if not name.isupper())
    with pytest.raises(AttributeError, match="no attribute 'Baseline'"):
        _ = salsa.baselines.Baseline


@parametrize_with_checks([RBFInterpolationRegressor()])
def test_scikit_learn_contract_of_radial_basis_functions(estimator, check):
    check(estimator)


def test_radial_basis_functions_interpolate_the_data_and_the_mean_of_repeated_rows():
    X, y = additive_truth(60, 3)
    assert_allclose(RBFInterpolationRegressor().fit(X, y).predict(X), y, atol=1e-5)
    twice = RBFInterpolationRegressor().fit(np.r_[X, X], np.r_[y - 1, y + 1])
    assert_allclose(twice.predict(X), y, atol=1e-5)
    with pytest.raises(ValueError, match="kernel='cubic' must be one of linear, multiquadric"):
        RBFInterpolationRegressor("cubic").fit(X, y)
