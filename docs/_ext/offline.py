"""Pages must read well without a network: a script, style or picture from elsewhere stops the build."""

import re
from pathlib import Path

from sphinx.application import Sphinx
from sphinx.errors import ExtensionError

LOADED = re.compile(r"<(?:script|link|img|iframe)\b[^>]*\b(?:src|href)=\"(?:https?:)?//[^\"]+\"")


def check(app: Sphinx, error: Exception | None) -> None:
    if error is None:
        for page in Path(app.outdir).rglob("*.html"):
            if found := LOADED.search(page.read_text(encoding="utf-8")):
                raise ExtensionError(f"{page.name} loads from elsewhere: {found[0]}")


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("build-finished", check)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
