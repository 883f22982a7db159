"""Lines of src/cpp that the tests of the core run, at every instruction set.

    python tools/coverage_cpp.py

The sweeps are compiled once per instruction set: a line that runs at one of them is covered there only.
So every level of this machine gets a report of its own, beside that of the bindings, and each must reach the limit.
"""

import subprocess
import sys

from instrumented import CORE_TESTS, ROOT, instrumented

LIMIT = 95  # percent of lines


def main() -> int:
    python = instrumented("coverage")
    build = ROOT / "build" / "coverage" / "cmake"
    for counts in build.rglob("*.gcda"):
        counts.unlink()
    tests = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "not slow", *CORE_TESTS]
    failed = subprocess.run(tests, cwd=ROOT).returncode
    asked = [python, "-c", "from salsa import _core; print(*_core.simd_levels())"]
    levels = subprocess.run(asked, capture_output=True, text=True, check=True).stdout.split()
    for part in ["_core", *(f"sweeps_{level}" for level in levels)]:
        print(f"\n{part}", flush=True)
        counts = build / "CMakeFiles" / f"{part}.dir"
        ignored = "--gcov-ignore-errors=source_not_found"  # headers of a build environment that is gone
        report = ["-m", "gcovr", "--root", ROOT, "--filter", "src/cpp/", f"--fail-under-line={LIMIT}", ignored, counts]
        failed += subprocess.run([sys.executable, *report], cwd=ROOT).returncode
    return int(failed != 0)


if __name__ == "__main__":
    sys.exit(main())
