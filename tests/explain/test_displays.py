"""Tests of the displays: the numbers that they hold, and readable drawings for every kind of model."""

import subprocess
import sys
import warnings
from functools import cache
from itertools import combinations, pairwise, product

import numpy as np
import pandas as pd
import pytest
from conftest import additive_truth
from matplotlib import colors
from matplotlib import pyplot as plt
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure
from scipy.stats import norm
from sklearn.metrics import r2_score

from salsa import SalsaRegressor
from salsa._utils import drawing
from salsa.data.number_format import NumberFormat
from salsa.explain import (
    AnovaDisplay,
    CalibrationDisplay,
    EffectDisplay,
    ImportanceDisplay,
    InteractionsDisplay,
    PredictionDisplay,
    WaterfallDisplay,
    decompose,
    shapley,
)
from salsa.explain.displays import pairs
from salsa.explain.effects import Axis, Effect
from salsa.fitted import assign, fitted_of

PLAIN = {"relevance": "equal", "order": 2, "alpha": 0.1}


def mixed_table(n=120, seed=0):
    """Return a table of two numbers and two categories, one of each with missing values, and a target."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame({"a": rng.normal(size=n), "b": 1e3 * rng.uniform(size=n)})
    X["colour"] = rng.choice(["red", "green", "blue"], n)
    X["size"] = rng.choice(["S", "M"], n)
    y = X["a"] * np.where(X["size"] == "S", 1, -1) + np.sin(X["b"] / 200) + (X["colour"] == "red") * X["a"]
    X.loc[rng.uniform(size=n) < 0.1, "a"] = np.nan
    X.loc[rng.uniform(size=n) < 0.1, "colour"] = None
    return X, y.to_numpy() + 0.1 * rng.normal(size=n)


def long_table(D=100, n=80):
    X, y = additive_truth(n, D)
    names = [f"concentration of the compound in sample number {j}" for j in range(D - 3)]
    return pd.DataFrame(X, columns=[*names, "$cost_$ and $x", "年齢\nline", "_hidden"]), y


@pytest.fixture(scope="module")
def mixed():
    X, y = mixed_table()
    return SalsaRegressor(**PLAIN).fit(X, y), X, y


@pytest.fixture(scope="module")
def learned():
    X, y = additive_truth(150, 6)
    return SalsaRegressor(order=2, random_state=0).fit(X, y), X, y


@pytest.fixture(scope="module")
def weighted():
    X, y = additive_truth(100, 3)
    weight = np.random.default_rng(1).uniform(0.5, 3.0, len(y))
    return SalsaRegressor(**PLAIN).fit(X, np.c_[y, 2 * X[:, 0]], sample_weight=weight), X, np.c_[y, 2 * X[:, 0]], weight


def fit(X, y, weight=None, **parameters):
    return SalsaRegressor(**{**PLAIN, **parameters}).fit(X, y, sample_weight=weight), X, y


def odd_columns():
    """Return a number, a constant column, an empty column, a column of one value with missing ones, and a target."""
    X, y = additive_truth(60, 3)
    return np.c_[X[:, 0], np.ones(60), np.full(60, np.nan), np.where(X[:, 1] > 0, 5.0, np.nan)], y


TABLE, TARGET = mixed_table()
Z, z = additive_truth(60, 3)
CASES = {
    "mixed": lambda: fit(TABLE, TARGET),
    "one feature": lambda: fit(Z[:, :1], z, order=1),
    "one category": lambda: fit(TABLE[["colour"]], TARGET, order=1),
    "all removed": lambda: fit(Z, z, relevance=np.zeros(3)),
    "constant target": lambda: fit(Z, np.ones(60)),
    "order three": lambda: fit(Z, z, order=3),
    "weights, two outputs": lambda: fit(Z, np.c_[z, -z], np.arange(1.0, 61.0) % 4 + 0.5),
    "100 long names": lambda: fit(*long_table()),
    "tiny": lambda: fit(1e-9 * Z, 1e-9 * z),
    "huge": lambda: fit(1e12 * Z + 1e12, 1e12 * z),
    "two rows": lambda: fit(Z[:2], z[:2], cv=2),
    "odd columns": lambda: fit(*odd_columns()),
}
fitted = cache(lambda name: CASES[name]())


def new_axes(width=6.0, height=4.0):
    return Figure(figsize=(width, height), layout="constrained").subplots()


def drawn(display):
    """Lay out the figure of a display, so that texts can be measured, and return its axes."""
    display.figure_.draw_without_rendering()
    return display.ax_


def rendered(ax):
    """Return the grey values (height, width) of the pixels, from 0 to 1."""
    canvas = FigureCanvasAgg(ax.figure)
    canvas.draw()
    return np.asarray(canvas.buffer_rgba())[..., :3] @ [0.299, 0.587, 0.114] / 255


def overlapping(texts):
    boxes = [text.get_window_extent() for text in texts if text.get_text() and text.get_visible()]
    return [(a, b) for a, b in combinations(boxes, 2) if a.padded(-0.5).overlaps(b.padded(-0.5))]


def assert_readable(ax):
    """Assert that no two tick labels overlap."""
    assert not overlapping(ax.get_xticklabels())
    assert not overlapping(ax.get_yticklabels())
    return ax


def brightness(color):
    return float(np.dot(colors.to_rgb(color), [0.299, 0.587, 0.114]))


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


class TestAnyModelCanBeDrawn:
    @pytest.mark.parametrize("name", CASES)
    def test_variance_shares_are_drawn_without_overlapping_labels(self, name):
        anova = decompose(fitted(name)[0])
        for plot in (anova.plot, InteractionsDisplay.from_anova(anova).plot):
            assert_readable(drawn(plot()))
            assert_readable(drawn(plot(ax=new_axes(), most=3)))

    @pytest.mark.parametrize("name", CASES)
    def test_effects_are_drawn_without_overlapping_labels(self, name):
        anova = decompose(fitted(name)[0])
        last = range(len(anova.features))[-3:]
        for features in [*((j,) for j in last), *combinations(last, 2)]:
            assert_readable(drawn(anova.effect(*features).plot(new_axes())))
        assert_readable(drawn(anova.effect(0, band=False).plot()))

    @pytest.mark.parametrize("name", CASES)
    def test_predictions_and_calibration_are_drawn_without_overlapping_labels(self, name):
        model, X, y = fitted(name)
        for display in (PredictionDisplay, CalibrationDisplay):
            assert_readable(drawn(display.from_model(model).plot()))
            assert_readable(drawn(display.from_model(model, X, y).plot(new_axes())))

    @pytest.mark.parametrize("name", CASES)
    def test_waterfalls_are_drawn_without_overlapping_labels(self, name):
        model, X, _ = fitted(name)
        explained = shapley(model, X[:2])
        assert_readable(drawn(explained.plot(1)))
        assert_readable(drawn(explained.plot(0, ax=new_axes(), most=1)))


def assert_nothing_is_cut(display):
    """Assert that everything drawn lies inside the figure, as plt.savefig saves it."""
    assert display.figure_.get_layout_engine() is not None
    box, (width, height) = drawn(display).figure.get_tightbbox(), display.figure_.get_size_inches()
    assert min(box.x0, box.y0, width - box.x1, height - box.y1) > -0.005, display.ax_.get_title()


class TestNothingIsCutOff:
    """Figures that displays create themselves contain everything that is drawn."""

    @pytest.mark.parametrize("name", ["mixed", "100 long names", "huge", "odd columns", "constant target"])
    def test_displays_of_any_model_fit_into_their_figures(self, name):
        model, X, _ = fitted(name)
        anova, last = decompose(model), range(model.n_features_in_)[-3:]
        displays = [
            *(ImportanceDisplay.from_anova(anova), InteractionsDisplay.from_anova(anova)),
            *(EffectDisplay(anova.effect(*features)) for features in [*((j,) for j in last), *combinations(last, 2)]),
            *(PredictionDisplay.from_model(model), CalibrationDisplay.from_model(model)),
            WaterfallDisplay.from_shapley(shapley(model, X[:1])),
        ]
        for display in displays:
            assert_nothing_is_cut(display.plot())

    @pytest.mark.parametrize("font", [8, 16])
    def test_long_names_fit_in_small_and_large_fonts(self, font):
        """Titles are wider than two columns of cells, labels of colour bars longer than two rows."""
        levels = [["a very long name of one level", "and one of another"], ["north", "old town", "harbour of the town"]]
        axes = [Axis(f"a name of twenty-nine letters {i}", np.arange(len(names)), tuple(names), None)
                for i, names in enumerate(levels)]  # fmt: skip
        values = np.arange(6.0).reshape(2, 3) - 2.5
        with plt.rc_context({"font.size": font}):
            for order in ((0, 1), (1, 0)):
                turned = values if order == (0, 1) else values.T
                effect = Effect(tuple(axes[i] for i in order), turned, np.ones_like(turned), lambda: 0.1)
                assert_nothing_is_cut(effect.plot())
            assert_nothing_is_cut(Effect((axes[0],), values[:, 0], np.ones(2), lambda: 0.1).plot())


class TestNoMatplotlibState:
    def test_importing_salsa_explain_does_not_import_matplotlib(self):
        code = "import sys, salsa.explain; assert not any(name.startswith('matplotlib') for name in sys.modules)"
        subprocess.run([sys.executable, "-c", code], check=True)

    def test_given_axes_are_used_and_no_figure_is_opened(self, mixed):
        model, X, _ = mixed
        anova, explained, opened = decompose(model), shapley(model, X[:1]), plt.get_fignums()
        displays = [
            *(ImportanceDisplay.from_anova(anova), InteractionsDisplay.from_anova(anova)),
            *(EffectDisplay(anova.effect(*features)) for features in ("a", ("a", "b"), ("a", "colour"))),
            *(PredictionDisplay.from_model(model), CalibrationDisplay.from_model(model)),
            WaterfallDisplay.from_shapley(explained),
        ]
        for display in displays:
            ax = new_axes()
            assert display.plot(ax) is display
            assert (display.ax_, display.figure_) == (ax, ax.figure)
            assert rendered(ax).min() < 0.5
        assert plt.get_fignums() == opened  # by other tests

    def test_plots_without_matplotlib_name_the_package_to_install(self, mixed, monkeypatch):
        model, X, _ = mixed
        anova, explained = decompose(model), shapley(model, X[:1])
        monkeypatch.setitem(sys.modules, "matplotlib", None)
        for plot in (anova.plot, anova.effect("b").plot, explained.plot, PredictionDisplay.from_model(model).plot):
            with pytest.raises(ImportError, match="pip install matplotlib"):
                plot()


class TestWhatPlotReturns:
    def test_axes_and_figure_are_missing_before_a_plot(self, mixed):
        display = EffectDisplay(decompose(mixed[0]).effect("a", band=False))
        for name in ("ax_", "figure_"):
            with pytest.raises(AttributeError, match=rf"no {name} before it is drawn: call plot\(\) first"):
                getattr(display, name)

    def test_attributes_of_axes_work_with_a_warning_that_says_what_to_write(self, mixed):
        """Earlier versions returned the axes."""
        display = decompose(mixed[0]).effect("a", band=False).plot(new_axes())
        with pytest.warns(FutureWarning, match=r"plot\(\) returns the EffectDisplay.*write \.ax_\.get_xlabel"):
            assert display.get_xlabel() == "a"
        with pytest.raises(AttributeError, match="no attribute 'colour'"):
            display.colour  # noqa: B018

    def test_a_drawn_display_draws_again_elsewhere(self, mixed):
        display = decompose(mixed[0]).effect("a", band=False).plot(new_axes())
        other = new_axes()
        assert display.plot(other).ax_ is other


class TestOverview:
    def test_four_pictures_show_importance_and_the_three_strongest_effects(self, learned):
        anova = decompose(learned[0])
        display, strongest = anova.plot(), anova.importance()["term"][:3].tolist()
        assert isinstance(display, AnovaDisplay)
        assert len(display.axes_) == 4
        assert [" × ".join(effect.effect.features) for effect in display.effects] == strongest
        assert [ax.get_title().split(":")[0] for ax in display.axes_[1:]] == strongest
        assert display.ax_ is display.axes_[0]

    def test_the_figure_fits_on_a_page_and_no_text_is_cut(self, mixed):
        display = decompose(mixed[0]).plot()
        assert_nothing_is_cut(display)
        width, height = display.figure_.get_size_inches()
        assert width <= 11.69
        assert height <= 8.27
        for ax in display.axes_:
            assert_readable(ax)

    def test_given_axes_show_the_importance_alone(self, mixed):
        ax = new_axes()
        display = decompose(mixed[0]).plot(ax)
        assert isinstance(display, ImportanceDisplay)
        assert ax.figure.axes == [ax]

    def test_four_given_axes_are_used(self, mixed):
        axes = Figure(figsize=(12, 8), layout="constrained").subplots(2, 2)
        display = AnovaDisplay.from_anova(decompose(mixed[0])).plot(axes)
        assert display.axes_.tolist() == axes.ravel().tolist()
        with pytest.raises(ValueError, match="axes: 4 are needed, one for each picture, and 2 were given"):
            display.plot(axes[0])

    def test_a_constant_function_has_the_importance_alone(self):
        display = decompose(fitted("constant target")[0]).plot()
        assert len(display.axes_) == 1
        assert_nothing_is_cut(display)

    def test_models_without_a_posterior_have_effects_without_bands(self):
        model = fit(Z, z, solver="divide", rank=30)[0]
        display = decompose(model).plot()
        assert all(effect.effect.sd is None for effect in display.effects)

    def test_models_that_do_not_fit_into_memory_have_effects_without_bands(self):
        model = fit(Z, z)[0].set_params(memory_limit=1)
        assert all(effect.effect.sd is None for effect in AnovaDisplay.from_anova(decompose(model)).effects)

    def test_units_of_a_file_stand_behind_the_names_of_numbers(self, mixed):
        model = SalsaRegressor(**PLAIN).fit(*mixed[1:])
        formats = {"a": NumberFormat(after="kg"), "b": NumberFormat(before="$")}
        assign(model, fitted_of(model)._replace(formats=formats))
        anova = decompose(model)
        ax = anova.effect("a", "b", band=False).plot(new_axes()).ax_
        assert (ax.get_xlabel(), ax.get_ylabel()) == ("a (kg)", r"b (\$)")
        assert anova.effect("colour").plot(new_axes()).ax_.get_ylabel() == "colour"

    def test_effects_of_categories_name_the_scale_of_the_function(self, mixed):
        X, y = mixed[1:]
        model = SalsaRegressor(**PLAIN, target_transform="log").fit(X, np.exp(y / np.ptp(y)))
        effect = decompose(model).effect("colour")
        assert effect.plot(new_axes()).ax_.get_xlabel() == "effect on log of the target ± 2 sd"


class TestImportance:
    def test_first_order_shares_equal_the_variances_of_effects_at_the_data(self, learned):
        """The remainder of a total share is the sum over the pairs of the feature."""
        model, X, _ = learned
        anova = decompose(model)
        display = ImportanceDisplay.from_anova(anova)
        mains = [np.var(anova.evaluate(X, j)) for j in range(6)]
        np.testing.assert_allclose(display.first_order, np.array(mains) / anova.variance, atol=1e-10)
        shares = InteractionsDisplay.from_anova(anova).shares
        np.testing.assert_allclose(display.total, shares.sum(axis=1), atol=1e-10)
        np.testing.assert_allclose(display.orders, [np.trace(shares), np.triu(shares, 1).sum()], atol=1e-10)

    def test_bars_end_at_the_largest_total_shares(self, learned):
        display = ImportanceDisplay.from_anova(decompose(learned[0]))
        ax = display.plot(new_axes(), most=2).ax_
        single, together = ax.containers
        ends = [a.get_width() + b.get_width() for a, b in zip(single, together, strict=True)]
        np.testing.assert_allclose(ends, np.sort(display.total)[::-1][:2])
        names = [text.get_text() for text in ax.get_yticklabels()]
        assert names == [*(display.features[j] for j in np.argsort(-display.total)[:2]), "4 others"]
        assert any("or less" in text.get_text() for text in ax.texts)

    def test_the_legend_states_the_shares_of_orders(self):
        display = ImportanceDisplay(
            ("a", "b"), np.array([0.4, 0.2]), np.array([0.8, 0.6]), np.array([0.6, 0.3, 0.06, 0.04])
        )
        texts = [text.get_text() for text in display.plot(new_axes()).ax_.get_legend().get_texts()]
        assert texts == [
            "by itself (all features: 60 % of the variance)",
            "in interactions (order 2: 30 %, order 3 and more: 10 %)",
        ]

    def test_the_shares_of_orders_in_the_legend_add_up_to_100_percent(self):
        display = ImportanceDisplay(("a", "b"), np.array([0.9, 0.0255]), np.ones(2), np.array([0.9255, 0.0745]))
        texts = [text.get_text() for text in display.plot(new_axes()).ax_.get_legend().get_texts()]
        assert texts == ["by itself (all features: 92.6 % of the variance)", "in interactions (order 2: 7.4 %)"]

    def test_marks_are_the_shares_over_rows_and_may_be_negative(self):
        display = ImportanceDisplay(
            ("a", "b"), np.array([0.8, 0.2]), np.array([0.8, 0.2]), np.ones(1), np.array([1.57, -0.57])
        )
        ax = display.plot(new_axes()).ax_
        assert [text.get_text() for text in ax.texts] == ["80 % (rows: 157 %)", "20 % (rows: −57 %)"]
        np.testing.assert_allclose(ax.lines[0].get_xdata(), [1.57, -0.57])
        assert [text.get_text() for text in ax.get_legend().get_texts()][1] == "over the rows as they are"
        assert ax.get_xlim()[0] < -0.57
        assert ax.get_xlim()[1] > 1.57

    def test_models_that_keep_their_rows_have_marks_and_others_have_none(self, learned):
        model, X, y = learned
        display = ImportanceDisplay.from_anova(decompose(model))
        np.testing.assert_array_equal(display.over_rows, decompose(model).sobol()["share_over_rows"])
        few = fit(X, y, solver="lowrank", rank=20)[0]
        assert ImportanceDisplay.from_anova(decompose(few)).over_rows is None
        assert not decompose(few).plot(new_axes()).ax_.lines

    def test_features_without_a_share_are_counted_as_others(self):
        display = ImportanceDisplay(("a", "b"), np.array([0.0, 1.0]), np.array([0.0, 1.0]), np.ones(1))
        ax = display.plot(new_axes()).ax_
        assert [text.get_text() for text in ax.get_yticklabels()] == ["b", "1 other"]
        assert ax.texts[-1].get_text() == "no share"

    def test_most_below_1_raises_an_error(self, learned):
        with pytest.raises(ValueError, match="most=0: give at least 1"):
            decompose(learned[0]).plot(most=0)


class TestInteractions:
    def test_cells_of_the_lower_triangle_hold_the_shares_of_pairs(self, learned):
        anova = decompose(learned[0])
        display = InteractionsDisplay.from_anova(anova)
        table = anova.importance().set_index("term")["variance_share"]
        j, k = display.features.index("x1"), display.features.index("x2")
        assert display.shares[j, k] == display.shares[k, j] == table["x1 × x2"]
        assert display.shares[j, j] == table["x1"]
        ax = display.plot(new_axes(), most=3).ax_
        strongest = np.argsort(-display.total)[:3]
        cells = ax.collections[0].get_array()
        lower = display.shares[np.ix_(strongest, strongest)][np.tril_indices(3)]
        np.testing.assert_array_equal(cells[np.tril_indices(3)], lower)
        assert np.ma.getmaskarray(cells)[np.triu_indices(3, 1)].all()
        assert ax.get_title().startswith("3 of 6 features")


class TestEffect:
    def test_a_curve_with_its_band_and_missing_value(self, mixed):
        effect = decompose(mixed[0]).effect("a")
        ax = EffectDisplay(effect).plot(new_axes()).ax_
        curve = next(line for line in ax.lines if len(line.get_xdata()) > 50)
        np.testing.assert_array_equal(curve.get_xydata(), np.c_[effect.axes[0].points, effect.values][:-1])
        band = ax.collections[0].get_paths()[0].vertices[:, 1]
        assert band.max() == pytest.approx(np.max(effect.values[:-1] + 2 * effect.sd[:-1]))
        assert band.min() == pytest.approx(np.min(effect.values[:-1] - 2 * effect.sd[:-1]))
        dot = next(line for line in ax.lines if line.get_marker() == "o")
        assert dot.get_xdata()[0] > effect.axes[0].points[-2]
        assert dot.get_ydata()[0] == effect.values[-1]
        assert "missing" in [text.get_text() for text in ax.texts]
        assert max(ax.get_xticks()) <= effect.axes[0].points[-2]

    def test_a_curve_connects_points_in_ascending_order(self, mixed):
        effect = decompose(mixed[0]).effect("b", points=[[900.0, 100.0, 500.0]])
        curve = next(line for line in EffectDisplay(effect).plot(new_axes()).ax_.lines if line.get_marker() == "o")
        assert curve.get_xdata().tolist() == [100.0, 500.0, 900.0]
        assert curve.get_ydata().tolist() == effect.values[[1, 2, 0]].tolist()

    def test_a_number_with_two_values_is_drawn_as_dots_with_error_bars(self):
        """There is no band between the two values of a flag, only a thin line."""
        flag, number = np.repeat([0.0, 1.0], 30), Z[:, 0]
        effect = decompose(fit(np.c_[flag, number], flag + number)[0]).effect(0)
        ax = EffectDisplay(effect).plot(new_axes()).ax_
        dots = next(line for line in ax.lines if line.get_marker() == "o")
        np.testing.assert_array_equal(dots.get_xydata(), np.c_[[0.0, 1.0], effect.values])
        bars = [segment for bars in ax.collections for segment in bars.get_segments() if len(segment) == 2]
        assert [bar for bar in bars if np.isclose(np.ptp(bar[:, 1]), 4 * effect.sd[0])]
        assert not any(isinstance(part, PolyCollection) for part in ax.collections)
        assert ax.get_xticks().tolist() == [0.0, 1.0]

    def test_dots_are_in_the_order_of_levels(self, mixed):
        effect = decompose(mixed[0]).effect("colour")
        ax = drawn(EffectDisplay(effect).plot())
        dots = next(line for line in ax.lines if line.get_marker() == "o")
        np.testing.assert_array_equal(dots.get_xdata(), effect.values)
        assert [text.get_text() for text in ax.get_yticklabels()] == ["blue", "green", "red", "missing"]
        assert ax.yaxis_inverted()

    def test_the_rug_follows_the_background(self, mixed):
        model, X, _ = mixed
        ax = EffectDisplay(decompose(model).effect("b")).plot(new_axes()).ax_
        ticks = np.array([segment[0, 0] for segment in ax.collections[-1].get_segments()])
        assert len(ticks) == drawing.RUG_TICKS
        assert abs(np.median(ticks) - X["b"].median()) < 20

    def test_ticks_of_the_rug_are_as_long_as_weights(self, weighted):
        model = weighted[0]
        anova = decompose(model, pd.DataFrame(np.repeat([[0.0], [1.0], [1.0]], 3, axis=1)).to_numpy())
        ax = EffectDisplay(anova.effect(0)).plot(new_axes()).ax_
        heights = [segment[1, 1] for segment in ax.collections[-1].get_segments()]
        assert heights[1] == 2 * heights[0]

    def test_a_surface_has_a_symmetric_colour_scale_and_labelled_contours(self, mixed):
        effect = decompose(mixed[0]).effect("a", "b")
        ax = drawn(EffectDisplay(effect).plot())
        filled = ax.collections[0]
        assert filled.norm.vmin == -filled.norm.vmax
        assert filled.norm.vmax >= np.abs(effect.values).max()
        assert "0" in [text.get_text() for text in ax.texts]  # both ends of the colours are dark: numbers show the sign

    def test_unsure_parts_of_a_surface_are_dotted(self, learned):
        anova = decompose(learned[0])
        figure = EffectDisplay(anova.effect("x1", "x2")).plot(new_axes()).figure_
        assert figure.axes[1].get_ylabel().startswith("effect\n(dotted")
        effect = anova.effect("x1", "x2", band=False)
        assert EffectDisplay(effect).plot(new_axes()).figure_.axes[1].get_ylabel() == "effect"

    @pytest.mark.parametrize("features", [("a", "size"), ("size", "a")])
    def test_many_lines_of_a_category_and_a_number_are_thick_where_sure(self, mixed, features, monkeypatch):
        monkeypatch.setattr(pairs, "MOST_BANDS", 1)
        effect = decompose(mixed[0]).effect(*features)
        ax = drawn(EffectDisplay(effect).plot())
        values = effect.values.T if features[0] == "a" else effect.values
        sure = np.abs(effect.values) >= 2 * effect.sd
        thin, thick = ([line for line in ax.lines if line.get_lw() == width] for width in (0.9, 2.0))
        for level, (whole, part) in enumerate(zip(thin, thick, strict=True)):
            kept = (sure.T if features[0] == "a" else sure)[level, :-1]
            np.testing.assert_array_equal(whole.get_ydata(), values[level, :-1])
            np.testing.assert_array_equal(part.get_ydata(), np.where(kept, values[level, :-1], np.nan))
        dots = [line.get_ydata()[0] for line in ax.lines if len(line.get_xdata()) == 1]
        assert dots == values[:, -1].tolist()
        assert [text.get_text().strip() for text in ax.get_legend().get_texts()] == ["M", "S"]

    @pytest.mark.parametrize("features", [("a", "size"), ("size", "a")])
    def test_few_lines_of_a_category_and_a_number_have_bands(self, mixed, features):
        effect = decompose(mixed[0]).effect(*features)
        ax = drawn(EffectDisplay(effect).plot())
        values, sd = (part.T if features[0] == "a" else part for part in (effect.values, effect.sd))
        bands = [band for band in ax.collections if isinstance(band, PolyCollection)]
        for level, band in enumerate(bands):
            low, high = (values + side * 2 * sd for side in (-1, 1))
            extent = band.get_datalim(ax.transData)
            np.testing.assert_allclose([extent.y0, extent.y1], [low[level, :-1].min(), high[level, :-1].max()])
        assert len(bands) == 2
        assert ax.get_ylabel() == "effect ± 2 sd"
        assert not [line for line in ax.lines if line.get_lw() == 0.9]

    def test_sixty_levels_are_drawn_as_60_dots_or_8_lines(self):
        """Lines show the levels of largest spread; the legend gives their number; names never overlap."""
        rng = np.random.default_rng(0)
        X = pd.DataFrame({"level": [f"_the level number {i:03d} of sixty" for i in np.arange(240) % 60]})
        X["x"] = rng.normal(size=240)
        anova = decompose(SalsaRegressor(**PLAIN).fit(X, X["x"] * rng.normal(size=60)[np.arange(240) % 60]))
        ax = assert_readable(drawn(anova.effect("level").plot()))
        assert len(ax.get_yticklabels()) == 60
        assert_readable(drawn(anova.effect("level").plot(new_axes(4, 3))))
        effect = anova.effect("level", "x", band=False)
        legend = drawn(effect.plot()).get_legend()
        spread = np.ptp(effect.values, axis=1)
        largest = [effect.axes[0].labels[level] for level in np.sort(np.argsort(-spread)[: pairs.MOST_LINES])]
        assert [text.get_text() for text in legend.get_texts()] == [f" {drawing.label(name)}" for name in largest]
        assert "8 of 60 levels" in legend.get_title().get_text()

    def test_a_heat_map_has_numbers_in_brackets_where_unsure(self, mixed):
        effect = decompose(mixed[0]).effect("colour", "size")
        ax = assert_readable(drawn(EffectDisplay(effect).plot()))
        assert [text.get_text().strip("()") for text in ax.texts] == [drawing.number(v, 2) for v in effect.values.flat]
        brackets = [text.get_text().startswith("(") for text in ax.texts]
        assert brackets == (np.abs(effect.values) < 2 * effect.sd).ravel().tolist()
        assert not overlapping(ax.texts)

    @pytest.mark.parametrize("features", [("a", "b"), ("colour", "size")])
    def test_blue_is_positive_and_orange_negative(self, mixed, features):
        """The colours agree with the waterfall."""
        filled = EffectDisplay(decompose(mixed[0]).effect(*features)).plot(new_axes()).ax_.collections[0]
        low, middle, high = (filled.to_rgba(share * filled.norm.vmax) for share in (-1.0, 0.0, 1.0))
        assert low[0] > low[2] + 0.3
        assert high[2] > high[0] + 0.3
        assert np.ptp(middle[:3]) < 0.1

    def test_an_effect_of_three_features_raises_an_error(self, mixed):
        with pytest.raises(ValueError, match=r"3 features \(a, b, size\) cannot be drawn: plot one or two"):
            decompose(mixed[0]).effect("a", "b", "size", points=[[0.0], [1.0], ["S"]]).plot()


class TestPredictions:
    def test_training_rows_are_predicted_by_leave_one_out(self, learned):
        model, X, y = learned
        display, kept = PredictionDisplay.from_model(model), model.leave_one_out()
        np.testing.assert_array_equal(display.observed, kept.target[:, 0])
        np.testing.assert_array_equal(display.predicted, kept.prediction[:, 0])
        assert display.r2 == pytest.approx(r2_score(kept.target, kept.prediction))
        assert display.r2 < model.score(X, y)
        assert "leave-one-out: R² = " in display.plot(new_axes()).ax_.get_title()

    def test_given_rows_are_predicted_by_the_model(self, weighted):
        model, X, Y, weight = weighted
        for output in (0, 1):
            display = PredictionDisplay.from_model(model, X[:40], Y[:40], weight[:40], output=output)
            np.testing.assert_array_equal(display.predicted, model.predict(X[:40])[:, output])
            expected = r2_score(Y[:40, output], model.predict(X[:40])[:, output], sample_weight=weight[:40])
            assert display.r2 == pytest.approx(expected)

    def test_many_points_are_hexagons_that_count_rows(self):
        rng = np.random.default_rng(0)
        y = rng.normal(size=6000)
        display = PredictionDisplay(y, y + rng.normal(size=6000), np.full(6000, 2.0), left_out=False)
        ax = drawn(display.plot())
        assert ax.collections[0].get_array().sum() == 12000
        constant = PredictionDisplay(np.ones(6000), np.ones(6000), np.ones(6000), left_out=True)
        assert drawn(constant.plot()).get_title() == "6000 rows, leave-one-out"

    def test_r2_of_targets_of_1e_minus_200_does_not_underflow(self):
        y = 1e-200 * np.arange(5.0)
        assert PredictionDisplay(y, y, np.ones(5), left_out=False).r2 == 1.0


class TestCalibration:
    def test_training_rows_are_covered_by_normal_quantiles(self, weighted):
        model = weighted[0]
        display, kept = CalibrationDisplay.from_model(model, output=1), model.leave_one_out()
        z = np.abs(kept.target - kept.prediction)[:, 1] / kept.sd[:, 1]
        covered = [kept.weight[2 * norm.cdf(z) - 1 <= level].sum() / kept.weight.sum() for level in display.nominal]
        np.testing.assert_allclose(display.actual, covered)
        assert display.rows == pytest.approx(kept.weight.sum() ** 2 / np.sum(kept.weight**2))
        assert display.left_out

    def test_given_rows_are_covered_by_predict_interval(self, weighted):
        model, X, Y, weight = weighted
        display = CalibrationDisplay.from_model(model, X[:30], Y[:30], weight[:30], output=1)
        low, high = model.predict_interval(X[:30], 0.9)[:, 1].T
        inside = (low <= Y[:30, 1]) & (Y[:30, 1] <= high)
        assert display.actual[display.nominal == 0.9] == pytest.approx(np.average(inside, weights=weight[:30]))
        assert display.nominal[[0, -1]].tolist() == [0.1, 0.95]

    def test_the_band_contains_95_percent_of_binomial_coverages(self):
        """Each of 50 rows is covered with the nominal probability."""
        display = CalibrationDisplay(np.array([0.3, 0.8]), np.zeros(2), 50.0, left_out=False)
        low, high = display.band()
        shares = np.random.default_rng(0).binomial(50, display.nominal, (20000, 2)) / 50
        assert (np.mean((low <= shares) & (shares <= high), axis=0) >= 0.945).all()
        assert (np.mean((low < shares) & (shares < high), axis=0) <= 0.955).all()

    @pytest.mark.parametrize("display", [PredictionDisplay, CalibrationDisplay])
    def test_a_low_rank_model_needs_given_rows(self, display):
        X, y = additive_truth(300, 3)
        model = SalsaRegressor(order=1, alpha=0.1, relevance="equal", solver="lowrank", rank=50, random_state=0)
        model.fit(X[:250], y[:250])
        with pytest.raises(ValueError, match="keeps no training rows"):
            display.from_model(model)
        drawn(display.from_model(model, X[250:], y[250:]).plot(new_axes()))

    @pytest.mark.parametrize("display", [PredictionDisplay, CalibrationDisplay])
    def test_invalid_rows_weights_and_outputs_raise_errors(self, display, weighted):
        model, X, Y, weight = weighted
        with pytest.raises(ValueError, match="belong together"):
            display.from_model(model, X)
        with pytest.raises(ValueError, match="belong together"):
            display.from_model(model, sample_weight=weight)
        with pytest.raises(ValueError, match=r"y has the shape \(100, 1\), but predictions for X have \(100, 2\)"):
            display.from_model(model, X, Y[:, 0])
        with pytest.raises(ValueError, match="shape"):
            display.from_model(model, X, Y[:50])
        with pytest.raises(ValueError, match="output=2: there are 2 outputs"):
            display.from_model(model, output=2)
        with pytest.raises(ValueError, match="zero"):
            display.from_model(model, X, Y, 0 * weight)
        with pytest.raises(ValueError, match="y contains NaN"):
            display.from_model(model, X, np.full_like(Y, np.nan))


class TestWaterfall:
    def test_base_value_and_steps_add_up_to_the_prediction(self, weighted):
        model, X, *_ = weighted
        explained = shapley(model, X[:3])
        for row, output in product(range(3), range(2)):
            display = WaterfallDisplay.from_shapley(explained, row, output)
            assert display.prediction == pytest.approx(model.predict(X[:3])[row, output])
            assert display.base_value == explained.base_value[output]
            for most in (1, 2, 5):
                assert display.base_value + display.steps(most)[1].sum() == pytest.approx(display.prediction)

    def test_names_of_steps_include_feature_values(self, mixed):
        model, X, _ = mixed
        row = int(np.argmax(X["a"].isna() & X["colour"].notna()))
        names, _ = WaterfallDisplay.from_shapley(shapley(model, X), row).steps(4)
        assert {"a = missing", f"colour = {X['colour'][row]}", f"b = {drawing.number(X['b'][row])}"} < set(names)

    def test_arrows_are_connected(self, mixed):
        model, X, _ = mixed
        display = WaterfallDisplay.from_shapley(shapley(model, X), 5)
        ax = drawn(display.plot(new_axes(), most=2))
        corners = [patch.get_xy() for patch in ax.patches]
        starts, ends = [c[0, 0] for c in corners], [c[2, 0] for c in corners]
        assert starts[0] == display.base_value
        assert ends[-1] == pytest.approx(display.prediction)
        assert starts[1:] == ends[:-1]
        assert [text.get_text() for text in ax.get_yticklabels()][-2] == "2 others"

    def test_features_without_a_contribution_are_not_counted(self):
        display = WaterfallDisplay(("a", "b", "c"), (1.0, 2.0, "x"), np.array([0.0, -3.0, 0.0]), 1.0)
        assert display.steps(1)[0] == ["b = 2"]
        display = WaterfallDisplay(("a", "b", "c"), (1.0, 2.0, "x"), np.array([1.0, -3.0, 0.0]), 1.0)
        assert display.steps(1)[0] == ["b = 2", "1 other"]

    def test_positive_contributions_are_blue_and_negative_ones_orange(self):
        display = WaterfallDisplay(("a", "b"), (1.0, 2.0), np.array([2.0, -1.0]), 0.0)
        adds, takes = (patch.get_facecolor() for patch in display.plot(new_axes()).ax_.patches)
        assert adds[2] > adds[0]
        assert takes[0] > takes[2]

    def test_rows_and_outputs_that_do_not_exist_raise_errors(self, weighted):
        explained = shapley(weighted[0], weighted[1][:2])
        with pytest.raises(ValueError, match="row=2: 2 rows were explained"):
            explained.plot(2)
        with pytest.raises(ValueError, match="output=2: this model has 2 outputs"):
            explained.plot(0, output=2)


class TestNumbersAndNames:
    @pytest.mark.parametrize(
        ("value", "text"),
        [
            *[(0, "0"), (-0.0, "0"), (42.0, "42"), (2009, "2009"), (123456, "123456"), (3.14159, "3.142")],
            *[(-0.5, "−0.5"), (0.00123, "0.00123"), (1e-9, "1e−9"), (1.23456e12, "1.235e12"), (np.nan, "nan")],
            *[(999999.9, "1e6"), (-1e300, "−1e300"), (99.999, "100"), (-np.inf, "−inf")],
        ],
    )
    def test_numbers_have_four_digits_and_short_exponents(self, value, text):
        assert drawing.number(value) == text

    def test_percentages_have_more_decimals_for_small_shares(self):
        shares = [0, 1e-9, 0.00012, 0.0123, 0.123, 0.99999, 1.0, -0.123, -0.0123, -1e-9]
        assert [drawing.percent(share) for share in shares] == [
            "0 %",
            "< 0.01 %",
            "0.01 %",
            "1.2 %",
            "12 %",
            "100 %",
            "100 %",
            "−12 %",
            "−1.2 %",
            "> −0.01 %",
        ]

    def test_long_names_lose_their_middle(self):
        assert drawing.label("x" * 28) == "x" * 28
        name = drawing.label("beginning of a very long name and its end")
        assert len(name) == 28
        assert name.startswith("beginning of a")
        assert name.endswith("and its end")

    def test_names_become_one_line_without_math_mode(self):
        ax = new_axes()
        ax.set_title(drawing.label("$x_1$ and\n$\\alpha"))
        rendered(ax)
        assert ax.title._preprocess_math(ax.get_title()) == ("$x_1$ and $\\alpha", False)

    def test_letters_that_the_font_lacks_become_boxes_without_a_warning(self):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            ax = new_axes()
            ax.set_title(drawing.label("年齢 🙂 age"))
            rendered(ax)
        assert ax.get_title() == "□□ □ age"


class TestGreyscale:
    def test_lines_of_equal_dashes_differ_in_brightness(self):
        styles = list(zip(pairs.LINE_STYLES, pairs.LINE_COLORS, strict=True))
        for (first, one), (second, other) in combinations(styles, 2):
            assert first != second or abs(brightness(one) - brightness(other)) > 0.35

    def test_parts_of_bars_and_directions_of_arrows_differ_in_brightness(self):
        assert brightness(drawing.LIGHT) - brightness(drawing.DARK) > 0.35

    def test_the_matrix_darkens_with_the_share(self):
        from matplotlib import colormaps

        shades = [brightness(colormaps["Blues"](t)) for t in np.linspace(0, 1, 20)]
        assert all(b < a for a, b in pairwise(shades))
