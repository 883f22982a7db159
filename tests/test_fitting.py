"""The steps of a fit: what holds for every way into it."""

import pickle
import re
import warnings
from types import SimpleNamespace

import naive
import numpy as np
import pytest
from conftest import additive_truth
from sklearn.metrics import r2_score
from sums import sum_kernel, use_kernel

import salsa
from salsa import SalsaRegressor, SumKernel
from salsa._utils.memory import memory_limit_bytes
from salsa._utils.user_warning import OutsideRangeWarning, TooFewRowsWarning
from salsa.expansion import KernelExpansion
from salsa.solvers.anchors import Anchors
from salsa.solvers.lowrank import tolerance
from salsa.solvers.need import DEFAULT_RANK, Size
from salsa.uncertainty.cvplus import CVPlus

EQUAL = {"relevance": "equal", "random_state": 0}
TARGETS = {"constant": np.full(90, 2.0), "two values": np.r_[np.zeros(50), np.ones(40)]}


def memory_map(path, X):
    mapped = np.memmap(path, mode="w+", shape=X.shape, dtype=np.float64)
    mapped[:] = X
    return mapped


class TestTargetNotes:
    """Constant and two-valued targets are noted whatever the rows come from."""

    @pytest.mark.parametrize("name", TARGETS)
    @pytest.mark.parametrize("rank", [None, 30])
    def test_notes_on_targets_in_blocks(self, name, rank):
        X, y = np.random.default_rng(0).normal(size=(90, 2)), TARGETS[name]
        model = SalsaRegressor(order=1, rank=rank, **EQUAL).fit_blocks([(X[:45], y[:45]), (X[45:], y[45:])])
        assert any(name in note for note in model.search_.notes)

    def test_notes_on_targets_of_memory_maps(self, tmp_path):
        X, y = np.random.default_rng(0).normal(size=(90, 2)), TARGETS["constant"]
        model = SalsaRegressor(order=1, **EQUAL).fit(memory_map(tmp_path / "x.bin", X), y)
        assert "the target is constant" in model.search_.notes

    def test_a_third_value_in_a_later_block_is_seen(self):
        X, y = np.random.default_rng(0).normal(size=(90, 2)), np.r_[np.zeros(50), np.ones(39), 2.0]
        model = SalsaRegressor(order=1, **EQUAL).fit_blocks([(X[:80], y[:80]), (X[80:], y[80:])])
        assert not any("two values" in note for note in model.search_.notes)


class TestFewRows:
    """Rows are counted, not weights, to decide whether relevances are learned."""

    def test_weights_do_not_turn_60_rows_into_80(self):
        X, y = additive_truth(n=60)
        model = SalsaRegressor(random_state=0).fit(X, y, np.full(60, 1.5))
        assert "fewer than 80 rows: relevances are equal, not learned" in model.search_.notes

    @pytest.mark.filterwarnings("ignore:sample_weight sums to")
    def test_small_weights_do_not_make_100_rows_few(self):
        X, y = additive_truth(n=100)
        model = SalsaRegressor(order=1, random_state=0).fit(X, y, np.full(100, 0.3))
        assert len(model.search_.race) > 0


@pytest.mark.parametrize(
    "wrong", [{"alpha": "small"}, {"alpha": -1.0}, {"order": 0}, {"memory_limit": "much"}, {"n_jobs": 0}, {"cv": 1}]
)
def test_parameters_are_parsed_before_a_row_is_read(wrong):
    def blocks():
        raise AssertionError("the blocks were read")

    with pytest.raises(ValueError, match=next(iter(wrong))):
        SalsaRegressor(**EQUAL | wrong).fit_blocks(blocks)


def test_the_note_on_anchors_is_judged_at_the_chosen_alpha():
    X, y = additive_truth(n=260, D=5)
    model = SalsaRegressor(rank=60, **EQUAL).fit(X, y)
    note = next(note for note in model.search_.notes if "anchors leave" in note)
    task = SimpleNamespace(kernel=model.expansion_.kernel, sample=SimpleNamespace(X=X), rows=X)
    assert float(re.search(r"more than (\S+):", note)[1]) == pytest.approx(tolerance(task, model.alpha_), rel=0.05)


def test_the_mean_of_random_features_is_weighted(monkeypatch):
    X, y = additive_truth(n=120, D=3)
    weight = np.random.default_rng(0).integers(1, 4, 120).astype(float)
    means, calls = [], []
    transformed, features = CVPlus.transformed, Anchors.features
    monkeypatch.setattr(CVPlus, "transformed", lambda self, P, mean: means.append(mean) or transformed(self, P, mean))
    monkeypatch.setattr(
        Anchors, "features", lambda self, X, **others: calls.append((self, X)) or features(self, X, **others)
    )
    SalsaRegressor(order=1, alpha=0.1, solver="features", rank=40, **EQUAL).fit(X, y, weight)
    anchors, rows = next((anchors, rows) for anchors, rows in calls if len(rows) == 120)
    np.testing.assert_array_equal(rows, X)
    np.testing.assert_allclose(means[0], np.average(features(anchors, X), axis=0, weights=weight), rtol=1e-10)


class TestMemory:
    """The error comes before the work, and says which solver and rank fit."""

    N = 9000
    X = np.arange(3.0 * N).reshape(N, 3)

    def error(self, limit, solver, **options):
        model = SalsaRegressor(order=1, alpha=0.1, memory_limit=limit, solver=solver, n_jobs=1, **EQUAL | options)
        with pytest.raises(MemoryError, match=f"this fit by solver='{solver}'.* needs about") as error:
            model.fit(self.X, self.X[:, 0])
        return str(error.value)

    @pytest.mark.parametrize(("limit", "solver"), [("2GB", "exact"), ("300MB", "exact"), ("300MB", "pcg")])
    def test_the_solver_and_rank_that_the_error_names_fit(self, limit, solver):
        found = self.error(limit, solver)
        assert f"the limit is {limit.replace('GB', ' GB').replace('MB', ' MB')}. " in found
        named = re.findall(r"solver='(\w+)' (?:with rank=(\d+)|needs (\S+ [kMG]B) and) fits", found)
        assert named
        for other, rank, _ in named:
            size = Size(self.N, 3, 1, 5, 1)
            assert size.need(other, int(rank or DEFAULT_RANK)) <= memory_limit_bytes(limit)
            assert not rank or size.need(other, int(1.1 * int(rank)) + 1) > memory_limit_bytes(limit)

    def test_a_matrix_that_fits_is_advised(self):
        found = self.error("2GB", "exact")
        assert re.search(r"solver='pcg' needs 1.31 GB and fits, solver='lowrank' needs \S+ GB and fits", found)

    def test_a_limit_below_every_need_names_the_least_that_works(self):
        found = self.error("1MB", "lowrank")
        least, rank = re.search(
            r"No solver fits: .* works is (\S+ MB), into which solver='lowrank' with rank=(\d+)", found
        ).groups()
        model = SalsaRegressor(
            order=1, alpha=0.1, solver="lowrank", n_jobs=1, memory_limit=least, rank=int(rank), **EQUAL
        )
        assert model.fit(self.X, np.sin(self.X[:, 0])).search_.notes

    def test_few_rows_name_the_exact_solver(self):
        model = SalsaRegressor(order=1, alpha=0.1, memory_limit="1kB", **EQUAL)
        with pytest.raises(
            MemoryError, match=r"No solver fits: the least limit .* 4\.04 kB, into which solver='exact' fits"
        ):
            model.fit(self.X[:10], self.X[:10, 0])

    def test_learning_the_kernel_counts(self):
        found = self.error("100MB", "lowrank", relevance="learned", rank=10)
        assert "needs about 384 MB" in found

    def test_a_table_that_is_read_whole_counts(self):
        model = SalsaRegressor(memory_limit="500MB", solver="exact", **EQUAL)
        with pytest.raises(MemoryError, match=r"which reads the whole table, needs about 3\.24 GB.*solver='lowrank'"):
            model.fit_blocks([(self.X, self.X[:, 0])])


class TestRank:
    @pytest.mark.parametrize("solver", ["lowrank", "pcg", "features", "divide"])
    def test_a_rank_above_the_number_of_rows_is_refused(self, solver):
        X, y = additive_truth(n=60)
        with pytest.raises(ValueError, match="rank=61 is above the number of rows, n_samples=60: give at most 60"):
            SalsaRegressor(solver=solver, rank=61, **EQUAL).fit(X, y)

    def test_a_rank_above_the_number_of_rows_leaves_the_automatic_choice(self):
        X, y = additive_truth(n=60)
        ranked, free = (SalsaRegressor(order=1, rank=rank, **EQUAL).fit(X, y) for rank in (10**6, None))
        np.testing.assert_array_equal(ranked.predict(X), free.predict(X))


class TestConjugateGradients:
    def test_many_rows_have_intervals_also_if_the_kernel_matrix_exceeds_the_memory_limit(self, tmp_path):
        X, y = additive_truth(n=3100, D=3)
        model = SalsaRegressor(order=1, alpha=0.1, solver="pcg", rank=50, memory_limit="110MB", **EQUAL)
        ends = model.fit(X[:3050], y[:3050]).predict_interval(X[3050:], 0.8)
        assert 0.5 < np.mean((ends[:, 0] <= y[3050:]) & (y[3050:] <= ends[:, 1])) <= 1.0
        model.save(tmp_path / "m.salsa")
        np.testing.assert_array_equal(salsa.load(tmp_path / "m.salsa").predict_interval(X[3050:], 0.8), ends)


class TestWarnings:
    """Warnings have types, so that they can be filtered without their text."""

    def test_rows_far_outside_the_range_have_a_warning_of_their_own(self):
        X, y = additive_truth(n=60)
        model = SalsaRegressor(order=1, alpha=0.1, **EQUAL).fit(X, y)
        with pytest.warns(OutsideRangeWarning, match="1 of 1 rows lies far outside"):
            model.predict(np.full((1, 6), 50.0))

    def test_too_few_rows_for_a_coverage_have_a_warning_of_their_own(self):
        X, y = additive_truth(n=20)
        model = SalsaRegressor(order=1, alpha=0.1, **EQUAL).fit(X, y)
        with pytest.warns(TooFewRowsWarning, match=r"coverage 0.99"):
            model.predict_interval(X, 0.99)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            warnings.simplefilter("ignore", TooFewRowsWarning)
            model.predict_interval(X, 0.99)


SOLVERS = {"exact": None, "lowrank": 120, "pcg": 120, "features": 150, "divide": 150}  # with their ranks


def statements(model, X):
    """Return predictions and, where the solver has them, standard deviations and intervals."""
    if model.solver == "divide":
        return [model.predict(X)]
    return [*model.predict(X, return_std=True), model.predict_interval(X, 0.8)]


class TestSums:
    """Fits whose kernel is a sum."""

    def model(self, monkeypatch, solver, kernel_of=sum_kernel, **parameters):
        use_kernel(monkeypatch, kernel_of)
        return SalsaRegressor(solver=solver, rank=SOLVERS[solver], random_state=0, n_jobs=1, **parameters)

    @pytest.mark.parametrize("solver", SOLVERS)
    def test_a_sum_of_one_term_has_the_bits_of_its_term(self, solver, monkeypatch):
        X, y = additive_truth(n=300, D=4)
        both = [lambda *given: sum_kernel(*given).terms[0], lambda *given: SumKernel([sum_kernel(*given).terms[0]])]
        one, as_sum = (self.model(monkeypatch, solver, kernel_of).fit(X, y) for kernel_of in both)
        assert (one.order_, one.alpha_) == (as_sum.order_, as_sum.alpha_)
        assert one.search_.components.equals(as_sum.search_.components)
        for found, expected in zip(statements(as_sum, X[:50]), statements(one, X[:50]), strict=True):
            np.testing.assert_array_equal(found, expected)

    @pytest.mark.parametrize(
        ("solver", "least"), [("lowrank", 0.99), ("pcg", 1 - 1e-9), ("features", 0.9), ("divide", 0.95)]
    )
    def test_every_solver_comes_near_the_exact_fit(self, solver, least, monkeypatch):
        X, y = additive_truth(n=600, D=4, noise=0.3)
        new, observed = additive_truth(n=400, D=4, seed=1, noise=0.3)
        model = self.model(monkeypatch, solver, alpha=0.5).fit(X, y)
        exact = self.model(monkeypatch, "exact", alpha=0.5).fit(X, y)
        assert r2_score(exact.predict(new), model.predict(new)) > least
        if solver == "divide":
            return
        low, high = model.predict_interval(new, 0.8).T
        assert np.mean((low <= observed) & (observed <= high)) == pytest.approx(0.8, abs=0.08)

    @pytest.mark.parametrize("solver", SOLVERS)
    def test_models_come_back_from_files_and_pickles(self, solver, monkeypatch, tmp_path):
        X, y = additive_truth(n=300, D=4)
        model = self.model(monkeypatch, solver).fit(X, y)
        model.save(tmp_path / "m.salsa")
        for again in (salsa.load(tmp_path / "m.salsa"), pickle.loads(pickle.dumps(model))):
            for found, expected in zip(statements(again, X[:50]), statements(model, X[:50]), strict=True):
                np.testing.assert_array_equal(found, expected)
            np.testing.assert_array_equal(again.relevance_, model.relevance_)
            np.testing.assert_array_equal(again.bandwidth_, model.bandwidth_)
            assert again.search_.components.equals(model.search_.components)

    def test_the_exact_fit_and_its_held_out_rows_equal_the_slow_ones(self, monkeypatch):
        X, y = additive_truth(n=90, D=4)
        model = self.model(monkeypatch, "exact", alpha=0.3).fit(X, y)
        rows, new = model.expansion_.anchors, additive_truth(n=20, D=4, seed=1)[0]
        y = y[np.lexsort(X.T)[np.argsort(np.lexsort(rows.T))]]
        kernel = model.expansion_.kernel
        K, k = (sum(term(rows, Z) for term in kernel.terms) for Z in (rows, new))
        coef, offset = naive.ridge(K, y[:, None], 0.3)
        np.testing.assert_allclose(model.predict(new), offset + k.T @ coef[:, 0], atol=1e-8)
        left_out = model.leave_one_out()
        np.testing.assert_allclose(left_out.target[:, 0], y, atol=1e-9)
        for i in (0, 17, 89):
            residual = naive.held_out_residuals(K, y[:, None], 0.3, np.array([i]))
            np.testing.assert_allclose(y[i] - left_out.prediction[i], residual[0], atol=1e-8)

    def test_leaving_rows_out_of_a_low_rank_fit_is_near_the_exact_one(self, monkeypatch):
        X, y = additive_truth(n=150, D=4)
        exact = self.model(monkeypatch, "exact", alpha=0.3).fit(X, y)
        model = self.model(monkeypatch, "lowrank", alpha=0.3).set_params(rank=145).fit(X, y)
        order = np.lexsort(exact.expansion_.anchors.T)
        found, expected = model.leave_one_out(X[np.lexsort(X.T)], y[np.lexsort(X.T)]), exact.leave_one_out()
        np.testing.assert_allclose(found.prediction, expected.prediction[order], atol=0.02)

    def test_attributes_describe_all_terms(self, monkeypatch):
        X, y = additive_truth(n=100, D=4)
        model = self.model(monkeypatch, "exact").fit(X, y)
        kernel = model.expansion_.kernel
        assert model.order_ == 3
        np.testing.assert_array_equal(model.relevance_, kernel.relevance)
        np.testing.assert_array_equal(model.bandwidth_, kernel.bandwidth)
        np.testing.assert_array_equal(model.relevance_ > 0, [True, True, True, False])
        components = model.search_.components
        assert components["kernel"].tolist() == ["matern52", "laplace", "gaussian"]
        assert components["orders"].tolist() == ["1 to 2", "0 to 1", "all 3"]
        assert components["features"].tolist() == [3, 3, 3]
        f, expansion = model.predict(X), model.expansion_
        parts = [KernelExpansion(term, *expansion.parts[1:]).predict(X)[:, 0] for term in kernel.terms]
        shares = [np.cov(part, f)[0, 1] / np.var(f, ddof=1) for part in parts]
        np.testing.assert_allclose(components["share"], shares, rtol=1e-6)

    def test_missing_values_and_categories_are_features_of_every_term(self, monkeypatch, tmp_path):
        X, y = additive_truth(n=200, D=5)
        X[:, 3] = np.round(X[:, 3])
        y = y + X[:, 3]
        X[::9, 1] = np.nan
        for solver in ("exact", "lowrank"):
            model = self.model(monkeypatch, solver, categorical_features=[3]).fit(X, y)
            assert r2_score(y, model.predict(X)) > 0.9
            assert {term.bases[3] for term in model.expansion_.kernel.terms} == {"equality"}
            model.save(tmp_path / "m.salsa")
            again = salsa.load(tmp_path / "m.salsa")
            for found, expected in zip(statements(again, X), statements(model, X), strict=True):
                np.testing.assert_array_equal(found, expected)
