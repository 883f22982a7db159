"""What a user does first, with an installed wheel: python tools/smoke.py [ENVIRONMENT].

ENVIRONMENT: the folder that salsa must come from; then there must be no compiler on the PATH either.
"""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

import salsa
from salsa import SalsaRegressor, _core, explain


def check_alone(environment: str) -> None:
    assert Path(salsa.__file__).is_relative_to(Path(environment).resolve()), f"salsa comes from {salsa.__file__}"
    found = [name for name in ("cc", "c++", "gcc", "g++", "clang", "cmake", "ninja") if shutil.which(name)]
    assert not found, f"this is no machine without a compiler: {found}"


def check_use() -> None:
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (200, 4))
    # Without noise the coefficients reach the limits of rounding, and the sum below is off by 1e-7 on some processors.
    y = np.sin(3 * X[:, 0]) + 2 * X[:, 1] * X[:, 2] + rng.normal(0, 0.1, 200)
    model = SalsaRegressor(random_state=0).fit(X[:150], y[:150])
    error = np.mean((model.predict(X[150:]) - y[150:]) ** 2) / np.var(y[150:])
    assert error < 0.05, f"the held-out error is {error:.3f} of the variance"
    values = explain.shapley(model, X[150:])
    assert np.allclose(values.values.sum(axis=1) + values.base_value, model.predict(X[150:]))

    with tempfile.TemporaryDirectory() as folder:
        model.save(f"{folder}/model.salsa")
        assert (salsa.load(f"{folder}/model.salsa").predict(X) == model.predict(X)).all()
        explain.write_report(model, f"{folder}/report.html")
        assert "</html>" in Path(f"{folder}/report.html").read_text(encoding="utf-8")
        command = shutil.which("salsa", path=str(Path(sys.executable).parent))
        assert command, "the command salsa is not installed"
        subprocess.run([command, "demo", "--out", f"{folder}/demo"], check=True, stdout=subprocess.DEVNULL)
    print(f"salsa {salsa.__version__} works ({', '.join(_core.simd_levels())}): {error:.4f} of the variance is left")


if __name__ == "__main__":
    for environment in sys.argv[1:]:
        check_alone(environment)
    check_use()
