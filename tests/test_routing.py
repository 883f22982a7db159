"""scikit-learn's metadata routing brings weights and groups of the right rows to `fit` and to `score`."""

import numpy as np
import pytest
import sklearn
from children import table
from sklearn.exceptions import UnsetMetadataPassedError
from sklearn.model_selection import GridSearchCV, GroupKFold, KFold, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from salsa import SalsaClassifier, SalsaRegressor

FAST = {"order": 1, "relevance": "equal", "random_state": 0}
FOLDS = GroupKFold(4)
ESTIMATORS = [SalsaRegressor(**FAST), SalsaClassifier(**FAST)]
both = pytest.mark.parametrize("estimator", ESTIMATORS, ids=["regressor", "classifier"])


@pytest.fixture(autouse=True)
def routing():
    with sklearn.config_context(enable_metadata_routing=True):
        yield


def rows(estimator):
    """Return a table with levels of groups, its targets or classes, weights and groups."""
    X, y = table(96, D=3)
    groups = np.arange(96) % 16
    y = y + np.sin(groups)
    weight = np.where(np.arange(96) % 7 == 0, 0.0, 1.0 + np.arange(96) % 2)
    return X, y if isinstance(estimator, SalsaRegressor) else np.where(y > np.median(y), "b", "a"), weight, groups


def requesting(estimator):
    return (
        sklearn.clone(estimator).set_fit_request(sample_weight=True, groups=True).set_score_request(sample_weight=True)
    )


def by_hand(estimator, X, y, weight, groups):
    """Return the scores of fits to the rows of the folds, with weights and groups given directly."""
    return [
        sklearn.clone(estimator)
        .fit(X[train], y[train], weight[train], groups[train])
        .score(X[test], y[test], weight[test])
        for train, test in FOLDS.split(X, groups=groups)
    ]


@both
def test_cross_validate_gives_every_fold_its_weights_and_groups(estimator):
    X, y, weight, groups = rows(estimator)
    params = {"sample_weight": weight, "groups": groups}
    found = cross_validate(requesting(estimator), X, y, cv=FOLDS, params=params)
    np.testing.assert_allclose(found["test_score"], by_hand(estimator, X, y, weight, groups), rtol=1e-12)
    ignoring = sklearn.clone(estimator).set_fit_request(sample_weight=False, groups=False)
    ignoring.set_score_request(sample_weight=False)
    without = cross_validate(ignoring, X, y, cv=FOLDS, params={"groups": groups})
    assert not np.allclose(found["test_score"], without["test_score"])


@both
def test_a_grid_search_fits_the_best_model_with_weights_and_groups(estimator):
    X, y, weight, groups = rows(estimator)
    alphas = [0.01, 1.0]
    search = GridSearchCV(requesting(estimator), {"alpha": alphas}, cv=FOLDS)
    search.fit(X, y, sample_weight=weight, groups=groups)
    tried = [sklearn.clone(estimator).set_params(alpha=alpha) for alpha in alphas]
    means = [np.mean(by_hand(one, X, y, weight, groups)) for one in tried]
    np.testing.assert_allclose(search.cv_results_["mean_test_score"], means, rtol=1e-12)
    best = tried[int(np.argmax(means))].fit(X, y, weight, groups)
    assert np.array_equal(search.predict(X), best.predict(X))
    assert search.best_estimator_.search_.rho == best.search_.rho


@both
def test_a_pipeline_passes_weights_and_groups_to_its_last_step(estimator):
    X, y, weight, groups = rows(estimator)
    scaler = StandardScaler().set_fit_request(sample_weight=False)
    pipeline = make_pipeline(scaler, requesting(estimator)).fit(X, y, sample_weight=weight, groups=groups)
    scaled = StandardScaler().fit_transform(X)
    alone = sklearn.clone(estimator).fit(scaled, y, weight, groups)
    assert np.array_equal(pipeline.predict(X), alone.predict(scaled))
    assert pipeline[-1].search_.rho == alone.search_.rho
    assert pipeline.score(X, y, sample_weight=weight) == alone.score(scaled, y, weight)
    found = cross_validate(
        make_pipeline(StandardScaler().set_fit_request(sample_weight=False), requesting(estimator)),
        *(X, y),
        cv=KFold(3),
        params={"sample_weight": weight, "groups": groups},
    )
    assert np.isfinite(found["test_score"]).all()


@both
@pytest.mark.parametrize("name", ["sample_weight", "groups"])
def test_metadata_that_nobody_asked_for_raise_an_error(estimator, name):
    """Weights or groups are never lost silently: scikit-learn asks whether `fit` wants them."""
    X, y, weight, groups = rows(estimator)
    search = GridSearchCV(sklearn.clone(estimator), {"alpha": [1.0]}, cv=KFold(3))
    with pytest.raises((UnsetMetadataPassedError, TypeError), match=name):
        search.fit(X, y, **{name: {"sample_weight": weight, "groups": groups}[name]})
