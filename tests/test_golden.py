"""Golden models: files of the released version predict the same, and fits choose the same as when they were recorded.

``tools/golden.py`` lists the settings. Bits differ between processors, so numbers agree to 1e-6 here, and learned
kernels, whose optimisation ends at slightly different places, to a few percent; ``python tools/golden.py compare
OTHER/src`` compares the bits of two trees on one machine. The first version that judges by
observations wrote ``expected.json``; files of the version before it keep predictions and standard deviations, and get
the intervals of the present version.
"""

import importlib.util
import json
import warnings
from pathlib import Path

import numpy as np
import pytest

import salsa

FOLDER = Path(__file__).parent / "golden"
EXPECTED, RELEASED = (
    json.loads((folder / "expected.json").read_text(encoding="utf-8")) for folder in (FOLDER, FOLDER / "released")
)
TOLERANCE = 1e-6  # relative to the largest prediction
LEARNED, LEARNED_PARAMETERS = 0.02, 0.2  # the same for fits with a learned kernel, and for its parameters

spec = importlib.util.spec_from_file_location("golden", Path(__file__).parent.parent / "tools" / "golden.py")
golden = importlib.util.module_from_spec(spec)
spec.loader.exec_module(golden)


@pytest.fixture(scope="module")
def settings(tmp_path_factory):
    return golden.make_settings(tmp_path_factory.mktemp("golden"))


def assert_same_function(found, expected, names, tolerance=TOLERANCE):
    size = np.abs(expected["prediction"]).max()
    for name in names:
        if expected[name] is None:
            assert found[name] is None
        else:
            np.testing.assert_allclose(found[name], expected[name], rtol=tolerance, atol=tolerance * size)


@pytest.mark.parametrize("name", RELEASED)
@pytest.mark.filterwarnings("ignore")
def test_files_of_the_released_version_predict_the_same(name, settings):
    expected = RELEASED[name]
    found = golden.record(salsa.load(FOLDER / "released" / f"{name}.salsa"), settings[name].rows)
    assert_same_function(found, expected, ("prediction",) if "weight" in name else ("prediction", "sd"))
    assert found["order"] == expected["order"]
    np.testing.assert_allclose(found["relevance"], expected["relevance"], rtol=TOLERANCE)
    if found["interval"] is not None:
        low, high = np.moveaxis(np.asarray(found["interval"]), -1, 0)
        assert (low <= found["prediction"] + 1e-9).all()
        assert (found["prediction"] <= high + 1e-9).all()


@pytest.mark.parametrize("name", EXPECTED)
def test_fits_choose_and_predict_as_recorded(name, settings):
    expected = EXPECTED[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = golden.record(settings[name].fit(), settings[name].rows)
    for choice in ("order", "race", "tried"):
        assert found[choice] == expected[choice]
    learned = any(won and not kernel.startswith("equal") for kernel, *_, won in expected["race"])
    for number in ("alpha", "relevance", "bandwidth"):
        tolerance = LEARNED_PARAMETERS if learned else TOLERANCE
        np.testing.assert_allclose(found[number], expected[number], rtol=tolerance)
    assert_same_function(found, expected, ("prediction", "sd", "interval"), LEARNED if learned else TOLERANCE)
