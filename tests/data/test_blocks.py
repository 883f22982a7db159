"""Tables in blocks: Parquet files, memmaps and iterables give the fit in memory, to the last bit."""

import subprocess
import sys
import textwrap

import numpy as np
import pandas as pd
import polars as pl
import pytest
from conftest import additive_truth
from sklearn.model_selection import GroupKFold
from sums import use_kernel

from salsa import SalsaRegressor
from salsa.data.blocks import RawBlock, survey
from salsa.data.observing import judged_stream


def regressor(**parameters):
    return SalsaRegressor(**{"relevance": "equal", "order": 2, "random_state": 0, "rank": 60} | parameters)


def mixed_table(n=500):
    """Return a table of numbers, categories and missing values, with targets and weights, some of which are zero."""
    X, y = additive_truth(n=n)
    rng = np.random.default_rng(1)
    table = pd.DataFrame(X, columns=list("abcdef"))
    table["kind"] = pd.Categorical(rng.choice(["u", "v", "w"], n))
    table["word"] = np.where(np.arange(n) < 400, "early", "late")
    table.loc[rng.random(n) < 0.1, "b"] = np.nan
    return table, y + (table["kind"] == "u"), rng.integers(0, 3, n).astype(float)


def same(one, other, X):
    np.testing.assert_array_equal(one.predict(X), other.predict(X))
    np.testing.assert_array_equal(one.predict_interval(X), other.predict_interval(X))
    assert one.search_.table["cv_error"].tolist() == other.search_.table["cv_error"].tolist()
    assert one.columns_ == other.columns_
    np.testing.assert_array_equal(one.feature_names_in_, other.feature_names_in_)


@pytest.fixture(scope="module")
def known():
    X, y, weight = mixed_table()
    return X, y, weight, regressor().fit(X, y, weight)


class TestSources:
    def test_a_parquet_file_gives_the_fit_in_memory(self, known, tmp_path):
        X, y, weight, model = known
        X.assign(y=y, weight=weight).to_parquet(tmp_path / "t.parquet", row_group_size=77)
        same(regressor().fit_blocks(tmp_path / "t.parquet", target="y", sample_weight="weight"), model, X)

    def test_folders_of_parquet_files_and_datasets_give_the_fit_in_memory(self, known, tmp_path):
        from pyarrow import dataset

        X, y, weight, model = known
        for number, rows in enumerate(np.array_split(np.arange(500), 4)):
            X.assign(y=y, weight=weight).iloc[rows].to_parquet(tmp_path / f"{number}.parquet")
        for source in (str(tmp_path), dataset.dataset(tmp_path)):
            same(regressor().fit_blocks(source, target="y", sample_weight="weight"), model, X)

    @pytest.mark.parametrize("native", [pd.DataFrame, pl.from_pandas], ids=["pandas", "polars"])
    def test_blocks_of_data_frames_give_the_fit_in_memory(self, known, native):
        X, y, weight, model = known
        table = X.assign(y=y, weight=weight)
        blocks = [native(table.iloc[start : start + 120]) for start in range(0, 500, 120)]
        same(regressor().fit_blocks(blocks, target="y", sample_weight="weight"), model, X)

    def test_functions_and_iterators_of_tuples_give_the_fit_in_memory(self, known):
        X, y, weight, model = known

        def blocks():
            return ((X[rows], y[rows], weight[rows]) for rows in (slice(0, 123), slice(123, 123), slice(123, 500)))

        same(regressor().fit_blocks(blocks), model, X)
        same(regressor().fit_blocks(blocks()), model, X)

    def test_a_memmap_gives_the_fit_in_memory(self, tmp_path):
        X, y = additive_truth(n=500)
        on_disk = np.lib.format.open_memmap(tmp_path / "x.npy", "w+", shape=X.shape)
        on_disk[:] = X
        np.testing.assert_array_equal(regressor().fit(on_disk, y).predict(X), regressor().fit(X, y).predict(X))
        with pytest.raises(ValueError, match="inconsistent numbers of samples"):
            regressor().fit(on_disk, y[:-1])

    def test_blocks_with_several_outputs_give_the_fit_in_memory(self):
        X, y = additive_truth(n=300)
        table = pd.DataFrame(X, columns=list("abcdef")).assign(y=y, z=-y)
        model = regressor().fit_blocks([table[:100], table[100:]], target=["y", "z"])
        other = regressor().fit(table[list("abcdef")], table[["y", "z"]])
        np.testing.assert_array_equal(model.predict(table[list("abcdef")]), other.predict(table[list("abcdef")]))

    @pytest.mark.parametrize("parameters", [{"rank": None}, {"solver": "exact", "rank": None}, {"solver": "divide"}])
    def test_solvers_that_need_all_rows_give_the_fit_in_memory(self, parameters):
        X, y = additive_truth(n=300)
        one, other = regressor(**parameters).fit_blocks([(X[:99], y[:99]), (X[99:], y[99:])]), regressor(**parameters)
        np.testing.assert_array_equal(one.predict(X), other.fit(X, y).predict(X))

    def test_blocks_give_the_fit_in_memory_for_sums_of_kernels(self, monkeypatch):
        use_kernel(monkeypatch)
        X, y, weight = mixed_table()
        model = regressor().fit(X, y, weight)
        assert len(model.expansion_.kernel.terms) == 3
        blocks = [X.assign(y=y, weight=weight).iloc[rows] for rows in np.array_split(np.arange(500), 4)]
        same(regressor().fit_blocks(blocks, target="y", sample_weight="weight"), model, X)

    def test_given_splits_give_the_fit_in_memory(self):
        X, y = additive_truth(n=300)
        splits = [(np.flatnonzero(np.arange(300) % 3 != k), np.flatnonzero(np.arange(300) % 3 == k)) for k in range(3)]
        one, other = regressor(cv=splits).fit_blocks([(X[:99], y[:99]), (X[99:], y[99:])]), regressor(cv=splits)
        np.testing.assert_array_equal(one.predict(X), other.fit(X, y).predict(X))

    @pytest.mark.parametrize("loss", ["squared_error", "huber"])
    def test_given_splits_count_rows_of_weight_zero(self, loss):
        X, y = additive_truth(n=300)
        order = np.lexsort(X.T[::-1])
        X, y, weight = X[order], y[order], (np.arange(300) % 7 > 0).astype(float)
        splits = [(np.flatnonzero(np.arange(300) % 3 != k), np.flatnonzero(np.arange(300) % 3 == k)) for k in range(3)]
        blocks = [(X[:99], y[:99], weight[:99]), (X[99:], y[99:], weight[99:])]
        one, other = regressor(cv=splits, loss=loss).fit_blocks(blocks), regressor(cv=splits, loss=loss)
        np.testing.assert_array_equal(one.predict(X), other.fit(X, y, weight).predict(X))

    def test_splitters_of_groups_skip_rows_of_weight_zero(self):
        X, y = additive_truth(n=300)
        weight, groups = (np.arange(300) % 10 != 5).astype(float), np.arange(300) // 10
        parameters = {"cv": GroupKFold(3), "solver": "lowrank"}
        blocks = [(X[rows], y[rows], weight[rows], groups[rows]) for rows in (slice(0, 99), slice(99, 300))]
        one, other = regressor(**parameters).fit_blocks(blocks), regressor(**parameters)
        np.testing.assert_array_equal(one.predict(X), other.fit(X, y, weight, groups).predict(X))


class TestColumnsOfBlocks:
    def test_levels_of_all_blocks_are_merged(self):
        blocks = [(pd.DataFrame({"a": [1.0, 2.0], "k": texts}), [1.0, 2.0]) for texts in (["z", "b"], ["a", None])]
        assert survey([RawBlock(*block) for block in blocks], "from_dtype").columns.levels == (None, ("a", "b", "z"))

    def test_a_block_without_values_takes_the_levels_of_other_blocks(self):
        texts = [["u", "v"], [None, None], ["w", "u"]]
        blocks = [RawBlock(pd.DataFrame({"k": pd.Series(text, dtype=object)}), [0.0, 1.0]) for text in texts]
        assert survey(blocks, "from_dtype").columns.levels == (("u", "v", "w"),)

    def test_copies_are_found_by_their_levels_in_all_blocks(self):
        """A level has another code in a block with other levels; only rows with the same level are copies."""
        texts, numbers = (["u", "u"], ["a", "u"]), ([1.0, 2.0], [1.0, 2.0])
        blocks = [RawBlock(pd.DataFrame({"k": k, "x": x}), x) for k, x in zip(texts, numbers, strict=True)]
        unit, _, notes = judged_stream(survey(blocks, "from_dtype"))
        np.testing.assert_array_equal(unit, [0, 1, 2, 1])
        assert notes[0].startswith("1 of 4 rows is a copy")

    def test_copies_are_found_in_a_block_without_any_date(self):
        dates = pd.to_datetime(pd.Series(["2020-01-01", None, "2023-05-01"])), pd.Series([None, None], dtype=object)
        numbers = [1.0, 2.0, 3.0], [2.0, 5.0]
        blocks = [RawBlock(pd.DataFrame({"d": d, "x": x}), x) for d, x in zip(dates, numbers, strict=True)]
        unit, *_ = judged_stream(survey(blocks, "from_dtype"))
        np.testing.assert_array_equal(unit, [0, 1, 2, 1, 3])

    @pytest.mark.parametrize("levels", [(1, 2), (1.0, 2.0), (True, 2)])
    def test_numbers_that_are_equal_are_one_level(self, levels):
        blocks = [RawBlock(np.array([[1], [2]]), [0.0, 1.0]), RawBlock(np.array([levels], dtype=object).T, [0.0, 1.0])]
        unit, *_ = judged_stream(survey(blocks, [0]))
        np.testing.assert_array_equal(unit, [0, 1, 0, 1])

    def test_ordered_categories_stay_ordered(self):
        kind = pd.CategoricalDtype(["low", "high"], ordered=True)
        blocks = [RawBlock(pd.DataFrame({"k": pd.Series([v, v], dtype=kind)}), [0.0, 1.0]) for v in ("low", "high")]
        columns = survey(blocks, "from_dtype").columns
        assert columns.levels == (("low", "high"),)
        assert columns.ordered == (True,)


class TestErrors:
    def test_blocks_without_rows_are_refused(self):
        for blocks in ([], [(np.empty((0, 2)), np.empty(0))]):
            with pytest.raises(ValueError, match="there are no rows"):
                regressor().fit_blocks(blocks)

    def test_a_column_of_numbers_and_text_is_refused(self):
        blocks = [(pd.DataFrame({"k": values}), [0.0, 1.0]) for values in ([1, 2], ["u", "v"])]
        with pytest.raises(ValueError, match=r"column 'k' holds numbers in some blocks.*same dtype"):
            regressor().fit_blocks(blocks)

    def test_blocks_with_different_columns_are_refused(self):
        blocks = [(pd.DataFrame({name: [1.0, 2.0]}), [0.0, 1.0]) for name in ("k", "l")]
        with pytest.raises(ValueError, match="blocks differ in their columns"):
            regressor().fit_blocks(blocks)

    def test_blocks_with_different_numbers_of_outputs_are_refused(self):
        X = np.ones((2, 1))
        with pytest.raises(ValueError, match="number of outputs: 1 and 2"):
            regressor().fit_blocks([(X, [1.0, 2.0]), (X, [[1.0, 2.0], [3.0, 4.0]])])

    def test_an_absent_target_is_refused(self):
        with pytest.raises(ValueError, match="has no column 'z'; its columns are a, b"):
            regressor().fit_blocks([pd.DataFrame({"a": [1.0], "b": [2.0]})], target="z")
        with pytest.raises(ValueError, match="target must name"):
            regressor().fit_blocks([pd.DataFrame({"a": [1.0], "b": [2.0]})])

    @pytest.mark.parametrize("blocks", [3, [3], [(1, 2, 3, 4, 5)]])
    def test_other_objects_than_blocks_are_refused(self, blocks):
        with pytest.raises((TypeError, ValueError), match="give the path of a Parquet file"):
            regressor().fit_blocks(blocks)

    def test_another_number_of_rows_at_the_second_reading_is_refused(self):
        X, y = additive_truth(n=100)
        readings = iter([[(X, y)], [(X[:50], y[:50])]])
        with pytest.raises(ValueError, match="held 100 rows when first read and 50 when read again"):
            regressor().fit_blocks(lambda: next(readings))

    def test_weights_that_are_all_zero_are_refused(self):
        X, y = additive_truth(n=100)
        with pytest.raises(ValueError, match="every weight is zero"):
            regressor().fit_blocks([(X, y, np.zeros(100))])

    def test_exact_solver_refuses_tables_larger_than_memory(self):
        X, y = additive_truth(n=300)
        with pytest.raises(MemoryError, match="reads the whole table"):
            regressor(solver="exact", rank=None, memory_limit=10_000).fit_blocks([(X, y)])


def test_a_file_larger_than_memory_gives_the_fit_in_memory(tmp_path):
    """The address space is limited to less than the table; predictions equal a fit without a limit."""
    program = textwrap.dedent("""
        import resource, sys
        import numpy as np, pyarrow.parquet as pq
        from salsa import SalsaRegressor

        path, limited = sys.argv[1], sys.argv[2] == "limited"
        model = SalsaRegressor(relevance="equal", order=1, alpha=1.0, rank=50, random_state=0, n_jobs=1)
        model.set_params(memory_limit="300MB")
        if limited:
            small = next(pq.ParquetFile(path).iter_batches(1000)).to_pandas()
            model.fit_blocks([small, small], target="y")  # libraries load what they need
            used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
            resource.setrlimit(resource.RLIMIT_AS, (used + 220_000_000, used + 220_000_000))
            model.fit_blocks(path, target="y")
        else:
            table = pq.read_table(path).to_pandas()
            model.fit(table.drop(columns="y"), table["y"])
        print(model.predict(np.linspace(0, 1, 400).reshape(10, 40)).tolist())
    """)
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(0)
    names = [*(f"x{j}" for j in range(40)), "y"]
    schema = pa.schema([(name, pa.float64()) for name in names])
    with pq.ParquetWriter(tmp_path / "t.parquet", schema, use_dictionary=False, compression="none") as writer:
        for _ in range(9):  # 900 000 rows: 295 MB
            X = rng.random((100_000, 40))
            writer.write_table(pa.table([*X.T, np.sin(3 * X[:, 0]) + X[:, 1]], names=names))
    outputs = [
        subprocess.run(
            [sys.executable, "-W", "ignore", "-c", program, str(tmp_path / "t.parquet"), how],
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for how in ("limited", "unlimited")
    ]
    assert len(outputs[0]) > 100
    assert outputs[0] == outputs[1]
