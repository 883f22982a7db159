"""SalsaClassifier: classes become numbers, ``fitting`` minimises the log loss, probabilities come back."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.random import RandomState
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_consistent_length

from salsa._utils.arrays import Floats
from salsa._utils.progress import Progress, with_callbacks
from salsa._utils.threads import parse_threads
from salsa._utils.unchanged import unchanged_by_failure
from salsa._utils.user_warning import TooFewRowsWarning, warn_user
from salsa.data.blocks import reread
from salsa.data.targets import checked_labels, checked_weights, classes_of, coded_labels, weights_of_classes
from salsa.data.training_range import encoded
from salsa.fitted import assign, fitted_of
from salsa.fitting import fit_source, fit_table
from salsa.kernel_model import KernelModel
from salsa.options import check_probability, parse_options
from salsa.uncertainty.scored import ScoredUncertainty


class SalsaClassifier(ClassifierMixin, KernelModel):  # type: ignore[misc]
    """Kernel logistic regression with an additive kernel that is learned from the data.

    The model has one function per class, or one for two classes: f(x) = offset + sum_i coef_i k(x, x_i). The
    probabilities are softmax(f(x)); with two classes, f is the log odds of the second one. Fits minimise the log loss
    plus alpha / 2 times the squared norm of f. The log loss of held-out rows chooses the kernel, its order and alpha,
    and a factor of f that calibrates the probabilities.

    Parameters
    ----------
    order, alpha, relevance, interactions, interaction_cst, kernel, bandwidth : as in ``SalsaRegressor``.
    monotonic_cst : None, array of shape (n_features,) or dict of column name to int, default=None
        1 if the probability of the second class may not fall with a feature, -1 if it may not rise, 0 if it is free: as
        in scikit-learn's ``HistGradientBoostingClassifier``. For two classes only; docs/knowledge.md has the details.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes, which multiply ``sample_weight``: as in scikit-learn. Probabilities are then those of a
        table in which the classes have these weights.
    solver : {"auto", "exact", "lowrank", "pcg"}, default="auto"
        "exact" uses all rows, "lowrank" a few rows (anchors) that stand for all. "pcg" is the exact fit for some ten
        thousand rows of two classes, by conjugate gradients. "auto" is "exact" up to 3000 rows, and "lowrank" beyond.
    rank : None or int, default=None
        The most anchors of a low-rank fit. None: 2000.
    cv, categorical_features, memory_limit, n_jobs, random_state, verbose : as in ``SalsaRegressor``.

    Attributes
    ----------
    classes_ : array of shape (n_classes,), the labels in ascending order.
    order_, alpha_, relevance_, bandwidth_, columns_, search_, expansion_, n_features_in_, feature_names_in_ : as in
        ``SalsaRegressor``. Errors of ``search_`` are log losses, as shares of the log loss of the classes' frequencies.

    Examples
    --------
    >>> import numpy as np
    >>> from salsa import SalsaClassifier
    >>> X = np.random.default_rng(0).uniform(-1, 1, (200, 4))
    >>> y = np.where(X[:, 0] * X[:, 1] > 0, "same sign", "other sign")
    >>> model = SalsaClassifier(random_state=0).fit(X, y)
    >>> model.predict([[0.5, 0.5, 0, 0]])
    array(['same sign'], dtype='<U10')
    """

    def __init__(
        self,
        order: Any = "auto",
        alpha: Any = "auto",
        *,
        class_weight: Any = None,
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
        self.order = order
        self.alpha = alpha
        self.class_weight = class_weight
        self.relevance = relevance
        self.interactions = interactions
        self.interaction_cst = interaction_cst
        self.monotonic_cst = monotonic_cst
        self.kernel = kernel
        self.bandwidth = bandwidth
        self.solver = solver
        self.rank = rank
        self.cv = cv
        self.categorical_features = categorical_features
        self.memory_limit = memory_limit
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    @with_callbacks  # type: ignore[untyped-decorator,unused-ignore]
    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> Self:
        """Choose kernel, order and alpha by cross-validation and fit on all rows of X (n, D) with the labels y (n,).

        sample_weight multiplies the log loss of a row; 0 removes a row, and only ratios matter. groups are labels (n,),
        such as the person that a row was measured on: they are held out whole. Copies, rows that agree in all features
        and the label, count as one observation with the sum of their weights.
        """
        progress = Progress(self, X, y)
        with unchanged_by_failure(self), progress:
            options = parse_options(self.get_params(deep=False))
            labels, weight = checked_labels(y), sample_weight
            check_consistent_length(X, labels, sample_weight)
            if self.class_weight is not None:
                weight = weights_of_classes(self.class_weight, labels)
                weight = weight if sample_weight is None else weight * np.asarray(sample_weight, dtype=np.float64)
            used = np.ones(len(labels), dtype=bool) if weight is None else checked_weights(weight, labels[:, None]) > 0
            classes = self._classes_of(labels[used])
            fitted = fit_table(options, X, coded_labels(classes, labels), weight, groups, progress)
            assign(self, fitted._replace(classes=classes))
            progress.end()
        return self

    @with_callbacks  # type: ignore[untyped-decorator,unused-ignore]
    def fit_blocks(
        self, blocks: Any, *, target: Any = None, sample_weight: str | None = None, groups: str | None = None
    ) -> Self:
        """Fit a table that is read in blocks, as ``SalsaRegressor.fit_blocks`` does; y has labels.

        Up to 3000 rows, and with monotonic_cst, the table is read whole. Otherwise the rows are read some dozens of
        times, unless memory holds their features (4 n rank bytes); labels, weights and held-out predictions stay in
        memory.
        """
        progress = Progress(self, None, None)
        with unchanged_by_failure(self), progress:
            options = parse_options(self.get_params(deep=False))
            if self.class_weight is not None:
                raise ValueError("class_weight: fit_blocks takes weights of rows only: give them as sample_weight")
            with reread(blocks, target, sample_weight, groups) as source:
                labels = [np.unique(checked_labels(block.y)) for block in source() if len(block.X)]
                if not labels:
                    raise ValueError("there are no rows: a fit needs at least one block with rows")
                classes = self._classes_of(np.concatenate(labels))

                def coded() -> Any:
                    return (
                        block._replace(y=coded_labels(classes, checked_labels(block.y)))
                        for block in source()
                        if len(block.X)
                    )

                fitted = fit_source(options, coded, progress)
            assign(self, fitted._replace(classes=classes))
            progress.end()
        return self

    def decision_function(self, X: Any) -> Floats:
        """Return f(X): the log odds (n,) of the second of two classes, or log probabilities up to a constant (n, C)."""
        X = encoded(self, X)
        f = self.expansion_.predict(X, n_threads=parse_threads(self.n_jobs))
        values: Floats = f[:, 0] if f.shape[1] == 1 else f
        return values

    def predict_proba(self, X: Any) -> Floats:
        """Return the probabilities (n, n_classes) of the classes, in the order of ``classes_``."""
        X = encoded(self, X)
        return probabilities(self, self.expansion_.predict(X, n_threads=parse_threads(self.n_jobs)))

    def predict_log_proba(self, X: Any) -> Floats:
        """Return the logarithms (n, n_classes) of the probabilities."""
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the most probable class (n,) of every row of X: a table, a dict (one row) or a list of dicts."""
        most = np.argmax(self.predict_proba(X), axis=1)
        labels: NDArray[Any] = self.classes_[most]
        return labels

    def predict_set(self, X: Any, coverage: float = 0.9) -> NDArray[np.bool_]:
        """Return a set of classes for every row, as booleans (n, n_classes): it holds the true class this often.

        A class is in the set if its probability is at least as large as the probability of the true class of all but
        1 - coverage of the held-out rows (conformal prediction). Easy rows have one class, hard rows several. A set is
        empty if no class is probable enough: a low coverage leaves out the rows that the model is least sure of.
        Coverage is over all classes together: a rare class can have less.
        """
        return set_of_classes(self, self.predict_proba(X), coverage)

    def held_out_proba(self) -> tuple[NDArray[Any], Floats]:
        """Return the labels (m,) of the training rows and their probabilities (m, n_classes) by fits without them.

        The rows are those of the folds, copies as one, and not in the order of the table.
        """
        uncertainty = fitted_of(self).uncertainty
        assert isinstance(uncertainty, ScoredUncertainty)
        row, f, *_ = uncertainty.held_out
        target = uncertainty.target[row]
        code = target[:, 0].astype(np.intp) if target.shape[1] == 1 else np.argmax(target, axis=1)
        return self.classes_[code], probabilities(self, f)

    def _classes_of(self, labels: NDArray[Any]) -> NDArray[Any]:
        """Return the classes of the rows that are used; more than two have no order that could be monotone."""
        classes = classes_of(labels)
        if self.monotonic_cst is not None and len(classes) > 2:
            advice = f"y has {len(classes)} classes: give monotonic_cst=None, or fit one class against the others"
            raise ValueError(f"monotonic constraints are not supported for multiclass classification; {advice}")
        return classes

    @property
    def classes_(self) -> NDArray[Any]:
        """The labels (n_classes,), ascending."""
        classes = fitted_of(self).classes
        assert classes is not None
        return classes


def probabilities(model: SalsaClassifier, f: Floats) -> Floats:
    """Return the probabilities (n, n_classes) where the fitted function is f (n, q)."""
    transform = fitted_of(model).transform
    assert transform is not None
    p = transform.mean(f)
    return np.column_stack([1.0 - p, p]) if p.shape[1] == 1 else p


def set_of_classes(model: SalsaClassifier, p: Floats, coverage: float) -> NDArray[np.bool_]:
    """Return which classes are in the set of a row (n, n_classes) with the probabilities p (n, n_classes)."""
    check_probability("coverage", coverage)
    uncertainty = fitted_of(model).uncertainty
    assert isinstance(uncertainty, ScoredUncertainty)
    least = uncertainty.least_probability(coverage)
    chosen: NDArray[np.bool_] = p >= least
    if chosen.all() and least == 0.0:
        problem = f"there are too few training rows for sets of coverage {coverage:g}"
        warn_user(f"{problem}: they hold all classes", TooFewRowsWarning)
    return chosen
