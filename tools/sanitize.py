"""The tests of the compiled core, on a core built with the address and undefined-behaviour sanitizers of GCC.

    python tools/sanitize.py [arguments of pytest]

What a sanitizer finds ends the process; its report is printed here.
"""

import os
import subprocess
import sys

from instrumented import ROOT, instrumented

# Whatever calls the core at every instruction set, and what builds on it closely.
TESTS = [
    "tests/test_core.py",
    "tests/test_kernels.py",
    "tests/test_missing.py",
    "tests/test_learning.py",
    "tests/test_anova.py::TestCompiled",
    "tests/test_shapley.py::TestCompiled",
    "--deselect=tests/test_core.py::test_peak_memory_is_that_of_the_result",  # measures the sanitizer's own memory
]


def library(name: str) -> str:
    """The run-time library of a sanitizer, which must be loaded before Python."""
    found = subprocess.run(["gcc", f"-print-file-name={name}.so"], capture_output=True, text=True, check=True)
    return os.path.realpath(found.stdout.strip())


def main() -> int:
    python = instrumented("sanitize")
    reports = ROOT / "build" / "sanitize" / "reports"
    reports.mkdir(exist_ok=True)
    for old in reports.iterdir():
        old.unlink()
    # Leaks are left out: Python itself never frees all it has. Refusing 16 EB is the core's own business, not an error.
    settings = f"log_path={reports / 'report'}:print_stacktrace=1:detect_leaks=0:allocator_may_return_null=1"
    env = os.environ | {
        "LD_PRELOAD": f"{library('libasan')} {library('libubsan')} {library('libstdc++')}",
        "ASAN_OPTIONS": settings,
        "UBSAN_OPTIONS": settings,
    }
    arguments = sys.argv[1:] or ["-n", "auto", *TESTS]
    command = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "not slow", *arguments]
    status = subprocess.run(command, cwd=ROOT, env=env).returncode
    found = sorted(reports.iterdir())
    for report in found:
        print(report.read_text(errors="replace"))
    print(f"sanitizers: {len(found)} reports; pytest ended with status {status}")
    return int(status != 0 or bool(found))


if __name__ == "__main__":
    sys.exit(main())
