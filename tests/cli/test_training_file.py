"""Tests of salsa fit in chunks, for files large relative to memory: models and messages do not depend on chunks."""

import datetime
import gzip
import json
import re
import subprocess
import sys
import textwrap
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import salsa
from cli.command import contents, make_table
from salsa.cli import fit, training_file
from salsa.cli.tables import kinds, reading, texts
from salsa.cli.tables.census import CsvTypes, csv_types
from salsa.cli.training_file import is_large
from salsa.data import text_columns
from salsa.persistence.archive import read_archive

FIT = ["--target", "y", "--out", "m.salsa", "--order", "2", "--relevance", "equal", "--rank", "30", "--jobs", "1"]
ROLES = ["--weights", "w", "--category", "code", "--category", "k", "--drop", "id"]


def make_mixed_rows(n=700):
    """Return columns whose type looks different in some chunks, missing values, and weights of zero."""
    rng, row = np.random.default_rng(0), np.arange(n)
    table = pd.DataFrame({"a": rng.uniform(-1, 1, n), "colour": rng.choice(["red", "green", "blue"], n)})
    table = table.assign(
        code=rng.choice([10.0, 20.0, 30.0], n),
        flag=(rng.random(n) < 0.5).astype(object),
        size=np.where(row < 400, rng.choice(["1", "02"], n), rng.choice(["1", "L"], n)),  # numbers in early chunks
        answer=np.where(row < 400, "True", rng.choice(["0", "1"], n)),  # booleans, then numbers
        k=rng.integers(0, 5, n),
        count=rng.integers(0, 9, n),
        wide=rng.integers(10**17, 10**18, n).astype(str),  # integers, and fractions at the end
        late=np.where(row < 600, None, rng.choice(["x", "z"], n)),
        void=None,
        w=rng.integers(0, 3, n),
        id=[f"name {i}" for i in row],
    )
    table.loc[n - 10 :, "wide"] = "123456.5"
    table["y"] = table["a"] + (table["colour"] == "red") + (table["code"] == 20) + 0.1 * rng.normal(size=n)
    for name in ("a", "colour", "code", "flag", "size", "count"):
        table.loc[rng.random(n) < 0.03, name] = None
    return table


@pytest.fixture(scope="module")
def mixed_rows():
    return make_mixed_rows()


@pytest.fixture
def chunked(monkeypatch):
    """Give a function after whose call every file is large and is read in chunks of so many values."""

    def set_up(values=1000):
        monkeypatch.setattr(training_file, "COPIES", 10**15)
        monkeypatch.setattr(reading, "CHUNK_VALUES", values)
        monkeypatch.setattr(reading, "FIRST_ROWS", 17)

    return set_up


@pytest.fixture
def both_ways(call, folder, chunked):
    """Give a function that fits a file whole and in chunks, and returns both JSON summaries and both models."""

    def run(name, *options, values=1000):
        told, models = [], []
        for prepare in (lambda: None, lambda: chunked(values)):
            prepare()
            code, out, err = call("fit", name, *FIT, *options, "--json")
            assert (code, err) == (0, "")
            told.append(json.loads(out))
            models.append(read_archive("m.salsa"))
        return told, models

    return run


def check_same(told, models):
    """Assert that both summaries and both models are equal, except for times."""
    for summary in told:
        assert all(row.pop("seconds") > 0 for row in summary["orders"])
    assert told[0] == told[1]
    (header, arrays), (other_header, others) = models
    assert header.pop("search").keys() == other_header.pop("search").keys()  # values are in the summary
    assert header == other_header
    assert arrays.keys() == others.keys()
    for name, array in arrays.items():
        np.testing.assert_array_equal(array, others[name])


class TestModelsInChunks:
    """A model fitted in chunks is bit-identical to the model of the file read whole."""

    @pytest.mark.parametrize("name", ["t.csv", "t.parquet"])
    def test_dates_give_identical_models(self, both_ways, mixed_rows, name):
        """The first chunks have no stamp at all."""
        table = mixed_rows[["a", "y"]].assign(day=pd.date_range("2020-01-01", periods=len(mixed_rows), freq="9h"))
        table.loc[: len(table) // 2, "day"] = pd.NaT
        table.to_csv(name, index=False) if name.endswith("csv") else table.to_parquet(name)
        told, models = both_ways(name, values=200)
        check_same(told, models)
        assert told[1]["features"][1] == "day: trend"

    def test_dates_in_some_chunks_and_texts_in_others_are_categories(self, both_ways, mixed_rows):
        months = [f"2026-0{1 + i % 4}" if i < 400 else "later" for i in range(len(mixed_rows))]
        mixed_rows[["a", "y"]].assign(month=months).to_csv("t.csv", index=False)
        told, models = both_ways("t.csv", values=200)
        check_same(told, models)
        assert told[1]["categorical"] == ["month"]

    @pytest.mark.parametrize("name", ["t.csv", "t.tsv.gz"])
    def test_mixed_columns_of_csv_give_identical_models(self, both_ways, mixed_rows, name):
        mixed_rows.to_csv(name, index=False, sep="\t" if ".tsv" in name else ",")
        told, models = both_ways(name, *ROLES)
        check_same(told, models)
        assert told[1]["notes"][0] == "column 'void' has no values and is ignored"
        assert told[1]["categorical"] == ["colour", "code", "size", "answer", "k", "late"]
        columns = salsa.load("m.salsa").columns_
        levels = dict(zip(columns.names, columns.levels, strict=True))
        assert levels["size"] == ("02", "1", "L")
        assert levels["answer"] == ("0", "1", "True")

    @pytest.mark.parametrize("group", [23, 100_000])
    @pytest.mark.parametrize("suffix", ["parquet", "feather"])
    def test_typed_columns_of_arrow_files_give_identical_models(self, both_ways, mixed_rows, suffix, group):
        """The file has ordered and unordered dictionaries; its row groups are smaller or larger than chunks."""
        table = mixed_rows.astype({"colour": "category", "flag": "boolean", "count": "Int64", "wide": float})
        steps = pd.CategoricalDtype(["low", "mid", "high", "never"], ordered=True)
        grade = pd.Series(np.where(np.arange(len(table)) < 300, "high", "low"), dtype=steps)
        table = table.assign(grade=grade, kind=table["k"].astype("category"), void=np.nan)
        if suffix == "parquet":
            table.to_parquet("t.parquet", row_group_size=group)
        else:
            table.to_feather("t.feather", chunksize=group)
        told, models = both_ways(f"t.{suffix}", *ROLES)
        check_same(told, models)
        assert told[1]["rows"] == len(table)

    def test_sixty_rows_give_identical_models(self, both_ways):
        make_table().to_csv("t.csv", index=False)
        check_same(*both_ways("t.csv", "--rank", "100", values=40))

    @pytest.mark.parametrize("labels", ["text", "numbers", "numbers, then text", "leading zeros"])
    def test_groups_give_identical_models(self, both_ways, labels):
        number = np.random.default_rng(1).integers(0, 40, 600)
        names = {"text": [f"p{i}" for i in number], "numbers": number, "leading zeros": [f"{i:03d}" for i in number]}
        names["numbers, then text"] = [f"p{i}" if row > 400 else str(i) for row, i in enumerate(number)]
        make_table(600).assign(who=names[labels], w=1 + number % 2).to_csv("t.csv", index=False)
        told, models = both_ways("t.csv", "--group", "who", "--weights", "w", values=300)
        check_same(told, models)
        assert told[1]["groups"]["count"] == len(set(names[labels]))
        assert told[1]["groups"]["rho"] == salsa.load("m.salsa").search_.rho

    def test_logarithms_give_identical_models(self, both_ways):
        table = make_table(600)
        table.assign(y=np.exp(table["y"])).to_csv("t.csv", index=False)
        told, models = both_ways("t.csv", "--log", values=300)
        check_same(told, models)
        assert told[1]["target_transform"] == "log"

    def test_chunks_without_values_give_identical_models(self, both_ways):
        table = make_table(600).assign(c=np.nan, word=None).astype({"word": object})
        table.loc[590:, "c"], table.loc[300:310, "word"] = 0.5, "x"
        table.to_csv("t.csv", index=False)
        check_same(*both_ways("t.csv", values=300))

    def test_a_small_memory_option_gives_an_identical_model(self, call, folder):
        """The option --memory alone makes the file large; with a given alpha, nothing needs more memory than that."""
        make_table(40_000).to_parquet("t.parquet")
        assert not is_large("t.parquet", 50_000_000)
        assert is_large("t.parquet", 6_000_000)
        models = []
        for memory in ("50MB", "6MB"):
            assert call("fit", "t.parquet", *FIT, "--alpha", "0.1", "--rank", "2", "--memory", memory)[0] == 0
            models.append(salsa.load("m.salsa"))
            assert models[-1].memory_limit == memory
        np.testing.assert_array_equal(models[0].expansion_.coef, models[1].expansion_.coef)


WRONG = {
    "no_such_column": ("a,Y\n" + "1,2\n" * 80, []),
    "two_roles": ("a,y\n" + "1,2\n" * 80, ["--drop", "y"]),
    "text_target": ("a,y\n" + "1,2\n" * 70 + "2,x\n" + "1,2\n" * 9, []),
    "missing_target": ("a,y\n" + "1,\n" * 90, []),
    "two_units": ("a,y\n" + "".join(f"{i} kg,2\n" for i in range(70)) + "1 g,2\n", []),
    "two_marks": ("a;y\n" + "".join(f"{i},5;2\n{i}.5;2\n" for i in range(70)), []),
    "infinite_target": ("a,y\n" + "1,2\n" * 70 + "2,inf\n" * 9, []),
    "missing_weight": ("a,w,y\n" + "1,1,2\n" * 70 + "2,,1\n" * 9, ["--weights", "w"]),
    "text_weight": ("a,w,y\n" + "1,1,2\n" * 70 + "2,x,1\n" * 9, ["--weights", "w"]),
    "missing_group": ("a,w,y\n" + "1,1,2\n" * 70 + "2,,1\n" * 9 + "1,2,3\n", ["--group", "w"]),
    "one_group": ("a,w,y\n" + "1,1,2\n2,1,3\n" * 40, ["--group", "w"]),
    "no_such_group": ("a,y\n" + "1,2\n" * 80, ["--group", "w"]),
    "no_logarithm": ("a,y\n" + "1,2\n" * 70 + "2,-1\n" * 9, ["--log"]),
    "infinite_feature": ("a,y\n" + "1,2\n" * 70 + "inf,2\n" * 9, []),
    "nothing_left": ("a,b,y\n" + ",NA,2\n" * 80, []),
    "nothing_at_all": ("y\n" + "2\n" * 80, []),
    "mistake": ("a,y\n" + "1,2\n" * 95 + "x,2\n" * 5, []),
    "early_mistake": ("a,y\n" + "x,2\n" * 5 + "1,2\n" * 95, []),
    "dates": ("a,when,y\n" + "".join(f"1,2026-{m}-{d},2\n" for m in range(1, 13) for d in range(1, 29)), []),
    "identifiers_alone": ("who,y\n" + "".join(f"n{i},2\n" for i in range(100)), []),
    "identifiers_of_digits": ("who,y\n" + "".join(f"{i}-{i},2\n" for i in range(80)), []),
    "too_many_values": ("a,y\n" + "1,2\n" * 70 + "1,2,3\n", []),
    "values_beyond_the_header": ("a,y\n" + "1,2,3\n" * 80, []),
    "header_alone": ("a,y\n", []),
}


class TestMessagesInChunks:
    @pytest.mark.parametrize("case", WRONG)
    def test_invalid_tables_give_equal_messages(self, refused, chunked, case):
        text, options = WRONG[case]
        Path("t.csv").write_text(text)
        whole = refused("fit", "t.csv", *FIT, *options)
        chunked(values=30)
        assert refused("fit", "t.csv", *FIT, *options) == whole

    def test_rows_are_numbered_through_all_chunks(self, refused, chunked):
        Path("t.csv").write_text("a,y\n" + "1,2\n" * 70 + "2,x\n")
        chunked(values=30)
        assert "t.csv: column 'y' has 'x' in row 71, which is not" in refused("fit", "t.csv", *FIT)

    @pytest.mark.parametrize("suffix", ["parquet", "feather"])
    @pytest.mark.parametrize("kind", ["times", "lists", "text target", "missing target"])
    def test_invalid_arrow_files_give_equal_messages(self, refused, chunked, suffix, kind):
        table = make_table(90)
        if kind == "times":
            table["b"] = [datetime.time(12) if i > 70 else None for i in range(90)]
        elif kind == "lists":
            table["b"] = [[1, 2]] * 90
        elif kind == "text target":
            table["y"] = [*["1"] * 85, *["x"] * 5]
        else:
            table["y"] = np.nan
        getattr(table, f"to_{suffix}")(f"t.{suffix}")
        whole = refused("fit", f"t.{suffix}", *FIT)
        chunked(values=30)
        assert refused("fit", f"t.{suffix}", *FIT) == whole

    def test_too_many_distinct_texts_count_as_identifiers(self, chunked, call, folder, monkeypatch):
        who = [f"n{i % 60}" for i in range(400)]
        make_table(400).assign(who=who).to_csv("t.csv", index=False)
        chunked(values=300)
        assert call("fit", "t.csv", *FIT)[0] == 0
        for module in (texts, kinds, text_columns):
            monkeypatch.setattr(module, "MOST_TEXTS", 55)
        message = (
            "left out: more than 55 different texts in 400 rows, like names or identifiers; --category 'who' keeps it"
        )
        assert message in call("fit", "t.csv", *FIT)[1]
        assert call("fit", "t.csv", *FIT, "--category", "who")[0] == 0

    def test_damaged_and_missing_files_give_an_error(self, refused, chunked):
        chunked()
        Path("t.csv.gz").write_bytes(gzip.compress(make_table(3000).to_csv(index=False).encode())[:-1000])
        assert "t.csv.gz cannot be read: " in refused("fit", "t.csv.gz", *FIT)
        for name in ("t.parquet", "t.feather"):
            Path(name).write_bytes(b"PAR1" + bytes(40) + b"PAR1")
            assert f"{name} " in refused("fit", name, *FIT)
        for name in ("absent.csv", "absent.parquet"):
            assert refused("fit", name, *FIT) == f"salsa: {name}: No such file or directory\n"


class TestIsLarge:
    """A table is large if four times its size as numbers exceeds the limit."""

    @pytest.mark.parametrize("suffix", ["parquet", "feather"])
    def test_arrow_files_take_8_bytes_per_value(self, folder, suffix):
        getattr(make_table(100).assign(word="x"), f"to_{suffix}")(f"t.{suffix}")
        need = 4 * 8 * 100 * 6
        assert (is_large(f"t.{suffix}", need - 1), is_large(f"t.{suffix}", need)) == (True, False)

    @pytest.mark.parametrize(("name", "times"), [("t.csv", 4), ("t.tsv", 4), ("t.csv.gz", 16), ("t", 4)])
    def test_text_files_take_their_size_and_gzip_four_times(self, folder, name, times):
        make_table(100).to_csv(name)
        need = times * Path(name).stat().st_size
        assert (is_large(name, need - 1), is_large(name, need)) == (True, False)

    def test_a_pipe_is_never_large(self, call, folder, chunked):
        chunked()
        assert not is_large("-", 0)
        assert call("fit", "-", *FIT, stdin=Path("train.csv").read_bytes())[0] == 0

    @pytest.mark.parametrize("size", ["much", "4", "4 apples", "-1GB"])
    def test_invalid_sizes_give_an_error(self, refused, size):
        assert refused("fit", "train.csv", *FIT, "--memory", size).startswith(f"salsa: --memory {size}: give a size")

    @pytest.mark.parametrize("name", ["train.csv", "-"])
    def test_too_little_memory_gives_an_error_with_the_limit(self, refused, name):
        stdin = Path("train.csv").read_bytes() if name == "-" else None
        assert "the limit is 1 kB" in refused("fit", name, *FIT, "--memory", "1kB", stdin=stdin)


class TestTypesOfCsv:
    """The type of a column in the whole CSV file follows from its types in the chunks."""

    @pytest.mark.parametrize("chunks", [("1", "x"), ("x", ""), ("True", "1"), ("0.5", "True"), ("1", "", "x")])
    def test_text_or_mixed_booleans_make_a_text_column(self, chunks):
        assert self.types(chunks) == CsvTypes(["a"], [])

    @pytest.mark.parametrize("chunks", [("1", "2"), ("1", ""), ("1", "2,"), ("True", "False", ""), ("", "")])
    def test_columns_of_one_type_need_no_declaration(self, chunks):
        assert self.types(chunks) == CsvTypes([], [])

    @pytest.mark.parametrize("chunks", [("1", "0.5"), ("1.0", "2"), ("0.5,", "1,"), ("inf", "1")])
    def test_fractions_make_a_float_column(self, chunks):
        assert self.types(chunks) == CsvTypes([], ["a"])

    def types(self, chunks):
        """Return the types of a column given by the text of its chunks, where a comma begins the next row."""
        tables = [pd.DataFrame({"a": chunk.split(",")}).to_csv(index=False) for chunk in chunks]
        return csv_types(map(self.read, tables))

    def read(self, text):
        file = Path("chunk.csv")
        file.write_text(text.replace('""', ""))
        return pd.read_csv(file, skip_blank_lines=False)

    @pytest.fixture(autouse=True)
    def _in_a_folder(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)


class TestReport:
    def test_the_report_of_a_large_table_looks_at_some_rows(self, call, folder, chunked, monkeypatch):
        table = make_table(500).assign(word=["u", "v"] * 250)
        table.to_csv("t.csv", index=False)
        chunked(values=300)
        monkeypatch.setattr(training_file, "REPORT_ROWS", 60)
        code, out, err = call("fit", "t.csv", *FIT, "--report", "r.html")
        assert (code, err) == (0, "")
        shown = int(re.search(r"note +the report looks at (\d+) of the 500 rows\n", out)[1])
        assert 30 < shown <= 60
        page = Path("r.html").read_text(encoding="utf-8")
        assert f"This page was given no new rows: all {shown} are in the training table" in page
        assert "A model of y" in page

    def test_the_report_of_few_rows_looks_at_all(self, call, folder, chunked):
        chunked(values=300)
        code, out, err = call("fit", "train.csv", *FIT, "--report", "r.html")
        assert (code, err) == (0, "")
        assert "looks at" not in out


class TestProgressAndInterrupts:
    def test_progress_counts_rows_of_every_pass(self, call, folder, chunked, monkeypatch):
        said = []

        @contextmanager
        def watched(text):
            yield said.append

        for module in (fit, training_file):
            monkeypatch.setattr(module, "progress", watched)
        make_table(400).to_csv("t.csv", index=False)
        chunked(values=1000)
        assert call("fit", "t.csv", *FIT, "--report", "r.html")[0] == 0
        assert said[:3] == [f"Reading t.csv: {rows} rows" for rows in (17, 217, 400)]
        assert said[3:6] == [f"Checking t.csv: {rows} rows" for rows in (17, 217, 400)]
        if hasattr(salsa.SalsaRegressor, "set_callbacks"):  # scikit-learn has callbacks from 1.9 on
            assert said[6:9] == [f"Reading the table: {rows} rows" for rows in (17, 217, 400)]
            assert any(re.search(r"sums over all rows: 100 %", text, re.IGNORECASE) for text in said)
        assert said[-3:] == said[:3]

    @pytest.mark.parametrize("chunk", [3, 40, 60])
    def test_an_interrupt_in_any_pass_leaves_no_files(self, call, folder, chunked, monkeypatch, chunk):
        """The interrupts occur while types are found, while rows are checked, and during the fit."""
        make_table(400).to_csv("t.csv", index=False)
        chunked(values=100)
        before, read, count = contents(folder), reading.read_chunks, 0

        def interrupting(*arguments, **options):
            nonlocal count
            for piece in read(*arguments, **options):
                yield piece
                count += 1
                if count == chunk:
                    raise KeyboardInterrupt

        monkeypatch.setattr(reading, "read_chunks", interrupting)
        code, out, err = call("fit", "t.csv", *FIT, "--rank", "5")
        assert (code, err) == (130, "salsa: interrupted\n")
        assert "\nmodel" not in out
        assert count == chunk
        assert contents(folder) == before


@pytest.mark.skipif(
    not Path("/proc/self/statm").exists(), reason="the system has no /proc/self/statm for the address space"
)
def test_a_table_larger_than_memory_is_fitted_in_chunks(folder):
    """The limit of the address space is too small to read the table whole."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.random((20_000, 10)).round(2)).add_prefix("x").assign(kind=rng.choice(list("uvw"), 20_000))
    table["y"] = (np.sin(3 * table["x0"]) + table["x1"] + (table["kind"] == "u")).round(3)
    head, *lines = table.to_csv(index=False).splitlines(keepends=True)
    Path("small.csv").write_text(head + "".join(lines[:4000]))
    Path("large.csv").write_text(head + 35 * "".join(lines))  # 700 000 rows, 40 MB
    program = textwrap.dedent("""
        import resource, sys
        from salsa.cli import main

        def fit(data, memory):
            options = "--relevance equal --order 1 --alpha 0.1 --rank 30 --jobs 1 --target y"
            sys.argv = ["salsa", "fit", data, *options.split(), "--out", "m.salsa", "--memory", memory]
            try:
                main()
            except SystemExit as end:
                return end.code or 0

        assert fit("small.csv", "100MB") == 0  # libraries load what they need
        limit = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize() + 190_000_000
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        assert fit("large.csv", "100GB") == 2
        assert fit("large.csv", "150MB") == 0
    """)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=1200, check=True)
    assert re.search(r"salsa: .*(memory|allocate).*\n", done.stderr)
    assert re.search(r"rows +700000\n", done.stdout)
    error = salsa.load("m.salsa").predict(table.drop(columns="y")) - table["y"]
    assert np.std(error) < 0.1 * np.std(table["y"])
