"""The sets in a browser: versions, what changed between two, a change beside its question, verifying."""

import pytest
from apple_sets import publish_apples
from page_view import served, tagrpo_ui


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    path = tmp_path_factory.mktemp("sets") / "t.db"
    publish_apples(path, 40).close()
    with served(tagrpo_ui(path)) as address:
        yield address


def test_versions_changes_and_verifying(url, view_of):
    view = view_of(url).open("/sets")
    assert "2.00 neighbors" in view.text()
    view.check()
    view.tab.get_by_text("Changes", exact=True).click()
    view.until("() => location.search === '?view=changes'")
    view.tab.get_by_text("25 of 40").wait_for()
    view.choose_first_row(1, "neighbor")
    assert "neighbor=c_" in view.tab.url
    view.tab.get_by_text("Question with all its neighbors").wait_for()
    view.settle()
    view.check()
    view.tab.get_by_text("Next", exact=True).click()
    view.tab.get_by_text("15 of 40").wait_for()
    view.open("/sets?view=use")
    view.tab.get_by_text("Verify now").click()
    view.tab.get_by_text("matches its published content").wait_for()
    view.check()
