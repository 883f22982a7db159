"""The report's file: one HTML page with its style, its scripts and its data inside."""

from __future__ import annotations

import hashlib
import json
from base64 import b64encode
from pathlib import Path
from typing import Any

from salsa.base_kernels import BASE_KERNELS
from salsa.files import replacing

PAGE = Path(__file__).parents[1] / "page"
SCRIPTS = (
    *("base", "axes", "explore", "charts", "effects", "surface", "matrix"),
    *("model", "waterfall", "whatif", "table", "panel", "sections", "main"),
)
#: What could end the data's element, or a line of a script in older browsers; JSON has other ways to write it
_ESCAPES = {ord(letter): f"\\u{ord(letter):04x}" for letter in "<>&\u2028\u2029"}


def render(payload: dict[str, Any]) -> str:
    """The page that shows this payload. It asks for nothing else, and only its own script may run."""
    body = "\n".join([_base_kernels(), *(_read(f"{name}.js") for name in SCRIPTS)])
    script = f'\n"use strict";\n(() => {{\n{body}}})();\n'
    digest = b64encode(hashlib.sha256(script.encode()).digest()).decode()
    data = json.dumps(payload, allow_nan=False, ensure_ascii=False, separators=(",", ":")).translate(_ESCAPES)
    page = _read("index.html").replace("{{hash}}", digest).replace("{{style}}", _read("style.css"))
    return page.replace("{{script}}", script).replace("{{payload}}", data)  # the data last: it may say {{script}}


def _base_kernels() -> str:
    rows = "".join(f"  {name}: {row.page},\n" for name, row in BASE_KERNELS.items())
    return f"const BASES = {{\n{rows}}};\n"


def _read(name: str) -> str:
    return (PAGE / name).read_text(encoding="utf-8")


def write_whole(path: Path, page: str) -> None:
    with replacing(path) as temporary:
        temporary.write_text(page, encoding="utf-8", newline="\n")
