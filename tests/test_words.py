"""The check of the words of docstrings, comments and test names: tools/words.py."""

import runpy
from pathlib import Path
from types import SimpleNamespace

import pytest

words = SimpleNamespace(**runpy.run_path(str(Path(__file__).parents[1] / "tools" / "words.py")))


@pytest.mark.parametrize(
    "docstring",
    [
        "Merge the surveys of all blocks; empty blocks (None) are skipped.",
        "The fitted function: f(x) = offset + sum_i coef_i k(x, anchor_i).",
        "k(x_i, x_i) (n,): sum_m w_m e_m(a) / C(D, m), as every base kernel is 1 at distance zero.",
        "Whether a table has categories or missing values.",
        "R2 and its standard error.",
        "A summary of two lines, of which only\nthe second one ends.",
        "The kernel is a sum of products:\n\n    k(x, x') = sum_m w_m e_m",
        "`of_zeros=False` skips derivatives of zero parameters.",
        "Predicted against observed values of one output.",
        "Removed features stay removed.",
        "Return the levels of a column, which are None for numbers.",
        "Learned kernels: relevances and bandwidths by maximising the marginal likelihood.",
    ],
)
def test_plain_docstrings_pass(docstring: str) -> None:
    assert words.docstring_rule(docstring) is None


@pytest.mark.parametrize(
    ("docstring", "rule"),
    [
        ("Of all rows; empty blocks are skipped.", "verb or a noun phrase"),
        ("What the columns of a table hold.", "verb or a noun phrase"),
        ("The same with another base kernel.", "verb or a noun phrase"),
        ("With the units (q,) of the outputs.", "verb or a noun phrase"),
        ("ValueError unless a file can be written there.", "verb or a noun phrase"),
        ("Shuffled, so that rows in any order will do.", "verb or a noun phrase"),
        ("Told at once, not after imports.", "verb or a noun phrase"),
        ("Returns the mean of the rows.", "verb or a noun phrase"),
        ("(D, D) of the active features.", "has this shape"),
        ("(q,): the mean of f over the background.", "has this shape"),
        ("f(X) (n,)", "explain the formula"),
        ("V (n, m) = L^-1 W^1/2 k', in LAPACK's order.", "explain the formula"),
        ("a_j (D,); equal where they are to be learned.", "explain the formula"),
        ("One fit. Its seed draws the noise columns.", "three words"),
        ("Posterior mean of every row", "full stop"),
        ("The kernel is a sum of products:", "full stop"),
        ("Return the weights.\n\nWeights that say nothing are none.", "'say nothing'"),
        ("Read a table that is large\nbeside the memory.", "'large beside'"),
        ("Return the error and that of the best rival.", "'that of'"),
    ],
)
def test_unclear_docstrings_break_a_rule(docstring: str, rule: str) -> None:
    assert rule in words.docstring_rule(docstring)


@pytest.mark.parametrize(
    ("comment", "plain"),
    [
        ("A number means shuffled folds.", True),
        ("of the test rows", False),
        ("What a method prints is not a message.", False),
        ("Weights that say nothing", False),
    ],
)
def test_comments_open_with_a_subject_and_hold_no_coinage(comment: str, plain: bool) -> None:
    assert (words.comment_rule(comment) is None) == plain


def test_comments_of_several_lines_are_read_as_one() -> None:
    source = "# The largest value\n# of all rows\nx = 1  # of a row\n# of a column\n"
    assert words.comments(source) == {1: "The largest value of all rows", 3: "of a row", 4: "of a column"}


def test_names_of_one_word_break_a_rule() -> None:
    assert words.name_rule("test_names")
    assert words.name_rule("test_names_are_unique") is None


@pytest.mark.parametrize(("bad", "code"), [(0, 0), (2, 0), (3, 1)])
def test_exit_code_is_1_if_more_than_2_percent_fail(
    bad: int, code: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [f'def f{i}():\n    """{"Of" if i < bad else "Return"} the mean of all rows."""\n' for i in range(100)]
    path = tmp_path / "module.py"
    path.write_text("".join(lines), encoding="utf-8")
    assert words.main([str(tmp_path)]) == code
    printed = capsys.readouterr().out.splitlines()
    assert printed[-1] == f"{bad} of 100 docstrings fail ({bad:.1f}%; the limit is 2%)"
    assert [line.startswith(f"{path}:") for line in printed[:-1]] == [True] * bad


def test_every_failure_is_printed_only_with_all(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "test_module.py").write_text("def test_x(): ...\n" * 30, encoding="utf-8")
    counts = []
    for options in ([], ["--all"]):
        assert words.main([*options, str(tmp_path)]) == 1
        counts.append(len(capsys.readouterr().out.splitlines()) - 1)
    assert counts == [words.SHOWN, 30]
