"""The tests of the compiled core, on a core built with the address and undefined-behaviour sanitizers of GCC.

    python tools/sanitize.py [arguments of pytest]

What a sanitizer finds ends the process, after a report on standard error.
"""

import os
import subprocess
import sys

from instrumented import CORE_TESTS, ROOT, instrumented


def library(name: str) -> str:
    """A run-time library that must be loaded before Python."""
    found = subprocess.run(["gcc", f"-print-file-name={name}.so"], capture_output=True, text=True, check=True)
    return os.path.realpath(found.stdout.strip())


def main() -> int:
    python = instrumented("sanitize")
    env = os.environ | {
        "LD_PRELOAD": " ".join(map(library, ("libasan", "libubsan", "libstdc++"))),
        "ASAN_OPTIONS": "detect_leaks=0",  # Python itself never frees all it has
        "UBSAN_OPTIONS": "print_stacktrace=1",
    }
    # Captured output of a process that ends before its time would be lost: only what Python prints is captured.
    options = ["-q", "-p", "no:cacheprovider", "-m", "not slow", "--capture=sys"]
    arguments = sys.argv[1:] or ["-n", "auto", *CORE_TESTS]
    return subprocess.run([python, "-m", "pytest", *options, *arguments], cwd=ROOT, env=env).returncode


if __name__ == "__main__":
    sys.exit(main())
