"""salsa predict: predict the target for every row of a table, which may be larger than memory."""

import json
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any

import typer

from salsa._utils.jsonable import jsonable
from salsa.cli.arguments import AsJson, Data, Model, option
from salsa.cli.completion import complete_column
from salsa.cli.prediction_file import model_features
from salsa.cli.show import progress, show

if TYPE_CHECKING:
    import pandas as pd

    from salsa._utils.arrays import Floats
    from salsa.regressor import SalsaRegressor

CHUNK_WORK = 2**30  # kernel values per chunk, or multiplications for intervals: about one second
LEAST_ROWS = 1000
JSON_NAMES = {
    "prediction": "predictions",
    "probability": "probabilities",
    "set": "sets",
    "lower": "lower",
    "upper": "upper",
}


def _check_probability(value: float | None) -> float | None:
    if value is not None and not 0 < value < 1:
        raise typer.BadParameter(f"{value} is not a probability: a number between 0 and 1, such as 0.9")
    return value


def predict(
    model: Model,
    data: Data,
    out: Annotated[
        Path | None,
        option("FILE", "CSV or TSV file (or .gz), .parquet or .feather to write; default: CSV to standard output."),
    ] = None,
    interval: Annotated[
        float | None,
        option(
            "PROBABILITY",
            "Add columns lower and upper: an interval that holds the target with this probability, such as 0.9. "
            "For classes, add set_CLASS: whether a set that holds the true class with this probability has the class.",
            callback=_check_probability,
        ),
    ] = None,
    keep: Annotated[
        list[str] | None,
        option(
            "COLUMN",
            "Column of DATA to write beside the predictions, such as an identifier; may be repeated.",
            complete_column,
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Predict the target for every row of a table; for classes, also the probability of every class.

    Columns are found by name, in any order; further columns are ignored. Files may be larger than memory.

    Categories that were not seen in training count as missing. Columns that the model does not use may be absent.

    Example: [bold]salsa predict houses.salsa new.csv --keep id --out prices.csv[/bold]
    """
    kept = list(dict.fromkeys(keep or ()))
    if out is not None:
        done = predict_file(model, data, out, interval, kept)
        show(done, lambda done: print(f"{done['rows']} predictions written to {done['out']}"), as_json)
        return
    if as_json and kept:
        raise ValueError("--keep with --json needs a file to write to: --out FILE")
    from salsa import load
    from salsa.cli.tables.writing import write_text

    chunks = predictions(load(model), data, interval, kept)
    if as_json:
        _write_json(chunks, sys.stdout)
    else:
        write_text(chunks, sys.stdout)


def predict_file(
    model: str, data: str, out: Path, interval: float | None = None, keep: Sequence[str] = ()
) -> dict[str, Any]:
    """Predict chunk by chunk into a file; return the number of rows and the name of the file."""
    from salsa import load
    from salsa.cli.tables.writing import check_output, write_table

    check_output(out, data, model)
    with progress("Predicting") as say:
        rows = write_table(_told(predictions(load(model), data, interval, keep), say), out)
    return {"rows": rows, "out": str(out)}


def predictions(
    model: "SalsaRegressor", data: str, interval: float | None, keep: Sequence[str] = ()
) -> Iterator["pd.DataFrame"]:
    """Yield chunks with `prediction`, and for an interval `lower` and `upper`; several outputs are numbered.

    A model of classes has `prediction`, a `probability_...` of every class, and for an interval a `set_...` of every
    class: whether it is in the row's set of classes.
    """
    for rows, kept in model_features(model, data, chunk_rows(model, interval), keep):
        yield _beside(kept, _predicted(model, rows, interval))


def _predicted(model: "SalsaRegressor", rows: "Floats", interval: float | None) -> "pd.DataFrame":
    """Return the columns of predictions for encoded rows."""
    from salsa._utils.threads import parse_threads
    from salsa.fitted import fitted_of
    from salsa.regressor import in_units, predict_encoded

    if (classes := fitted_of(model).classes) is not None:
        return _classified(model, classes, rows, interval)
    if interval is None:
        return _numbered(
            "prediction", in_units(model, model.expansion_.predict(rows, n_threads=parse_threads(model.n_jobs)))
        )
    values, ends = predict_encoded(model, rows, interval)
    return _numbered("prediction", values).join([_numbered("lower", ends[..., 0]), _numbered("upper", ends[..., 1])])


def _classified(model: Any, classes: Any, rows: "Floats", coverage: float | None) -> "pd.DataFrame":
    """Return the most probable class, the probability of every class, and whether it is in the set of this coverage."""
    import pandas as pd

    from salsa._utils.threads import parse_threads
    from salsa.classifier import probabilities, set_of_classes

    p = probabilities(model, model.expansion_.predict(rows, n_threads=parse_threads(model.n_jobs)))
    labels = pd.DataFrame({"prediction": classes[p.argmax(axis=1)]})
    found = labels.join(pd.DataFrame(p, columns=[f"probability_{label}" for label in classes]))
    if coverage is None:
        return found
    return found.join(pd.DataFrame(set_of_classes(model, p, coverage), columns=[f"set_{label}" for label in classes]))


def _beside(kept: "pd.DataFrame", chunk: "pd.DataFrame") -> "pd.DataFrame":
    """Return the kept columns followed by the columns of predictions."""
    if taken := [name for name in kept if name in chunk]:
        raise ValueError(f"--keep {taken[0]!r}: a column of predictions has this name; rename it in the table")
    texts = [name for name in kept if kept[name].dtype == object]  # a chunk may hold no text
    return kept.astype(dict.fromkeys(texts, "string")).reset_index(drop=True).join(chunk)


def chunk_rows(model: "SalsaRegressor", interval: float | None) -> int:
    """Return how many rows take about one second, so that pipes get results early and an interrupt is fast."""
    from salsa.fitted import fitted_of

    anchors, features = map(int, model.expansion_.anchors.shape)
    solved = 0 if interval is None or fitted_of(model).classes is not None else anchors  # sets need no solves
    return max(LEAST_ROWS, CHUNK_WORK // (anchors * (features + solved)))


def _told(chunks: Iterator["pd.DataFrame"], say: Callable[[str], None]) -> Iterator["pd.DataFrame"]:
    rows = 0
    for chunk in chunks:
        yield chunk
        rows += len(chunk)
        say(f"Predicting: {rows} rows")


def _numbered(name: str, values: "Floats") -> "pd.DataFrame":
    """Return the values (n, q) as one column of this name, or one numbered column per output."""
    import pandas as pd

    outputs = values.shape[1]
    return pd.DataFrame(values, columns=[name] if outputs == 1 else [f"{name}_{j}" for j in range(outputs)])


def _write_json(chunks: Iterator["pd.DataFrame"], file: IO[str]) -> None:
    """Write one object of lists: the first list is written at once, further lists wait in temporary files."""
    rows, lists = 0, dict[str, IO[str]]()
    with ExitStack() as stack:
        for chunk in chunks:
            for name, text in _json_lists(chunk):
                if name in lists:
                    lists[name].write(f", {text}")
                else:
                    opening = ", " if lists else "{"
                    lists[name] = stack.enter_context(tempfile.TemporaryFile("w+")) if lists else file
                    lists[name].write(f'{opening}"{name}": [{text}')
            rows += len(chunk)
        for waiting in list(lists.values())[1:]:
            waiting.seek(0)
            file.write("]")
            shutil.copyfileobj(waiting, file)
        file.write(f'], "rows": {rows}}}\n')


def _json_lists(chunk: "pd.DataFrame") -> Iterator[tuple[str, str]]:
    """Yield name and text of each list, without brackets. JSON has no infinity: infinite ends become null."""
    for prefix, key in JSON_NAMES.items():
        columns = [name for name in map(str, chunk) if name == prefix or name.startswith(f"{prefix}_")]
        if columns:
            values = chunk[columns if len(columns) > 1 else columns[0]].to_numpy()
            yield key, json.dumps(jsonable(values), allow_nan=False)[1:-1]
