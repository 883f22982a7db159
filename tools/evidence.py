"""Measure anew the result files that are missing or stale, and put their figures into the pages: `make evidence`.

    python tools/evidence.py [--since DATE] [NAME ...]

Runs the commands of docs/results/register.toml one after another: of the files that are named; without names, of those
that are missing or stale (tools/figures.py says when). --since also takes files that were measured before a day.

A file that is computed from other result files follows them.

A command writes to build/evidence/NAME first. After an interruption the next run goes on there, because long benchmarks
append rows. When a command is done, the file goes to docs/results, and the register gets date, commit and machine.
Files that are marked `by_hand` are listed: their commands only print.
"""

import argparse
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
from datetime import date
from pathlib import Path

import figures
from figures import ROOT, Result


def folder_of(result: Result) -> Path:
    """Return the folder that the command writes to."""
    return ROOT / "build" / "evidence" / result.name


def machine() -> str:
    """Return the processor, the number of cores, the memory and the version of Python."""
    cpus = Path("/proc/cpuinfo")
    models = re.findall(r"^model name\s*: (.*)", cpus.read_text(), re.MULTILINE) if cpus.exists() else []
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9
    model = models[0] if models else platform.processor() or platform.machine()
    return f"{model}, {os.cpu_count()} cores, {memory:.0f} GB, Python {platform.python_version()}"


def made(result: Result) -> Path:
    """Return the file that the command makes."""
    return folder_of(result) / (result.makes or f"{result.name}.csv")


def command_of(result: Result) -> list[str]:
    """Return the words of the command, with the file that it writes to."""
    text = result.command if "{" in result.command else f"{result.command} --out {{out}}"
    return [word.format(out=made(result), folder=folder_of(result)) for word in shlex.split(text)]


def run(result: Result) -> bool:
    """Run the command of a result with the programs beside this Python; return whether the file was written."""
    folder_of(result).mkdir(parents=True, exist_ok=True)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    command = command_of(result)
    print(f"{result.name}: {shlex.join(command)}", flush=True)
    done = subprocess.run(command, cwd=ROOT, env=os.environ | {"PATH": path}, check=False)
    return done.returncode == 0 and made(result).exists()


def entered(register: str, name: str, **values: str) -> str:
    """Return the register with other values in the entry of a result."""
    before, head, rest = register.partition(f"[results.{name}]\n")
    entry, gap, after = rest.partition("\n[")
    for key, value in values.items():
        lines = (f"{key} = {value}" if line.startswith(f"{key} = ") else line for line in entry.split("\n"))
        entry = "\n".join(lines)
    return before + head + entry + gap + after


def commit_of(result: Result) -> str:
    """Return the commit of the code that was measured, with a plus if files of it have changed since."""

    def git(*words: str) -> str:
        return subprocess.run(["git", *words], cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()

    changed = git("status", "--porcelain", "--", *result.measured_code)
    return git("rev-parse", "--short", "HEAD") + ("+" if changed else "")


def keep(result: Result) -> None:
    """Move the file to docs/results, and enter when, from what code and where it was measured."""
    shutil.move(made(result), result.path)
    shutil.rmtree(folder_of(result))
    register = result.path.parent / "register.toml"
    text = register.read_text(encoding="utf-8")
    values = {"date": f"{date.today()}", "commit": f'"{commit_of(result)}"', "machine": f'"{machine()}"'}
    register.write_text(entered(text, result.name, **values), encoding="utf-8")


def wanted(result: Result, inputs: list[Result], since: date | None, released: list[date]) -> bool:
    """Whether a result is missing, older than a day or than its inputs, or stale; never while an input is missing."""
    if not all(source.path.exists() for source in inputs):
        return False
    if not result.path.exists() or (since and result.date < since) or any(s.date > result.date for s in inputs):
        return True
    return figures.is_stale(result, released, figures.first_change(result.measured_code, result.date))


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="result files, without .csv")
    parser.add_argument("--since", type=date.fromisoformat, metavar="DATE", help="measure anew what is older")
    options = parser.parse_args(arguments)
    results, _ = figures.read_register(ROOT / "docs" / "results")
    if unknown := set(options.names) - set(results):
        parser.error(f"not in the register: {', '.join(sorted(unknown))}")
    released = figures.releases((ROOT / "CHANGELOG.md").read_text(encoding="utf-8"))
    left, measured = [], set[str]()
    for name, result in results.items():
        inputs = [results[source] for source in result.inputs if source in results]
        asked = name in options.names if options.names else wanted(result, inputs, options.since, released)
        if not asked and measured.isdisjoint(result.inputs):
            continue
        if result.by_hand:
            left.append(f"{result.name}: run `{result.command}`, and copy the figures that it prints")
        elif run(result):
            keep(result)
            measured.add(name)
        else:
            left.append(f"{result.name}: failed; what it measured is in {folder_of(result)}")
    left += figures.compare(ROOT, write=True)
    print("\n".join(left) or "All results are measured, and the pages have their figures.")
    return int(bool(left))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
