"""The example of a service, as a real process: answers, errors, load, and a worker that dies."""

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import closing, contextmanager
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from salsa import SalsaClassifier, SalsaRegressor, explain

FOLDER = Path(__file__).parents[1] / "examples" / "service"
ROW = {"area": 100.0, "town": "Bree"}


def houses(n=120):
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"area": rng.uniform(40, 200, n), "town": rng.choice(["Aalst", "Bree"], n)})
    return X, 2 * X["area"] * (1 + (X["town"] == "Bree")) + rng.normal(size=n)


@contextmanager
def serving(model, folder, workers=1, **limits):
    """Run the service with a saved model; yield its port and its process."""
    model.save(folder / "m.salsa")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = ["-m", "uvicorn", "--app-dir", FOLDER, "--no-access-log", "--workers", str(workers), "--port", str(port)]
    environment = os.environ | {"SALSA_MODEL": str(folder / "m.salsa")} | limits
    with subprocess.Popen(
        [sys.executable, *command, "service:app"], env=environment, stderr=subprocess.PIPE
    ) as process:
        try:
            wait_for(port)
            yield port, process
        finally:
            process.terminate()
            process.communicate(timeout=60)


def wait_for(port):
    for _ in range(300):
        try:
            socket.create_connection(("127.0.0.1", port)).close()
        except OSError:
            time.sleep(0.1)
        else:
            return
    raise TimeoutError


def asked(port, path, body=None):
    """Return the status of an answer, and its JSON."""
    text = body if body is None or isinstance(body, str) else json.dumps(body)
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=60)) as connection:
        connection.request("GET" if body is None else "POST", path, text)
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())


@pytest.fixture(scope="module")
def regressor():
    return SalsaRegressor(order=2, relevance="equal", random_state=0).fit(*houses())


@pytest.fixture(scope="module")
def port(regressor, tmp_path_factory):
    with serving(regressor, tmp_path_factory.mktemp("service"), SALSA_MOST_BYTES="5000", SALSA_MOST_ROWS="9") as found:
        yield found[0]


def test_answers_are_those_of_the_model(port, regressor):
    assert asked(port, "/health")[1]["status"] == "ok"
    assert asked(port, "/schema") == (200, regressor.schema())
    assert asked(port, "/predict", ROW) == (200, {"predictions": regressor.predict(ROW).tolist()})
    status, found = asked(port, "/predict?interval=0.8&contributions=true", [ROW, ROW])
    assert status == 200
    assert found["predictions"] == regressor.predict([ROW, ROW]).tolist()
    np.testing.assert_allclose(found["intervals"], regressor.predict_interval([ROW, ROW], 0.8), rtol=1e-12)
    np.testing.assert_allclose(found["contributions"], explain.shapley(regressor, [ROW, ROW]).values, rtol=1e-9)
    assert found["base_value"] + sum(found["contributions"][0]) == pytest.approx(found["predictions"][0])


def test_warnings_are_sent_with_the_predictions(port):
    status, found = asked(port, "/predict", {"area": 1e5, "town": "Genk"})
    assert status == 200
    assert any("not seen in training" in text for text in found["warnings"])
    assert any("far outside the range" in text for text in found["warnings"])
    assert "warnings" not in asked(port, "/predict", ROW)[1]


@pytest.mark.parametrize(
    ("path", "body", "status", "error"),
    [
        ("/predict", {"area": 1.0}, 422, "field 'town' is absent"),
        ("/predict", ROW | {"area": "large"}, 422, "'area' has 'large'"),
        ("/predict", "{", 400, "no JSON"),
        ("/predict", '{"area": NaN, "town": "Bree"}', 400, "NaN is no JSON number"),
        ("/predict", [], 400, "give a row as a JSON object"),
        ("/predict", [ROW] * 10, 413, "10 rows: send at most 9"),
        ("/predict", " " * 6000, 413, "more than 5000 bytes"),
        ("/predict?interval=2", ROW, 422, "a probability is a number between 0 and 1"),
        ("/predict?intervall=0.9", ROW, 400, "unknown option 'intervall'"),
    ],
)
def test_a_wrong_request_is_told_what_is_wrong(port, path, body, status, error):
    found, answer = asked(port, path, body)
    assert found == status
    assert error in answer["error"]


def test_classes_have_probabilities_and_sets(tmp_path):
    X, y = houses()
    labels = np.where(y > y.median(), "dear", "cheap")
    model = SalsaClassifier(order=1, relevance="equal", random_state=0).fit(X, labels)
    with serving(model, tmp_path) as (port, _):
        status, found = asked(port, "/predict?interval=0.9", ROW)
    assert status == 200
    assert found["classes"] == ["cheap", "dear"]
    assert found["predictions"] == model.predict(ROW).tolist()
    assert found["probabilities"] == model.predict_proba(ROW).tolist()
    assert found["sets"] == model.predict_set(ROW, 0.9).tolist()


def test_contributions_to_several_classes_are_sent(tmp_path):
    X, y = houses()
    labels = np.array(["cheap", "fair", "dear"])[np.digitize(y, np.quantile(y, [0.3, 0.7]))]
    model = SalsaClassifier(order=1, relevance="equal", random_state=0).fit(X, labels)
    with serving(model, tmp_path) as (port, _):
        status, found = asked(port, "/predict?contributions=true", ROW)
    expected = explain.shapley(model, ROW)
    assert status == 200
    np.testing.assert_allclose(found["base_value"], expected.base_value, rtol=1e-12)
    np.testing.assert_allclose(found["contributions"], expected.values, rtol=1e-9)


@pytest.mark.parametrize(("path", "body", "status"), [("/", None, 404), ("/predict", None, 405), ("/schema", ROW, 405)])
def test_other_addresses_and_methods_get_json_that_names_the_right_ones(port, path, body, status):
    found, answer = asked(port, path, body)
    assert found == status
    assert answer["error"].endswith("there are GET /health, GET /schema and POST /predict")


def load(port, count, answers):
    """Ask for one row many times. A request whose connection was closed without an answer is sent once more."""
    connection, body = http.client.HTTPConnection("127.0.0.1", port, timeout=60), json.dumps(ROW)
    for _ in range(count):
        for last in (False, True):
            try:
                connection.request("POST", "/predict", body)
                answer = connection.getresponse()
                answers.append((answer.status, answer.read()))
                break
            except (http.client.HTTPException, OSError):
                connection.close()
                if last:
                    answers.append((0, b""))
    connection.close()


@pytest.mark.slow
def test_no_request_is_lost_under_load_and_while_a_worker_restarts(regressor, tmp_path):
    answers, count = [], 500
    with serving(regressor, tmp_path, workers=2) as (port, process):
        threads = [threading.Thread(target=load, args=(port, count, answers)) for _ in range(4)]
        for thread in threads:
            thread.start()
        time.sleep(0.5)
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text(encoding="ascii").split()
        os.kill(int(children[-1]), signal.SIGTERM)
        for thread in threads:
            thread.join()
    expected = json.dumps({"predictions": regressor.predict(ROW).tolist()}, separators=(",", ":")).encode()
    assert set(answers) == {(200, expected)}
    assert len(answers) == 4 * count
