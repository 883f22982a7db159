"""Limits of memory, checked before anything is allocated."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

_UNITS = {
    "B": 1,
    "KB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "TB": 10**12,
    "KIB": 2**10,
    "MIB": 2**20,
    "GIB": 2**30,
    "TIB": 2**40,
}
DEFAULT_SHARE = 0.8  # share of the memory that is available now
TILE = 2048  # rows and columns of a tile of a large matrix: 16 MB in float32
BLOCK_NUMBERS = 2**21  # kernel values in a block of rows: 16 MiB
SMALLER_TABLE = "fit on a random sample of the rows, or raise memory_limit if the machine has more."
EXACT_ADVICE = f"Give solver='lowrank', {SMALLER_TABLE}"


def memory_limit_bytes(limit: float | str | None) -> int:
    """Return the limit in bytes, from a number, a text such as "4GB", or None: a share of the available memory."""
    if limit is None:
        return int(DEFAULT_SHARE * available_bytes())
    if isinstance(limit, str):
        match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]+)\s*", limit)
        if match is None or match[2].upper() not in _UNITS:
            raise ValueError(f"memory_limit={limit!r} is not a size; write for example '4GB', or a number of bytes")
        return int(float(match[1]) * _UNITS[match[2].upper()])
    if not limit > 0:
        raise ValueError(f"memory_limit={limit!r} must be positive")
    return int(limit)


def available_bytes() -> int:
    """Return the bytes that this process can still allocate: the least of the system's and the container's memory."""
    return min([_system_available(), *_container_available()])


def require_memory(need: int, limit: int, purpose: str, way_out: str) -> None:
    """Raise MemoryError with a way out if more memory is needed than the limit allows."""
    if need > limit:
        raise MemoryError(f"{purpose} needs about {format_bytes(need)}, the limit is {format_bytes(limit)}. {way_out}")


def format_bytes(count: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} TB"


def _system_available() -> int:
    try:
        meminfo = Path("/proc/meminfo").read_text(encoding="ascii")
        return int(re.search(r"MemAvailable:\s*(\d+) kB", meminfo)[1]) * 1024  # type: ignore[index]
    except (OSError, TypeError):
        pass
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2
    except (AttributeError, ValueError, OSError):
        return 4 * 2**30  # no way to ask: assume a small machine


def _container_available() -> list[int]:
    """Return [limit minus use] of the control group (version 2), or [] without a limit."""
    try:
        group = Path("/sys/fs/cgroup")
        limit = (group / "memory.max").read_text(encoding="ascii").strip()
        used = int((group / "memory.current").read_text(encoding="ascii"))
        cache = re.search(r"^inactive_file (\d+)", (group / "memory.stat").read_text(encoding="ascii"), re.MULTILINE)
        reclaimable = int(cache[1]) if cache else 0
        return [] if limit == "max" else [max(0, int(limit) - used + reclaimable)]
    except (OSError, ValueError):
        return []


def row_blocks(m: int, n: int) -> Iterator[slice]:
    """Return slices of the m rows of an (m, n) kernel matrix, each of about BLOCK_NUMBERS values."""
    step = max(1, BLOCK_NUMBERS // max(n, 1))
    return (slice(start, min(start + step, m)) for start in range(0, m, step))


def tile_bytes(n: int, *, double: bool = False) -> int:
    """Return the bytes of a tile of an (n, n) matrix in float32 or float64."""
    return (8 if double else 4) * min(n, TILE) ** 2


def tiled_bytes(n: int, *, double: bool = False) -> int:
    """Return the bytes of the tiles on and below the diagonal of an (n, n) matrix: about half of the matrix."""
    count = -(-n // TILE)
    return count * (count + 1) // 2 * tile_bytes(n, double=double)


def exact_bytes(n: int) -> int:
    """Return the peak memory of an exact search: K, LAPACK's workspace of twice its size, and copies."""
    return 5 * 8 * n * n
