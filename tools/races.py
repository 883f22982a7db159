"""Races between the threads of the core: tools/races.cpp under Clang's thread sanitizer.

    python tools/races.py

Needs clang, its run-time libraries, and libomp with libarcher, which tells the sanitizer what OpenMP's barriers order
(Debian: clang libomp-dev libclang-rt-dev).
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from instrumented import ROOT


def archer() -> Path:
    """Beside the compiler, in LLVM's own folder."""
    path = (
        Path(shutil.which("clang++") or sys.exit("races: there is no clang++")).resolve().parent.parent
        / "lib"
        / "libarcher.so"
    )
    return path if path.exists() else sys.exit(f"races: there is no {path}; on Debian it is in libomp-dev")


def main() -> int:
    program = ROOT / "build" / "races"
    program.parent.mkdir(exist_ok=True)
    sources = [ROOT / "tools" / "races.cpp", ROOT / "src" / "cpp" / "esp.cpp"]
    flags = ["-std=c++17", "-O1", "-g", "-fopenmp", "-fsanitize=thread", "-DSALSA_LEVEL=0", "-I", ROOT / "src" / "cpp"]
    subprocess.run(["clang++", *flags, *sources, "-o", program], check=True)
    env = os.environ | {
        "OMP_TOOL_LIBRARIES": str(archer()),
        "TSAN_OPTIONS": "ignore_noninstrumented_modules=1:exitcode=66",  # libomp itself has no instrumentation
        "ARCHER_OPTIONS": "verbose=1",
    }
    run = subprocess.run([program], env=env, capture_output=True, text=True)
    print(run.stdout + run.stderr, end="")
    if "Archer detected OpenMP application with TSan" not in run.stdout + run.stderr:
        sys.exit("races: libarcher was not loaded, so that silence would mean nothing")
    return run.returncode


if __name__ == "__main__":
    sys.exit(main())
