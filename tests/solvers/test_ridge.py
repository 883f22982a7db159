"""Ridge regression: every closed form against refits and the full linear system, one contract for all of them."""

from dataclasses import dataclass, replace

import naive
import numpy as np
import pytest

from salsa._utils.linalg import solve_positive, symmetric_eigen
from salsa.data.noise import Noise
from salsa.data.splits import Fold
from salsa.expansion import KernelExpansion
from salsa.kernels.additive import AdditiveKernel
from salsa.kernels.bandwidths import rule_of_thumb_bandwidth
from salsa.solvers.factor import _pivoted_cholesky, exact_factor
from salsa.solvers.ridge import (
    _FoldBlocks,
    _FoldGrams,
    _LeaveOneOut,
    coefficients,
    degrees_of_freedom,
    expansion,
    held_out,
    solve_once,
)

EPS = np.finfo(float).eps


# --- data ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Problem:
    """Rows, a kernel on them, targets (n, q), and the options of the fit."""

    X: np.ndarray
    Y: np.ndarray
    kernel: AdditiveKernel
    weight: np.ndarray | None = None
    intercept: bool = True
    group: np.ndarray | None = None
    rho: float = 0.0

    @property
    def noise(self) -> Noise | None:
        if self.weight is None and self.group is None:
            return None
        return Noise(np.ones(len(self.X)) if self.weight is None else self.weight, self.group, self.rho)

    @property
    def R(self) -> np.ndarray | None:  # noqa: N802  the noise covariance's name in every formula
        noise = self.noise
        return None if noise is None else naive.noise_covariance(noise.weight, noise.group, noise.rho)

    @property
    def K(self) -> np.ndarray:  # noqa: N802  the kernel matrix's name in every formula; a fresh copy
        return self.kernel(self.X)

    @property
    def options(self) -> dict:
        """Options for the naive twins."""
        return {"R": self.R, "intercept": self.intercept}

    def factor(self):
        return exact_factor(self.K, self.noise, intercept=self.intercept)

    def tolerance(self, alpha: float) -> float:
        """The rounding error that the condition number of both systems allows."""
        weight = np.ones(len(self.X)) if self.weight is None else self.weight
        levels = 1.0 if self.group is None else 1 + self.rho * np.bincount(self.group, weight).max()
        condition = levels * (1 + len(self.X) * np.max(np.diag(self.K) * weight) / alpha)
        return (5e-14 + 10 * EPS * condition) * np.abs(self.Y).max()


def problem(n=24, D=3, q=1, order=2, c=2.0, base="gaussian", seed=0, **options) -> Problem:
    rng = np.random.default_rng(seed)
    X, Y = rng.normal(size=(n, D)), rng.normal(size=(n, q)) + 3.0
    kernel = AdditiveKernel(rule_of_thumb_bandwidth(X, c), np.ones(D), [0.1] + [1.0] * order, base)
    return Problem(X, Y, kernel, **options)


def uneven(n: int) -> np.ndarray:
    """Weights from 0.25 to 4."""
    return np.random.default_rng(5).permutation(np.geomspace(0.25, 4.0, n))


def with_duplicates() -> Problem:
    plain = problem()
    return replace(plain, X=np.vstack([plain.X[:12], plain.X[:6], plain.X[:6]]))


def with_constant_column() -> Problem:
    X = np.column_stack([problem().X, np.full(24, 0.3)])
    kernel = AdditiveKernel(rule_of_thumb_bandwidth(X, 2.0), np.ones(4), [0.0, 1.0, 1.0])
    return replace(problem(), X=X, kernel=kernel)


PROBLEMS = {
    "plain": problem(),
    "fewer rows than features": problem(n=8, D=12),
    "duplicate rows": with_duplicates(),
    "duplicate rows, weights": replace(with_duplicates(), weight=uneven(24)),
    "constant column": with_constant_column(),
    "many outputs": problem(q=5),
    "weights": problem(weight=uneven(24)),
    "no intercept": problem(intercept=False),
    "weights, no intercept": problem(weight=uneven(24), intercept=False, q=2),
    "low rank": problem(n=40, D=1, order=1, c=20.0),
    "low rank, weights": problem(n=40, D=1, order=1, c=20.0, weight=uneven(40)),
    "low rank, no intercept": problem(n=40, D=1, order=1, c=20.0, intercept=False),
    "rough kernel": problem(c=0.05, order=3, base="laplace"),
    "three rows": problem(n=3),
    "constant kernel": replace(problem(), kernel=AdditiveKernel(np.ones(3), np.zeros(3), [1.0, 1.0])),
    "kernel without any weight": replace(problem(), kernel=AdditiveKernel(np.ones(3), np.ones(3), [0.0, 0.0])),
}
every_problem = pytest.mark.parametrize("problem", PROBLEMS.values(), ids=PROBLEMS)
GROUP = np.random.default_rng(1).permutation(np.repeat(np.arange(7), [1, 1, 2, 3, 4, 5, 8]))
GROUPED = {
    "groups": problem(group=GROUP, rho=0.7),
    "groups, weights": problem(group=GROUP, rho=0.7, weight=uneven(24)),
    "groups, large level": problem(group=GROUP, rho=100.0, weight=uneven(24), q=3),
    "groups, no intercept": problem(group=GROUP, rho=2.0, weight=uneven(24), intercept=False),
    "groups, duplicate rows": replace(with_duplicates(), group=GROUP, rho=0.7),
    "groups, low rank": problem(n=40, D=1, order=1, c=20.0, group=np.arange(40) % 9, rho=0.7, weight=uneven(40)),
    "groups, no level": problem(group=GROUP, rho=0.0, weight=uneven(24)),
    "groups of single rows": problem(group=np.arange(24), rho=0.7, weight=uneven(24)),
}
every_noise = pytest.mark.parametrize("problem", (PROBLEMS | GROUPED).values(), ids=PROBLEMS | GROUPED)
ALPHAS = (1e-8, 1e-3, 1.0, 1e6)


def fold(held_out, test=None) -> Fold:
    held_out = np.asarray(held_out, dtype=np.intp)
    return Fold(held_out, np.arange(len(held_out)) if test is None else np.asarray(test, dtype=np.intp))


def partition(n: int) -> list[Fold]:
    """Up to four folds of shuffled rows that cover everything once."""
    return [fold(rows) for rows in np.array_split(np.random.default_rng(n).permutation(n), min(n, 4))]


SINGLE_ROWS = {
    "every row alone": lambda n: [fold([i]) for i in range(n)],
    "some rows alone": lambda n: [fold([i]) for i in (n - 1, 0)],
}
FOLDS = {
    "a partition": partition,
    "not all rows": lambda n: partition(n)[:2],
    "overlapping": lambda n: [fold([0, 1]), fold([1, 2, 0][: n - 1]), fold(range(n // 2 + 1))],
    "one row to train on": lambda n: [fold(range(1, n))],
}


# --- held-out residuals: one contract -----------------------------------------------------------------

CONTRACT = [
    pytest.param(formula, make_folds, id=f"{formula.__name__}, {name}")
    for formula in (_LeaveOneOut, _FoldBlocks, _FoldGrams)
    for name, make_folds in (SINGLE_ROWS if formula is _LeaveOneOut else SINGLE_ROWS | FOLDS).items()
]


@every_problem
@pytest.mark.parametrize(("formula", "make_folds"), CONTRACT)
def test_held_out_residuals_equal_refits(problem, formula, make_folds):
    folds = make_folds(len(problem.X))
    path = formula(problem.factor(), problem.Y, folds)
    for alpha in ALPHAS:
        residuals = path.residuals(alpha)
        for ours, one in zip(residuals, folds, strict=True):
            expected = naive.held_out_residuals(problem.K, problem.Y, alpha, one.held_out, **problem.options)
            np.testing.assert_allclose(ours, expected, rtol=0, atol=problem.tolerance(alpha), err_msg=f"{alpha=}")


GROUP_FOLDS = {
    "every group alone": lambda groups: [[g] for g in range(groups)],
    "a partition": lambda groups: np.array_split(np.random.default_rng(0).permutation(groups), 3),
    "overlapping": lambda groups: [[0, 1], [1, 2, 4], range(groups // 2 + 1)],
    "one group to train on": lambda groups: [range(groups - 1)],
}


@pytest.mark.parametrize("problem", GROUPED.values(), ids=GROUPED)
@pytest.mark.parametrize("formula", [_FoldBlocks, _FoldGrams, held_out])
@pytest.mark.parametrize("of_groups", GROUP_FOLDS.values(), ids=GROUP_FOLDS)
def test_held_out_groups_equal_generalised_least_squares_without_them(problem, formula, of_groups):
    held = [np.flatnonzero(np.isin(problem.group, groups)) for groups in of_groups(problem.group.max() + 1)]
    path = formula(problem.factor(), problem.Y, [fold(rows) for rows in held])
    for alpha in ALPHAS:
        for ours, rows in zip(path.residuals(alpha), held, strict=True):
            expected = naive.held_out_residuals(problem.K, problem.Y, alpha, rows, **problem.options)
            np.testing.assert_allclose(ours, expected, rtol=0, atol=problem.tolerance(alpha), err_msg=f"{alpha=}")


@pytest.mark.parametrize("formula", [_FoldBlocks, _FoldGrams])
def test_rows_held_out_but_not_tested_stay_out_of_the_fit(formula):
    """All of `held_out` stays out of the fit; `test` are positions within it."""
    problem = PROBLEMS["weights"]
    folds = [fold([3, 8, 0, 21], test=[2, 0]), fold([5, 6, 7], test=[1])]
    for ours, one in zip(formula(problem.factor(), problem.Y, folds).residuals(0.1), folds, strict=True):
        expected = naive.held_out_residuals(problem.K, problem.Y, 0.1, one.held_out, **problem.options)
        assert len(ours) == len(one.held_out)
        np.testing.assert_allclose(ours[one.test], expected[one.test], rtol=0, atol=problem.tolerance(0.1))


@pytest.mark.parametrize("formula", [_LeaveOneOut, _FoldBlocks, _FoldGrams])
def test_residuals_do_not_depend_on_the_alphas_asked_before(formula):
    problem = PROBLEMS["plain"]
    folds = SINGLE_ROWS["every row alone"](24)
    used = formula(problem.factor(), problem.Y, folds)
    for alpha in ALPHAS:
        used.residuals(alpha)
    fresh = formula(problem.factor(), problem.Y, folds)
    np.testing.assert_array_equal(used.residuals(0.5), fresh.residuals(0.5))


@pytest.mark.parametrize("formula", [_LeaveOneOut, _FoldBlocks, _FoldGrams])
@pytest.mark.parametrize("name", ["constant kernel", "kernel without any weight"])
def test_a_kernel_of_rank_zero_predicts_the_mean_and_prints_nothing(formula, name, capfd):
    """BLAS prints errors about empty arguments, and its reference version stops the program."""
    problem = PROBLEMS[name]
    residuals = formula(problem.factor(), problem.Y, SINGLE_ROWS["every row alone"](24)).residuals(1.0)
    mean_of_others = (problem.Y.sum() - problem.Y) / 23
    np.testing.assert_allclose(np.concatenate(residuals), problem.Y - mean_of_others, rtol=1e-12)
    assert capfd.readouterr() == ("", "")


def test_leaving_out_a_row_of_weight_w_is_leaving_out_its_w_copies():
    repeats = np.array([1, 3, 2, 1, 1, 2, 1, 4])
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(8, 2)), rng.normal(size=(8, 2))
    kernel = AdditiveKernel([1.0, 1.0], [1.0, 1.0], [0.0, 1.0, 1.0])
    rows = np.repeat(np.arange(8), repeats)
    copies = [fold(np.flatnonzero(rows == i)) for i in range(8)]
    weighted = held_out(exact_factor(kernel(X), Noise(repeats.astype(float))), Y, SINGLE_ROWS["every row alone"](8))
    repeated = held_out(exact_factor(kernel(X[rows])), Y[rows], copies)
    for once, often in zip(weighted.residuals(0.1), repeated.residuals(0.1), strict=True):
        np.testing.assert_allclose(often, np.tile(once, (len(often), 1)), rtol=1e-11)


@every_problem
@pytest.mark.parametrize("make_folds", [*SINGLE_ROWS.values(), *FOLDS.values()], ids=[*SINGLE_ROWS, *FOLDS])
def test_any_formula_that_is_chosen_gives_the_same_residuals(problem, make_folds):
    """`held_out` weighs costs by the number of alphas; the answer must not depend on it."""
    factor, folds = problem.factor(), make_folds(len(problem.X))
    few, many = (held_out(factor, problem.Y, folds, n_alphas) for n_alphas in (1, 10_000))
    for alpha in ALPHAS:
        for one, other in zip(few.residuals(alpha), many.residuals(alpha), strict=True):
            np.testing.assert_allclose(one, other, rtol=0, atol=problem.tolerance(alpha))


@pytest.mark.parametrize(
    ("name", "folds", "n_alphas", "formula"),
    [
        ("plain", SINGLE_ROWS["every row alone"], 30, _LeaveOneOut),
        ("low rank", SINGLE_ROWS["some rows alone"], 10_000, _LeaveOneOut),
        ("low rank", partition, 30, _FoldGrams),
        ("plain", partition, 1, _FoldBlocks),
        ("plain", partition, 10_000, _FoldGrams),
    ],
)
def test_the_cheapest_formula_is_chosen(name, folds, n_alphas, formula):
    problem = PROBLEMS[name]
    assert isinstance(held_out(problem.factor(), problem.Y, folds(len(problem.X)), n_alphas), formula)


# --- coefficients -------------------------------------------------------------------------------------


def assert_solves(problem, alpha, coef, offset):
    """Compare fitted values, coefficients and offset (if well determined) with the full system."""
    expected_coef, expected_offset = naive.ridge(problem.K, problem.Y, alpha, **problem.options)
    fitted, expected = problem.K @ coef + offset, problem.K @ expected_coef + expected_offset
    tolerance = problem.tolerance(alpha)
    np.testing.assert_allclose(fitted, expected, rtol=0, atol=tolerance)
    np.testing.assert_allclose(alpha * coef, alpha * expected_coef, rtol=0, atol=tolerance)
    if alpha >= 1e-3:
        np.testing.assert_allclose(offset, expected_offset, rtol=0, atol=tolerance)


@every_noise
@pytest.mark.parametrize("alpha", ALPHAS)
def test_coefficients_solve_the_full_system(problem, alpha):
    assert_solves(problem, alpha, *coefficients(problem.factor(), problem.Y, alpha))


every_solver = pytest.mark.parametrize(
    "solve",
    [
        lambda problem, alpha: coefficients(problem.factor(), problem.Y, alpha),
        lambda problem, alpha: solve_once(problem.K, problem.Y, alpha, problem.noise)[:2],
    ],
    ids=["coefficients", "solve_once"],
)
WITH_INTERCEPT = {name: problem for name, problem in (PROBLEMS | GROUPED).items() if problem.intercept}


@pytest.mark.parametrize("problem", WITH_INTERCEPT.values(), ids=WITH_INTERCEPT)
@pytest.mark.parametrize("alpha", ALPHAS)
def test_solve_once_solves_the_full_system(problem, alpha):
    coef, offset, note = solve_once(problem.K, problem.Y, alpha, problem.noise)
    assert note is None
    assert_solves(problem, alpha, coef, offset)


@pytest.mark.parametrize("name", ["fewer rows than features", "rough kernel"])
@pytest.mark.parametrize("alpha", [1e-12, 1e-8, 1e-4])
@every_solver
def test_tiny_alpha_costs_no_digits_where_the_kernel_is_well_conditioned(name, alpha, solve):
    problem = PROBLEMS[name]
    assert np.linalg.cond(problem.K) < 50
    expected_coef, expected_offset = naive.ridge(problem.K, problem.Y, alpha)
    coef, offset = solve(problem, alpha)
    np.testing.assert_allclose(coef, expected_coef, rtol=0, atol=1e-12)
    np.testing.assert_allclose(offset, expected_offset, rtol=0, atol=1e-12)
    np.testing.assert_allclose(coef.sum(axis=0), 0.0, atol=1e-12)


@pytest.mark.parametrize("alpha", [1e-12, 1e-8, 1e-4])
@every_solver
def test_a_duplicate_row_costs_no_digits(alpha, solve):
    """A row twice with the same target is one row of weight 2: as well conditioned as without it."""
    distinct = PROBLEMS["rough kernel"]
    rows = np.append(np.arange(24), 23)
    problem = replace(distinct, X=distinct.X[rows], Y=distinct.Y[rows])
    new = np.random.default_rng(3).normal(size=(9, 3))
    expected_coef, expected_offset = naive.ridge(distinct.K, distinct.Y, alpha, np.diag(np.append(np.ones(23), 0.5)))
    coef, offset = solve(problem, alpha)
    expected = distinct.kernel(new, distinct.X) @ expected_coef + expected_offset
    np.testing.assert_allclose(problem.kernel(new, problem.X) @ coef + offset, expected, rtol=0, atol=1e-12)
    np.testing.assert_allclose(offset, expected_offset, rtol=0, atol=1e-12)


def test_a_tiny_alpha_interpolates_and_a_huge_one_gives_the_weighted_mean():
    problem = PROBLEMS["weights"]
    mean = problem.weight @ problem.Y / problem.weight.sum()
    for alpha, expected in [(1e-8, problem.Y), (1e10, np.tile(mean, (24, 1)))]:
        coef, offset = coefficients(problem.factor(), problem.Y, alpha)
        np.testing.assert_allclose(problem.K @ coef + offset, expected, rtol=0, atol=1e-5)


def test_solve_once_notes_an_added_jitter():
    problem = PROBLEMS["duplicate rows"]
    coef, offset, note = solve_once(problem.K, problem.Y, 1e-20)
    assert "ill-conditioned" in note
    assert np.isfinite(coef).all()
    assert np.isfinite(offset).all()


@every_solver
def test_integer_weights_are_repeated_rows(solve):
    repeats = np.array([1, 3, 2, 1, 5, 2])
    rows = np.repeat(np.arange(6), repeats)
    weighted = replace(problem(n=6, D=2, q=3), weight=repeats.astype(float))
    repeated = replace(weighted, X=weighted.X[rows], Y=weighted.Y[rows], weight=None)
    coef, offset = solve(weighted, 0.3)
    repeated_coef, repeated_offset = solve(repeated, 0.3)
    np.testing.assert_allclose(offset, repeated_offset, rtol=1e-11)
    summed = np.array([repeated_coef[rows == i].sum(axis=0) for i in range(6)])
    np.testing.assert_allclose(coef, summed, rtol=1e-11)


def test_a_common_factor_of_weights_and_alpha_cancels():
    problem = PROBLEMS["weights"]
    plain = coefficients(problem.factor(), problem.Y, 0.3)
    scaled = coefficients(replace(problem, weight=7.0 * problem.weight).factor(), problem.Y, 7.0 * 0.3)
    for ours, expected in zip(scaled, plain, strict=True):
        np.testing.assert_allclose(ours, expected, rtol=1e-10)


@pytest.mark.parametrize("name", ["plain", "weights", "many outputs", "low rank"])
def test_expansion_predicts_what_the_full_system_predicts(name):
    problem = PROBLEMS[name]
    new = np.random.default_rng(9).normal(size=(7, problem.X.shape[1]))
    fitted = expansion(problem.kernel, problem.X, problem.factor(), problem.Y, 0.1)
    assert isinstance(fitted, KernelExpansion)
    coef, offset = naive.ridge(problem.K, problem.Y, 0.1, problem.R)
    np.testing.assert_allclose(fitted.predict(new), problem.kernel(new, problem.X) @ coef + offset, rtol=1e-9)


# --- degrees of freedom -------------------------------------------------------------------------------


@every_noise
@pytest.mark.parametrize("alpha", ALPHAS)
def test_degrees_of_freedom_are_the_trace_of_the_smoother(problem, alpha):
    expected = np.trace(naive.smoother(problem.K, alpha, **problem.options))
    tolerance = problem.tolerance(alpha) * len(problem.X)
    np.testing.assert_allclose(degrees_of_freedom(problem.factor(), alpha), expected, rtol=0, atol=tolerance)


# --- the factor ---------------------------------------------------------------------------------------


def whitener(R, n) -> np.ndarray:
    """Return T (n, n) with T R T' = I: (I - b s s') W^1/2, by the definition of ``Noise``."""
    if R is None:
        return np.eye(n)
    shared = R - np.diag(np.diag(R))
    level = shared.max()
    root = np.sqrt(1 / (np.diag(R) - level)) if level else 1 / np.sqrt(np.diag(R))
    together = (shared > 0) | np.eye(n, dtype=bool)
    total = together @ root**2
    shrink = (1 - 1 / np.sqrt(1 + level * total)) / total
    return (np.eye(n) - shrink[:, None] * together * np.outer(root, root)) * root


def weighted_centred(K, R=None, *, intercept=True) -> np.ndarray:
    """Return P T K T' P, with P = I - u u' and u = T 1 / |T 1|."""
    T = whitener(R, len(K))
    u = T.sum(axis=1) / np.linalg.norm(T.sum(axis=1))
    P = np.eye(len(K)) - np.outer(u, u) if intercept else np.eye(len(K))
    return P @ T @ K @ T.T @ P


def assert_is_factor(factor, K, R=None, *, intercept=True):
    """Orthonormal Q that knows no intercept, ascending positive l, and Q diag(l) Q' = the whitened centred kernel."""
    Q, l = factor.Q, factor.l  # noqa: E741
    n = len(K)
    tolerance = 1e-14 * n
    np.testing.assert_allclose(Q.T @ Q, np.eye(len(l)), rtol=0, atol=tolerance)
    assert np.all(l > 0)
    assert np.all(np.diff(l) >= 0)
    expected = weighted_centred(K, R, intercept=intercept)
    scale = np.max(np.diag(K)) * np.abs(whitener(R, n)).sum(axis=1).max() ** 2
    np.testing.assert_allclose((Q * l) @ Q.T, expected, rtol=0, atol=tolerance * scale)
    if intercept:
        u = whitener(R, n).sum(axis=1)
        u /= np.linalg.norm(u)
        np.testing.assert_allclose(u @ Q, 0.0, atol=tolerance)
        np.testing.assert_allclose(factor.intercept_direction, u, rtol=1e-13)
    else:
        assert factor.intercept_direction is None


@every_noise
def test_factor_is_the_eigendecomposition(problem):
    assert_is_factor(problem.factor(), problem.K, **problem.options)


@pytest.mark.parametrize("intercept", [True, False], ids=["intercept", "no intercept"])
@pytest.mark.parametrize("weight", [None, uneven(300)], ids=["no weights", "weights"])
@pytest.mark.parametrize("low", [True, False], ids=["low rank", "full rank"])
def test_low_rank_and_full_rank_factors_are_right(low, weight, intercept):
    """A smooth kernel of order 1 in two features has a numerical rank far below n; a rough one has all of it."""
    X = np.random.default_rng(2).normal(size=(300, 2))
    kernel = AdditiveKernel([5.0, 5.0] if low else [0.01, 0.01], [1.0, 1.0], [0.0, 1.0] if low else [0.0, 0.0, 1.0])
    noise, R = (None, None) if weight is None else (Noise(weight), np.diag(1 / weight))
    factor = exact_factor(kernel(X), noise, intercept=intercept)
    assert_is_factor(factor, kernel(X), R, intercept=intercept)
    assert (_pivoted_cholesky(weighted_centred(kernel(X), R, intercept=intercept)) is not None) == low
    if low:
        assert 10 < len(factor.l) < 60
    else:
        assert len(factor.l) == 300 - intercept


@pytest.mark.parametrize("intercept", [True, False], ids=["intercept", "no intercept"])
def test_rank_of_duplicates_is_the_number_of_distinct_rows(intercept):
    X = np.repeat(np.random.default_rng(3).normal(size=(5, 3)), 8, axis=0)
    K = AdditiveKernel(np.ones(3), np.ones(3), [0.0, 0.0, 0.0, 1.0])(X)
    assert len(exact_factor(K.copy(), intercept=intercept).l) == 5 - intercept


def test_one_row_has_nothing_left_after_the_intercept():
    factor = exact_factor(np.array([[2.0]]))
    coef, offset = coefficients(factor, np.array([[5.0]]), 1.0)
    assert factor.Q.shape == (1, 0)
    assert coef == 0.0
    assert offset == 5.0
    assert degrees_of_freedom(factor, 1.0) == 1.0


def test_project_weighs_and_centres():
    for problem in (PROBLEMS["weights"], PROBLEMS["weights, no intercept"]):
        root = np.sqrt(problem.weight)
        P = np.eye(24) - np.outer(root, root) / (root @ root) * problem.intercept
        np.testing.assert_allclose(problem.factor().project(problem.Y), P @ (root[:, None] * problem.Y), atol=1e-13)


# --- linear systems that never fail -------------------------------------------------------------------


def spectral(eigenvalues, seed=0) -> np.ndarray:
    """A symmetric matrix with these eigenvalues."""
    Q, _ = np.linalg.qr(np.random.default_rng(seed).normal(size=(len(eigenvalues),) * 2))
    A = (Q * eigenvalues) @ Q.T
    return (A + A.T) / 2


def test_well_conditioned_systems_are_solved_without_a_note():
    A = spectral(np.linspace(1.0, 10.0, 12))
    B = np.random.default_rng(1).normal(size=(12, 3))
    solution, note = solve_positive(A.copy(), B)
    assert note is None
    np.testing.assert_allclose(solution, np.linalg.solve(A, B), rtol=0, atol=1e-13)


def test_only_the_lower_triangle_is_read():
    A = spectral(np.linspace(1.0, 10.0, 12))
    B = np.eye(12)
    garbage = np.tril(A) + np.triu(np.full((12, 12), 1e3), 1)
    np.testing.assert_array_equal(solve_positive(garbage, B)[0], solve_positive(A, B)[0])


DIFFICULT = {
    "duplicated rows": np.kron(spectral([1.0, 2.0, 3.0, 4.0]), np.ones((3, 3))),
    "ones": np.ones((9, 9)),
    "rank one": np.outer(np.arange(1.0, 8.0), np.arange(1.0, 8.0)),
    "zero": np.zeros((5, 5)),
    "one zero": np.zeros((1, 1)),
    "slightly indefinite": spectral([-1e-16, 1.0, 2.0, 3.0, 4.0]),
    "indefinite by 1e-12": spectral([-1e-12, -1e-13, 1.0, 2.0, 3.0, 4.0]),
    "indefinite by 1e-10": spectral([-1e-10, 1.0, 2.0, 3.0, 4.0]),
    "indefinite beyond every jitter": spectral([-1e-7, 0.0, 1.0, 2.0, 3.0, 4.0]),
    "wide range": spectral(np.concatenate([[-1e-10], np.geomspace(1e-3, 1e3, 8)])),
}


@pytest.mark.parametrize("scale", [1e-100, 1.0, 1e100])
@pytest.mark.parametrize("A", DIFFICULT.values(), ids=DIFFICULT)
def test_ill_conditioned_systems_are_solved_with_a_note(A, scale):
    """The right-hand side lies in the well-determined part of the range; an answer must satisfy the equations there."""
    values, Q = np.linalg.eigh(A)
    well = Q[:, values > 1e-5 * max(values[-1], 1e-300)]
    X = well @ np.random.default_rng(0).normal(size=(well.shape[1], 2))
    B = A @ X
    solution, note = solve_positive(A * scale, B)
    assert note
    assert np.isfinite(solution).all()
    residual = np.abs(A @ (solution * scale) - B)
    assert residual.max(initial=0.0) <= 1e-6 * np.abs(B).max(initial=0.0)


@pytest.mark.parametrize("eigenvalues", [[-1.0, -2.0, -3.0], [-5.0, 1.0, 2.0]], ids=["negative", "indefinite"])
def test_indefinite_matrices_get_a_pseudo_inverse(eigenvalues):
    """The inverse is taken over the positive eigenvalues only."""
    A = spectral(eigenvalues)
    values, Q = np.linalg.eigh(A)
    positive = np.where(values > 0, 1 / values, 0.0)
    solution, note = solve_positive(A, np.eye(3))
    assert note == "used a pseudo-inverse for a singular matrix"
    np.testing.assert_allclose(solution, (Q * positive) @ Q.T, atol=1e-14)


def test_the_smallest_sufficient_jitter_is_reported():
    _, note = solve_positive(spectral([-1e-12, 1.0, 1.0, 1.0, 1.0]), np.eye(5))
    assert note == "added 1e-11 of the mean diagonal to factorise an ill-conditioned matrix"


def test_eigenvalues_ascend():
    A = spectral([3.0, 1.0, 2.0])
    values, Q = symmetric_eigen(A.copy())
    np.testing.assert_allclose(values, [1.0, 2.0, 3.0], rtol=1e-14)
    np.testing.assert_allclose((Q * values) @ Q.T, A, atol=1e-14)
