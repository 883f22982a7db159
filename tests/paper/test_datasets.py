"""The paper's data sets: splits and values compared with a slow twin, and downloads from a real local server."""

import csv
import gzip
import io
import json
import os
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.io import savemat

from salsa.paper.datasets import DATASETS, Dataset, load_dataset

DATA = Path(os.environ.get("SALSA_DATA") or "SALSA_DATA is not set")
needs_data = pytest.mark.skipif(not os.environ.get("SALSA_DATA"), reason="SALSA_DATA is not set")

SIZES = {  # n train, n test, D
    "housing": (256, 250, 12),
    "galaxy": (2000, 2000, 20),
    "insulin": (256, 250, 50),
    "skillcraft": (1700, 1630, 18),
    "ccpp": (2000, 2000, 59),
    "blog": (700, 688, 50),
    "speech": (520, 520, 21),
    "music": (1000, 1000, 90),
    "telemonitoring": (1000, 867, 19),
    "propulsion": (200, 200, 15),
    "airfoil": (750, 750, 41),
    "forestfires": (211, 167, 10),
}
DESCRIBED_SIZES = SIZES | {"telemonitoring": (1000, 867, 18), "airfoil": (750, 750, 40)}
DESCRIBED_TARGETS = {
    "speech": "median_pitch",
    "forestfires": "DC",
    "propulsion": "lever_position",
    "blog": "comments_next24h",
}
OWN_NOISE = ("airfoil", "ccpp")


# --- slow, obvious twins --------------------------------------------------------------------------


@cache
def shared_json(name: str) -> Any:
    """Read a JSON file of the data folder."""
    return json.loads((DATA / name).read_text("utf-8"))


@cache
def raw(name: str) -> dict[str, np.ndarray]:
    """Return a dict of column name -> values (rows,), in file order."""
    with gzip.open(DATA / f"{name}.csv.gz", "rt", encoding="utf-8") as file:
        header, *rows = csv.reader(file)
    return dict(zip(header, np.array(rows, dtype=float).T, strict=True))


def table(name: str) -> np.ndarray:
    """Return the whole table (rows, columns)."""
    return np.column_stack(list(raw(name).values()))


def rows_of(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows train[cv_perm] (train if cv_perm is unknown) and test of splits.json."""
    split = shared_json("splits.json")[name]
    train = np.array(split["train"])
    return train if split["cv_perm"] is None else train[split["cv_perm"]], np.array(split["test"])


def standard(values: np.ndarray, train: np.ndarray, test: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Standardise one column by mean and sd of the training rows; a constant column becomes 0."""
    fit = values[train]
    if len(set(fit)) == 1:
        return fit - fit[0], values[test] - fit[0]
    return (fit - fit.mean()) / fit.std(ddof=1), (values[test] - fit.mean()) / fit.std(ddof=1)


def column(name: str, label: str) -> np.ndarray:
    """Return a column after the transform of the authors' program."""
    values = raw(name)[label]
    if (name, label) == ("propulsion", "ship_speed"):
        values = np.log(values)
    if (name, label) == ("forestfires", "area"):
        values = np.log(values + 1)
    return values


def assert_columns(data: Dataset, target: str, train: np.ndarray, test: np.ndarray) -> None:
    """Assert that every real column and the target equal the standardised raw columns."""
    real = [label for label in data.feature_names if not label.startswith("noise_")]
    for j, label in enumerate(real):
        expected = standard(column(data.name, label), train, test)
        np.testing.assert_allclose(data.X_train[:, j], expected[0], atol=1e-9)
        np.testing.assert_allclose(data.X_test[:, j], expected[1], atol=1e-9)
    expected = standard(column(data.name, target), train, test)
    np.testing.assert_allclose(data.y_train, expected[0], atol=1e-9)
    np.testing.assert_allclose(data.y_test, expected[1], atol=1e-9)


def assert_same_data(a: Dataset, b: Dataset) -> None:
    """Assert that all four arrays agree to the bit."""
    for label in ("X_train", "y_train", "X_test", "y_test"):
        np.testing.assert_array_equal(getattr(a, label), getattr(b, label))


# --- splits and preprocessing ---------------------------------------------------------------------


@needs_data
@pytest.mark.parametrize(("protocol", "sizes"), [("authors", SIZES), ("described", DESCRIBED_SIZES)])
def test_sets_have_the_documented_rows_and_features(protocol: str, sizes: dict[str, tuple[int, int, int]]) -> None:
    assert tuple(sizes) == DATASETS
    for name, (n, m, D) in sizes.items():
        data = load_dataset(name, protocol)
        assert (data.X_train.shape, data.X_test.shape) == ((n, D), (m, D))
        assert (data.y_train.shape, data.y_test.shape, len(data.feature_names)) == ((n,), (m,), D)
        assert (data.name, data.protocol) == (name, protocol)


@needs_data
@pytest.mark.parametrize("name", [name for name in DATASETS if name not in (*OWN_NOISE, "galaxy")])
def test_rows_and_values_equal_the_slow_twin(name: str) -> None:
    data, entry = load_dataset(name), shared_json("datasets.json")[name]
    assert list(data.feature_names) == entry["features"]
    assert_columns(data, entry["target"], *rows_of(name))


@needs_data
def test_galaxy_is_neither_shuffled_nor_centred() -> None:
    data, columns, (train, test) = load_dataset("galaxy"), raw("galaxy"), rows_of("galaxy")
    y = columns["y"] / columns["y"].std(ddof=1)
    np.testing.assert_array_equal(data.X_train, table("galaxy")[train, :20])
    np.testing.assert_array_equal(data.X_test, table("galaxy")[test, :20])
    np.testing.assert_allclose(data.y_train, y[train], rtol=1e-12)
    np.testing.assert_allclose(data.y_test, y[test], rtol=1e-12)


@needs_data
@pytest.mark.parametrize("name", OWN_NOISE)
def test_sets_with_our_noise_columns_use_the_authors_rows(name: str) -> None:
    data, entry, (train, test) = load_dataset(name), shared_json("datasets.json")[name], rows_of(name)
    D = len(entry["features"])
    y_train, y_test = standard(raw(name)[entry["target"]], train, test)
    x_train, x_test = standard(raw(name)[entry["features"][0]], train, test)
    x, y = data.X_train[:, 0], data.y_train
    for found, expected in ((x, x_train), (y, y_train), (x * y, x_train * y_train)):
        np.testing.assert_allclose(np.sort(found), np.sort(expected), atol=1e-9)
    np.testing.assert_allclose(data.X_test[:, 0], x_test, atol=1e-9)
    np.testing.assert_allclose(data.y_test, y_test, atol=1e-9)
    assert data.feature_names[D:] == tuple(f"noise_{j}" for j in range(1, entry["noise_columns"] + 1))


@needs_data
@pytest.mark.parametrize("name", OWN_NOISE)
def test_the_seed_changes_noise_columns_and_row_order_only(name: str) -> None:
    first, other = load_dataset(name, noise_seed=3), load_dataset(name, noise_seed=4)
    assert_same_data(first, load_dataset(name, noise_seed=3))
    D = len(shared_json("datasets.json")[name]["features"])
    np.testing.assert_array_equal(first.X_test[:, :D], other.X_test[:, :D])
    np.testing.assert_array_equal(np.sort(first.y_train), np.sort(other.y_train))
    assert (first.y_train != other.y_train).any()
    noise = np.vstack([first.X_train[:, D:], first.X_test[:, D:]])
    assert not np.isin(noise, np.vstack([other.X_train, other.X_test])).any()
    assert np.unique(noise).size == noise.size
    assert abs(noise.mean()) < 5 / noise.size**0.5
    assert abs(noise.std() - 1) < 5 / noise.size**0.5


@needs_data
def test_sets_without_noise_ignore_the_seed() -> None:
    assert_same_data(load_dataset("housing"), load_dataset("housing", noise_seed=1))


@needs_data
@pytest.mark.parametrize("protocol", ["authors", "described"])
@pytest.mark.parametrize("name", [name for name in DATASETS if name != "galaxy"])
def test_training_columns_have_mean_0_and_sd_1(name: str, protocol: str) -> None:
    data = load_dataset(name, protocol)
    real = [j for j, label in enumerate(data.feature_names) if not label.startswith(("noise_", "P1"))]
    columns = np.column_stack([data.X_train[:, real], data.y_train])
    np.testing.assert_allclose(columns.mean(axis=0), 0, atol=1e-11)
    np.testing.assert_allclose(columns.std(axis=0, ddof=1), 1, rtol=1e-11)


@needs_data
def test_a_constant_column_becomes_exactly_zero() -> None:
    data = load_dataset("propulsion")
    P1 = data.feature_names.index("P1")
    assert not data.X_train[:, P1].any()
    assert not data.X_test[:, P1].any()


@needs_data
def test_predicting_zero_gives_the_lar_errors_of_table_1() -> None:
    with (DATA / "paper_table1.csv").open(newline="", encoding="utf-8") as file:
        lar = {row["dataset"]: float(row["mse"]) for row in csv.DictReader(file) if row["method"] == "LAR"}
    for name in set(DATASETS) - {"galaxy", "propulsion"}:
        paper_name = shared_json("datasets.json")[name]["paper_name"]
        assert np.mean(load_dataset(name).y_test ** 2) == pytest.approx(lar[paper_name], abs=1e-5)


# --- the variants the paper describes -------------------------------------------------------------


@needs_data
@pytest.mark.parametrize("name", DESCRIBED_TARGETS)
def test_described_targets_equal_the_slow_twin(name: str) -> None:
    assert_columns(load_dataset(name, "described"), DESCRIBED_TARGETS[name], *rows_of(name))


@needs_data
@pytest.mark.parametrize(
    ("name", "gained", "lost"),
    [
        ("speech", {"HTN", "degree_voice_breaks"}, {"subject_id", "max_pitch"}),
        ("forestfires", {"temp"}, {"DC"}),
        ("telemonitoring", set(), {"motor_UPDRS"}),
        ("airfoil", set(), {"noise_36"}),
        ("propulsion", set(), set()),
        ("blog", set(), set()),
    ],
)
def test_described_features_differ_from_the_authors_as_documented(name: str, gained: set[str], lost: set[str]) -> None:
    authors, described = (set(load_dataset(name, p).feature_names) for p in ("authors", "described"))
    assert (described - authors, authors - described) == (gained, lost)


@needs_data
def test_described_telemonitoring_takes_the_women() -> None:
    women = np.flatnonzero(raw("telemonitoring")["sex"] == 1)
    stream = np.random.RandomState(5489)
    women = women[np.argsort(stream.random_sample(1867))]
    train, test = women[:1000][np.argsort(stream.random_sample(1000))], women[1000:]
    assert_columns(load_dataset("telemonitoring", "described"), "total_UPDRS", train, test)


@needs_data
@pytest.mark.parametrize("name", sorted(set(DATASETS) - {*DESCRIBED_TARGETS, "telemonitoring", "airfoil"}))
def test_both_protocols_agree_for_the_other_sets(name: str) -> None:
    assert_same_data(load_dataset(name), load_dataset(name, "described"))


@needs_data
@pytest.mark.parametrize("name", DATASETS)
def test_published_numbers_belong_to_the_authors_protocol(name: str) -> None:
    data, described, entry = (
        load_dataset(name),
        load_dataset(name, "described"),
        shared_json("datasets.json")[name],
    )
    assert (data.published_mse, data.published_order) == (entry["paper_salsa_mse"], entry["paper_order"])
    assert (described.published_mse, described.published_order) == (None, None)
    assert data.note == described.note
    assert bool(data.note) == (name not in {"galaxy", "insulin", "skillcraft", "music"})


# --- names and the SALSA_DATA folder --------------------------------------------------------------


@needs_data
@pytest.mark.parametrize(("given", "key"), [("HOUSING", "housing"), ("Telemonit", "telemonitoring")])
def test_names_are_found_in_any_case_and_as_in_the_paper(given: str, key: str) -> None:
    assert load_dataset(given).name == key


@pytest.mark.parametrize("name", ["fMRI", "School", "Bleeding", "brain"])
def test_private_sets_are_refused_with_the_public_names(name: str) -> None:
    with pytest.raises(ValueError, match=f"^{name} is not public; the authors released 12 of 16 sets: hou"):
        load_dataset(name)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("huosing", r"'huosing'; did you mean 'housing'\? Known sets: .*forestfires"),
        ("qq", "'qq'; Known sets: "),
    ],
)
def test_unknown_names_are_refused_with_a_similar_name(name: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        load_dataset(name)


def test_an_unknown_protocol_is_refused() -> None:
    with pytest.raises(ValueError, match="protocol must be one of authors, described, not 'paper'"):
        load_dataset("housing", "paper")


@pytest.mark.parametrize(("folder", "missing"), [("", "housing.csv.gz"), ("nowhere", "nowhere")])
def test_a_missing_table_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str, missing: str) -> None:
    monkeypatch.setenv("SALSA_DATA", str(tmp_path / folder))
    with pytest.raises(FileNotFoundError, match=r"not exist; point SALSA_DATA at .*or unset it") as caught:
        load_dataset("housing")
    assert str(caught.value).startswith(str(tmp_path / missing))


@pytest.mark.parametrize("content", [gzip.compress(b"a,b\n1,2\n"), b"not gzip"], ids=["gzip", "text"])
def test_a_wrong_table_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes) -> None:
    monkeypatch.setenv("SALSA_DATA", str(tmp_path))
    (tmp_path / "housing.csv.gz").write_bytes(content)
    with pytest.raises(ValueError, match=r"housing\.csv\.gz was refused"):
        load_dataset("housing")


# --- downloads, from a real server on this machine ------------------------------------------------


@dataclass
class Repository:
    """A file server in a thread: its files, the requests that it got, and the client's cache."""

    cache: Path
    url: str = ""
    files: dict[str, bytes] = field(default_factory=dict)
    requests: list[str] = field(default_factory=list)
    missing_bytes: int = 0  # announced in Content-Length but never sent
    delay: float = 0.0  # seconds before it answers

    def cached(self) -> list[str]:
        """Return the names of all files and folders below the cache folder."""
        return sorted(str(path.relative_to(self.cache)) for path in self.cache.rglob("*"))


def handler(repository: Repository) -> type[BaseHTTPRequestHandler]:
    """Return a request handler that serves the files of `repository`."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            repository.requests.append(self.path)
            time.sleep(repository.delay)
            content = repository.files.get(self.path.lstrip("/"))
            if content is None:
                return self.send_error(404)
            self.send_response(200)
            self.send_header("Content-Length", str(len(content) + repository.missing_bytes))
            self.end_headers()
            self.wfile.write(content)
            return None

        def log_message(self, format: str, *args: object) -> None:
            """Keep the test output quiet."""

    return Handler


class Server(ThreadingHTTPServer):
    """A threaded server that prints nothing when a client closes the connection."""

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Print no traceback."""


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Repository]:
    """Start a server with its address in SALSA_DATA_URL, an empty SALSA_CACHE and no SALSA_DATA."""
    result = Repository(tmp_path / "cache")
    with Server(("127.0.0.1", 0), handler(result)) as server:
        result.url = f"http://127.0.0.1:{server.server_port}"
        monkeypatch.delenv("SALSA_DATA", raising=False)
        monkeypatch.setenv("SALSA_DATA_URL", result.url)
        monkeypatch.setenv("SALSA_CACHE", str(result.cache))
        monkeypatch.setenv("no_proxy", "127.0.0.1")
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        yield result
        server.shutdown()


def from_folder(name: str) -> Dataset:
    """Load a data set from the data folder."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SALSA_DATA", str(DATA))
        return load_dataset(name)


def as_text(values: np.ndarray, separator: str) -> bytes:
    """Format a table as text without a header; every float64 is exact."""
    return "".join(separator.join(map(repr, row)) + "\r\n" for row in values.tolist()).encode()


def as_mat(variables: dict[str, Any]) -> bytes:
    """Return the content of a MATLAB file."""
    file: Any = io.BytesIO()  # savemat accepts open files, but its type stub does not
    savemat(file, variables, do_compression=True)
    return bytes(file.getvalue())


def mat_variants() -> list[Any]:
    """Return (set, authors' file, variables from the table) for every arrangement of variables in a MATLAB file."""
    ids = np.array(["rs1", "rs2"], dtype=object)
    return [
        pytest.param("ccpp", "ccpp.mat", ccpp_variables, id="ccpp"),
        pytest.param("galaxy", "lrgReg.mat", lambda t: {"X": t[:, :20], "Y": t[:, 20:]}, id="X-Y"),
        pytest.param("insulin", "epidata.mat", lambda t: {"ids": ids, "all": t, "one": 1.0}, id="whole"),
        pytest.param("insulin", "epidata.mat", lambda t: {"X": np.int8(t[:, 1:]), "y": t[:, 0]}, id="y-X"),
        pytest.param("insulin", "epidata.mat", lambda t: {"epi": {"ids": ids, "data": t}}, id="struct"),
        pytest.param("insulin", "epidata.mat", lambda t: {"data": t.T}, id="transposed"),
    ]


def ccpp_variables(values: np.ndarray) -> dict[str, np.ndarray]:
    """Return the four variables of ccpp.mat."""
    train, test = values[:7000], values[7000:]
    return {"XTest": test[:, :4], "XTrain": train[:, :4], "YTest": test[:, 4:], "YTrain": train[:, 4:]}


@pytest.fixture
def housing(repository: Repository) -> Repository:
    """Return a repository that serves housing.txt as the authors do."""
    repository.files["housing.txt"] = as_text(table("housing"), " ")
    return repository


@needs_data
@pytest.mark.parametrize(("name", "separator"), [("housing", "   "), ("forestfires", ","), ("airfoil", "\t")])
def test_downloaded_text_files_give_the_same_data(repository: Repository, name: str, separator: str) -> None:
    repository.files[f"{name}.txt"] = as_text(table(name), separator)
    assert_same_data(load_dataset(name), from_folder(name))
    assert repository.cached() == [f"{name}.txt"]
    assert (repository.cache / f"{name}.txt").read_bytes() == repository.files[f"{name}.txt"]


@needs_data
@pytest.mark.parametrize(("name", "file", "variables"), mat_variants())
def test_downloaded_mat_files_give_the_same_data(repository: Repository, name: str, file: str, variables: Any) -> None:
    repository.files[file] = as_mat(variables(table(name)))
    assert_same_data(load_dataset(name), from_folder(name))
    assert repository.cached() == [file]


@needs_data
def test_minus_zero_counts_as_zero(repository: Repository) -> None:
    values = table("insulin")
    values[values == 0] = -0.0
    repository.files["epidata.mat"] = as_mat({"data": values})
    assert_same_data(load_dataset("insulin"), from_folder("insulin"))


@needs_data
def test_a_second_load_sends_no_request(housing: Repository) -> None:
    assert_same_data(load_dataset("housing"), load_dataset("housing"))
    assert housing.requests == ["/housing.txt"]


@needs_data
@pytest.mark.parametrize("damage", [b"", b"junk", b"1 2 3\n4 5 6\n"])
@pytest.mark.filterwarnings("ignore:loadtxt. input contained no data")
def test_a_damaged_cache_file_is_downloaded_again(housing: Repository, damage: bytes) -> None:
    housing.cache.mkdir()
    (housing.cache / "housing.txt").write_bytes(damage)
    assert_same_data(load_dataset("housing"), from_folder("housing"))
    assert (housing.cache / "housing.txt").read_bytes() == housing.files["housing.txt"]
    assert housing.requests == ["/housing.txt"]


@needs_data
def test_a_damaged_cache_file_is_downloaded_again_only_once(housing: Repository) -> None:
    housing.files["housing.txt"] = b"junk"
    housing.cache.mkdir()
    (housing.cache / "housing.txt").write_bytes(b"junk")
    with pytest.raises(ValueError, match=f"{housing.url}/housing.txt was refused"):
        load_dataset("housing")
    assert (housing.requests, housing.cached()) == (["/housing.txt"], [])


@needs_data
def test_changed_values_are_refused(housing: Repository) -> None:
    values = table("housing")
    values[0, 0] = np.nextafter(values[0, 0], 1)
    housing.files["housing.txt"] = as_text(values, " ")
    with pytest.raises(ValueError, match=r"was refused: its values differ .* \(SHA-256\)"):
        load_dataset("housing")
    assert housing.cached() == []


@pytest.mark.parametrize(("name", "file"), [("housing", "housing.txt"), ("ccpp", "ccpp.mat")])
def test_unreadable_content_is_refused(repository: Repository, name: str, file: str) -> None:
    repository.files[file] = b"<html>Please log in</html>" * 20
    with pytest.raises(ValueError, match=f"{file} was refused: it cannot be read as a table"):
        load_dataset(name)
    assert repository.cached() == []


@needs_data
def test_a_broken_transfer_is_reported_and_not_cached(housing: Repository) -> None:
    housing.missing_bytes = 1000
    size = len(housing.files["housing.txt"])
    with pytest.raises(ConnectionError, match=f"broke off after {size} of {size + 1000} bytes"):
        load_dataset("housing")
    assert housing.cached() == []


def test_a_missing_file_on_the_server_is_reported(repository: Repository) -> None:
    with pytest.raises(ConnectionError, match=f"cannot download {repository.url}/music.txt: .*404"):
        load_dataset("music")
    assert repository.cached() == []


@pytest.mark.parametrize("url", ["http://127.0.0.1:1", "nonsense", "http://127.0.0.1:port"])
def test_an_unreachable_server_is_reported(repository: Repository, monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    monkeypatch.setenv("SALSA_DATA_URL", url)
    with pytest.raises(ConnectionError, match=f"cannot download {url}/music.txt: .*set SALSA_DATA to "):
        load_dataset("music")
    assert repository.cached() == []


def test_a_silent_server_times_out(repository: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("salsa.paper.datasets._TIMEOUT", 0.05)
    repository.delay = 60.0
    with pytest.raises(ConnectionError, match=r"cannot download .*timed out"):
        load_dataset("music")
    assert repository.cached() == []


def test_a_too_large_file_is_refused(repository: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("salsa.paper.datasets._MAX_BYTES", 100)
    repository.files["music.txt"] = b"1" * 101
    with pytest.raises(ConnectionError, match="larger than 100 bytes"):
        load_dataset("music")
    assert repository.cached() == []


@needs_data
def test_an_interrupt_while_writing_leaves_no_file(housing: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(path: Path, target: Path) -> None:
        assert Path(path).read_bytes() == housing.files[Path(target).name]
        raise KeyboardInterrupt

    monkeypatch.setattr("salsa._utils.atomic.os.replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        load_dataset("housing")
    assert housing.cached() == []


@needs_data
def test_default_cache_is_the_user_folder(housing: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SALSA_CACHE")
    for variable in ("XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.setenv(variable, str(tmp_path / "user"))
    load_dataset("housing")
    assert (tmp_path / "user" / "salsa" / "housing.txt").is_file()
    assert not housing.cache.exists()
