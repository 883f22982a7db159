"""How long one waits for nothing: imports, help and completion, beside scikit-learn's import: least CPU time.

python benchmarks/bench_start.py [runs]        (default 5)

For what takes the time: python -X importtime -c "from salsa import SalsaRegressor"
"""

import os
import resource
import subprocess
import sys

from conditions import number

COMMAND = [sys.executable, "-c", "import sys; sys.argv[0] = 'salsa'; from salsa.cli import main; main()"]
METHODS = {"_SALSA_COMPLETE": "complete_bash", "COMP_WORDS": "salsa\ncompare\nt.csv\n--methods\n", "COMP_CWORD": "4"}


def run_cpu(command: list[str], **variables: str) -> float:
    """CPU seconds of one run."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env={**os.environ, **variables})
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def imported(statement: str) -> list[str]:
    return [sys.executable, "-c", statement]


def main() -> None:
    runs = number(5, 1)

    def least(command: list[str], **variables: str) -> float:
        return min(run_cpu(command, **variables) for _ in range(runs))

    sklearn = least(imported("import sklearn"))
    print(f"{sklearn:6.2f} s  import sklearn")
    rows = {
        "from sklearn.kernel_ridge import KernelRidge": least(imported("from sklearn.kernel_ridge import KernelRidge")),
        "import salsa": least(imported("import salsa")),
        "from salsa import SalsaRegressor": least(imported("from salsa import SalsaRegressor")),
        "salsa --help": least([*COMMAND, "--help"]),
        "salsa compare t.csv --methods <Tab>": least(COMMAND, **METHODS),
    }
    for name, seconds in rows.items():
        print(f"{seconds:6.2f} s  {name}: {seconds - sklearn:+.2f} s, {seconds / sklearn:.2f} times")


if __name__ == "__main__":
    main()
