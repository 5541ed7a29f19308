"""Every page in a real browser: it opens without a complaint, light and dark, wide and narrow; links work."""

import json
import subprocess
import sys

import pytest
from page_view import served, tagrpo_ui

from ui.pages.kit.links import PAGES

MAIN = "import sys; from ui.cli.app import main; sys.argv[0] = 'tagrpo'; main()"
NAMES = [name for name, _, _ in PAGES]


@pytest.fixture(scope="session")
def filled(tmp_path_factory):
    """A database with questions, some of them hostile, and their neighbors by rules."""
    folder = tmp_path_factory.mktemp("filled")
    rows = [
        {
            "question": f"Ada has ${11 + index}$ apples and buys ${5 + index}$ more for \\$3 each. "
            "How many apples does Ada have now?",
            "answer": str(16 + 2 * index),
            "subject": ("algebra", "geometry")[index % 2],
            "level": str(1 + index % 5),
        }
        for index in range(60)
    ]
    rows.append({"question": "<b>5</b> ![x](http://e.invalid/x.png) $5 and $6, how many?", "answer": "1"})
    (folder / "q.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    for command in (
        ["questions", "import", str(folder / "q.jsonl"), "--name", "demo"],
        ["neighbors", "propose", "demo", "--name", "rules", "--proposer", "rules"],
    ):
        done = subprocess.run(
            [sys.executable, "-c", MAIN, *command, "--db", str(folder / "t.db")],
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode in (0, 1), done.stderr
    return folder / "t.db"


@pytest.fixture(scope="session")
def url(filled):
    with served(tagrpo_ui(filled)) as address:
        yield address


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_every_page_opens_without_a_complaint(url, view_of, pictures, dark):
    view = view_of(url, dark=dark)
    for name, title, _ in PAGES:
        view.open("/" if name == "overview" else f"/{name}")
        assert view.tab.locator("h1").inner_text() == title
        view.check()
        view.picture(pictures / f"{name}-{'dark' if dark else 'light'}.png")


def test_every_page_fits_a_window_400_pixels_wide(url, view_of, pictures):
    view = view_of(url, width=400, height=800)
    for name in NAMES:
        view.open("/" if name == "overview" else f"/{name}")
        width = view.tab.evaluate("document.querySelector('[data-testid=stMain]').scrollWidth")
        assert width <= 400, name
        view.check()
        view.picture(pictures / f"{name}-narrow.png")


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


def test_an_empty_and_a_missing_database_say_what_to_do(view_of, tmp_path):
    with served(tagrpo_ui(tmp_path / "none.db")) as address:
        view = view_of(address).open("/")
        assert "There is no database here yet." in view.text()
        assert f"tagrpo questions import FILE --name NAME --db {tmp_path / 'none.db'}" in view.text()
        view.check()
        (tmp_path / "none.db").touch()
        assert "The database is empty." in view.open("/questions").text()
        view.check()
