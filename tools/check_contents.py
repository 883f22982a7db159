"""What sdist and wheels hold: python tools/check_contents.py DIST [NANOBIND], in the repository or an unpacked sdist.

NANOBIND: a wheel of nanobind, whose licences our copies must equal.
"""

import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
LARGEST = 5_000_000
TAGS = ("-cp311-cp311-", "-cp312-abi3-")
SOURCES = ("dist-info/licenses/LICENSE", "tsl/robin_hash.h")  # of nanobind


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
    assert any(tag in path.name for tag in TAGS), f"{path.name}: expected a wheel for one of {', '.join(TAGS)}"
    assert path.stat().st_size < LARGEST, f"{path.name} has {path.stat().st_size} bytes"
    with zipfile.ZipFile(path) as archive:
        names = {name for name in _files(archive) if not name.partition("/")[0].endswith(".dist-info")}
        cores = {name for name in names if name.startswith("salsa/_core.") and not name.endswith(".pyi")}
        assert len(cores) == 1, f"{path.name}: one compiled core is needed, not {sorted(cores)}"
        assert b".symtab" not in archive.read(min(cores)), f"{path.name}: the core is not stripped"
        check_licences(path, archive)
    sources = {name.removeprefix("src/") for name in tracked() if name.startswith("src/salsa/")}
    _same(path, names - cores, sources)


def check_licences(path: Path, archive: zipfile.ZipFile) -> None:
    """Compare the licences in a wheel with those in the repository."""
    folder = f"{path.name.rsplit('-', 3)[0]}.dist-info/licenses/"
    found = {name.removeprefix(folder): archive.read(name) for name in _files(archive) if name.startswith(folder)}
    expected = {name: (ROOT / name).read_bytes() for name in tracked() if name == "LICENSE" or name[:9] == "licenses/"}
    assert found == expected, (
        f"{path.name}: its licences are {sorted(found)}, those of the repository {sorted(expected)}"
    )


def _files(archive: zipfile.ZipFile) -> list[str]:
    """Return the names of the files, without the folders that auditwheel writes too."""
    return [name for name in archive.namelist() if not name.endswith("/")]


def check_nanobind(path: Path) -> None:
    """Compare the licences of nanobind and robin_map, which it bundles, with our copies."""
    with zipfile.ZipFile(path) as archive:
        texts = {Path(name).name: archive.read(name).decode() for name in archive.namelist() if name.endswith(SOURCES)}
    header = re.sub(r"^/?\s?\*+", "", texts["robin_hash.h"].partition("*/")[0], flags=re.MULTILINE)
    originals = {"nanobind.txt": texts["LICENSE"], "robin_map.txt": header}
    for name, original in originals.items():
        ours = (ROOT / "licenses" / name).read_text(encoding="utf-8")
        assert ours.split() == original.split(), f"licenses/{name} differs from {path.name}: copy it from there"
    print(f"{path.name}: licenses/ holds the licences of nanobind and robin_map")


def _same(path: Path, found: set[str], expected: set[str]) -> None:
    assert found == expected, f"{path.name}: lacks {sorted(expected - found)}, has {sorted(found - expected)} too much"
    print(f"{path.name}: {len(found)} files, {path.stat().st_size / 1e6:.2f} MB")


if __name__ == "__main__":
    dist = Path(sys.argv[1])
    check_sdist(next(dist.glob("*.tar.gz")))
    for wheel in sorted(dist.glob("*.whl")):
        check_wheel(wheel)
    for nanobind in sys.argv[2:]:
        check_nanobind(Path(nanobind))
