"""Bugs put in on purpose: every check must fail on the bug that it is there to catch.

    python tools/seeded_bugs.py              # every row of BUGS
    python tools/seeded_bugs.py --list       # their names
    python tools/seeded_bugs.py NAME ...     # some of them; --keep leaves the patched trees and their output

A row is a patch tools/seeded/NAME.patch (made by `git diff`), the command that must fail on the patched tree, and what
its output must say, so that a failure for another reason does not count. Every bug gets a copy of the tree of its own
and a Python (PYTHON in the command) whose salsa is that copy with the compiled core of this environment; a patch of
src/cpp needs a command that builds.
"""

import argparse
import contextlib
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from instrumented import ROOT, environment

from salsa import _core

SEEDED = ROOT / "tools" / "seeded"
SECONDS = 1800  # a check that hangs has not failed


@dataclass(frozen=True)
class Bug:
    name: str
    command: str
    says: str  # regular expression


PYTEST = 'PYTHON -m pytest -q -m "not slow"'
BUGS = [
    Bug(
        "read_past_the_end",
        "PYTHON tools/sanitize.py tests/kernels/test_core.py -k finite_differences",
        "heap-buffer-overflow",
    ),
    Bug("shift_too_far", "PYTHON tools/sanitize.py tests/kernels/test_core.py -k rounding_errors", "shift exponent"),
    Bug("unchecked_rows", "PYTHON tools/sanitize.py tests/kernels/test_core_input.py", "heap-buffer-overflow"),
    Bug("unchecked_alignment", "PYTHON tools/sanitize.py tests/kernels/test_core_input.py", "misaligned address"),
    Bug("shared_scratch", "PYTHON tools/races.py", "data race"),
    Bug("uninitialised_sum", "PYTHON tools/memcheck.py bindings", "uninitialised value"),
    Bug("freed_result", "PYTHON tools/memcheck.py bindings", "Invalid read"),
    Bug("first_fit_lifts_the_limit", f"{PYTEST} tests/test_parallel.py -k concurrent_fits", r"\[False"),
    Bug("half_fitted", f"{PYTEST} tests/test_interrupt.py -k every_phase", r"\(False, \[\], 0, 1\)"),
    Bug(
        "deaf_sweep",
        "PYTHON tools/rebuilt.py plain -m pytest -q tests/test_interrupt.py -k every_phase",
        "sweep|Timeout",
    ),
    Bug("models_remembered", f"{PYTEST} tests/test_leaks.py", r"assert \d+ < 2000000"),
]


def copy_tree(target: Path) -> None:
    """All files that git knows or would add, and the compiled core of this environment."""
    listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--deduplicate"]
    for name in subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines():
        if (ROOT / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target / name)
    shutil.copy2(_core.__file__, target / "src" / "salsa")


def run(command: list[str], folder: Path, output: Path) -> int | None:
    """Its exit status; None if it did not end in time. Whatever it started ends with it."""
    with output.open("w") as file:
        process = subprocess.Popen(command, cwd=folder, stdout=file, stderr=subprocess.STDOUT, process_group=0)
        try:
            return process.wait(SECONDS)
        except subprocess.TimeoutExpired:
            return None
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def verdict(bug: Bug, folder: Path) -> str:
    """Empty if the bug was caught."""
    tree, output = folder / "tree", folder / "output"
    copy_tree(tree)
    patched = subprocess.run(
        ["git", "apply", str(SEEDED / f"{bug.name}.patch")], cwd=tree, capture_output=True, text=True
    )
    if patched.returncode:
        return f"the patch does not apply: {patched.stderr.strip()}"
    python = environment(folder / "venv", tree / "src")
    status = run([str(python) if word == "PYTHON" else word for word in shlex.split(bug.command)], tree, output)
    if status is None:
        return f"`{bug.command}` did not end within {SECONDS} s"
    if status == 0:
        return f"not caught: `{bug.command}` succeeded"
    text = output.read_text(errors="replace")
    if not re.search(bug.says, text):
        return f"`{bug.command}` failed without saying {bug.says!r}:\n" + "\n".join(text.splitlines()[-20:])
    return ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--keep", action="store_true")
    options = parser.parse_args()
    chosen = [bug for bug in BUGS if bug.name in options.names or not options.names]
    if unknown := set(options.names) - {bug.name for bug in BUGS}:
        parser.error(f"no such bug: {', '.join(sorted(unknown))}")
    if options.list:
        print("\n".join(bug.name for bug in chosen))
        return 0
    missed = 0
    for bug in chosen:
        folder, start = Path(tempfile.mkdtemp(prefix=f"seeded-{bug.name}-")), time.monotonic()
        problem = verdict(bug, folder)
        missed += bool(problem)
        print(f"{bug.name}: {problem or 'caught'} ({time.monotonic() - start:.0f} s)", flush=True)
        if options.keep:
            print(f"  {folder}")
        else:
            shutil.rmtree(folder)
    print(f"{len(chosen) - missed} of {len(chosen)} seeded bugs were caught")
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())
