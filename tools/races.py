"""Races between the threads of the core: tools/races.cpp under GCC's thread sanitizer.

python tools/races.py
"""

import os
import subprocess
import sys

from instrumented import ROOT


def main() -> int:
    program = ROOT / "build" / "races"
    program.parent.mkdir(exist_ok=True)
    sources = [ROOT / "tools" / "races.cpp", ROOT / "src" / "cpp" / "esp.cpp"]
    flags = ["-std=c++17", "-O1", "-g", "-pthread", "-fsanitize=thread", "-DSALSA_LEVEL=0", "-I", ROOT / "src" / "cpp"]
    subprocess.run(["g++", *flags, *sources, "-o", program], check=True)
    return subprocess.run([program], env=os.environ | {"TSAN_OPTIONS": "exitcode=66"}).returncode


if __name__ == "__main__":
    sys.exit(main())
