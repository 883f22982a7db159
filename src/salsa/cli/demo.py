"""salsa demo: simulate a table, fit, predict and report in one command."""

from pathlib import Path
from typing import Annotated, Any

from salsa.cli.arguments import AsJson, option
from salsa.cli.explain import importance, print_importance
from salsa.cli.fit import fit_file, print_fit
from salsa.cli.predict import predict_file
from salsa.cli.prediction_file import read_features
from salsa.cli.roles import Roles
from salsa.cli.show import print_table, show, write_html


def demo(
    out: Annotated[Path, option("FOLDER", "Folder to write into; created if needed.")] = Path("salsa-demo"),
    as_json: AsJson = False,
) -> None:
    """Fit, predict and report on a small table.

    The table is simulated (Friedman's first function): 1000 rows, ten columns, of which five matter and two interact.

    Example: [bold]salsa demo --out my-first-model[/bold]
    """
    from salsa import SalsaRegressor, load
    from salsa.cli.tables.writing import check_output

    out.mkdir(exist_ok=True)
    train, test, path, report = (out / name for name in ("train.csv", "test.csv", "model.salsa", "report.html"))
    check_output(report)
    _write_data(out / "data.csv", train, test)
    summary = fit_file(SalsaRegressor(random_state=0), str(train), Roles("target"), path)
    predict_file(str(path), str(test), out / "predictions.csv")
    summary["test_r2"] = _compare(train, test, out / "predictions.csv")
    model = load(path)
    summary["importance"] = importance(model)["importance"]
    X, y, _ = read_features(model, str(test), "target").scored
    write_html(model, report, X, y)
    summary |= {"folder": str(out), "report": str(report)}
    show(summary, _print_demo, as_json)


def _write_data(whole: Path, train: Path, test: Path) -> None:
    """Write 1000 rows of Friedman's first function with noise of sd 1, and a seeded split into halves."""
    import pandas as pd
    from sklearn.datasets import make_friedman1
    from sklearn.model_selection import train_test_split

    from salsa.cli.tables.writing import write_table

    X, y = make_friedman1(n_samples=1000, n_features=10, noise=1.0, random_state=0)
    table = pd.DataFrame(X, columns=[f"x{j}" for j in range(1, 11)]).assign(target=y)
    parts = train_test_split(table, test_size=0.5, random_state=0)
    for path, part in zip((whole, train, test), (table, *parts), strict=True):
        write_table(iter([part]), path)


def _compare(train: Path, test: Path, predicted: Path) -> dict[str, float]:
    """Return R2 on the test rows of our predictions, of ridge regression and of the mean of the training rows."""
    import numpy as np
    from sklearn.linear_model import RidgeCV
    from sklearn.metrics import r2_score
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    from salsa.cli.tables.reading import read_table

    seen, unseen = read_table(str(train)), read_table(str(test))
    y = seen.pop("target")
    truth = unseen.pop("target")
    ridge = make_pipeline(StandardScaler(), RidgeCV(np.logspace(-3, 3, 25))).fit(seen, y)
    guesses = {
        "salsa": read_table(str(predicted))["prediction"],
        "ridge regression": ridge.predict(unseen),
        "mean of the training rows": np.full(len(truth), y.mean()),
    }
    return {name: float(r2_score(truth, guess)) for name, guess in guesses.items()}


def _print_demo(summary: dict[str, Any]) -> None:
    print_fit(summary)
    print_importance(summary["importance"])
    print_table(("method", "R2 on test rows"), [(name, f"{r2:.3f}") for name, r2 in summary["test_r2"].items()])
    print(f"\nFiles are in {summary['folder']}; start with report.html. train.csv and test.csv are halves of data.csv.")
