"""The browser of these tests, and tabs in it."""

from pathlib import Path

import pytest
from page_view import FLAGS, View, chromium


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every test of this folder."""
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.browser)


@pytest.fixture(scope="session")
def browser():
    """Chromium, started once."""
    from playwright import sync_api as api

    path = chromium()
    if path is None:
        pytest.skip("no Chromium; install it, or name one with TAGRPO_CHROMIUM")
    with api.sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=path, args=list(FLAGS))
        yield started
        started.close()


@pytest.fixture
def view_of(browser):
    """Open tabs: `view_of(url, dark=True, width=400)`; each has cookies of its own."""
    contexts = []

    def make(url: str, *, dark: bool = False, width: int = 1280, height: int = 900) -> View:
        context = browser.new_context(
            viewport={"width": width, "height": height}, color_scheme="dark" if dark else "light"
        )
        contexts.append(context)
        return View(context.new_page(), url)

    yield make
    for context in contexts:
        context.close()
