"""What Windows lacks is not needed to import salsa, and its names of files are names on Windows too."""

import subprocess
from pathlib import Path, PureWindowsPath

import children
import pytest

import salsa

ROOT = Path(__file__).parent.parent
SOURCE = Path(salsa.__file__).parent
MISSING_MODULES = ("fcntl", "grp", "posix", "pty", "pwd", "resource", "syslog", "termios", "tty")

# Everything is imported once, so that other packages have what they need of this system; then every module of salsa
# is imported again without it. At last a module that needs fcntl joins them.
IMPORT_WITHOUT = """
import importlib, os, pathlib, pkgutil, signal, sys, tempfile
import salsa

def import_all():
    names = ["salsa", *(found.name for found in pkgutil.walk_packages(salsa.__path__, "salsa."))]
    for name in names:
        importlib.import_module(name)
    return len(names)

import_all()
for name in [name for name in sys.modules if name.partition(".")[0] == "salsa" and name != "salsa._core"]:
    del sys.modules[name]
sys.modules.update(dict.fromkeys(MODULES))
for name in ("fork", "getuid", "killpg", "sched_getaffinity", "setsid", "sysconf", "uname"):
    delattr(os, name) if hasattr(os, name) else None
for name in ("SIGALRM", "SIGHUP", "SIGKILL", "SIGPROF", "ITIMER_PROF", "setitimer", "pthread_kill", "pthread_sigmask"):
    delattr(signal, name) if hasattr(signal, name) else None
import salsa
print(import_all())
with tempfile.TemporaryDirectory() as folder:
    pathlib.Path(folder, "needy.py").write_text("import fcntl")
    salsa.__path__.append(folder)
    try:
        import_all()
    except ImportError as error:
        print(error)
"""


def test_every_module_can_be_imported_without_what_windows_lacks():
    count, refused = children.run(f"MODULES = {MISSING_MODULES}\n{IMPORT_WITHOUT}").splitlines()
    assert int(count) > 200
    assert "fcntl" in refused  # a module that needs it would be found


def tracked():
    """Return the names of the files in git; in an unpacked sdist, of all files of the package."""
    if (ROOT / ".git").exists():
        listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
        return [name for name in listed.split("\0") if name]
    return [path.relative_to(SOURCE).as_posix() for path in SOURCE.rglob("*") if "__pycache__" not in path.parts]


DEVICES = {"CON", "PRN", "AUX", "NUL", *(f"{port}{number}" for port in ("COM", "LPT") for number in range(1, 10))}
LONGEST = 120  # of 260 with the folder that holds it


def forbidden(name):
    """Return whether Windows cannot hold a file of this name."""
    parts = PureWindowsPath(name).parts
    return (
        len(name) > LONGEST
        or any(set(part) & set('<>:"|?*\\') or part.endswith((".", " ")) for part in name.split("/"))
        or any(part.partition(".")[0].upper() in DEVICES for part in parts)
    )


def test_names_of_files_are_names_on_windows():
    names = tracked()
    assert len(names) > 200
    assert [name for name in names if forbidden(name)] == []
    assert len({name.lower() for name in names}) == len(names)


@pytest.mark.parametrize("name", ["a/aux.py", "a:b", "what?.md", "folder./x", "com1", "a\\b", "x" * 121])
def test_names_that_windows_refuses_are_found(name):
    assert forbidden(name)
