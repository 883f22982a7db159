"""The file of a report: one HTML page that contains its style, its scripts and its data."""

from __future__ import annotations

import hashlib
import json
from base64 import b64encode
from pathlib import Path
from typing import Any

from salsa._utils.atomic import replacing
from salsa.kernels.base import ALL_BASES

PAGE = Path(__file__).parent / "page"
SCRIPTS = (
    *("base", "axes", "explore", "charts", "numbers", "classes", "effects", "surface", "pairtable", "matrix"),
    *("model", "waterfall", "response", "rowpage", "whatif", "table", "panel", "sections", "compare", "main"),
)
#: Letters that could end the HTML element of the data, or a script line in older browsers, as JSON escapes
_ESCAPES = {ord(letter): f"\\u{ord(letter):04x}" for letter in "<>&\u2028\u2029"}


def render(payload: dict[str, Any]) -> str:
    """Return the page that shows this payload. The page loads nothing, and only its own script may run."""
    body = "\n".join([_base_kernels(), *(_read(f"{name}.js") for name in SCRIPTS)])
    script = f'\n"use strict";\n(() => {{\n{body}}})();\n'
    digest = b64encode(hashlib.sha256(script.encode()).digest()).decode()
    data = json.dumps(payload, allow_nan=False, ensure_ascii=False, separators=(",", ":")).translate(_ESCAPES)
    page = _read("index.html").replace("{{hash}}", digest).replace("{{style}}", _read("style.css"))
    return page.replace("{{script}}", script).replace("{{payload}}", data)  # data last: it may contain {{script}}


def _base_kernels() -> str:
    rows = "".join(f"  {name}: {row.page},\n" for name, row in ALL_BASES.items())
    return f"const BASES = {{\n{rows}}};\n"


def _read(name: str) -> str:
    return (PAGE / name).read_text(encoding="utf-8")


def write_whole(path: Path, page: str) -> None:
    with replacing(path) as temporary:
        temporary.write_text(page, encoding="utf-8", newline="\n")
