"""The paper's theory: effective dimensions compared with definitions, bounds with formulas, and small experiments."""

from itertools import product
from math import comb, pi, sqrt

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from salsa.paper.theory import (
    MOST_COMPONENTS,
    base_eigenvalues,
    effective_dimension,
    exact_order_kernel,
    gaussian_rate,
    matrix_eigenvalues,
    paper_dimension,
    product_dimension,
    sobolev_penalty,
    sobolev_rate,
    sum_dimension,
    theorem1_bound,
    theorem3_bound,
)
from salsa.paper.theory_experiments import (
    FULL,
    TRUE,
    additive_trials,
    best_orders,
    dimension_experiment,
    dimension_table,
    draw_truth,
    fit_path,
    order_experiment,
    order_tails,
    rate_experiment,
    slopes,
)
from salsa.paper.theory_figures import draw_dimensions, draw_orders, draw_rates


def rows(n=40, D=4, seed=0):
    return np.random.default_rng(seed).uniform(-1, 1, (n, D))


class TestEffectiveDimension:
    @pytest.mark.parametrize("base", ["gaussian", "matern32", "laplace"])
    @pytest.mark.parametrize("order", [1, 2, 4])
    def test_effective_dimension_is_the_trace_of_the_smoother(self, base, order):
        X, kernel = rows(), exact_order_kernel(np.full(4, 0.7), order, base)
        K = kernel(X)
        for lam in (1e-4, 1e-2, 1.0):
            smoother = np.linalg.solve(K + 40 * lam * np.eye(40), K)
            assert sum_dimension(kernel, X, lam) == pytest.approx(np.trace(smoother), rel=1e-8)

    def test_effective_dimension_is_the_rank_without_penalty_and_0_for_an_infinite_one(self):
        X = rows(6, 2)[[0, 0, 1, 2, 3, 4, 5, 5]]
        eigenvalues = matrix_eigenvalues(exact_order_kernel([0.5, 0.5], 2, "laplace")(X))
        np.testing.assert_array_equal(effective_dimension(eigenvalues, [0.0, np.inf]), [6.0, 0.0])
        assert effective_dimension(eigenvalues, 1e-12) == pytest.approx(6, abs=1e-8)
        assert effective_dimension(eigenvalues, 1e12) == pytest.approx(eigenvalues.sum() / 1e12)

    def test_effective_dimension_falls_with_the_penalty_and_rises_with_the_order(self):
        X, penalties = rows(), np.logspace(-8, 3, 30)
        dimensions = [sum_dimension(exact_order_kernel(np.ones(4), d), X, penalties * comb(4, d)) for d in (1, 2, 3)]
        for dimension in dimensions:
            assert (np.diff(dimension) < 0).all()
        assert (dimensions[0] < dimensions[1]).all()
        assert (dimensions[1] < dimensions[2]).all()

    def test_a_negative_penalty_is_refused(self):
        with pytest.raises(ValueError, match="must not be negative"):
            effective_dimension([1.0], [0.1, -0.1])

    def test_paper_dimension_is_the_sum_over_components(self):
        X, h, lam = rows(30, 4), np.array([0.5, 0.8, 1.0, 2.0]), np.array([1e-3, 1e-1])
        pairs = [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)]
        expected = 0.0
        for pair in map(list, pairs):
            K = exact_order_kernel(h[pair], 2)(X[:, pair])
            expected += np.array([np.trace(K @ np.linalg.inv(K + 30 * value * np.eye(30))) for value in lam])
        np.testing.assert_allclose(paper_dimension(h, X, 2, lam), expected, rtol=1e-8)

    @pytest.mark.parametrize("order", [1, 2, 3, 4])
    def test_sum_dimension_is_at_most_paper_dimension(self, order):
        """A concave f with f(0) = 0 satisfies trace f(A + B) <= trace f(A) + trace f(B)."""
        X, lam = rows(), np.logspace(-6, 1, 8)
        whole = sum_dimension(exact_order_kernel(np.ones(4), order), X, lam)
        parts = paper_dimension(np.ones(4), X, order, lam)
        assert (whole <= parts * (1 + 1e-9)).all()
        if order == 4:
            np.testing.assert_allclose(whole, parts)

    def test_too_many_components_are_refused(self):
        with pytest.raises(ValueError, match=f"more than {MOST_COMPONENTS}"):
            paper_dimension(np.ones(30), rows(5, 30), 5, 0.1)

    @pytest.mark.parametrize("order", [0, 3])
    def test_orders_below_1_or_above_the_number_of_features_are_refused(self, order):
        with pytest.raises(ValueError, match="must be from 1 to 2"):
            exact_order_kernel([1.0, 1.0], order)


class TestEigenvalues:
    @pytest.mark.parametrize(("base", "decay"), [("matern32", -4), ("matern52", -6), ("laplace", -2)])
    def test_eigenvalues_of_base_kernels_decay_like_l_to_the_minus_2s(self, base, decay):
        """The smoothness s of the base kernels is 2, 3 and 1."""
        mu = base_eigenvalues(2.0, base, 1000)
        places = np.arange(30, 61)
        assert np.polyfit(np.log(places), np.log(mu[places - 1]), 1)[0] == pytest.approx(decay, abs=0.35)
        assert mu.sum() == pytest.approx(1)

    def test_eigenvalues_agree_with_eigenvalues_of_a_kernel_matrix(self):
        X = rows(1500, 1)
        mu = matrix_eigenvalues(exact_order_kernel([1.0], 1)(X))[::-1] / 1500
        np.testing.assert_allclose(mu[:4], base_eigenvalues(1.0)[:4], rtol=0.1)

    @pytest.mark.parametrize("order", [1, 2, 3])
    @pytest.mark.parametrize("lam", [1e-3, 0.1, 10.0])
    def test_product_dimension_equals_the_sum_over_all_products(self, order, lam):
        mu = base_eigenvalues(1.0, points=20)
        everything = [np.prod(factors) for factors in product(mu, repeat=order)]
        assert product_dimension(mu, order, lam) == pytest.approx(effective_dimension(everything, lam), rel=1.1e-3)

    def test_dimensions_grow_with_the_number_of_components(self):
        """Dimensions of a fixed order grow less than the number of components; order D, one component, grows faster."""
        table = dimension_table(dimensions=(4, 8), orders=(1, 2), lam=1e-4).set_index(["order", "D"])["dimension"]
        growth = {order: table[order, 8] / table[order, 4] for order in (1, 2)}
        assert 1 < growth[1] < 2
        assert growth[1] < growth[2] < comb(8, 2) / comb(4, 2)
        assert table[8, 8] / table[4, 4] > 1.5 * growth[2]


class TestBounds:
    def test_theorem_1_equals_its_formula(self):
        assert theorem1_bound(3, 100, 0.1, 2.0, 0.25, 20.0) == pytest.approx(3 * (20 * 0.1 * 2 + 12 * 0.25 * 20 / 100))
        assert theorem1_bound(3, 100, 0.1, 2.0, 0.25, 20.0, chi=1.0) == pytest.approx(3 * 5.6)
        np.testing.assert_allclose(theorem1_bound(1, 10, [0.0, 1.0], 1.0, 1.0, [10.0, 5.0]), [12.0, 26.0])

    def test_theorem_2_equals_its_formulas(self):
        assert sobolev_penalty(1000, 1, 2.0) == pytest.approx(1000**-0.8)
        assert sobolev_rate(1000, 10, 2, 3.0) == pytest.approx(10**4 * 1000**-0.75)
        assert sobolev_rate(1000, 10, 10, 6.0) == pytest.approx(1000 ** (-12 / 22))
        assert gaussian_rate(1000, 10, 2) == pytest.approx(10**4 * 2 * pi / 1000)
        assert gaussian_rate(1000, 10, 10) == pytest.approx(sqrt(2 * pi) ** 10 / 1000)

    def test_theorem_2_balances_theorem_1(self):
        """Let mu_l = l^(-2s): lambda and gamma / n at the theorem's lambda fall with the same power of n."""
        mu = np.arange(1, 20001, dtype=np.float64) ** -4
        sizes = np.array([1e3, 1e5])
        lam = np.array([sobolev_penalty(n, 1, 2.0) for n in sizes])
        ratio = effective_dimension(mu, lam) / sizes / lam
        assert ratio[1] / ratio[0] == pytest.approx(1, abs=0.1)

    @pytest.mark.parametrize(("order", "smoothness"), [(2, 1.0), (4, 1.5)])
    def test_a_smoothness_with_an_infinite_eigenvalue_sum_is_refused(self, order, smoothness):
        with pytest.raises(ValueError, match="2 s > d"):
            sobolev_rate(100, 10, order, smoothness)

    @pytest.mark.parametrize("order", [0, 6])
    def test_orders_below_1_or_above_the_number_of_features_are_refused(self, order):
        with pytest.raises(ValueError, match="from 1 to D=5"):
            gaussian_rate(100, 5, order)

    def test_theorem_3_equals_its_formula_and_is_least_without_eta(self):
        assert theorem3_bound(0.2, 0.1, eta=2.0) == pytest.approx(0.6 + 0.15)
        others = [theorem3_bound(0.2, 0.1, eta) for eta in np.logspace(-3, 3, 2001)]
        assert theorem3_bound(0.2, 0.1) == pytest.approx(min(others), rel=1e-4)
        assert theorem3_bound(0.2, 0.1) <= min(others)
        assert theorem3_bound(0.2, 0.0) == pytest.approx(0.2)


class TestExperiments:
    def test_fits_equal_kernel_ridge_regressions(self):
        rng = np.random.default_rng(0)
        X, Z, y, f = rows(25), rows(9, seed=1), rng.normal(size=25), rng.normal(size=9)
        kernel = exact_order_kernel(np.ones(4), 2)
        fit = fit_path(kernel, X, y, Z, f)
        for place in (12, 20, 32):
            prediction = kernel(Z, X) @ np.linalg.solve(kernel(X) + 25 * fit.lam[place] * np.eye(25), y)
            assert fit.risk[place] == pytest.approx(np.mean((prediction - f) ** 2))
        np.testing.assert_allclose(fit.dimension, sum_dimension(kernel, X, fit.lam), rtol=1e-6)

    def test_a_truth_has_variance_1_is_additive_and_has_the_stated_norm(self):
        truth = draw_truth(3, np.random.default_rng(0))
        X = rows(20000, 3)
        assert np.var(truth(X)) == pytest.approx(1, abs=0.05)
        a, b = rows(5, 3, seed=1), rows(5, 3, seed=2)
        mixed = np.column_stack([a[:, 0], b[:, 1:]]), np.column_stack([b[:, 0], a[:, 1:]])
        np.testing.assert_allclose(truth(a) + truth(b), truth(mixed[0]) + truth(mixed[1]))
        norms = 0.0
        for j in range(3):
            K = exact_order_kernel([1.0], 1)(truth.centres[:, [j]])
            norms += truth.coef[:, j] @ K @ truth.coef[:, j]
        assert truth.norm_squared == pytest.approx(norms)

    def test_risk_falls_with_n_and_faster_for_the_true_order(self):
        frame = rate_experiment(sizes=(100, 300), D=8, repeats=3)
        exponents = slopes(frame, "n")
        assert exponents[TRUE] < exponents[FULL] < 0
        assert exponents[TRUE] < -0.5

    def test_risk_grows_more_slowly_with_features_for_the_true_order(self):
        frame = dimension_experiment(dimensions=(3, 12), n=150, repeats=3)
        means = frame.groupby(["method", "D"])["risk"].mean()
        assert means[TRUE, 12] < means[FULL, 12] / 3
        assert slopes(frame, "D")[TRUE] < slopes(frame, "D")[FULL]

    def test_risk_is_below_the_bounds(self):
        frame = additive_trials(100, 6, 2, seed=1)
        true = frame[frame["method"] == TRUE]
        assert (true["risk"] < true["sum_bound"]).all()
        assert (true["sum_bound"] < true["bound"]).all()

    def test_the_same_seed_gives_the_same_result(self):
        one, other = additive_trials(40, 2, 1, seed=3), additive_trials(40, 2, 1, seed=3)
        assert one.equals(other)
        assert not one["risk"].equals(additive_trials(40, 2, 1, seed=4)["risk"])

    def test_order_tails_equal_binomial_shares(self):
        tails = order_tails(4, 0.3)
        assert tails[0] == 1
        assert tails[-1] == pytest.approx(0, abs=1e-12)
        assert 1 - tails[1] == pytest.approx(4 * 0.3 / (1.3**4 - 1))
        assert tails[2] - tails[3] == pytest.approx(4 * 0.3**3 / (1.3**4 - 1))

    def test_the_best_order_grows_with_n(self):
        frame = order_experiment(sizes=(30, 400), orders=(1, 2, 6), D=6, repeats=3)
        best = best_orders(frame)
        assert best[30] < best[400]
        assert (frame["risk"] >= 0.7 * frame["beyond"]).all()


class TestFigures:
    def test_each_figure_draws_its_frame(self):
        by_rows, by_features = rate_experiment((20, 40), 2, 2), dimension_experiment((1, 2), 20, 1)
        orders = order_experiment((20, 40), (1, 2), D=2, repeats=1)
        figures = [
            draw_dimensions(dimension_table((2, 3))),
            draw_rates(by_rows, by_features),
            draw_orders(orders),
        ]
        assert [len(figure.axes) for figure in figures] == [1, 2, 2]
        for figure in figures:
            assert isinstance(figure, Figure)
            figure.draw_without_rendering()
        line, _, (bars,) = figures[1].axes[0].containers[0].lines
        risks = by_rows[by_rows["method"] == TRUE].groupby("n")["risk"]
        np.testing.assert_allclose(line.get_xydata(), np.column_stack([[20, 40], risks.mean()]))
        lengths = [np.ptp(segment[:, 1]) for segment in bars.get_segments()]
        np.testing.assert_allclose(lengths, 2 * risks.sem())
        assert {text.get_text() for text in figures[0].axes[0].texts} == {"order 1", "order 2", "order D"}

    def test_circles_count_the_repetitions_in_which_an_order_is_the_best(self):
        risks = {1: (0.1, 0.1, 0.3), 2: (0.2, 0.2, 0.2)}
        rows = [(50, order, repeat, risk, 0.0) for order, each in risks.items() for repeat, risk in enumerate(each)]
        frame = pd.DataFrame(rows, columns=["n", "order", "repeat", "risk", "beyond"])
        (circles,) = draw_orders(frame).axes[1].collections
        np.testing.assert_array_equal(circles.get_offsets(), [[50, 1], [50, 2]])
        assert circles.get_sizes()[0] == 2 * circles.get_sizes()[1]
