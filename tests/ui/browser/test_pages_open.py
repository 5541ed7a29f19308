"""Every page of the shipped demo in a real browser: light and dark, wide and narrow; links between pages."""

from pathlib import Path

import pytest
from page_view import served, ui_command

from ui.pages.state.links import PAGES

NAMES = [name for name, _, _ in PAGES]
PAGE_PATHS = {name: "/" if name == "overview" else f"/{name}" for name in NAMES}
VIEWS = {
    **PAGE_PATHS,
    "review-results": "/review?view=Results",
    "sets-use": "/sets?view=use",
    "signal-policy": "/signal?view=policy",
    "signal-anchor": "/signal?view=anchor",
    "signal-covariance": "/signal?view=covariance",
    "curves-responses": "/curves?view=samples",
    "curves-differences": "/curves?view=differences",
    "curves-table": "/curves?view=table",
    "curves-cost": "/curves?view=cost",
}
"""Every page, and the views of pages that are not opened by other tests."""


CHARTS = {
    "overview": 1,
    "sets": 1,
    "rollouts": 1,
    "signal": 3,
    "signal-policy": 5,  # without a KL penalty nothing knows the reference policy
    "signal-anchor": 1,
    "signal-covariance": 1,
    "curves": 1,
    "curves-differences": 1,
    "curves-cost": 1,
}
"""How many charts are drawn at least; none on views that are not named."""


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
    for name, path in (VIEWS if wide_and_light else PAGE_PATHS).items():
        view.open(path)
        assert view.tab.locator("h1").inner_text() == titles[path.strip("/").split("?")[0] or "overview"]
        view.draw_charts().check()
        drawn = view.tab.locator('[data-testid="stVegaLiteChart"] svg.marks').count()
        assert drawn >= CHARTS.get(name, 0), name
        said = view.text()
        assert "Results of a real demo run" in said
        assert "None" not in said.split()
        assert view.tab.evaluate("document.querySelector('[data-testid=stMain]').scrollWidth") <= width, name


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
