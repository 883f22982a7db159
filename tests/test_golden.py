"""Models of the released version: their files load and predict the same, and fits choose the same.

``tools/golden.py`` lists the settings and wrote the files. Bits differ between processors, so numbers agree to 1e-6
here; ``python tools/golden.py compare OTHER/src`` compares the bits of two trees on one machine. The intervals of exact
fits with one output are those of the present version: the released one paired residuals with the wrong rows.
"""

import importlib.util
import json
import warnings
from pathlib import Path

import numpy as np
import pytest

import salsa

FOLDER = Path(__file__).parent / "golden"
EXPECTED = json.loads((FOLDER / "expected.json").read_text(encoding="utf-8"))
TOLERANCE = 1e-6  # relative to the largest prediction

spec = importlib.util.spec_from_file_location("golden", Path(__file__).parent.parent / "tools" / "golden.py")
golden = importlib.util.module_from_spec(spec)
spec.loader.exec_module(golden)


@pytest.fixture(scope="module")
def settings(tmp_path_factory):
    return golden.make_settings(tmp_path_factory.mktemp("golden"))


def assert_same_function(found, expected):
    size = np.abs(expected["prediction"]).max()
    for name in ("prediction", "sd", "interval"):
        if expected[name] is None:
            assert found[name] is None
        else:
            np.testing.assert_allclose(found[name], expected[name], rtol=TOLERANCE, atol=TOLERANCE * size)


@pytest.mark.parametrize("name", EXPECTED)
@pytest.mark.filterwarnings("ignore")
def test_files_of_the_released_version_predict_the_same(name, settings):
    model = salsa.load(FOLDER / f"{name}.salsa")
    found = golden.record(model, settings[name].rows)
    assert_same_function(found, EXPECTED[name])
    assert found["order"] == EXPECTED[name]["order"]
    np.testing.assert_allclose(found["relevance"], EXPECTED[name]["relevance"], rtol=TOLERANCE)


@pytest.mark.parametrize("name", EXPECTED)
def test_fits_choose_and_predict_as_the_released_version(name, settings):
    expected = EXPECTED[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = golden.record(settings[name].fit(), settings[name].rows)
    for choice in ("order", "race", "tried"):
        assert found[choice] == expected[choice]
    for number in ("alpha", "relevance", "bandwidth"):
        np.testing.assert_allclose(found[number], expected[number], rtol=TOLERANCE)
    assert_same_function(found, expected)
