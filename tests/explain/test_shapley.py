"""Tests of Shapley values: they equal enumeration over coalitions and add up to the prediction."""

import builtins

import naive
import numpy as np
import pandas as pd
import pytest
from conftest import additive_truth, examples
from hypothesis import given, settings
from hypothesis import strategies as st

from explain.test_anova import MODELS, fixed, model_table
from salsa import AdditiveKernel, SalsaRegressor, _core, explain
from salsa.explain.closed_forms import kernel_shapley


@pytest.fixture(scope="module", params=MODELS, ids=lambda make: make.__name__)
def model(request):
    return request.param()


def few_rows(model):
    """Return three rows of the training table: a background whose grid can be enumerated."""
    table = model_table(model)
    return table.iloc[[0, 7, 11]] if isinstance(table, pd.DataFrame) else table[[0, 7, 11]]


class TestAgainstEnumeration:
    def test_values_equal_enumeration(self, model):
        background = few_rows(model)
        rows = model.columns_.encode(model_table(model))[:4]
        marginals = [naive.marginal(x) for x in model.columns_.encode(background).T]
        found = explain.shapley(model, model_table(model)[:4], background)
        f = lambda x: model.expansion_.predict(x)[:, 0]  # noqa: E731
        expected = [naive.shapley_values(f, x, marginals) for x in rows]
        np.testing.assert_allclose(found.values, expected, atol=1e-10)
        assert found.base_value == pytest.approx(naive.coalition_value(f, rows[0], marginals, ()), abs=1e-10)

    def test_values_and_base_value_add_up_to_the_prediction(self, model):
        table = model_table(model)
        found = explain.shapley(model, table)
        np.testing.assert_allclose(found.values.sum(axis=1) + found.base_value, model.predict(table), atol=1e-9)
        np.testing.assert_array_equal(found.predictions, found.base_value + found.values.sum(axis=1))

    def test_interactions_equal_enumeration_and_sum_to_the_values(self, model):
        background = few_rows(model)
        rows = model.columns_.encode(model_table(model))
        marginals = [naive.marginal(x) for x in model.columns_.encode(background).T]
        found = explain.shapley(model, model_table(model)[:4], background)
        matrix = found.interactions(2).to_numpy()
        f = lambda x: model.expansion_.predict(x)[:, 0]  # noqa: E731
        for j, k in [(0, 1), (1, 3), (2, 3)]:
            expected = naive.shapley_interaction(f, rows[2], marginals, j, k) / 2
            assert matrix[j, k] == matrix[k, j] == pytest.approx(expected, abs=1e-10)
        np.testing.assert_allclose(matrix.sum(axis=1), found.values[2], atol=1e-10)

    @pytest.mark.parametrize("order", [5, 8])
    def test_values_of_eight_features_equal_enumeration(self, order):
        rng = np.random.default_rng(0)
        X, y = rng.normal(size=(30, 8)), rng.normal(size=30)
        model = fixed(X, y, order, rng.random(8) + 0.1, "matern32")
        background = rng.normal(size=(2, 8))
        found = explain.shapley(model, X[:2], background)
        expected = [naive.shapley_values(model.predict, x, [naive.marginal(b) for b in background.T]) for x in X[:2]]
        np.testing.assert_allclose(found.values, expected, atol=1e-11)


class TestCompiled:
    @pytest.mark.parametrize("simd", _core.simd_levels())
    @settings(max_examples=examples(25))
    @given(st.data())
    def test_every_simd_level_equals_the_sum_over_coalitions(self, simd, data):
        """The value of a coalition is the kernel expansion with the means of all features outside the coalition."""
        D = data.draw(st.integers(1, 6), "D")
        d, m = data.draw(st.integers(1, D), "d"), data.draw(st.integers(1, 40), "m")
        rng = np.random.default_rng(data.draw(st.integers(0, 99), "seed"))
        kernel = AdditiveKernel(rng.uniform(0.5, 2, D), rng.uniform(0.1, 2, D), rng.random(d + 1), "matern52")
        x, Z, V, means = rng.normal(size=(1, D)), rng.normal(size=(m, D)), rng.normal(size=(m, 2)), rng.random((m, D))
        nodes, weights = np.polynomial.legendre.leggauss((d + 1) // 2)
        found = _core.shapley(
            *(x, Z, means, V, (nodes + 1) / 2, weights / 2),
            *(np.full(D, 3, np.int8), kernel.bandwidth, kernel.relevance, kernel.order_weights * kernel.normaliser),
            simd=simd,
        )
        s = naive.scaled_bases(x, Z, kernel.bandwidth, kernel.relevance, "matern52")[:, 0]

        def value(coalition):
            present = np.where([[j in coalition] for j in range(D)], s, means.T)
            e = [naive.elementary_symmetric(present, k) for k in range(d + 1)]
            return (kernel.order_weights * kernel.normaliser) @ np.array(e) @ V

        expected = np.zeros((D, 2))
        for j in range(D):
            for T in naive.subsets([k for k in range(D) if k != j]):
                expected[j] += (value((*T, j)) - value(T)) / (D * naive.comb(D - 1, len(T)))
        np.testing.assert_allclose(found[0], expected, atol=1e-12)

    def test_results_are_bit_identical_for_any_number_of_threads(self):
        rng = np.random.default_rng(0)
        kernel = AdditiveKernel(np.ones(5), np.ones(5), np.ones(4))
        X, Z, V, means = (rng.random(shape) for shape in ((300, 5), (200, 5), (200, 1), (200, 5)))
        one, two = (kernel_shapley(kernel, X, Z, V, means, n_threads=threads) for threads in (1, 2))
        np.testing.assert_array_equal(one, two)

    def test_wrong_shapes_raise_errors(self):
        one, two = np.ones((1, 2)), np.ones(2)
        good = {
            **{"X": one, "Z": one, "means": one, "V": np.ones((1, 1)), "nodes": np.ones(1), "node_weights": np.ones(1)},
            **{"base": np.zeros(2, np.int8), "bandwidth": two, "relevance": two, "weights": two},
        }
        _core.shapley(**good)
        for name, bad in [("means", np.ones((2, 2))), ("V", np.ones((2, 1))), ("nodes", np.ones(2))]:
            with pytest.raises(ValueError, match="needed"):
                _core.shapley(**{**good, name: bad})

    def test_no_rows_give_an_empty_result(self):
        kernel = AdditiveKernel(np.ones(2), np.ones(2), np.ones(2))
        none = np.empty((0, 2))
        assert kernel_shapley(kernel, none, np.ones((3, 2)), np.ones((3, 1)), np.ones((3, 2))).shape == (0, 2, 1)


class TestResult:
    @pytest.fixture
    def outputs(self):
        X, y = additive_truth(n=60)
        return SalsaRegressor(order=3, alpha=0.1, relevance="equal").fit(X, np.column_stack([y, -2 * y])), X

    def test_two_outputs_have_separate_values(self, outputs):
        model, X = outputs
        found = explain.shapley(model, X[:5])
        assert found.values.shape == (5, 6, 2)
        np.testing.assert_allclose(found.values[:, :, 1], -2 * found.values[:, :, 0], atol=1e-9)
        np.testing.assert_allclose(found.predictions, model.predict(X[:5]), atol=1e-9)
        np.testing.assert_allclose(found.interactions(1, output=1).to_numpy().sum(), found.values[1, :, 1].sum())

    def test_data_holds_labels_of_categories(self):
        table = pd.DataFrame({"a": [1.0, np.nan, 2.0, 4.0] * 5, "b": ["u", "v", None, "u"] * 5})
        model = SalsaRegressor(order=2, alpha=0.1, relevance="equal").fit(table, np.arange(20.0))
        assert explain.shapley(model, table[:3]).data["b"].tolist() == ["u", "v", "missing"]

    def test_features_of_zero_relevance_have_zero_values(self):
        X, y = additive_truth(n=60)
        model = fixed(X, y, 3, [1.0, 0.0, 2.0, 0.0, 1.0, 0.5])
        values = explain.shapley(model, X)
        assert (values.values[:, [1, 3]] == 0).all()
        assert (values.interactions(0).to_numpy()[[1, 3]] == 0).all()

    def test_zero_relevances_give_zero_values_and_the_mean(self):
        X, y = additive_truth(n=20)
        found = explain.shapley(fixed(X, y, 2, np.zeros(6)), X)
        assert (found.values == 0).all()
        assert found.base_value == pytest.approx(y.mean())
        assert (found.interactions().to_numpy() == 0).all()

    def test_values_of_100_features_add_up_for_any_order(self):
        rng = np.random.default_rng(0)
        X, y = rng.normal(size=(40, 100)), rng.normal(size=40)
        for order, interactions in [(1, "up_to"), (12, "up_to"), (100, "exact")]:
            model = fixed(X, y, order, "equal", "matern52", interactions)
            found = explain.shapley(model, X)
            np.testing.assert_allclose(found.predictions, model.predict(X), atol=1e-9)

    def test_shap_explanation_holds_the_values(self, outputs):
        shap = pytest.importorskip("shap", reason="the shap package is not installed")
        model, X = outputs
        found = explain.shapley(model, X[:5])
        explanation = found.explanation()
        assert isinstance(explanation, shap.Explanation)
        np.testing.assert_array_equal(explanation.values, found.values)
        np.testing.assert_allclose(explanation.base_values + explanation.values.sum(axis=1), model.predict(X[:5]))
        assert explanation.feature_names == list(found.features)

    def test_explanation_without_shap_names_the_package_to_install(self, outputs, monkeypatch):
        real = builtins.__import__

        def refuse(name, *args, **kwargs):
            if name == "shap":
                raise ImportError(name)
            return real(name, *args, **kwargs)

        monkeypatch.setattr(builtins, "__import__", refuse)
        with pytest.raises(ImportError, match="pip install shap"):
            explain.shapley(outputs[0], outputs[1][:2]).explanation()

    def test_wrong_tables_and_rows_raise_errors(self, outputs):
        model, X = outputs
        with pytest.raises(ValueError, match="features"):
            explain.shapley(model, X[:, :2])
        with pytest.raises(ValueError, match="1D array"):
            explain.shapley(model, X[0])
        with pytest.raises(ValueError, match="5 rows"):
            explain.shapley(model, X[:5]).interactions(7)
        assert len(repr(explain.shapley(model, X))) < 80
