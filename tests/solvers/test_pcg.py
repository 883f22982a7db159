"""Exact fits by conjugate gradients: tiles, systems, the search of alpha, and the fits against slow twins."""

import naive
import numpy as np
import pytest
from conftest import additive_truth
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import TimeSeriesSplit

from salsa import AdditiveKernel, SalsaRegressor, SumKernel, _core
from salsa.data.noise import Noise
from salsa.data.rows import Observations, array_rows
from salsa.data.splits import drawn_table_splits
from salsa.losses import SquaredError
from salsa.solvers import RidgeTask, find_solver
from salsa.solvers.anchors import pivoted_cholesky
from salsa.solvers.penalties import STEP, Penalties, Tried
from salsa.solvers.systems import RECENT, WHOLE, Parts, Systems, solve_systems
from salsa.solvers.tiles import KernelTiles, least_alpha, tile_groups
from salsa.uncertainty.cvplus import KINDS

ALPHA, N = 0.1, 90
every_level = pytest.mark.parametrize("simd", _core.simd_levels())
every_number = pytest.mark.parametrize("number", [np.float32, np.float64])


def sum_of_two():
    smooth = AdditiveKernel(np.full(6, 1.0), np.ones(6), np.array([0.0, 1.0, 1.0]), "matern52")
    return SumKernel([smooth, AdditiveKernel(np.full(6, 0.5), np.ones(6), [0.1, 1.0], "laplace")])


def task_of(rho=0.0, weighted=False, grouped=False, rank=30, alpha=ALPHA, alphas=(ALPHA,), seed=4):
    """Return a task with few anchors and two outputs, and its rows."""
    X, y = additive_truth(n=N)
    rng = np.random.default_rng(seed)
    weight = rng.uniform(0.5, 2, N) if weighted else np.ones(N)
    group = rng.permutation(np.repeat(np.arange(12), [5] * 6 + [10] * 6)) if grouped else None
    rows = Observations(X, np.column_stack([y, X[:, 0] ** 2]), weight / weight.mean(), group)
    table = drawn_table_splits(N, 4, group, np.random.RandomState(0))
    parts = (array_rows(rows, 1), rows, sum_of_two(), alpha, alphas, rank, np.ones(2), np.zeros(2))
    task = RidgeTask(*parts, np.random.RandomState(0), 1, SquaredError(), rho=rho, table=table, memory=10**9)
    return task, rows


class TestTileProducts:
    @every_level
    @every_number
    @pytest.mark.parametrize("shape", [(1, 1), (3, 5), (4, 64), (37, 101)])
    def test_both_products_equal_matrix_products(self, simd, number, shape):
        rng, tolerance = np.random.default_rng(0), 1e-4 if number is np.float32 else 1e-12
        T = rng.normal(size=shape).astype(number)
        for q in (1, 2, 3, 4, 5, 6, 7, 13):
            V, U = (rng.normal(size=(q, m)).astype(number) for m in shape[::-1])
            down, across = _core.tile_product(T, V, U, simd)
            assert down.dtype == across.dtype == number
            np.testing.assert_allclose(down, V.astype(float) @ T.T.astype(float), atol=tolerance)
            np.testing.assert_allclose(across, U.astype(float) @ T.astype(float), atol=tolerance)
            alone, nothing = _core.tile_product(T, V, None, simd)
            np.testing.assert_array_equal(alone, down)
            assert nothing.shape == (0, shape[1])

    def test_other_shapes_and_numbers_are_refused(self):
        T, V = np.ones((3, 4), dtype=np.float32), np.ones((2, 4), dtype=np.float32)
        with pytest.raises(ValueError, match="one column per column of T"):
            _core.tile_product(T, V[:, :3].copy(), None)
        with pytest.raises(ValueError, match="one column per row of T"):
            _core.tile_product(T, V, V)
        with pytest.raises(TypeError):
            _core.tile_product(T, V.astype(np.float64), None)


class TestTiles:
    @pytest.fixture(autouse=True)
    def small_tiles(self, monkeypatch):
        monkeypatch.setattr("salsa.solvers.tiles.TILE", 16)
        monkeypatch.setattr("salsa._utils.memory.TILE", 16)

    @pytest.mark.parametrize(("double", "tolerance"), [(False, 3e-7), (True, 1e-14)])
    def test_products_equal_those_of_the_matrix(self, double, tolerance):
        X, kernel = additive_truth(n=N)[0], sum_of_two()
        V = np.random.default_rng(0).normal(size=(3, N))
        found = KernelTiles(kernel, X, 1, 10**9, double=double).times(V)
        K = kernel(X)
        np.testing.assert_allclose(found, V @ K, atol=tolerance * (np.abs(V) @ K).max())

    @pytest.mark.parametrize("groups_per_side", [1, 3, 12])
    def test_groups_hold_every_tile_of_the_lower_triangle_once(self, groups_per_side, monkeypatch):
        monkeypatch.setattr("salsa.solvers.tiles.GROUPS_PER_SIDE", groups_per_side)
        count, groups = np.zeros((N, N), dtype=int), tile_groups(N)
        for place in (place for group in groups for place in group.places):
            count[place] += 1
        np.testing.assert_array_equal(np.tril(count), np.tril(np.ones((N, N), dtype=int)))
        assert (count + count.T > 0).all()
        assert sum(group.bytes(double=True) for group in groups) == 8 * count.sum()
        X, V = additive_truth(n=N)[0], np.random.default_rng(0).normal(size=(3, N))
        found = KernelTiles(sum_of_two(), X, 2, 10**9, double=True).times(V)
        np.testing.assert_allclose(found, V @ sum_of_two()(X), rtol=1e-12)

    def test_many_vectors_are_multiplied_some_at_a_time(self, monkeypatch):
        X, kernel, V = additive_truth(n=40)[0], sum_of_two(), np.random.default_rng(0).normal(size=(7, 40))
        whole = KernelTiles(kernel, X, 1, 10**9, double=True).times(V)
        monkeypatch.setattr("salsa.solvers.tiles.MOST_VECTORS", 3)
        np.testing.assert_allclose(KernelTiles(kernel, X, 1, 10**9, double=True).times(V), whole, rtol=1e-13)

    def test_threads_and_memory_do_not_change_the_bits(self):
        X, kernel, V = additive_truth(n=N)[0], sum_of_two(), np.random.default_rng(0).normal(size=(3, N))
        whole = KernelTiles(kernel, X, 1, 10**9)
        some, none = KernelTiles(kernel, X, 2, 5 * 4 * 16**2), KernelTiles(kernel, X, 3, 0)
        assert [whole.held, len(some.tiles), none.held] == [1.0, 5, 0.0]
        for tiles in (some, none):
            np.testing.assert_array_equal(tiles.times(V), whole.times(V))

    @pytest.mark.parametrize("size", [1e-60, 1e60])
    def test_kernels_beyond_the_range_of_float32_are_scaled(self, size):
        X, V = additive_truth(n=40)[0], np.ones((1, 40))
        kernel = AdditiveKernel(np.ones(6), np.ones(6), np.array([0.0, size]))
        np.testing.assert_allclose(KernelTiles(kernel, X, 1, 10**9).times(V), V @ kernel(X), rtol=1e-6)

    def test_penalties_of_the_size_of_rounding_errors_need_float64(self):
        X, kernel = additive_truth(n=400)[0], AdditiveKernel(np.full(6, 20.0), np.ones(6), np.array([0.0, 1.0, 1.0]))
        error = KernelTiles(kernel, X, 1, 10**9).times(np.eye(400)) - kernel(X)
        assert np.abs(np.linalg.eigvalsh(error)).max() < 0.5 * least_alpha(kernel, X)


class TestSystems:
    def parts(self, weighted=True, rank=30):
        task, rows = task_of(rho=0.8, weighted=weighted, grouped=True)
        noise = Noise(rows.weight, rows.group, 0.8)
        fold = task.table.fold(0, N)
        F = noise.whiten(pivoted_cholesky(task.kernel, rows.X, rank, 0.0, np.random.RandomState(0)).F)
        return task, rows, noise, Parts(F, noise, np.array([fold != k for k in range(4)]), 1)

    def test_the_preconditioner_inverts_the_matrix_of_its_rows(self):
        _, _, _, parts = self.parts()
        systems = Systems(np.array([0, 3, WHOLE, 0]), np.array([0.1, 0.1, 0.2, 0.3]), np.zeros((4, N)))
        V = np.random.default_rng(0).normal(size=(4, N)) * parts.rows(systems.part)
        found = parts.precondition(systems, V)
        for row, part, alpha, v in zip(found, systems.part, systems.alpha, V, strict=True):
            F = parts.F * parts.rows(np.array([part])).T
            np.testing.assert_allclose(F @ (F.T @ row) + alpha * row, v, atol=1e-9)

    def test_systems_without_folds_equal_refits(self):
        task, rows, noise, parts = self.parts()
        K, R = task.kernel(rows.X), naive.noise_covariance(rows.weight, rows.group, 0.8)
        systems = Systems(np.arange(-1, 4), np.full(5, ALPHA), np.tile(noise.whiten(rows.Y[:, :1]).T, (5, 1)))
        solved = solve_systems(lambda V: V @ K, parts, systems, None, 1e-12, 200)
        for part in range(-1, 4):
            known = np.flatnonzero(parts.rows(np.array([part]))[0])
            coef, offset = naive.ridge(K[np.ix_(known, known)], rows.Y[known, :1], ALPHA, R[np.ix_(known, known)])
            found = noise.transposed(solved.z[part + 1][:, None])[:, 0]
            np.testing.assert_allclose(found[known], coef[:, 0], atol=1e-9)
            assert np.delete(found, known).any() == False  # noqa: E712
            np.testing.assert_allclose(solved.offset[part + 1], offset[0], atol=1e-9)
            np.testing.assert_allclose(solved.fitted[part + 1], K @ found, atol=1e-9)

    def test_a_start_at_the_solution_needs_few_iterations(self):
        task, rows, noise, parts = self.parts()
        K = task.kernel(rows.X)
        systems = Systems(np.array([0, WHOLE]), np.full(2, ALPHA), noise.whiten(rows.Y).T)
        first = solve_systems(lambda V: V @ K, parts, systems, None, 1e-10, 200)
        again = solve_systems(lambda V: V @ K, parts, systems, first.z, 1e-9, 200)
        assert again.iterations == RECENT < first.iterations  # held-out predictions must be seen to stay
        np.testing.assert_allclose(again.offset, first.offset, atol=1e-9)

    def test_a_better_preconditioner_needs_fewer_iterations(self):
        iterations = []
        for rank in (2, 20, 80):
            task, rows, noise, parts = self.parts(rank=rank)
            K, systems = (
                task.kernel(rows.X),
                Systems(np.array([WHOLE]), np.array([0.01]), noise.whiten(rows.Y[:, :1]).T),
            )
            iterations.append(solve_systems(lambda V, K=K: V @ K, parts, systems, None, 1e-8, 400).iterations)
        assert iterations[0] > iterations[1] > iterations[2]

    def test_a_target_of_zeros_has_zero_coefficients(self):
        task, rows, _, parts = self.parts()
        K, systems = task.kernel(rows.X), Systems(np.array([WHOLE]), np.array([ALPHA]), np.zeros((1, N)))
        assert not solve_systems(lambda V: V @ K, parts, systems, None, 1e-8, 50).z.any()


class TestPenalties:
    """The search of alpha, with a given curve of errors over log10(alpha)."""

    def search(self, error_of, first=0.0, least=1e-9, most=1e9):
        starts = []

        def solve(alpha, start):
            starts.append(start)
            return Tried(error_of(round(float(np.log10(alpha)), 6)), 1e-6, alpha)

        penalties = Penalties(solve)
        penalties.search(10.0**first, least, most)
        return penalties, starts

    @pytest.mark.parametrize("best", [-3.0, -0.5, 0.0, 0.5, 2.0])
    def test_the_least_error_is_found_in_both_directions(self, best):
        penalties, _ = self.search(lambda t: 1.0 + (t - best) ** 2)
        assert np.log10(penalties.best) == pytest.approx(best)
        assert len(penalties.tried) <= 2 * abs(best) + 3
        assert penalties.path.error == pytest.approx(1.0)

    def test_every_penalty_starts_from_its_neighbour(self):
        _, starts = self.search(lambda t: 1.0 + (t + 1) ** 2)
        assert starts[0] is None
        np.testing.assert_allclose(starts[1:], [1.0 / STEP**k for k in range(len(starts) - 1)])

    def test_solutions_of_the_best_and_the_last_penalty_are_kept(self):
        penalties, _ = self.search(lambda t: 1.0 + (t + 2) ** 2)
        kept = [alpha for alpha, one in penalties.tried.items() if one.solved is not None]
        np.testing.assert_allclose(np.log10(kept), [-2.0, -2.5])

    def test_the_search_ends_at_penalties_that_cannot_be_solved(self):
        penalties, _ = self.search(lambda t: np.inf if t < -1 else 2.0 + t)
        assert np.log10(penalties.best) == pytest.approx(-1.0)
        np.testing.assert_allclose(penalties.unsolved, [10.0**-1.5])

    def test_a_first_penalty_that_cannot_be_solved_leads_to_larger_ones(self):
        penalties, starts = self.search(lambda t: np.inf if t < 1 else 2.0 + t)
        assert np.log10(penalties.best) == pytest.approx(1.0)
        assert starts[:2] == [None, None]  # solutions that were not found are no start

    def test_a_flat_error_ends_at_the_largest_penalty(self):
        penalties, _ = self.search(lambda t: 1.0, most=500.0)
        assert penalties.best == 500.0

    def test_the_search_stays_above_the_least_penalty(self):
        penalties, _ = self.search(lambda t: 10.0 + t, least=0.02)
        assert penalties.best == 0.02


class TestFits:
    @pytest.mark.parametrize(
        ("weighted", "grouped", "rho"),
        [(False, False, 0.0), (True, False, 0.0), (True, True, 0.8), (False, True, 50.0)],
    )
    def test_everything_equals_slow_refits(self, weighted, grouped, rho, monkeypatch):
        """Coefficients, cross-validation error, standard deviations and held-out predictions."""
        monkeypatch.setattr("salsa.solvers.pcg.SEARCHED", 1e-7)  # the error that is told comes from the search
        monkeypatch.setattr("salsa.solvers.pcg.LEFT_OF_ALPHA", 0.0)
        task, rows = task_of(rho, weighted, grouped, rank=N)
        solution, new = find_solver("pcg").solve(task), additive_truth(n=20, seed=5)[0]
        K, k = task.kernel(rows.X), task.kernel(new, rows.X)
        R = naive.noise_covariance(rows.weight, rows.group, rho)
        coef, offset = naive.ridge(K, rows.Y, ALPHA, R)
        np.testing.assert_allclose(solution.expansion.predict(new), offset + k @ coef, atol=1e-5)
        fold, residual = task.table.fold(0, N), np.empty((N, 2))
        for number in range(4):
            held = np.flatnonzero(fold == number)
            residual[held] = naive.held_out_residuals(K, rows.Y, ALPHA, held, R)
        scale = np.average((rows.Y - rows.weight @ rows.Y / N) ** 2, axis=0, weights=rows.weight)
        assert solution.path.error == pytest.approx(np.mean(rows.weight @ residual**2 / scale) / N, rel=1e-4)
        kept = solution.uncertainty
        np.testing.assert_allclose(kept.left_out.target, rows.Y)
        np.testing.assert_allclose(rows.Y - kept.left_out.prediction, residual, atol=3e-3 * residual.std())
        t = naive.remainder(K, k, task.kernel.diagonal(new), ALPHA, R)
        amplitude = np.einsum("ij,ij->j", rows.Y, coef) / (N - 1)
        sd = kept.posterior_sd(task.kernel(new, kept.sd_points), task.kernel.diagonal(new))
        np.testing.assert_allclose(sd, np.sqrt(np.outer(t, amplitude)), rtol=1e-3)

    @pytest.mark.parametrize(("noise", "rank"), [(0.1, 40), (0.1, 100), (0.01, 100)])
    def test_errors_hold_with_few_anchors_and_little_noise(self, noise, rank):
        """Small residuals alone do not settle held-out predictions where alpha is small."""
        X, y = additive_truth(n=800, D=5, noise=noise)
        settings = {"order": 2, "relevance": "equal", "random_state": 0}
        found = SalsaRegressor(solver="pcg", rank=rank, **settings).fit(X, y)
        exact = SalsaRegressor(solver="exact", alpha=[found.alpha_, 2 * found.alpha_], **settings).fit(X, y)
        error = exact.search_.results[0].path.errors[0]
        assert found.search_.table["cv_error"].item() == pytest.approx(error, rel=0.1)
        best = SalsaRegressor(solver="exact", **settings).fit(X, y).search_.table["cv_error"].min()
        assert error < 1.1 * best
        widths = [np.diff(model.predict_interval(X[:200]))[:, 0].mean() for model in (found, exact)]
        assert widths[0] == pytest.approx(widths[1], rel=0.15)

    def test_a_fit_that_does_not_converge_comes_with_a_warning(self):
        X, y = additive_truth(n=200, D=4)
        settings = {"order": 2, "relevance": "equal", "random_state": 0, "solver": "pcg", "rank": 20}
        with pytest.warns(ConvergenceWarning, match=r"did not converge for alpha.*give a larger alpha"):
            model = SalsaRegressor(alpha=1e-13, **settings).fit(X, y)
        assert np.abs(model.predict(X) - y).max() < 10 * np.abs(y).max()  # the best iterate, not the last

    def test_penalties_that_do_not_converge_are_not_in_the_path_of_a_saved_model(self, tmp_path):
        X, y = additive_truth(n=400, D=4)
        settings = {"order": 2, "relevance": "equal", "random_state": 0, "solver": "pcg", "rank": 5}
        model = SalsaRegressor(alpha=[1e-13, 1.0], kernel="laplace", **settings).fit(X, y)
        np.testing.assert_array_equal(model.search_.results[0].path.alphas, [1.0])
        model.save(tmp_path / "model.salsa")

    def test_a_constant_target_is_predicted(self):
        X = additive_truth(n=200, D=3)[0]
        settings = {"order": 1, "relevance": "equal", "random_state": 0, "solver": "pcg", "rank": 20}
        model = SalsaRegressor(**settings).fit(X, np.full(200, 3.0))
        np.testing.assert_allclose(model.predict(X), 3.0)
        assert SalsaRegressor(**settings | {"alpha": model.alpha_}).fit(X, np.full(200, 3.0)).alpha_ == model.alpha_

    def test_degrees_of_freedom_of_a_constant_fit_are_one(self):
        X, y = additive_truth(n=200, D=3)
        settings = {"order": 1, "relevance": "equal", "random_state": 0, "solver": "pcg", "rank": 20}
        model = SalsaRegressor(alpha=[1e7, 1e8], **settings).fit(X, y)
        assert model.search_.results[0].degrees_of_freedom == pytest.approx(1.0, abs=1e-3)

    @pytest.mark.parametrize("kind", [0, 1], ids=KINDS[:2])
    def test_intervals_equal_refits_without_folds_of_groups(self, kind, monkeypatch):
        """The folds hold whole groups out; ranks count the 12 groups; the new row is of a new group."""
        monkeypatch.setattr("salsa.solvers.pcg.JUDGED", 1e-7)
        monkeypatch.setattr("salsa.solvers.pcg.LEFT_OF_ALPHA", 0.0)
        scores = iter([*(np.arange(3) != kind)] * 2)
        monkeypatch.setattr("salsa.uncertainty.cvplus._interval_score", lambda *_: next(scores))
        task, rows = task_of(rho=0.8, grouped=True, rank=N)
        kept, kernel, new = find_solver("pcg").solve(task).uncertainty, task.kernel, additive_truth(n=20, seed=5)[0]
        R, fold = naive.noise_covariance(rows.weight, rows.group, 0.8), task.table.fold(0, N)
        K, k = kernel(rows.X), kernel(new, rows.X)
        without, residual = np.empty((N, 20, 2)), np.empty((N, 2))
        for train, test in ((np.flatnonzero(fold != number), np.flatnonzero(fold == number)) for number in range(4)):
            coef, offset = naive.ridge(K[np.ix_(train, train)], rows.Y[train], ALPHA, R[np.ix_(train, train)])
            without[test] = offset + k[:, train] @ coef
            residual[test] = np.abs(rows.Y[test] - offset - K[np.ix_(test, train)] @ coef)
        noise = ALPHA * 1.8
        here, there = (
            np.sqrt(naive.remainder(K, kernel(Z, rows.X), kernel.diagonal(Z), ALPHA, R) + noise) for Z in (rows.X, new)
        )
        here, there = (here, there) if kind == 1 else (np.ones(N), np.maximum(there / here.max(), 1.0))
        reach = (residual / here[:, None])[:, None, :] * there[:, None]
        rank = int(np.ceil(0.8 * N * (1 + 1 / 12)))
        ranked = np.sort(without + reach, axis=0), np.sort(-(without - reach), axis=0)
        expected = np.stack([-ranked[1][rank - 1], ranked[0][rank - 1]], axis=-1)
        coef, offset = naive.ridge(K, rows.Y, ALPHA, R)
        found = kept.interval(offset + k @ coef, k, kernel.diagonal(new), 0.8, new)
        np.testing.assert_allclose(found, expected, atol=0.01)

    def test_standard_deviations_are_close_to_the_exact_ones(self):
        X, y = additive_truth(n=150, D=3)
        weight = np.random.default_rng(0).uniform(0.5, 2.0, 150)
        settings = {"order": 1, "alpha": 0.1, "relevance": "equal", "random_state": 0}
        found = SalsaRegressor(solver="pcg", rank=40, **settings).fit(X, y, weight).predict(X, return_std=True)[1]
        exact = SalsaRegressor(solver="exact", **settings).fit(X, y, weight).predict(X, return_std=True)[1]
        np.testing.assert_allclose(found, exact, rtol=0.01)

    def test_later_rows_judge_fits_to_earlier_rows(self):
        X, y = additive_truth(n=200, D=4, noise=0.3)
        settings = {"order": 2, "alpha": 0.1, "relevance": "equal", "cv": TimeSeriesSplit(4), "random_state": 0}
        model = SalsaRegressor(solver="pcg", rank=60, **settings).fit(X, y)
        kernel, residuals = model.expansion_.kernel, []
        for train, test in TimeSeriesSplit(4).split(X):
            coef, offset = naive.ridge(kernel(X[train]), y[train, None], 0.1)
            residuals.append(y[test] - offset - kernel(X[test], X[train]) @ coef[:, 0])
        residual = np.concatenate(residuals)
        assert model.search_.table["cv_error"].item() == pytest.approx(np.mean(residual**2) / y.var(), rel=0.02)
        left_out = model.leave_one_out()
        assert left_out.target.shape == (160, 1)
        np.testing.assert_allclose((left_out.target - left_out.prediction)[:, 0], residual, atol=3e-3)
        ends, middle = model.predict_interval(X[:50], 0.9), model.predict(X[:50])
        np.testing.assert_allclose(ends.mean(axis=1), middle, atol=1e-6)

    def test_alpha_and_degrees_of_freedom_are_near_those_of_the_exact_fit(self):
        X, y = additive_truth(n=600, D=4, noise=0.3)
        settings = {"order": 2, "relevance": "equal", "random_state": 0}
        found = SalsaRegressor(solver="pcg", rank=100, **settings).fit(X, y)
        exact = SalsaRegressor(solver="exact", **settings).fit(X, y)
        assert abs(np.log10(found.alpha_ / exact.alpha_)) <= 0.75
        assert found.search_.table["cv_error"].item() == pytest.approx(exact.search_.table["cv_error"].item(), rel=0.02)
        given = SalsaRegressor(solver="exact", alpha=[found.alpha_, 2 * found.alpha_], **settings).fit(X, y)
        dof = given.search_.results[0].degrees_of_freedom
        assert found.search_.results[0].degrees_of_freedom == pytest.approx(dof, rel=0.5)

    def test_the_number_of_threads_does_not_change_the_bits(self, monkeypatch):
        monkeypatch.setattr("salsa.solvers.tiles.TILE", 64)
        monkeypatch.setattr("salsa.solvers.systems.ROWS", 50)
        X, y = additive_truth(n=300, D=4, noise=0.3)
        models, seen = [], []
        for threads in (1, 3):
            monkeypatch.setattr("salsa.solvers.pcg.thread_count", lambda *_, count=threads: seen.append(count) or count)
            settings = {"order": 2, "relevance": "equal", "random_state": 0, "solver": "pcg", "rank": 50}
            models.append(SalsaRegressor(**settings).fit(X, y))
        assert seen == [1, 3]
        one, several = models
        np.testing.assert_array_equal(several.expansion_.coef, one.expansion_.coef)
        np.testing.assert_array_equal(several.predict_interval(X[:20]), one.predict_interval(X[:20]))

    def test_an_almost_noiseless_target_is_solved_in_float64(self):
        X, y = additive_truth(n=500, D=3, noise=0.0)
        settings = {"order": 1, "relevance": "equal", "random_state": 0, "alpha": 1e-8}
        found, exact = SalsaRegressor(solver="pcg", rank=100, **settings), SalsaRegressor(solver="exact", **settings)
        new = additive_truth(n=50, D=3, seed=1)[0]
        np.testing.assert_allclose(found.fit(X, y).predict(new), exact.fit(X, y).predict(new), atol=1e-5 * y.std())

    def test_a_matrix_beyond_the_memory_limit_is_computed_again_with_a_note(self, monkeypatch):
        monkeypatch.setattr("salsa.solvers.tiles.TILE", 64)
        monkeypatch.setattr("salsa._utils.memory.TILE", 64)
        task, rows = task_of()
        need = find_solver("pcg").bytes(*rows.X.shape, 2, task.rank, 4, 1)
        whole, partly = (
            find_solver("pcg").solve(task._replace(memory=memory, random_state=np.random.RandomState(0)))
            for memory in (10**9, need + 20_000)
        )
        assert any("of the kernel matrix" in note and "memory limit" in note for note in partly.notes)
        np.testing.assert_array_equal(partly.expansion.coef, whole.expansion.coef)
