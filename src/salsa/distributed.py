"""SalsaRegressor on a Dask cluster: workers read their rows and add up sums; the client solves the small problems.

The steps and the compiled kernel are the same as in ``SalsaRegressor``. In a low-rank fit no machine needs to hold all
rows; in an exact fit, no machine needs to hold the kernel matrix.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.random import RandomState
from sklearn.base import clone
from sklearn.metrics import r2_score

try:
    import dask
    import dask.array as da
    from dask import delayed
    from dask.base import is_dask_collection
    from dask.distributed import Client, get_client
except ImportError as error:
    raise ImportError("salsa.distributed needs Dask: pip install 'dask[array,dataframe,distributed]'") from error

from salsa._utils.progress import Progress, with_callbacks
from salsa._utils.unchanged import unchanged_by_failure
from salsa.data.blocks import Reading, survey_block, together
from salsa.data.dask_rows import ClusterRows, delayed_blocks, lengths, partitions
from salsa.data.targets import check_total_weight
from salsa.fitted import assign, fitted_of
from salsa.fitting import fit_rows
from salsa.options import parse_options, parse_resources
from salsa.regressor import SalsaRegressor
from salsa.solvers.cluster_tiles import Cluster

__all__ = ["DaskSalsaRegressor"]


class DaskSalsaRegressor(SalsaRegressor):
    """``SalsaRegressor`` for Dask arrays and data frames, whose partitions stay on the workers of a cluster.

    The client learns kernel, order and anchors from a sample of the rows. The workers read their partitions again for
    each of the three or more passes that follow, unless you ``persist`` them. ``predict`` is lazy. The client fits
    other tables.

    ``solver="pcg"`` gathers all rows in the client and sends them to the workers, which hold the kernel matrix (2 n^2
    bytes) together. Each worker takes up to 55 % of its memory limit; a MemoryError says so if they are too few.
    ``memory_limit`` is for the client. ``solver="auto"`` is exact in the client up to 3000 rows. Then it takes "pcg" up
    to n^2 outputs = 60 000^2 workers, if memory allows, and "lowrank" beyond.

    Parameters
    ----------
    client : dask.distributed.Client, default=None
        The cluster; None: the current client.

    All other parameters are as in ``SalsaRegressor``. The solvers "exact", "pcg" and "divide" gather all rows. Losses
    other than the squared error read the partitions some 60 times, and compute the kernel again each time: ``persist``
    them. With monotonic_cst these losses gather all rows.
    """

    def __init__(
        self,
        client: Any = None,
        order: Any = "auto",
        alpha: Any = "auto",
        *,
        loss: str = "squared_error",
        quantile: float | None = None,
        target_transform: str | None = None,
        relevance: Any = "learned",
        interactions: str = "up_to",
        interaction_cst: Any = None,
        monotonic_cst: Any = None,
        kernel: str = "auto",
        bandwidth: Any = "auto",
        solver: str = "auto",
        rank: int | None = None,
        cv: Any = 5,
        categorical_features: Any = "from_dtype",
        memory_limit: float | str | None = None,
        n_jobs: int | None = None,
        random_state: int | RandomState | None = None,
        verbose: int = 0,
    ) -> None:
        super().__init__(
            order,
            alpha,
            loss=loss,
            quantile=quantile,
            target_transform=target_transform,
            relevance=relevance,
            interactions=interactions,
            interaction_cst=interaction_cst,
            monotonic_cst=monotonic_cst,
            kernel=kernel,
            bandwidth=bandwidth,
            solver=solver,
            rank=rank,
            cv=cv,
            categorical_features=categorical_features,
            memory_limit=memory_limit,
            n_jobs=n_jobs,
            random_state=random_state,
            verbose=verbose,
        )
        self.client = client

    @with_callbacks  # type: ignore[untyped-decorator,unused-ignore]
    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> Self:
        """Choose order and alpha by cross-validation and fit on all rows of the Dask collections X and y."""
        if not is_dask_collection(X):
            super().fit(X, y, sample_weight, groups)
            return self
        progress = Progress(self, X, y)
        with unchanged_by_failure(self), progress:
            options, client = parse_options(self.get_params(deep=False)), self._client()
            blocks = delayed_blocks(X, y, sample_weight, groups)
            learned = options.categorical_features, options.transform
            surveys = client.gather(client.compute([delayed(survey_block)(block, *learned) for block in blocks]))
            seen = together(surveys)
            used = [(block, part.rows) for block, part in zip(blocks, surveys, strict=True) if part and part.rows]
            parts, counts = [block for block, _ in used], [count for _, count in used]
            check_total_weight(seen.rows)
            reading = Reading.after(seen, options.transform)
            rows = ClusterRows(client, parts, counts, reading)
            with Cluster(client) as cluster:
                options = replace(options, resources=options.resources._replace(cluster=cluster))
                assign(self, fit_rows(options, rows, seen, progress))
            progress.end()
        return self

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Predict like ``SalsaRegressor.predict``; for a Dask collection, return lazy Dask arrays."""
        if not is_dask_collection(X):
            return super().predict(X, return_std)
        outputs = () if fitted_of(self).flat else (len(self.expansion_.offset),)
        if return_std:
            return tuple(self._lazily(X, _predict_with_sd, outputs, place) for place in (0, 1))
        return self._lazily(X, SalsaRegressor.predict, outputs)

    def predict_interval(self, X: Any, coverage: float = 0.9) -> Any:
        """Predict like ``SalsaRegressor.predict_interval``; for a Dask collection, return a lazy Dask array."""
        if not is_dask_collection(X):
            return super().predict_interval(X, coverage)
        outputs = () if fitted_of(self).flat else (len(self.expansion_.offset),)
        return self._lazily(X, SalsaRegressor.predict_interval, (*outputs, 2), coverage)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return R2 of the predictions; only predictions, targets and weights are gathered in the client."""
        (y,), (prediction,), (weight,) = map(dask.compute, (y, self.predict(X), sample_weight))
        return float(r2_score(y, prediction, sample_weight=weight))

    def __sklearn_clone__(self) -> Self:
        """Return a clone with the same client, which cannot be copied."""
        others = {name: value for name, value in self.get_params(deep=False).items() if name != "client"}
        return type(self)(self.client, **clone(others, safe=False))

    def __getstate__(self) -> dict[str, Any]:
        """Return the state without the client, which cannot be pickled: the current client takes its place."""
        state: dict[str, Any] = super().__getstate__()
        return state | {"client": None}

    def local(self) -> SalsaRegressor:
        """Return the fitted model as a ``SalsaRegressor``, without the cluster."""
        model = SalsaRegressor(**{name: getattr(self, name) for name in SalsaRegressor._get_param_names()})
        assign(model, fitted_of(self))
        return model

    @classmethod
    def _saved_parameters(cls) -> list[str]:
        """Return the names of all parameters but the client of the cluster."""
        return SalsaRegressor._saved_parameters()

    def _client(self) -> Client:
        if self.client is not None:
            return self.client
        try:
            return get_client()
        except ValueError:
            advice = "start one, client = dask.distributed.Client(), or give client="
            raise ValueError(f"there is no Dask cluster to fit on: {advice}") from None

    def _lazily(self, X: Any, method: Callable[..., Any], trailing: tuple[int, ...], *arguments: Any) -> Any:
        """Return the lazy array (n, *trailing) of method(model, rows, *arguments) over all partitions."""
        parse_resources(self.n_jobs, self.memory_limit)
        model = self._client().scatter(self.local(), broadcast=True, hash=False)  # a key that nobody releases
        parts = [
            da.from_delayed(delayed(method)(model, part, *arguments), shape=(length, *trailing), dtype=np.float64)
            for part, length in zip(partitions(X), lengths(X), strict=True)
        ]
        return da.concatenate(parts, allow_unknown_chunksizes=True)


def _predict_with_sd(model: SalsaRegressor, X: Any, place: int) -> Any:
    return model.predict(X, return_std=True)[place]
