"""Check on simulated tables that the claimed error and the intervals hold on new rows; resumable.

    python benchmarks/bench_trust.py [--only people,walk] [--repetitions 5] [--ledger FILE] [--out FILE.md] [--print]

For every case of trust_cases.py it prints
- claimed / real: mean cross-validated error of the chosen fit over the mean error on new rows, both as fractions of the
  variance of the training target (weighted where rows have weights; on the log scale with target_transform="log"),
- the coverage of intervals on new rows at 50, 80, 90 and 95 %, and at 90 % in each quarter of the prediction,
- R2 on new rows and the R2 of the true function (means over repetitions),
- the names of the bars that are missed; "yes" if all are kept. Figures have standard errors over repetitions (±).
The bars: claimed / real within 0.9 to 1.1; coverage within 2 percentage points (independent, weighted or copied rows),
3 (groups, skew, growing noise) or 5 (drifting time); quarters within 6; people: R2 at least 0.9 of the truth's R2;
outside the range: coverage of at least 85 % at a nominal 90 % (their widths are relative to the width inside). Cases
that this version of salsa cannot fit are named.

A last table has figures without bars. "Noise matched" replaces the noise of the new rows by the realised noise of the
training rows: the expectation is the same and the standard error smaller, above all with heavy tails, where the plain
ratio needs hundreds of repetitions. Coverage at 90 % is also given in quarters of the rows by their true noise.

Intervals of the case "true precisions" are judged on new rows whose precisions vary as in the training rows; the last
table has the coverage of observations of weight 1. Forward residuals cannot keep the bars of a walk without a time
feature: the distance of the level from its mean grows with the length of the series, and the splits see half of the
length. The mean of the past rows alone has claimed / real 0.71 there, and its forward residuals cover 83 % at 90 %.
Two processes, 40 minutes at most in all; every finished repetition is a line of benchmarks/results/trust.jsonl, and the
next run continues there. Give another ledger, or remove it, to measure another version of salsa.
"""

from __future__ import annotations

import numpy as np
from conditions import size
from judged import (
    LEVELS,
    Figures,
    Ledger,
    markdown,
    mean_and_error,
    missing_option,
    options,
    publish,
    ratio_of_means,
    run,
)
from trust_cases import CASES, DISTANCES, Case, measure

Columns = dict[str, list[float]]
BY_NAME = {case.name: case for case in CASES}
RATIO, QUARTER, SHARE, OUTSIDE = (0.9, 1.1), 6.0, 0.9, 85.0  # bars
HEADER = ["case", "repetitions", "claimed / real", *(f"{level:.0%}" for level in LEVELS)]
HEADER += ["quarters at 90%", "R2", "R2 of the truth", "within the bars"]
OUTSIDE_HEADER = ["case", "repetitions", "inside", *(f"{d:.0%} beyond: coverage (width)" for d in DISTANCES)]
OUTSIDE_HEADER += ["within the bars"]
EXTRAS = {"noise quarter": "quarters of the true noise", "90% at weight 1": "new rows of weight 1"}


def work(name: str, repetition: int) -> Figures:
    return measure(BY_NAME[name], repetition)


def missed(name: str, value: float, low: float, high: float) -> list[str]:
    """Return the name of a figure outside its bar in a list; an empty list if it is inside."""
    return [] if low <= value <= high else [name]


def real_error(found: Columns) -> list[float]:
    """Return the error on new rows, on the scale of the cross-validation."""
    return found.get("error on the log scale", found["error"])


def failures(case: Case, found: Columns) -> list[str]:
    """List the bars that a case misses."""
    failed = missed("claimed / real", ratio_of_means(found["claimed"], real_error(found))[0], *RATIO)
    for level in LEVELS:
        name = f"{level:.0%}"
        failed += missed(name, percent(found[name])[0], 100 * level - case.points, 100 * level + case.points)
    for name in (f"quarter {number}" for number in (1, 2, 3, 4) if case.by_quarter):
        failed += missed(name, percent(found[name])[0], 90 - QUARTER, 90 + QUARTER)
    if case.name.startswith("people"):
        failed += missed("R2", ratio_of_means(found["R2"], found["R2 of the truth"])[0], SHARE, np.inf)
    return failed


def outside_failures(found: Columns) -> list[str]:
    shares = [f"{distance:.0%}" for distance in DISTANCES]
    return [text for share in shares for text in missed(share, percent(found[f"coverage {share}"])[0], OUTSIDE, 100.0)]


def percent(values: list[float]) -> tuple[float, float]:
    mean, error = mean_and_error(values)
    return 100 * mean, 100 * error


def percent_cell(values: list[float]) -> str:
    return "{:.1f} ± {:.1f}".format(*percent(values))


def verdict(case: Case, found: Columns) -> str:
    failed = outside_failures(found) if case.shape else failures(case, found)
    text = f"no: {', '.join(failed)}" if failed else "yes"
    return text if case.judged else f"for comparison ({text})"


def row(case: Case, found: Columns) -> list[str]:
    """Return the line of a case in the table of its kind."""
    name = f"{case.name} (n = {case.sizes()[0]})"
    if case.shape:
        pairs = [(found[f"coverage {d:.0%}"], found[f"width {d:.0%}"]) for d in DISTANCES]
        cells = [f"{percent_cell(covered)} ({np.mean(width):.1f})" for covered, width in pairs]
        return [name, str(len(found["inside"])), percent_cell(found["inside"]), *cells, verdict(case, found)]
    ratio, error = ratio_of_means(found["claimed"], real_error(found))
    truth = f"{np.mean(found['R2 of the truth']):.2f}" if "R2 of the truth" in found else "-"
    return [
        *(name, str(len(found["error"])), f"{ratio:.2f} ± {error:.2f}"),
        *(percent_cell(found[f"{level:.0%}"]) for level in LEVELS),
        ", ".join(f"{percent(found[f'quarter {number}'])[0]:.0f}" for number in (1, 2, 3, 4)),
        *(f"{np.mean(found['R2']):.2f}", truth, verdict(case, found)),
    ]


def not_available(case: Case) -> str:
    option = missing_option(case.parameters, case.with_groups)
    return f"not available: this salsa has no {option}" if option else ""


def table(cases: list[Case], ledger: Ledger, repetitions: dict[str, int]) -> str:
    """Return both tables in Markdown: cases inside the range, and cases outside."""
    texts = []
    for header, kind in ((HEADER, False), (OUTSIDE_HEADER, True)):
        rows = []
        for case in (case for case in cases if bool(case.shape) is kind):
            found = ledger.columns(case.name, repetitions[case.name])
            reason = not_available(case) or "no repetition has finished"
            rows.append(row(case, found) if found else [case.name, *["-"] * (len(header) - 2), reason])
        texts.append(markdown(header, rows) if rows else "")
    return "\n\n".join(filter(None, texts))


def extras(cases: list[Case], ledger: Ledger, repetitions: dict[str, int]) -> str:
    """Return a table of further figures without bars: the matched ratio, and coverage in parts of the new rows."""
    rows = []
    for case in cases:
        found = ledger.columns(case.name, repetitions[case.name])
        if "matched error" in found and "target_transform" not in case.parameters:
            ratio = ratio_of_means(found["matched claim"], found["matched error"])
            rows.append([case.name, "claimed / real, noise matched", "{:.3f} ± {:.3f}".format(*ratio)])
        for start, words in EXTRAS.items():
            cells = [f"{percent(found[name])[0]:.1f}" for name in found if name.startswith(start)]
            rows += [[case.name, f"coverage at 90%: {words}", ", ".join(cells)]] if cells else []
    return markdown(["case", "figure", "value"], rows) if rows else ""


def main() -> None:
    given = options(__doc__, "trust.jsonl")
    cases = [case for case in CASES if any(text in case.name for text in given.only.split(","))]
    most = given.repetitions or size(1000, 1)
    repetitions = {case.name: min(case.repetitions, most) for case in cases}
    ledger = Ledger(given.ledger)
    able = [] if given.print else [case for case in cases if not not_available(case)]
    tasks = [(case.name, number) for case in able for number in range(repetitions[case.name])]
    left = {case.name: repetitions[case.name] for case in able}
    for name, _ in run(work, tasks, ledger, given.workers):
        left[name] -= 1
        if not left[name]:
            print(" | ".join(row(BY_NAME[name], ledger.columns(name, repetitions[name]))), flush=True)
    texts = [show(cases, ledger, repetitions) for show in (table, extras)]
    publish("\n\n".join(filter(None, texts)), given.out)
    seconds = sum(sum(ledger.columns(name, repetitions[name]).get("seconds", [])) for name in repetitions)
    print(f"\n{seconds / 60:.1f} minutes of one process in all")


if __name__ == "__main__":
    main()
