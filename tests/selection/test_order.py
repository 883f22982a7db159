"""The choice of order and alpha."""

import dataclasses
from types import SimpleNamespace

import numpy as np
import pytest
from conftest import additive_truth
from hypothesis import given as draw
from hypothesis import strategies as st
from matplotlib.figure import Figure

from salsa._utils.progress import unheard
from salsa.data.splits import Fold
from salsa.expansion import KernelExpansion
from salsa.kernels.additive import AdditiveKernel
from salsa.kernels.bandwidths import rule_of_thumb_bandwidth
from salsa.kernels.sum import SumKernel
from salsa.losses import SquaredError
from salsa.persistence.model_file import search_from, search_state
from salsa.selection.order import bisecting, given, increasing, search_order
from salsa.selection.results import Contender, OrderSearch, components_of
from salsa.solvers.alpha import LOG10_GRID, LOG10_LIMITS, Score, search_alpha, try_alphas
from salsa.solvers.factor import exact_factor
from salsa.solvers.ridge import held_out

LOSS = SquaredError()


def asked(rule, errors):
    """Orders that a rule asks for, in order, when the error of order d is errors[d - 1]."""
    orders = []

    def loss(d):
        orders.append(d)
        return errors[d - 1], 1.0

    rule(loss)
    return orders


class TestOrderRules:
    def test_increasing_stops_after_patience_orders_without_improvement(self):
        assert asked(increasing(range(1, 10), 2), [5, 4, 3, 3, 6, 1, 1, 1, 1]) == [1, 2, 3, 4, 5]
        assert asked(increasing(range(1, 10), 3), [5, 4, 3, 3, 6, 1, 1, 1, 1]) == [1, 2, 3, 4, 5, 6, 7, 8, 9]

    def test_increasing_never_passes_the_number_of_features(self):
        assert asked(increasing(range(1, 4), 3), [3, 2, 1]) == [1, 2, 3]
        assert asked(increasing(range(1, 2), 3), [3]) == [1]

    def test_increasing_counts_only_worthwhile_improvements(self):
        falling = [10 - 0.05 * d for d in range(20)]
        assert asked(increasing(range(1, 21), 3, worthwhile=0.1), falling) == [1, 2, 3, 4]
        assert asked(increasing(range(1, 21), 3, worthwhile=0.04), falling) == list(range(1, 21))

    def test_given_orders_are_tried_exactly(self):
        assert asked(given([4, 2]), [0] * 5) == [4, 2]

    @draw(D=st.integers(1, 200), data=st.data())
    def test_bisecting_finds_the_minimum_of_a_unimodal_error(self, D, data):
        best = data.draw(st.integers(1, D))
        orders = asked(bisecting(D), [abs(d - best) + 0.5 * (d > best) for d in range(1, D + 1)])
        assert best in orders
        assert len(set(orders)) <= 2 * np.ceil(np.log2(D)) + 1


class TestAlphaSearch:
    @draw(centre=st.floats(-12.5, 6.5), scale=st.sampled_from([1e-3, 1.0, 40.0]))
    def test_finds_a_quadratic_minimum_to_an_eighth_of_a_decade(self, centre, scale):
        path = search_alpha(lambda alpha: (1 + (np.log10(alpha / scale) - centre) ** 2, 0.0), scale)
        assert abs(np.log10(path.alpha / scale) - centre) <= 0.0626

    def test_tries_at_least_25_values(self):
        assert len(search_alpha(lambda alpha: (1 + np.log10(alpha) ** 2, 0.0), 1.0).alphas) >= 25

    def test_widens_at_an_edge_and_stops_at_the_limits(self):
        low = search_alpha(lambda alpha: (100 + np.log10(alpha), 0.0), 1.0)
        high = search_alpha(lambda alpha: (100 - np.log10(alpha), 0.0), 1.0)
        assert 10 ** (LOG10_LIMITS[0] - 0.4) <= low.alphas[0] <= 10 ** LOG10_LIMITS[0]
        assert 10 ** LOG10_LIMITS[1] <= high.alphas[-1] <= 10 ** (LOG10_LIMITS[1] + 0.4)
        assert low.alphas[0] < 10 ** LOG10_GRID[0]
        assert high.alphas[-1] > 10 ** LOG10_GRID[-1]

    def test_the_largest_of_equally_good_values_is_chosen(self):
        assert try_alphas(lambda alpha: (1.0, 0.0), [3.0, 1.0, 2.0]).alpha == 3.0
        assert try_alphas(lambda alpha: (1.0 + 1e-4 * alpha, 0.1), [3.0, 1.0, 2.0]).alpha == 3.0
        assert try_alphas(lambda alpha: (1.0 + 1e-2 * alpha, 0.1), [3.0, 1.0, 2.0]).alpha == 1.0

    def test_given_values_are_taken_as_they_are(self):
        path = try_alphas(lambda alpha: ((alpha - 2) ** 2 + 1, 0.25), [1.0, 2.0, 4.0])
        assert (path.alpha, path.error, path.standard_error) == (2.0, 1.0, 0.25)
        np.testing.assert_array_equal(path.alphas, [1, 2, 4])
        np.testing.assert_array_equal(path.errors, [2, 1, 5])


class TestScore:
    folds = (Fold(np.array([0, 2]), np.array([0, 1])), Fold(np.array([1, 3]), np.array([1])))

    def test_is_the_pooled_relative_squared_error_of_scored_rows(self):
        Y = np.array([[1.0], [2.0], [3.0], [6.0]])
        residuals = [np.array([[1.0], [2.0]]), np.array([[100.0], [3.0]])]
        error, standard_error = Score(Y, self.folds, None, LOSS)(residuals)
        losses = np.array([1.0, 4.0, 9.0]) / Y.var()
        assert error == pytest.approx(losses.mean())
        assert standard_error == pytest.approx(losses.std() / np.sqrt(3))

    def test_weights_are_precisions_of_losses(self):
        """The standard error treats weighted losses as a sample, however large the weights are."""
        Y = np.array([[1.0], [2.0], [3.0], [6.0]])
        residuals = [np.array([[1.0], [2.0]]), np.array([[100.0], [3.0]])]
        error, standard_error = Score(Y, self.folds, np.array([2.0, 1.0, 1.0, 3.0]), LOSS)(residuals)
        variance = np.var([1, 1, 2, 3, 6, 6, 6])
        losses, weight = np.array([1.0, 4.0, 9.0]) / variance, np.array([2.0, 1.0, 3.0])
        assert error == pytest.approx(np.average(losses, weights=weight))
        assert standard_error == pytest.approx(np.linalg.norm(weight * (losses - error)) / weight.sum())

    def test_losses_of_a_unit_are_added_before_they_are_squared(self):
        Y = np.array([[1.0], [2.0], [3.0], [6.0]])
        residuals = [np.array([[1.0], [2.0]]), np.array([[100.0], [3.0]])]
        error, standard_error = Score(Y, self.folds, None, LOSS, np.array([0, 1, 0, 1]))(residuals)
        losses = np.array([1.0, 4.0, 9.0]) / Y.var()
        assert error == pytest.approx(losses.mean())
        away = losses - error
        assert standard_error == pytest.approx(np.hypot(away[0] + away[1], away[2]) / 3)

    def test_outputs_of_different_scale_count_alike(self):
        rng = np.random.default_rng(0)
        Y = rng.normal(size=(4, 2))
        residuals = [rng.normal(size=(2, 2)), rng.normal(size=(2, 2))]
        stretch = np.array([1.0, 1e6])
        stretched = Score(Y * stretch, self.folds, None, LOSS)([r * stretch for r in residuals])
        np.testing.assert_allclose(Score(Y, self.folds, None, LOSS)(residuals), stretched)

    @pytest.mark.parametrize("value", [1.0, 0.3])
    def test_a_constant_target_has_scale_one(self, value):
        error, _ = Score(np.full((4, 1), value), self.folds, None, LOSS)([np.full((2, 1), 1e-9), np.full((2, 1), 1e-9)])
        assert error == pytest.approx(1e-18)


def search(X, y, rule, **options):
    def factor_of(order):
        kernel = AdditiveKernel(rule_of_thumb_bandwidth(X), np.ones(X.shape[1]), np.r_[0, np.ones(order)])
        return exact_factor(kernel(X))

    folds = [Fold(rows, np.arange(len(rows))) for rows in np.array_split(np.arange(len(X)), 5)]
    return search_order(factor_of, y[:, None], folds, rule, LOSS, scale=float, **options), folds, factor_of


@pytest.fixture(scope="module")
def found():
    X, y = additive_truth()
    result, folds, factor_of = search(X, y, increasing(range(1, 7), 3))
    return result, factor_of(result.order), folds, y


class TestOrderSearch:
    def test_finds_the_true_order(self, found):
        assert found[0].order == 2
        assert [r.order for r in found[0].results] == [1, 2, 3, 4, 5]

    def test_reported_error_belongs_to_the_chosen_order(self, found):
        result, factor, folds, y = found
        residuals = held_out(factor, y[:, None], folds).residuals(result.alpha)
        chosen = result.table.query("chosen").iloc[0]
        assert chosen["cv_error"] == pytest.approx(np.mean(np.concatenate(residuals) ** 2) / y.var())
        assert chosen["alpha"] == result.alpha

    def test_table_has_one_row_per_order_tried(self, found):
        table = found[0].table
        assert list(table["order"]) == [1, 2, 3, 4, 5]
        assert table["chosen"].sum() == 1
        assert table["cv_error"].min() == table.query("chosen")["cv_error"].item()
        assert (table["standard_error"] > 0).all()
        assert np.isfinite(table.to_numpy(dtype=float)).all()

    def test_is_immutable(self, found):
        with pytest.raises(dataclasses.FrozenInstanceError):
            found[0].order = 7

    def test_search_survives_json(self, found):
        import json

        again = search_from(json.loads(json.dumps(search_state(found[0]))))
        assert again.table.equals(found[0].table)
        np.testing.assert_array_equal(again.results[0].path.errors, found[0].results[0].path.errors)

    def test_plot_shows_every_order_and_the_choice(self, found):
        ax = found[0].plot().ax_
        points = ax.containers[0].lines[0].get_xydata()
        np.testing.assert_array_equal(points[:, 0], [1, 2, 3, 4, 5])
        bars = ax.containers[0].lines[2][0].get_segments()
        table = found[0].table
        expected = np.outer(table["standard_error"], [-1, 1]) + table["cv_error"].to_numpy()[:, None]
        np.testing.assert_allclose([segment[:, 1] for segment in bars], expected)
        assert any("order 2" in text.get_text() for text in ax.get_legend().get_texts())

    def test_the_second_picture_shows_the_errors_along_alpha(self, found):
        display = found[0].plot()
        _, ax = display.axes_
        chosen = next(result.path for result in found[0].results if result.order == found[0].order)
        line = next(line for line in ax.lines if line.get_label() == f"order {found[0].order}")
        np.testing.assert_array_equal(line.get_xydata(), np.column_stack([chosen.alphas, chosen.errors]))
        assert ax.containers[0].lines[0].get_xydata().tolist() == [[chosen.alpha, chosen.error]]
        assert ax.get_xscale() == "log"
        assert len([line for line in ax.lines if len(line.get_xdata()) > 1]) == len(found[0].results)

    def test_given_axes_show_what_was_tried_alone(self, found):
        ax = Figure().subplots()
        display = found[0].plot(ax=ax)
        assert (display.ax_, display.figure_, display.axes_.tolist()) == (ax, ax.figure, [ax])
        assert ax.get_xlabel() == "interaction order d"

    def test_one_order_is_shown_by_its_errors_along_alpha(self, found):
        alone = dataclasses.replace(found[0], results=tuple(r for r in found[0].results if r.order == found[0].order))
        display = alone.plot()
        assert [ax.get_xlabel() for ax in display.axes_] == ["penalty alpha"]

    def test_plot_shows_every_kernel_of_a_race(self, found):
        contenders = (
            Contender("equal", "gaussian", False, 2, 6, 0.5, 0.1, 0.0),
            Contender("learned", "matern52", False, 3, 4, 0.25, 0.05, 0.0, won=True),
        )
        display = dataclasses.replace(found[0], contenders=contenders).plot()
        labels = [label.get_text() for label in display.ax_.get_yticklabels()]
        assert labels == ["equal gaussian, order 2, 6 features", "learned matern52, order 3, 4 features"]
        np.testing.assert_array_equal(display.ax_.containers[0].lines[0].get_xydata(), [[0.5, 0], [0.25, 1]])
        assert display.axes_[1].get_xlabel() == "penalty alpha"

    def test_a_fit_without_a_search_cannot_be_plotted(self):
        with pytest.raises(ValueError, match="nothing was searched"):
            OrderSearch((), 1, 1.0).plot()

    def test_bisect_reaches_the_same_order(self):
        X, y = additive_truth()
        result, *_ = search(X, y, bisecting(6))
        assert result.order == 2

    def test_given_alphas_and_orders_are_tried_exactly(self):
        X, y = additive_truth()
        result, *_ = search(X, y, given([3, 1]), alphas=[1e-4, 1e-2])
        assert [r.order for r in result.results] == [3, 1]
        assert list(result.table["order"]) == [1, 3]
        assert result.alpha in (1e-4, 1e-2)

    def test_an_order_is_computed_once(self):
        X, y = additive_truth()
        told = []
        listener = SimpleNamespace(tried=lambda name, *others: told.append(name), step=unheard)
        search(X, y, given([2, 2, 2]), progress=listener)
        assert told == ["order 2"]


class TestComponents:
    @pytest.mark.parametrize(
        ("relevance", "weights", "words"),
        [
            ([1, 1, 1, 1], [0, 1], "1"),
            ([1, 1, 1, 1], [0, 1, 1, 1], "1 to 3"),
            ([1, 1, 1, 1], [0.5, 1, 1], "0 to 2"),
            ([1, 1, 1, 1], [0, 0, 1], "2"),
            ([1, 1, 1, 1], [0, 1, 0, 1], "1, 3"),
            ([1, 1, 1, 1], [0, 0, 0, 0, 1], "all 4"),
            ([1, 0, 1, 0], [0, 0, 1], "all 2"),
            ([1, 0, 1, 0], [0, 1, 1, 1], "1 to 2"),
            ([1, 0, 0, 0], [0, 1], "1"),
            ([0, 0, 0, 0], [0, 1], "none"),
        ],
    )
    def test_orders_are_said_in_words(self, relevance, weights, words):
        kernel = AdditiveKernel(np.ones(4), relevance, weights)
        expansion = KernelExpansion(kernel, np.zeros((2, 4)), np.ones((2, 1)), np.zeros(1))
        (found,) = components_of(kernel, expansion.shares_of_terms())
        assert (found.kernel, found.orders, found.features) == ("gaussian", words, sum(relevance))
        assert found.share == (0.0 if words == "none" else 1.0)

    def test_shares_are_covariances_with_the_function(self):
        terms = [AdditiveKernel(np.ones(2), np.ones(2), [0, w], base) for w, base in ((3, "laplace"), (1, "matern32"))]
        rng = np.random.default_rng(0)
        X, coef = rng.normal(size=(30, 2)), rng.normal(size=(30, 2))
        shares = KernelExpansion(SumKernel(terms), X, coef, np.zeros(2)).shares_of_terms()
        parts = np.array([term(X) @ coef for term in terms])
        parts -= parts.mean(axis=1, keepdims=True)
        f = parts.sum(axis=0)
        np.testing.assert_allclose(shares, [np.sum(part * f) / np.sum(f**2) for part in parts])
        search = OrderSearch((), 1, 1.0, terms=components_of(SumKernel(terms), shares))
        assert search.components.to_dict("list") == {
            "kernel": ["laplace", "matern32"],
            "orders": ["1", "1"],
            "features": [2, 2],
            "share": list(shares),
        }

    def test_a_constant_function_has_no_shares(self):
        terms = [AdditiveKernel(np.ones(2), np.ones(2), [0, 1], base) for base in ("laplace", "gaussian")]
        constant = KernelExpansion(SumKernel(terms), np.ones((3, 2)), np.zeros((3, 1)), np.ones(1))
        assert constant.shares_of_terms() == (0, 0)

    def test_a_search_without_a_fit_has_no_components(self):
        components = OrderSearch((), 1, 1.0).components
        assert components.empty
        assert list(components) == ["kernel", "orders", "features", "share"]


@pytest.mark.parametrize(
    ("order", "features", "words"),
    [
        ((3, 4), (3, 4), "order 4 and 4 features: 1 that the race had left out came back"),
        ((3, 3), (2, 4), "4 features: 2 that the race had left out came back"),
        ((3, 4), (4, 4), "order 4"),
        ((3, 3), (4, 2), ""),
    ],
)
def test_what_changed_after_the_race_is_said_in_words(order, features, words):
    winner = Contender("pruned", "matern52", False, order[0], features[0], 0.2, 0.1, 0.0, won=True)
    assert OrderSearch((), order[1], 1.0, contenders=(winner,)).after_race(features[1]) == words


def test_nothing_changed_without_a_race():
    assert OrderSearch((), 2, 1.0).after_race(4) == ""
