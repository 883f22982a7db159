"""What an sdist and its wheel hold: python tools/check_contents.py DIST, in the repository or in an unpacked sdist."""

import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
LARGEST = 5_000_000
FIRST_STABLE = (3, 12)


def tracked() -> set[str]:
    """What git has here; in an unpacked sdist, which has no .git, everything that is not built."""
    if (ROOT / ".git").exists():
        listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
        return {name for name in listed.split("\0") if name and (ROOT / name).exists()}
    built = {".venv", "build", "site", "salsa-demo", "PKG-INFO"}
    files = (path.relative_to(ROOT) for path in ROOT.rglob("*") if path.is_file())
    return {path.as_posix() for path in files if path.parts[0] not in built and "__pycache__" not in path.parts}


def check_sdist(path: Path) -> None:
    with tarfile.open(path) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    _same(path, names, {*tracked(), "PKG-INFO"})


def check_wheel(path: Path) -> None:
    stable = sys.version_info >= FIRST_STABLE
    expected = "cp312-abi3" if stable else f"cp{sys.version_info.major}{sys.version_info.minor}"
    assert expected in path.name, f"{path.name}: expected a wheel for {expected}"
    assert path.stat().st_size < LARGEST, f"{path.name} has {path.stat().st_size} bytes"
    with zipfile.ZipFile(path) as archive:
        names = {name for name in archive.namelist() if not name.partition("/")[0].endswith(".dist-info")}
        cores = {name for name in names if name.startswith("salsa/_core.") and not name.endswith(".pyi")}
        assert len(cores) == 1, f"{path.name}: one compiled core is needed, not {sorted(cores)}"
        assert b".symtab" not in archive.read(min(cores)), f"{path.name}: the core is not stripped"
    sources = {name.removeprefix("src/") for name in tracked() if name.startswith("src/salsa/")}
    _same(path, names - cores, sources)


def _same(path: Path, found: set[str], expected: set[str]) -> None:
    assert found == expected, f"{path.name}: lacks {sorted(expected - found)}, has {sorted(found - expected)} too much"
    print(f"{path.name}: {len(found)} files, {path.stat().st_size / 1e6:.2f} MB")


if __name__ == "__main__":
    dist = Path(sys.argv[1])
    check_sdist(next(dist.glob("*.tar.gz")))
    check_wheel(next(dist.glob("*.whl")))
