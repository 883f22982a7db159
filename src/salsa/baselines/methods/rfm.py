"""Recursive feature machines: the ``xrfm`` package, as an estimator that holds out validation rows itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.model_selection import train_test_split

from salsa._utils.arrays import Floats
from salsa.baselines.methods.estimator import Method

ITERATIONS = 5
HELD_OUT = 0.2  # share of rows that the package needs to choose the iteration


@dataclass(eq=False, repr=False)
class XRFMRegressor(Method):
    """Kernel ridge regression whose metric is learned from the gradients of its fits, in several iterations.

    Parameters
    ----------
    bandwidth : float, default=10
        Bandwidth of the Laplace kernel, for standardised features.
    reg : float, default=1e-3
        Ridge penalty.
    diag : bool, default=False
        Learn a scale for every feature, and no rotation.
    random_state : int, default=0
        Chooses the rows that are held out, and seeds the package.
    """

    _dtype, _fewest_rows = np.float32, 5

    bandwidth: float = 10.0
    reg: float = 1e-3
    diag: bool = False
    random_state: int = 0

    def _learn(self, X: Floats, y: Floats) -> None:
        import torch
        from xrfm import xRFM

        X_fit, X_held, y_fit, y_held = train_test_split(
            X, y.astype(np.float32)[:, None], test_size=HELD_OUT, random_state=self.random_state
        )
        with torch.random.fork_rng(devices=[]):  # the caller's random numbers stay as they are
            torch.manual_seed(self.random_state)
            self.model_ = xRFM(self._settings(), device="cpu", n_threads=1, tuning_metric="mse", verbose=False)
            self.model_.fit(X_fit, y_fit, X_held, y_held)

    def _predict(self, X: Floats) -> Any:
        return np.asarray(self.model_.predict(X), dtype=np.float64).ravel()

    def _settings(self) -> dict[str, dict[str, Any]]:
        model = {"kernel": "l2", "exponent": 1.0, "bandwidth_mode": "constant"}
        fit = {"iters": ITERATIONS, "early_stop_rfm": True, "return_best_params": True, "verbose": False}
        return {"model": {**model, "bandwidth": self.bandwidth, "diag": self.diag}, "fit": {**fit, "reg": self.reg}}
