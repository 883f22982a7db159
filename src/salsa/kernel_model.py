"""The part that all estimators share: a fitted function with its uncertainty, and the file it is saved to."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from salsa._utils.arrays import Floats
from salsa._utils.memory import row_blocks
from salsa._utils.progress import CallbackSupportMixin
from salsa._utils.threads import parse_threads
from salsa.data.schema import schema_of
from salsa.fitted import fitted_of
from salsa.options import parse_resources
from salsa.persistence.model_file import write_model
from salsa.persistence.onnx_model import write_onnx
from salsa.uncertainty import Unavailable, Uncertainty


class KernelModel(CallbackSupportMixin, BaseEstimator):  # type: ignore[misc]
    """A fitted kernel expansion, whatever its targets are."""

    def functional_sd(self, k: Floats, prior: Floats) -> Floats:
        """Return the posterior standard deviation (m, q) of m linear functionals of f that vanish on constants.

        Effects are such functionals. k (m, n) are the functionals of k(., x_i) for the training rows x_i, prior (m,)
        the functionals of k in both arguments.
        """
        return self._uncertainty().posterior_sd(k, prior, constant=0.0, n_threads=parse_threads(self.n_jobs))

    def schema(self, strict: bool = False) -> dict[str, Any]:
        """Return the JSON Schema (2020-12) of a record: a dict that ``predict`` takes as one row.

        A record has all fields, in any order, and None (null in JSON) where a value is missing. Features of models that
        were fitted without names are called x0, x1, and so on. ``predict`` refuses records that the schema refuses, and
        the error names the field. Annotations say what the training rows held: ``x-kind`` (number, category, ordered
        category, date or duration), ``x-range``, ``x-levels``, and ``x-unit`` if a name ends with a unit in brackets. A
        date is a text such as 2026-01-31, a duration a number in its ``x-unit``. New levels and numbers outside the
        range are not errors: ``predict`` warns. With strict=True the schema refuses both.
        """
        fitted = fitted_of(self)
        expansion = fitted.expansion
        seen = [
            np.append(marginal.points, ends)
            for marginal, *ends in zip(expansion.background, *expansion.ends, strict=True)
        ]
        may_miss = expansion.kernel.distributions is not None
        return schema_of(fitted.columns, seen, may_miss=may_miss, strict=strict)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted model to a .salsa file (zip of JSON and arrays, no pickle); ``salsa.load`` reads it."""
        parse_resources(self.n_jobs, self.memory_limit)  # refuses what `load` would refuse
        write_model(path, {name: getattr(self, name) for name in self._saved_parameters()}, fitted_of(self))

    def to_onnx(self, path: str | os.PathLike[str]) -> None:
        """Write predictions as an ONNX file, which needs neither salsa nor Python: standard operators in float64.

        A model that was fitted on a table with column names has one input (n, 1) per column: float64 for numbers, text,
        bool or float64 for categories. Others have the input X (n, D) in float64. Missing numbers are NaN; a level that
        the model does not know, such as an empty text, counts as missing. The output is `prediction`, of the shape that
        ``predict`` returns, or `label` (n,) and `probabilities` (n, n_classes). Intervals, explanations and warnings
        are not exported, and models with dates or durations are refused. Needs the package onnx: ``pip install
        onnx``.
        """
        write_onnx(fitted_of(self), path)

    @property
    def _repr_html_(self) -> Callable[[], str]:
        """Return the HTML of scikit-learn's display of parameters, then a summary of a fitted model; for notebooks.

        As in scikit-learn, there is no such attribute under ``set_config(display="text")``.
        """
        parameters: Callable[[], str] = super()._repr_html_
        return lambda: parameters() + self._learned_html()

    def _repr_mimebundle_(self, **options: Any) -> dict[str, str]:
        """Return the text and HTML that Jupyter shows."""
        bundle: dict[str, str] = super()._repr_mimebundle_(**options)
        if "text/html" in bundle:
            bundle["text/html"] += self._learned_html()
        return bundle

    def _learned_html(self) -> str:
        """Return the summary of a fitted model in HTML; nothing before the fit."""
        if "_fitted" not in vars(self):
            return ""
        from salsa.explain.notebook import learned_html

        return learned_html(self)

    @classmethod
    def _saved_parameters(cls) -> list[str]:
        """Return the names of the parameters that a model file holds."""
        names: list[str] = cls._get_param_names()
        return names

    def _uncertainty(self) -> Uncertainty:
        """Return the uncertainty; an exact fit computes it on first use."""
        uncertainty = fitted_of(self).uncertainty
        if isinstance(uncertainty, Unavailable):
            raise ValueError(uncertainty.reason)
        uncertainty.prepare(self.memory_limit, parse_threads(self.n_jobs))
        return uncertainty

    def _posterior_sd(self, X: Floats) -> Floats:
        """Return the standard deviation of f (n, q) at encoded rows, on the scale of learning."""
        uncertainty, threads = self._uncertainty(), parse_threads(self.n_jobs)
        blocks = self._blocks(X, uncertainty.sd_points)
        return np.concatenate([uncertainty.posterior_sd(k, prior, n_threads=threads) for _, k, prior in blocks])

    def _blocks(self, X: Floats, points: Floats) -> Iterator[tuple[slice, Floats, Floats]]:
        """Yield some rows of X at a time, their kernel values with the points of an uncertainty, and their prior."""
        kernel, threads = self.expansion_.kernel, parse_threads(self.n_jobs)
        for rows in row_blocks(len(X), len(points)):
            yield rows, self.expansion_.block(X[rows], points, n_threads=threads), kernel.diagonal(X[rows])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags
