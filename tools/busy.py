"""A command on a busy machine: beside a process on every core that computes without a pause.

python tools/busy.py python -m pytest tests/kernels/test_core.py
"""

import os
import subprocess
import sys

# Ends with the process that started it, however that one ends.
LOOP = """
import os, sys, time
while os.getppid() == int(sys.argv[1]):
    end = time.monotonic() + 0.1
    while time.monotonic() < end:
        pass
"""


def main() -> int:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    others = [subprocess.Popen([sys.executable, "-c", LOOP, str(os.getpid())]) for _ in range(cores)]
    try:
        return subprocess.run(sys.argv[1:], check=False).returncode
    finally:
        for other in others:
            other.kill()
            other.wait()


if __name__ == "__main__":
    sys.exit(main())
