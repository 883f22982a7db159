"""The rows of a table in a file as a model needs them."""

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

    from salsa.regressor import SalsaRegressor
    from salsa.tables.checking import Unseen


def model_features(model: "SalsaRegressor", data: str, most: int | None) -> Iterator[Any]:
    """The features of the model, in chunks of at most so many rows (None: whole).

    In the end, one line on standard error tells of the categories that were not seen in training.
    """
    from salsa.tables.checking import Unseen
    from salsa.tables.reading import read_chunks

    unseen = Unseen()
    names = list(getattr(model, "feature_names_in_", ()))
    for table in read_chunks(data, most, text_columns(model), names):
        yield features_of(model, table, data, unseen)
    tell_unseen(unseen, data)


def text_columns(model: "SalsaRegressor") -> list[str] | type[str]:
    """The categories, whose values must not be guessed to be numbers; all columns where they have no names."""
    columns = model.columns_
    categories = [name for name, levels in zip(columns.names, columns.levels, strict=True) if levels is not None]
    return categories if hasattr(model, "feature_names_in_") or not categories else str


def features_of(model: "SalsaRegressor", table: "pd.DataFrame", data: str, unseen: "Unseen") -> Any:
    """The features of the model in a table: by name, or by place for a model that was fitted without names."""
    from salsa.tables.checking import known_features, require_columns
    from salsa.tables.reading import title

    levels = model.columns_.levels
    if hasattr(model, "feature_names_in_"):
        names = model.feature_names_in_.tolist()
        require_columns(table, names, data)
        return known_features(table, dict(zip(names, levels, strict=True)), data, unseen)
    if table.shape[1] != model.n_features_in_:
        needed = f"the model knows no names and needs its {model.n_features_in_} columns alone and in order"
        raise ValueError(f"{title(data)} has {table.shape[1]} columns; {needed}")
    return known_features(table, dict(zip(table.columns, levels, strict=True)), data, unseen).to_numpy()


def tell_unseen(unseen: "Unseen", data: str) -> None:
    from salsa.tables.reading import title

    if report := str(unseen):
        problem = "values not seen in training, which count as missing"
        print(f"salsa: {title(data)} has {problem}: {report}", file=sys.stderr)


def read_features(model: "SalsaRegressor", data: str, target: str | None) -> tuple[Any, Any]:
    """The features of the model in a whole table, and the target if there is one."""
    from salsa.tables.checking import Unseen, require_columns, target_of
    from salsa.tables.reading import read_table

    table, y = read_table(data, text_columns(model)), None
    if target is not None:
        require_columns(table, [target], data)
        y = target_of(table, target, data)
        table = table.drop(columns=target)
    unseen = Unseen()
    X = features_of(model, table, data, unseen)
    tell_unseen(unseen, data)
    return X, y
