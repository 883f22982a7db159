"""A browser that opens reports, and fails a test whose page logs, raises, asks or requests something."""

import shutil
import warnings

import pytest

PATIENCE = 600_000  # milliseconds, on a busy machine
ARGUMENTS = (
    "--no-sandbox --disable-gpu --disable-background-networking --disable-component-update --disable-sync"
    " --no-first-run"
)


@pytest.fixture(scope="module")
def browser():
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if (chromium := shutil.which("chromium")) is None:
        pytest.skip("there is no chromium: the page cannot be opened")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # warnings of playwright's event loop
        with sync_api.sync_playwright() as playwright:
            launched = playwright.chromium.launch(executable_path=chromium, args=ARGUMENTS.split(), timeout=PATIENCE)
            yield launched
            launched.close()


@pytest.fixture
def open_page(browser):
    """Give a function that opens a report; the test fails if any page logs, raises, asks or requests something."""
    contexts, troubles = [], []

    def open_one(path, *, width=1280, height=900, sections=8, **options):
        context = browser.new_context(viewport={"width": width, "height": height}, **options)
        contexts.append(context)
        context.set_default_timeout(PATIENCE)
        page = context.new_page()
        page.on("console", lambda message: troubles.append(f"console: {message.text}"))
        page.on("pageerror", lambda error: troubles.append(f"error: {error}"))
        page.on("dialog", lambda dialog: (troubles.append(f"dialog: {dialog.message}"), dialog.dismiss()))
        page.on("request", lambda request: request.url == path.as_uri() or troubles.append(f"request: {request.url}"))
        page.goto(path.as_uri())
        page.wait_for_function(f"document.querySelectorAll('main section').length === {sections}")
        return page

    yield open_one
    for context in contexts:
        context.close()
    assert troubles == []
