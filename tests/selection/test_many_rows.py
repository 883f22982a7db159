"""Tables of many rows: more rows judge what the race has decided."""

import numpy as np
import pytest
from conftest import additive_truth

from salsa import SalsaRegressor
from salsa.learning import conditional
from salsa.learning.learn import only_features
from salsa.selection import many_rows, plan, race

ROWS = 400


@pytest.fixture(autouse=True)
def many(monkeypatch):
    """Make 120 rows many: 80 race, kernels are learned from 60 and 100 rows, then from blocks of 200."""
    settings = {
        plan: {"MANY": 120, "RACE_ROWS": 80},
        many_rows: {"ROWS": (60, 100, 110), "BLOCK_ROWS": 200, "JUDGING_ROWS": 150, "FEWEST": 50},
        conditional: {"FIRST": 60, "BLOCK": 20, "GIVEN": 40, "COORDINATES": 30},
    }
    for module, values in settings.items():
        for name, value in values.items():
            monkeypatch.setattr(module, name, value)


def fit(X=None, y=None, *, groups=None, **settings):
    if X is None:
        X, y = additive_truth(n=ROWS)
    return SalsaRegressor(solver="lowrank", rank=60, random_state=0, **settings).fit(X, y, groups=groups)


def used(model):
    return set(np.flatnonzero(model.relevance_))


@pytest.fixture
def equal_won(monkeypatch):
    """Let equal relevances win every race."""
    monkeypatch.setattr(plan, "race", lambda *given: race.race(*given)._replace(equal_won=True))


class TestPruning:
    def test_features_that_the_race_pruned_come_back(self, monkeypatch):
        """The first feature alone wins the race of 80 rows; more rows need two others."""
        first = np.arange(6) == 0

        def pruned(entry, *others):
            return entry._replace(pair=tuple(only_features(one, first) for one in entry.pair))

        monkeypatch.setattr(race, "_pruned", pruned)
        assert used(fit()) == {0, 1, 2}

    def test_features_that_60_rows_prune_come_back(self, monkeypatch):
        """The race prunes nothing, but its winner is pruned again on the first rows that it is learned from."""
        monkeypatch.setattr(race, "prune_kernel", lambda rows, one, *others: only_features(one, np.arange(6) == 0))
        assert used(fit()) == {0, 1, 2}

    def test_features_that_do_not_matter_are_removed(self):
        assert used(fit()) == {0, 1, 2}

    def test_the_pruned_sum_of_the_race_competes_with_the_sum_of_all_features(self, monkeypatch):
        original, seen = many_rows.settle, []

        def settle(problem, finalists, steps):
            seen.append([set(np.flatnonzero(race.features_of(one))) for one in finalists])
            return original(problem, finalists, steps)

        monkeypatch.setattr(many_rows, "settle", settle)
        fit()
        assert seen == [[set(range(6)), {0, 1, 2}]]

    def test_a_column_that_is_constant_in_small_samples_is_learned(self, monkeypatch):
        """A rare indicator, which matters, varies in the blocks only."""
        X, y = additive_truth(n=ROWS)
        X[:, 5] = 0.0
        X[::10, 5] = 1.0
        full, seen = many_rows.find_finalists, []

        def constant_at_first(problem, winner, steps):
            absent = np.arange(6) != 5
            found = full(problem, winner, steps)
            seen.append(found)
            return found._replace(whole=only_features(found.whole, absent), pruned=None)

        monkeypatch.setattr(many_rows, "find_finalists", constant_at_first)
        assert 5 in used(fit(X, y + 3 * X[:, 5]))
        assert seen


class TestSecondJudgement:
    @pytest.mark.parametrize("better", [True, False])
    def test_equal_relevances_must_be_clearly_better_twice(self, equal_won, monkeypatch, better):
        judged = []

        def clearly_better(equal, learned, sample):
            judged.append(len(equal))
            return better

        monkeypatch.setattr(many_rows, "clearly_better", clearly_better)
        model = fit()
        assert judged == [150]
        assert (model.search_.winner.origin == "equal") == better
        note = plan.EQUAL if better else "equal ones were clearly better with 80 rows"
        assert any(note in text for text in model.search_.notes)
        assert (len(used(model)) == 6) == better

    def test_learned_relevances_overtake_where_features_do_not_matter(self, equal_won):
        model = fit()
        assert model.search_.winner.origin != "equal"
        assert used(model) == {0, 1, 2}

    @pytest.mark.parametrize("grouped", [False, True])
    def test_rows_that_learned_or_raced_do_not_judge(self, equal_won, monkeypatch, grouped):
        """Rows are told apart by their first feature. No unit learns or races, and judges."""
        X, y = additive_truth(n=ROWS)
        groups = np.arange(ROWS) // 2 if grouped else None
        learned, judged = set(), set()

        def spy(module, name, into, of):
            original = getattr(module, name)

            def called(*given, **others):
                into.update(of(*given))
                return original(*given, **others)

            monkeypatch.setattr(module, name, called)

        spy(plan, "race", learned, lambda sample, *others: sample.X[:, 0])
        spy(plan, "_equal_contender", learned, lambda options, sample, loss: sample.X[:, 0])
        spy(many_rows, "learn_many", learned, lambda problem, *others: problem.X[:, 0])
        spy(many_rows, "held_out_losses", judged, lambda problem, *others: problem.X[:, 0])
        fit(X, y, groups=groups)
        place = {value: row // 2 if grouped else row for row, value in enumerate(X[:, 0])}
        assert len(judged) > 50
        assert not {place[value] for value in judged} & {place[value] for value in learned}

    def test_the_race_stands_with_given_splits_and_with_few_rows(self, equal_won, monkeypatch):
        assert (
            fit(cv=[(np.arange(200), np.arange(200, 400)), (np.arange(200, 400), np.arange(200))]).search_.winner.origin
            == "equal"
        )
        monkeypatch.setattr(many_rows, "FEWEST", 1000)
        assert fit().search_.winner.origin == "equal"


def test_same_seed_same_bits_whatever_the_threads():
    X = additive_truth(n=50, seed=1)[0]
    np.testing.assert_array_equal(fit(n_jobs=1).predict(X), fit(n_jobs=2).predict(X))


def test_levels_of_groups_are_learned_from_blocks():
    X, y = additive_truth(n=ROWS)
    group = np.arange(ROWS) % 80
    level = np.random.default_rng(0).normal(size=80)
    model = fit(X, y + level[group], groups=group)
    assert model.search_.rho > 1.0  # the variance of the levels is 1, the variance of the noise 0.01


def test_exact_fits_of_many_rows_learn_from_blocks(monkeypatch):
    cut, original = [], many_rows.in_blocks

    def in_blocks(problem, kernel):
        cut.append(len(problem.X))
        return original(problem, kernel)

    monkeypatch.setattr(many_rows, "in_blocks", in_blocks)
    model = SalsaRegressor(solver="exact", random_state=0).fit(*additive_truth(n=ROWS))
    assert used(model) == {0, 1, 2}
    assert cut == [200]
