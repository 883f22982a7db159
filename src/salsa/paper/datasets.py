"""The twelve released data sets of the paper: tables, splits and preprocessing.

Tables come from the folder in SALSA_DATA (`NAME.csv.gz`, with header), else from the authors' public
repository (or SALSA_DATA_URL) through a cache (SALSA_CACHE). Every table is checked by the SHA-256 of its values.
"""

import gzip
import hashlib
import io
import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from http.client import HTTPException, HTTPResponse
from importlib import resources
from itertools import permutations
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import numpy as np
from scipy.io import loadmat

from salsa._utils.arrays import Floats, Places
from salsa._utils.atomic import replacing

AUTHORS_URL = "https://raw.githubusercontent.com/kirthevasank/salsa/master/experiments/datasets/"
PROTOCOLS = ("authors", "described")

_PRIVATE = ("bleeding", "brain", "fmri", "school")
_TIMEOUT = 30.0  # seconds without receiving a byte
_MAX_BYTES = 50_000_000  # the largest of the authors' files has about 3 MB
_TRANSFORMS: dict[str, Callable[[Floats], Floats]] = {
    "log(v)": np.log,
    "log(v + 1)": lambda v: np.log(v + 1),
    "v / sd(v)": lambda v: v / v.std(ddof=1),
}
_ENTRIES: dict[str, dict[str, Any]] = json.loads(
    resources.files("salsa.paper").joinpath("datasets.json").read_text("utf-8")
)
_ALIASES = {alias.casefold(): key for key, entry in _ENTRIES.items() for alias in (key, entry["paper_name"])}

DATASETS = tuple(_ENTRIES)


@dataclass(frozen=True, eq=False)
class Dataset:
    """One split of one data set, ready to fit; `note` says where the paper and the authors' program disagree."""

    name: str  #: its name in ``DATASETS``
    protocol: str  #: "authors" or "described"
    X_train: Floats  #: (n, D), rows in the order of the authors' cross-validation
    y_train: Floats  #: (n,)
    X_test: Floats  #: (m, D)
    y_test: Floats  #: (m,)
    feature_names: tuple[str, ...]  #: D names
    published_mse: float | None  #: SALSA in Table 1; None for "described", which the paper did not run
    published_order: int | None  #: SALSA's order in Table 1
    note: str  #: where the paper and the authors' program disagree


@dataclass(frozen=True)
class _Spec:
    """One entry of datasets.json; `train` and `test` are ranges of positions in the shuffled pool of rows."""

    paper_name: str
    file: str
    sha256: str
    rows: int
    columns: Sequence[str]
    target: str
    features: Sequence[str]
    published_mse: float | None
    published_order: int | None
    train: tuple[int, int]
    test: tuple[int, int]
    first_rows: int | None = None
    where: Mapping[str, float] = field(default_factory=dict)
    transforms: Mapping[str, str] = field(default_factory=dict)
    shuffle: bool = True
    standardise: bool = True
    noise_columns: int = 0
    note: str = ""


def load_dataset(name: str, protocol: str = "authors", *, noise_seed: int = 0) -> Dataset:
    """Load the data set `name`, one of ``DATASETS``.

    `protocol` says which version: "authors" as the authors' program prepares it, "described" as the paper says.

    Training rows come as train[cv_perm]: contiguous folds over them are the authors' cross-validation folds.
    X and y are standardised by the training mean and sd (ddof=1); galaxy keeps its X and divides y by its sd
    over all rows. `noise_seed` sets the N(0, 1) columns and the row order of airfoil and ccpp only.
    """
    key = _known(name)
    spec = _spec(key, protocol)
    table = _transformed(_read(key, spec), spec)
    rng = np.random.default_rng(noise_seed)
    train, test = _split(table, spec, rng)
    X_train, X_test = _prepared(table[:, [spec.columns.index(f) for f in spec.features]], train, test, spec)
    y_train, y_test = _prepared(table[:, spec.columns.index(spec.target)], train, test, spec)
    return Dataset(
        name=key,
        protocol=protocol,
        X_train=_with_noise(X_train, spec.noise_columns, rng),
        y_train=y_train,
        X_test=_with_noise(X_test, spec.noise_columns, rng),
        y_test=y_test,
        feature_names=(*spec.features, *(f"noise_{j + 1}" for j in range(spec.noise_columns))),
        published_mse=spec.published_mse,
        published_order=spec.published_order,
        note=spec.note,
    )


def _known(name: str) -> str:
    """Return the key of a data set, given its key or its name in the paper, in letters of any case."""
    if name.casefold() in _ALIASES:
        return _ALIASES[name.casefold()]
    released = ", ".join(DATASETS)
    if name.casefold() in _PRIVATE:
        raise ValueError(f"{name} is not public; the authors released 12 of 16 sets: {released}")
    nearest = get_close_matches(name.casefold(), DATASETS, n=1)
    hint = f"did you mean {nearest[0]!r}? " if nearest else ""
    raise ValueError(f"unknown data set {name!r}; {hint}Known sets: {released}")


def _spec(key: str, protocol: str) -> _Spec:
    """Return the entry of a data set, with the overrides of the protocol."""
    if protocol not in PROTOCOLS:
        raise ValueError(f"protocol must be one of {', '.join(PROTOCOLS)}, not {protocol!r}")
    entry = dict(_ENTRIES[key])
    described = {**entry.pop("described"), "published_mse": None, "published_order": None}
    return _Spec(**(entry if protocol == "authors" else entry | described))


def _transformed(table: Floats, spec: _Spec) -> Floats:
    """Return the table with v -> t(v) applied to the columns that have a transform t."""
    result = table.copy()
    for column, transform in spec.transforms.items():
        j = spec.columns.index(column)
        result[:, j] = _TRANSFORMS[transform](table[:, j])
    return result


def _split(table: Floats, spec: _Spec, rng: np.random.Generator) -> tuple[Places, Places]:
    """Return the rows train[cv_perm] and test; MATLAB's randperm(n) is the argsort of n draws of its default stream."""
    stream = np.random.RandomState(5489)
    pool = _pool(table, spec)
    if spec.shuffle:
        pool = pool[np.argsort(stream.random_sample(pool.size))]
    train, test = pool[slice(*spec.train)], pool[slice(*spec.test)]
    # MATLAB's randn drew noise before cv_perm and is not reproduced: sets with noise columns get our own shuffle.
    n = train.size
    cv_perm = rng.permutation(n) if spec.noise_columns else np.argsort(stream.random_sample(n))
    return train[cv_perm], test


def _pool(table: Floats, spec: _Spec) -> Places:
    """Return the rows that take part: the first `first_rows` (None: all) with the values of `where`."""
    rows = np.arange(len(table))[: spec.first_rows]
    for column, value in spec.where.items():
        rows = rows[table[rows, spec.columns.index(column)] == value]
    return rows


def _prepared(values: Floats, train: Places, test: Places, spec: _Spec) -> tuple[Floats, Floats]:
    """Return training and test values (v - mean) / sd, with mean and sd (ddof=1) of the training rows."""
    # The rows are sorted, so that the last bits of the sums do not depend on the shuffle.
    centre, scale = _centre_and_scale(values[np.sort(train)]) if spec.standardise else (0.0, 1.0)
    return (values[train] - centre) / scale, (values[test] - centre) / scale


def _centre_and_scale(train: Floats) -> tuple[Floats, Floats]:
    """Return mean and sd of each column; its value and 1 if it is constant (the computed sd can be 2e-16, not 0)."""
    constant = train.max(axis=0) == train.min(axis=0)
    centre = np.where(constant, train[0], train.mean(axis=0))
    return centre, np.where(constant, 1.0, train.std(axis=0, ddof=1))


def _with_noise(X: Floats, columns: int, rng: np.random.Generator) -> Floats:
    """Append `columns` columns of N(0, 1) noise to X (n, D)."""
    return np.hstack([X, rng.standard_normal((len(X), columns))])


def _read(key: str, spec: _Spec) -> Floats:
    """Return the checked table (rows, columns) from SALSA_DATA, else from the cache or the authors' repository."""
    folder = os.environ.get("SALSA_DATA")
    return _from_folder(Path(folder, f"{key}.csv.gz"), spec) if folder else _from_repository(spec)


def _from_folder(path: Path, spec: _Spec) -> Floats:
    """Return the checked table of a file `NAME.csv.gz`."""
    if not path.is_file():
        missing = path if path.parent.is_dir() else path.parent
        raise FileNotFoundError(
            f"{missing} does not exist; point SALSA_DATA at the folder that holds {path.name}, "
            "or unset it to download the authors' file"
        )
    return _checked(path.read_bytes(), str(path), spec)


def _from_repository(spec: _Spec) -> Floats:
    """Return the table of the authors' file, which is downloaded once; a damaged copy is downloaded again."""
    path = _cache_folder() / spec.file
    if path.is_file():
        try:
            return _checked(path.read_bytes(), str(path), spec)
        except ValueError:
            path.unlink(missing_ok=True)
    url = f"{(os.environ.get('SALSA_DATA_URL') or AUTHORS_URL).rstrip('/')}/{spec.file}"
    content = _fetch(url)
    table = _checked(content, url, spec)
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as temporary:
        temporary.write_bytes(content)
    return table


def _cache_folder() -> Path:
    """Return SALSA_CACHE, or else `salsa` in the user's cache folder of the platform."""
    if own := os.environ.get("SALSA_CACHE"):
        return Path(own)
    windows, others = ("LOCALAPPDATA", "~/AppData/Local"), ("XDG_CACHE_HOME", "~/.cache")
    variable, default = windows if os.name == "nt" else others
    return Path(os.environ.get(variable) or default).expanduser() / "salsa"


def _fetch(url: str) -> bytes:
    """Return the whole content of `url`, or raise one ConnectionError that says what failed and what to do."""
    try:
        with urlopen(url, timeout=_TIMEOUT) as response:
            return _body(response)
    except (OSError, HTTPException, ValueError) as error:
        raise ConnectionError(
            f"cannot download {url}: {error}; set SALSA_DATA to a folder with the tables (NAME.csv.gz)"
        ) from error


def _body(response: HTTPResponse) -> bytes:
    """Return the body of a response and check its length: `read(amount)` does not report a broken transfer."""
    content = response.read(_MAX_BYTES + 1)
    announced = response.headers.get("Content-Length")
    if len(content) > _MAX_BYTES:
        raise OSError(f"the file is larger than {_MAX_BYTES} bytes")
    if announced not in (None, str(len(content))):
        raise OSError(f"the connection broke off after {len(content)} of {announced} bytes")
    return content


def _checked(content: bytes, source: str, spec: _Spec) -> Floats:
    """Return the table in a file's content; refuse values whose SHA-256 is not the released one."""
    try:
        candidates = _candidates(content, Path(source).suffix, (spec.rows, len(spec.columns)))
    except Exception as error:  # the parsers raise nearly any exception on damaged bytes
        raise ValueError(f"{source} was refused: it cannot be read as a table") from error
    for table in candidates:
        if _sha256(table) == spec.sha256:
            return table
    raise ValueError(
        f"{source} was refused: its values differ from the released table (SHA-256); "
        f"compare it with {AUTHORS_URL}{spec.file}"
    )


def _sha256(table: Floats) -> str:
    """Return the SHA-256 of the values as little-endian float64 in C order; + 0.0 turns -0 into 0."""
    return hashlib.sha256((table + 0.0).astype("<f8").tobytes()).hexdigest()


def _candidates(content: bytes, suffix: str, shape: tuple[int, int]) -> list[Floats]:
    """Return the tables that a file may hold: one for text, every assembly of the right shape for a .mat file."""
    if suffix == ".mat":
        file: Any = io.BytesIO(content)  # loadmat accepts open files, but its type stub does not
        return _assemblies(_matrices(loadmat(file, simplify_cells=True)), shape)
    text = gzip.decompress(content).partition(b"\n")[2] if suffix == ".gz" else content
    return [np.loadtxt(text.decode().replace(",", " ").splitlines(), ndmin=2)]


def _matrices(value: Any) -> list[Floats]:
    """Return the numeric arrays in a MATLAB value as matrices; structs, which arrive as dicts, are searched too."""
    if isinstance(value, dict):
        return [matrix for part in value.values() for matrix in _matrices(part)]
    numeric = isinstance(value, np.ndarray) and value.dtype.kind in "biuf" and value.ndim <= 2
    return [np.atleast_2d(value).astype(np.float64)] if numeric else []


def _assemblies(matrices: list[Floats], shape: tuple[int, int]) -> list[Floats]:
    """Return tables of this shape: a matrix, two side by side, or two such blocks stacked; each possibly transposed.

    The names inside the authors' files are not used: the SHA-256 decides which assembly is the table.
    """
    parts = [turned for matrix in matrices for turned in (matrix, matrix.T)]
    aligned = [pair for pair in permutations(parts, 2) if len(pair[0]) == len(pair[1])]
    blocks = [part for part in parts if part.shape[1] == shape[1]]
    blocks += [np.hstack([a, b]) for a, b in aligned if a.shape[1] + b.shape[1] == shape[1]]
    stacked = [np.vstack(pair) for pair in permutations(blocks, 2)]
    return [table for table in blocks + stacked if table.shape == shape]
