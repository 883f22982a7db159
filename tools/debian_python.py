"""A virtual environment with a Python of Debian that is not installed, of any processor, unpacked into a folder.

python tools/debian_python.py FOLDER MACHINE SUITE prints its interpreter, FOLDER/environment/bin/python.
MACHINE: amd64 or arm64. SUITE: bookworm, which has Python 3.11, or trixie, which has 3.13. Needs Debian's apt but no
root; arm64 on another processor also needs qemu-user. The interpreter is a script that starts the unpacked Python, so
that its child processes work too, and no other program sees its libraries.
"""

import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

PYTHON = {"bookworm": "python3.11", "trixie": "python3.13"}
TRIPLET = {"amd64": "x86_64-linux-gnu", "arm64": "aarch64-linux-gnu"}
MACHINE = {"x86_64": "amd64", "aarch64": "arm64"}
KEYS = "/usr/share/keyrings/debian-archive-keyring.gpg"


def download(folder: Path, machine: str, suite: str) -> list[Path]:
    """Return the packages of Python and all that it depends on, whose signatures apt has checked."""
    for name in ("state/lists/partial", "cache/archives/partial", "etc/preferences.d", "etc/apt.conf.d"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    source = f"deb [arch={machine} signed-by={KEYS}] http://deb.debian.org/debian {suite} main\n"
    (folder / "etc/sources.list").write_text(source)
    (folder / "status").touch()  # nothing is installed there
    places = {"State": "state", "State::status": "status", "Cache": "cache", "Etc": "etc"}
    options = [f"-oDir::{name}={folder / place}" for name, place in places.items()]
    options += [f"-oAPT::Architecture={machine}", f"-oAPT::Architectures::={machine}"]
    options += ["-oAPT::Sandbox::User=", "-oAcquire::Languages=none", "-oAPT::Install-Recommends=no"]
    subprocess.run(["apt-get", "-qq", *options, "update"], check=True)
    wanted = [PYTHON[suite], f"lib{PYTHON[suite]}-dev", "libstdc++6"]
    command = ["apt-get", "-qq", "-y", *options, "--download-only", "install", *wanted]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return sorted((folder / "cache/archives").glob("*.deb"))


def unpack(packages: list[Path], root: Path) -> None:
    for name in ("bin", "lib", "lib64", "sbin"):  # Debian's links of today, which none of these packages holds
        (root / "usr" / name).mkdir(parents=True)
        (root / name).symlink_to(f"usr/{name}")
    for package in packages:
        subprocess.run(["dpkg-deb", "-x", package, root], check=True)


def launcher(root: Path, machine: str) -> str:
    """Return the command that starts a program of the root under the name $0."""
    if machine == MACHINE.get(platform.machine()):
        loader = next(root.glob("lib*/ld-linux-*.so.*"))
        libraries = [root / "lib" / TRIPLET[machine], root / "usr/lib" / TRIPLET[machine]]
        return f'{loader} --argv0 "$0" --library-path {":".join(map(str, libraries))}'
    # An ordinary processor: newer ones, which the emulator prefers, are slower to emulate.
    emulator = shutil.which("qemu-aarch64") or sys.exit("qemu-aarch64 is missing: apt-get install qemu-user")
    return f'{emulator} -cpu cortex-a72 -0 "$0" -L {root}'


def environment(folder: Path, root: Path, python: str, machine: str) -> Path:
    """Make a virtual environment as `python -m venv --without-pip` would, whose interpreter is a script."""
    (folder / "bin").mkdir(parents=True)
    (folder / "lib" / python / "site-packages").mkdir(parents=True)
    (folder / "pyvenv.cfg").write_text(f"home = {root}/usr/bin\ninclude-system-site-packages = false\n")
    script = folder / "bin" / "python"
    script.write_text(f'#!/bin/sh\nexec {launcher(root, machine)} {root}/usr/bin/{python} "$@"\n')
    script.chmod(0o755)
    return script


def link_headers(folder: Path, root: Path, python: str, machine: str) -> None:
    """Make a folder of includes with this Python's pyconfig.h, without the C library's headers beside it."""
    place = folder / TRIPLET[machine]
    place.mkdir(parents=True)
    (place / python).symlink_to(root / "usr/include" / TRIPLET[machine] / python)


def main(folder: str, machine: str, suite: str) -> None:
    place, python = Path(os.path.abspath(folder)), PYTHON[suite]
    script = place / "environment/bin/python"
    if not (place / "done").exists():
        unpack(download(place / "apt", machine, suite), place / "root")
        environment(place / "environment", place / "root", python, machine)
        link_headers(place / "headers", place / "root", python, machine)
        (place / "done").touch()
    print(script)


if __name__ == "__main__":
    if len(sys.argv) != 4 or sys.argv[2] not in TRIPLET or sys.argv[3] not in PYTHON:
        sys.exit(f"usage: python {sys.argv[0]} FOLDER {'|'.join(TRIPLET)} {'|'.join(PYTHON)}")
    main(*sys.argv[1:])
