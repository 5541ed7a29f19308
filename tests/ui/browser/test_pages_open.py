"""Every page of the shipped demo in a real browser: light and dark, wide and narrow; links between pages."""

from pathlib import Path

import pytest
from page_view import served, ui_command

from ui.pages.state.links import PAGES

PATHS = ["/" if name == "overview" else f"/{name}" for name, _, _ in PAGES]
VIEWS = {
    "/review?view=Results": 0,
    "/sets?view=use": 0,
    "/signal?view=anchor": 1,
    "/signal?view=covariance": 1,
    "/signal?view=policy": 5,  # without a KL penalty nothing knows the reference policy
    "/curves?view=samples": 0,
    "/curves?view=differences": 1,
    "/curves?view=table": 0,
    "/curves?view=cost": 1,
}
"""The views of pages that other tests do not open, and how many charts are drawn at least."""
CHARTS = {"/": 1, "/sets": 1, "/rollouts": 1, "/signal": 3, "/curves": 1} | VIEWS


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    """The shipped demo, as a new user opens it."""
    folder = tmp_path_factory.mktemp("demo")
    python_path = str(Path(__file__).parents[3])  # as in any folder where no demo lies
    with served(
        ui_command("--demo", "--no-token"), folder=folder, XDG_CACHE_HOME=str(folder), PYTHONPATH=python_path
    ) as address:
        yield address


@pytest.mark.parametrize(("dark", "width"), [(False, 1280), (True, 400)], ids=["light", "narrow"])
def test_every_page_opens_without_a_complaint(url, view_of, dark, width):
    view = view_of(url, dark=dark, width=width)
    titles = {name: title for name, title, _ in PAGES}
    wide_and_light = width > 400 and not dark
    for path in [*PATHS, *VIEWS] if wide_and_light else PATHS:
        view.open(path)
        assert view.tab.locator("h1").inner_text() == titles[path.strip("/").split("?")[0] or "overview"]
        view.draw_charts().check()
        drawn = view.tab.locator('[data-testid="stVegaLiteChart"] svg.marks').count()
        assert drawn >= CHARTS.get(path, 0), path
        said = view.text()
        assert "Results of a real demo run" in said
        assert "None" not in said.split()
        assert view.tab.evaluate("document.querySelector('[data-testid=stMain]').scrollWidth") <= width, path


def test_pages_follow_each_other_without_loading_again_and_back_works(url, view_of):
    view = view_of(url).open("/")
    view.tab.evaluate("window.stayed = true")
    for name, title, _ in [*PAGES[1:], PAGES[0]]:
        view.tab.locator('[data-testid="stSidebarNavLink"]').filter(has_text=title).click()
        view.until("([title]) => document.querySelector('h1')?.innerText === title", title)
        view.settle()
        assert view.tab.url.removeprefix(url) == ("/" if name == "overview" else f"/{name}")
    view.tab.go_back()
    view.until("([title]) => document.querySelector('h1')?.innerText === title", PAGES[-1][1])
    assert view.tab.evaluate("window.stayed") is True
    view.check()
