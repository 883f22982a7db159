"""A summary of a fitted model in HTML, which notebooks show below scikit-learn's display of its parameters.

Colours follow the text colour of the page, so that the summary is readable in light and dark notebooks.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from html import escape
from typing import Any, NamedTuple

import numpy as np

from salsa._utils.arrays import Floats
from salsa._utils.drawing import percent
from salsa.explain.anova import Anova
from salsa.explain.report.phrases import count, short, some
from salsa.explain.report.scored_rows import measure_of
from salsa.explain.row_shares import MOST_ROWS
from salsa.explain.subject import Rows, Subject, subject_of
from salsa.fitted import fitted_of
from salsa.kernels.base import ALL_BASES
from salsa.selection.results import Component
from salsa.uncertainty import Unavailable
from salsa.uncertainty.scored import ScoredUncertainty

#: Shares are computed over at most this many pairs of a row and an anchor, so that a notebook does not wait for them
MOST_PAIRS, FEWEST_ROWS = 1_000_000, 200
MOST_FEATURES, MOST_NAMES, MOST_TERMS, MOST_OUTPUTS = 10, 12, 4, 4
LEAST_SHARE = 0.005  # features with smaller shares are counted, not listed

STYLE = """
.salsa-learned {color: inherit; font-size: 0.93em; line-height: 1.45; margin: 0.6em 0; max-width: 54em}
.salsa-learned .title {font-weight: 600; margin: 0 0 0.3em}
.salsa-learned dl {display: grid; grid-template-columns: max-content 1fr; gap: 0.15em 1.2em; margin: 0}
.salsa-learned dt {opacity: 0.75; font-weight: normal; margin: 0}
.salsa-learned dd {margin: 0}
.salsa-learned table.shares {border-collapse: collapse; margin: 0.6em 0 0; color: inherit; border: 0}
.salsa-learned table.shares caption {caption-side: top; padding: 0 0 0.2em; opacity: 0.75}
.salsa-learned table.shares caption {text-align: left; white-space: nowrap}
.salsa-learned table.shares tr {background: none}
.salsa-learned table.shares :is(th, td) {padding: 0.08em 1.4em 0.08em 0; border: 0}
.salsa-learned table.shares :is(th, td) {text-align: left; font-weight: normal; white-space: nowrap}
.salsa-learned table.shares td {font-variant-numeric: tabular-nums; color: inherit}
.salsa-learned table.shares td:last-child {width: 100%}
.salsa-learned .bar {display: inline-block; height: 0.7em; min-width: 1px; background: #3d85c6; margin-right: 0.5em}
"""


class _Shares(NamedTuple):
    """The shares (D, q) of features in the variance of the functions, and the rows that they refer to, in words."""

    values: Floats
    rows: str


def learned_html(model: Any) -> str:
    """Return what a fitted model has learned: its error, order and terms, the features that matter, and notes."""
    shares = _shares(model, subject_of(model))
    names, used = model.columns_.names, np.flatnonzero(model.relevance_ > 0).tolist()
    facts = [*_facts(model), *_left_out(names, used), *_notes(model)]
    items = "".join(f"<dt>{escape(name)}</dt><dd>{text}</dd>" for name, text in facts)
    title = f'<div class="title">{escape(_title(model, len(used)))}</div>'
    table = _share_table(model, shares, used) if shares.values.any() else ""
    return f'<style>{STYLE}</style><div class="salsa-learned">{title}<dl>{items}</dl>{table}</div>'


def _title(model: Any, used: int) -> str:
    """Say which functions of how many features were learned, and from how many rows."""
    features, anchors = len(model.columns_.names), len(model.expansion_.anchors)
    of = f"of {used} of {count(features, 'feature')}" if used < features else f"of {count(used, 'feature')}"
    rows = f"from {count(anchors, 'row')}" if _keeps_rows(model) else f"by {count(anchors, 'anchor')} for all rows"
    outputs, classes = model.expansion_.coef.shape[1], fitted_of(model).classes
    if classes is not None and len(classes) > 2:
        return f"Learned: one function {of} for each of {len(classes)} classes, {rows}"
    if outputs > 1:
        return f"Learned: {outputs} functions {of}, one for each output, {rows}"
    what = "a function" if classes is None else f"the log odds of {short(str(classes[1]))}, a function"
    return f"Learned: {what} {of}, {rows}"


def _keeps_rows(model: Any) -> bool:
    kept = fitted_of(model).uncertainty
    return isinstance(kept, Unavailable) or kept.keeps_rows or len(kept.points) != len(model.expansion_.anchors)


def _facts(model: Any) -> Iterator[tuple[str, str]]:
    """Yield names and texts (HTML) of the held-out error, the order, the penalty and the terms of the kernel."""
    yield "Held-out error", escape(_error(model))
    yield "Order", f"{model.order_}{' alone' if model.interactions == 'exact' else ''}"
    yield "Penalty alpha", f"{model.alpha_:.4g}"
    if terms := [escape(_term(component, len(model.search_.terms))) for component in model.search_.terms]:
        yield "Terms of the kernel" if len(terms) > 1 else "Kernel", "<br>".join(_first(terms))
    if (rho := model.search_.rho) > 0:
        yield "Groups", f"{percent(rho / (1 + rho))} of the noise variance is shared within a group"


def _first(terms: list[str]) -> list[str]:
    """Return the first terms, and how many more there are."""
    return terms if len(terms) <= MOST_TERMS else [*terms[:MOST_TERMS], f"and {len(terms) - MOST_TERMS} more"]


def _term(component: Component, terms: int) -> str:
    """Describe a term of the kernel: base kernel, orders, features, and its share if there are more terms."""
    features = count(component.features, "feature")
    if not component.features:
        what = "no features"
    elif component.orders == f"all {component.features}":
        what = f"product of all {features}"
    else:
        what = f"order{'' if component.orders.isdigit() else 's'} {component.orders}, {features}"
    share = f": {percent(component.share)} of the variance" if terms > 1 else ""
    return f"{ALL_BASES[component.kernel].title}, {what}{share}"


def _error(model: Any) -> str:
    """Return the error of cross-validation with its standard error, as a share of a constant's error."""
    search, kept = model.search_, fitted_of(model).uncertainty
    path = next((result.path for result in search.results if result.order == search.order), None)
    if path is None:
        return "not measured: nothing was searched"
    standard = "" if np.isnan(path.standard_error) else f" ± {_to_place(path.standard_error, path.error)}"
    error = f"{_to_place(path.error, path.error)}{standard} of"
    if isinstance(kept, ScoredUncertainty):
        return f"{error} {measure_of(kept.loss).error_of_constant}, in cross-validation"
    transform = fitted_of(model).transform
    scale = "target" if transform is None else f"{transform.name} of the target"
    r2 = f" (R² = {1 - path.error:.3f})" if path.error >= 0.0005 else ""
    return f"{error} the variance of the {scale}, in cross-validation{r2}"


def _to_place(value: float, leading: float) -> str:
    """Format a number with the decimals that show three digits of `leading`."""
    decimals = int(np.clip(2 - np.floor(np.log10(abs(leading) or 1.0)), 0, 12))
    return f"{value:.{decimals}f}" if leading == 0 or abs(leading) >= 1e-4 else f"{value:.2e}"


def _left_out(names: tuple[str, ...], used: list[int]) -> Iterator[tuple[str, str]]:
    if removed := [short(name) for j, name in enumerate(names) if j not in set(used)]:
        yield "Features left out", escape(some(removed, MOST_NAMES))


def _notes(model: Any) -> Iterator[tuple[str, str]]:
    """Yield the remarks of the search."""
    if notes := [f"{note[0].upper()}{note[1:]}." for note in model.search_.notes if note]:
        yield "Notes", "<br>".join(map(escape, notes))


def _shares(model: Any, subject: Subject) -> _Shares:
    """Return the share of every feature in every function shown; see ``row_shares``."""
    kept = subject.rows
    rows = _drawn(subject) if kept is None else kept
    chosen = _some(rows, len(subject.expansion.anchors))
    subject = replace(subject, rows=chosen)
    outputs = range(min(model.expansion_.coef.shape[1], MOST_OUTPUTS))
    values = np.column_stack([Anova(model, subject, output).features_over_rows for output in outputs])
    if kept is None:
        return _Shares(values, f"{len(chosen.X):,} drawn rows with independent features")
    which = "the" if len(chosen.X) == len(rows.X) else f"{len(chosen.X):,} of the {len(rows.X):,}"
    return _Shares(values, f"{which} training rows")


def _some(rows: Rows, anchors: int) -> Rows:
    """Return the rows, or as many as MOST_PAIRS allows, drawn with a fixed seed."""
    most = int(np.clip(MOST_PAIRS // anchors, FEWEST_ROWS, MOST_ROWS))
    if len(rows.X) <= most:
        return rows
    chosen = np.sort(np.random.default_rng(0).choice(len(rows.X), most, replace=False))
    return Rows.weighted(rows.X[chosen], rows.weight[chosen])


def _drawn(subject: Subject) -> Rows:
    """Draw rows from the product of the features' distributions, with a fixed seed."""
    rng = np.random.default_rng(0)
    columns = [rng.choice(x.points, MOST_ROWS, p=x.weights / x.weights.sum()) for x in subject.background]
    return Rows.weighted(np.column_stack(columns))


def _share_table(model: Any, shares: _Shares, used: list[int]) -> str:
    """Return a table of the features of largest share, with one column for each function."""
    size = np.abs(shares.values).max(axis=1)
    ranking = [used[place] for place in np.argsort(-size[used], kind="stable")]
    shown = [j for j in ranking[:MOST_FEATURES] if size[j] >= LEAST_SHARE]
    names, heads = model.columns_.names, _heads(model, shares.values.shape[1])
    cells = "".join(f'<th scope="col">{escape(head)}</th>' for head in heads)
    head = f"<thead><tr><th></th>{cells}</tr></thead>" if len(heads) > 1 else ""
    rows = "".join(_share_row(names[j], shares.values[j]) for j in shown)
    if rest := ranking[len(shown) :]:
        largest = percent(float(size[rest].max()))
        rows += f'<tr><td colspan="{1 + len(heads)}">and {count(len(rest), "feature")} with {largest} or less</td></tr>'
    negative = "; negative: it offsets other features" if shares.values[shown].min(initial=0.0) < 0 else ""
    functions = model.expansion_.coef.shape[1]
    part = f" ({len(heads)} of {functions} shown)" if functions > len(heads) else ""
    caption = f"Share of the variance of the function{part} over {shares.rows}{negative}"
    return f'<table class="shares"><caption>{escape(caption)}</caption>{head}<tbody>{rows}</tbody></table>'


def _heads(model: Any, shown: int) -> list[str]:
    """Return the names of the functions shown: classes, or numbers of outputs."""
    classes = fitted_of(model).classes
    names = [f"output {k}" for k in range(shown)] if classes is None else [short(str(label)) for label in classes]
    return names[:shown]


def _share_row(name: str, shares: Floats) -> str:
    cells = "".join(
        f'<td><span class="bar" style="width: {6 * max(share, 0.0):.3f}em"></span>{percent(float(share))}</td>'
        for share in shares
    )
    return f'<tr><th scope="row">{escape(short(name))}</th>{cells}</tr>'
