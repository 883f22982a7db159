"""A fit, predictions and explanations under Valgrind's memcheck, on a core with symbols and the usual optimisation.

    python tools/memcheck.py [bindings] [model]

Valgrind knows no AVX-512, so that AVX2 is the machine's best level here; the portable level is called by name. Python,
NumPy and their libraries have reports of their own: only errors with the core in their stack, or in the stack that made
the memory, count.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from xml.etree import ElementTree

from instrumented import ROOT, instrumented


def of_the_core(error: ElementTree.Element, core: str) -> bool:
    return any(frame.findtext("obj") == core for frame in error.iter("frame"))


def described(error: ElementTree.Element) -> str:
    what = error.findtext("what") or error.findtext("xwhat/text") or ""
    frames = [
        f"{frame.findtext('fn') or '?'} ({frame.findtext('file') or frame.findtext('obj')})"
        for frame in error.iter("frame")
    ]
    return "\n    ".join([what, *frames[:30]])


def check(python: Path, core: str, part: str) -> int:
    """How many errors of the core memcheck finds in a part of the program; one more if that fails."""
    report = Path(tempfile.mkstemp(suffix=".xml", prefix="memcheck-")[1])
    options = ["--show-leak-kinds=none", "--track-origins=yes", "--num-callers=40", "--child-silent-after-fork=yes"]
    program = [python, ROOT / "tools" / "memcheck_program.py", part, core]
    threads = {f"{name}_NUM_THREADS": "2" for name in ("OMP", "OPENBLAS", "MKL")}
    env = os.environ | threads | {"PYTHONMALLOC": "malloc"}
    status = subprocess.run(["valgrind", *options, "--xml=yes", f"--xml-file={report}", *program], env=env).returncode
    errors = ElementTree.parse(report).findall("error")
    report.unlink()
    ours = [error for error in errors if of_the_core(error, core)]
    for error in ours:
        print(described(error))
    print(f"memcheck of {part}: {len(ours)} errors in the core, {len(errors) - len(ours)} elsewhere; status {status}")
    return len(ours) + (status != 0)


def main() -> int:
    python = instrumented("memcheck")
    where = [python, "-c", "from salsa import _core; print(_core.__file__)"]
    core = os.path.realpath(subprocess.run(where, capture_output=True, text=True, check=True).stdout.strip())
    return int(sum(check(python, core, part) for part in sys.argv[1:] or ("bindings", "model")) > 0)


if __name__ == "__main__":
    sys.exit(main())
