"""Divide and conquer, and random features as a solver: what they share with the exact fit, and where they differ."""

import numpy as np
import pytest
from conftest import additive_truth
from joblib import Parallel, delayed
from sklearn.metrics import r2_score
from sklearn.model_selection import TimeSeriesSplit

import salsa
from salsa import AdditiveKernel, SalsaRegressor, SumKernel, explain
from salsa.data.noise import Noise
from salsa.data.rows import Observations
from salsa.data.splits import Given, drawn_table_splits, given_splits, given_table_splits
from salsa.solvers.divide import divided_path, held_out_rows, solve_divided
from salsa.solvers.ridge import solve_once


def kernel():
    return AdditiveKernel(np.full(6, 1.0), np.ones(6), np.array([0.0, 1.0, 1.0]), "matern52")


def a_sum():
    return SumKernel([kernel(), AdditiveKernel(np.full(6, 0.5), np.ones(6), np.array([0.1, 1.0]), "laplace")])


def parts_of(n=120, count=4, seed=0):
    X, y = additive_truth(n=n, seed=seed)
    weight = 1.0 + np.arange(n) % 3
    whole = Observations(X, np.column_stack([y, X[:, 0] ** 2]), weight)
    return whole, [whole.some(slice(start, None, count)) for start in range(count)]


def by_joblib(function, parts):
    return Parallel(n_jobs=2)(delayed(function)(part) for part in parts)


def by_dask(function, parts):
    distributed = pytest.importorskip("dask.distributed")
    with distributed.Client(processes=False, n_workers=1, dashboard_address=":0") as client:
        return client.gather(client.map(function, list(parts)))


class TestSolver:
    def test_one_part_is_the_exact_fit(self):
        whole, _ = parts_of()
        coef, offset, _ = solve_once(kernel()(whole.X), whole.Y, 0.3, Noise(whole.weight))
        fit = solve_divided(kernel(), [whole], 0.3)
        np.testing.assert_allclose(fit.coef, coef)
        np.testing.assert_allclose(fit.offset, offset)

    def test_the_fit_is_the_mean_of_fits_with_the_lambda_of_all_rows(self):
        whole, parts = parts_of()
        fit, expected = solve_divided(kernel(), parts, 0.3), 0.0
        for part in parts:
            share = part.weight.sum() / whole.weight.sum()
            coef, offset, _ = solve_once(kernel()(part.X), part.Y, 0.3 * share, Noise(part.weight))
            expected = expected + share * (offset + kernel()(whole.X, part.X) @ coef)
        np.testing.assert_allclose(fit.predict(whole.X), expected, atol=1e-10)

    def test_one_part_is_the_exact_fit_for_a_sum_of_kernels(self):
        whole, _ = parts_of()
        K = sum(term(whole.X) for term in a_sum().terms)
        coef, offset, _ = solve_once(K, whole.Y, 0.3, Noise(whole.weight))
        fit = solve_divided(a_sum(), [whole], 0.3)
        np.testing.assert_allclose(fit.coef, coef, rtol=1e-8)
        np.testing.assert_allclose(fit.offset, offset)

    @pytest.mark.filterwarnings("ignore")
    @pytest.mark.parametrize("run", [map, by_joblib, by_dask])
    @pytest.mark.parametrize("kernel", [kernel, a_sum], ids=["one term", "sum"])
    def test_any_map_gives_the_same_fit(self, run, kernel):
        whole, parts = parts_of()
        expected = solve_divided(kernel(), parts, 0.3)
        np.testing.assert_allclose(solve_divided(kernel(), parts, 0.3, run).coef, expected.coef, rtol=1e-9)
        predictions, _ = divided_path(kernel(), parts, whole.X, [0.3], run)
        np.testing.assert_allclose(predictions[0], expected.predict(whole.X), atol=1e-8)

    def test_the_path_equals_single_fits(self):
        whole, parts = parts_of()
        predictions, degrees = divided_path(kernel(), parts, whole.X, [0.01, 1.0, 100.0])
        for values, alpha in zip(predictions, [0.01, 1.0, 100.0], strict=True):
            np.testing.assert_allclose(values, solve_divided(kernel(), parts, alpha).predict(whole.X), atol=1e-8)
        assert (np.diff(degrees) < 0).all()


class TestHeldOutRows:
    @pytest.mark.parametrize("unit", [None, np.arange(600) // 5])
    def test_units_are_not_cut(self, unit):
        held_out, rest = held_out_rows(drawn_table_splits(600, 5, unit, np.random.RandomState(0)))
        unit = np.arange(600) if unit is None else unit
        assert len(held_out) == 120
        assert not np.isin(unit[held_out], unit[rest]).any()
        np.testing.assert_array_equal(np.sort(np.append(held_out, rest)), np.arange(600))

    def test_later_rows_judge(self):
        X = np.zeros((600, 1))
        splits = given_splits(TimeSeriesSplit(5), Given(np.ones(600, dtype=bool), X, X), np.random.RandomState(0))
        held_out, rest = held_out_rows(given_table_splits(splits, None, False))
        assert held_out.min() == 500
        assert rest.max() == 499

    def test_at_most_2000_rows_are_tested(self):
        held_out, rest = held_out_rows(drawn_table_splits(15_000, 5, None, np.random.RandomState(0)))
        assert (len(held_out), len(rest)) == (2000, 12_000)


def regressor(solver, **parameters):
    return SalsaRegressor(
        **{"relevance": "equal", "order": 2, "random_state": 0, "rank": 150, "solver": solver} | parameters
    )


class TestRegressor:
    @pytest.mark.parametrize(("solver", "least"), [("divide", 0.95), ("features", 0.9)])
    def test_predictions_are_near_the_exact_fit(self, solver, least):
        X, y = additive_truth(n=900, noise=0.3)
        new, _ = additive_truth(n=500, seed=1)
        exact = regressor("exact", rank=None).fit(X, y).predict(new)
        model = regressor(solver).fit(X, y)
        assert r2_score(exact, model.predict(new)) > least
        assert model.search_.table["cv_error"].iloc[0] < 0.3

    def test_more_random_features_come_closer(self):
        X, y = additive_truth(n=900, noise=0.3)
        exact = regressor("exact", rank=None, alpha=1.0).fit(X, y).predict(X)
        few, many = (np.std(regressor("features", rank=r, alpha=1.0).fit(X, y).predict(X) - exact) for r in (30, 800))
        assert many < 0.5 * few
        assert many < 0.1 * exact.std()

    def test_intervals_on_random_features_hold_new_observations(self):
        X, y = additive_truth(n=2000, noise=0.3)
        new, target = additive_truth(n=2000, seed=1, noise=0.3)
        model = regressor("features", rank=400).fit(X, y)
        ends = model.predict_interval(new, 0.9)
        assert np.mean((ends[:, 0] <= target) & (target <= ends[:, 1])) == pytest.approx(0.9, abs=0.03)
        prediction, sd = model.predict(new, return_std=True)
        truth = np.sin(3 * new[:, 0]) + 2 * new[:, 1] * new[:, 2]
        assert 0.4 < np.std((prediction - truth) / sd) < 2.5

    @pytest.mark.parametrize("solver", ["divide", "features"])
    def test_models_can_be_saved_and_explained(self, solver, tmp_path):
        X, y = additive_truth(n=400)
        model = regressor(solver).fit(X, y, 1.0 + np.arange(400) % 2)
        model.save(tmp_path / "m.salsa")
        np.testing.assert_array_equal(salsa.load(tmp_path / "m.salsa").predict(X), model.predict(X))
        np.testing.assert_allclose(explain.shapley(model, X[:5]).predictions, model.predict(X[:5]), atol=1e-8)

    def test_marginals_follow_the_weights(self):
        """The parts hold the rows in another order."""
        X, y = additive_truth(n=400)
        X[:, 0] = np.round(X[:, 0])
        weight = np.where(X[:, 0] == 0, 3.0, 1.0)
        points, shares = regressor("divide").fit(X, y, weight).expansion_.background[0]
        expected = [weight[X[:, 0] == point].sum() / weight.sum() for point in points]
        np.testing.assert_allclose(shares, expected)

    def test_a_mean_of_fits_has_no_intervals(self, tmp_path):
        X, y = additive_truth(n=400)
        model = regressor("divide").fit(X, y)
        model.save(tmp_path / "m.salsa")
        for known in (model, salsa.load(tmp_path / "m.salsa")):
            for ask in (known.predict_interval, lambda X, m=known: m.predict(X, return_std=True)):
                with pytest.raises(ValueError, match="solver='divide' has no intervals"):
                    ask(X)

    def test_bits_do_not_depend_on_the_number_of_threads(self):
        X, y = additive_truth(n=900)
        for solver in ("divide", "features"):
            one, two = (regressor(solver, n_jobs=jobs).fit(X, y).predict(X) for jobs in (1, 2))
            np.testing.assert_array_equal(one, two)
