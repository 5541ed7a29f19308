"""The page "Questions" in a browser: search, page, filter, open, go back; hostile texts stay texts."""

import pytest
from page_view import served, tagrpo_ui
from runs import Proposed, add_run, open_empty

HOSTILE = '<img src="https://e.invalid/a.png"> ![x](https://e.invalid/b.png) <script>alert(1)</script> ok'


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    path = tmp_path_factory.mktemp("questions") / "t.db"
    db = open_empty(path)
    asked = [
        (
            f"Let $x = \\frac{{{n}}}{{7}}$ be given. What is $7x + {n}$?",
            str(2 * n),
            [
                Proposed(f"What is $7x + {n}$, if $x = \\frac{{{n}}}{{7}}$ is given?"),
                Proposed(HOSTILE, ("rejected" if n % 3 == 0 else "accepted",), strategy="format"),
            ],
        )
        for n in range(45)
    ]
    add_run(db, "first", asked)
    db.close()
    with served(tagrpo_ui(path)) as address:
        yield address


def opens(view):
    return view.tab.locator("[class*=st-key-open-] button")


def test_search_page_open_and_go_back(url, view_of):
    view = view_of(url).open("/questions")
    view.tab.get_by_text("15 of 45 questions").wait_for()
    view.tab.get_by_role("button", name="Next").click()
    view.until("() => location.search.startsWith('?after=q_')")
    view.tab.get_by_role("button", name="Previous").click()
    view.until("() => location.search.startsWith('?before=q_')")
    view.settle()
    assert view.tab.get_by_role("button", name="Previous").is_disabled()
    search = view.tab.get_by_label("Search")
    search.fill("7x + 44")
    search.press("Enter")
    view.tab.get_by_text("1 of 1 question", exact=True).wait_for()
    opens(view).click()
    view.tab.get_by_text("All questions").wait_for()
    view.settle()
    assert view.tab.locator(".katex").count() >= 4
    assert "![x](https://e.invalid/b.png)" in view.text().replace("\u2060", "")
    view.tab.go_back()
    view.tab.get_by_text("1 of 1 question", exact=True).wait_for()
    view.check()
