"""The pages "Training signal" and "Rollouts" in a real browser: from a point of a chart to a response."""

import pytest
from page_view import served, tagrpo_ui
from training_pages import trainings

CHARTS = "([n]) => document.querySelectorAll('[data-testid=stVegaLiteChart] svg.marks').length >= n"


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    with served(tagrpo_ui(trainings(tmp_path_factory.mktemp("trainings")))) as address:
        yield address


def test_a_point_of_a_chart_leads_to_the_rollouts_of_its_step(url, view_of):
    view = view_of(url).open("/signal?run=joint")
    view.until(CHARTS, 3)
    steps = view.tab.locator("[data-testid=stVegaLiteChart]").first.locator("svg .mark-rect path")
    steps.nth(2).click()
    link = view.tab.get_by_role("link", name="Rollouts of joint at step 3")
    link.click()
    view.until("([part]) => document.querySelector('h1')?.innerText === part", "Rollouts")
    view.settle()
    assert view.tab.url == url + "/rollouts?run=joint&step=3"
    view.check()


def test_a_circle_of_the_difficulty_chart_lists_its_neighbors(url, view_of):
    view = view_of(url).open("/signal?view=difficulty&made=1")
    view.until(CHARTS, 1)
    view.tab.locator("[data-testid=stVegaLiteChart] svg .mark-symbol path").last.click()
    view.until("() => /[?&]dot=[01]/.test(location.search)")
    view.tab.get_by_role("heading", name="solved in").wait_for()
    row = view.tab.locator(".table tbody tr").first
    row.locator("td").first.click()
    view.tab.get_by_role("link", name="This question with its neighbors").wait_for()
    view.tab.get_by_role("button", name="Neighbors to check again").click()
    view.until("() => !location.search.includes('dot=')")
    view.settle()
    view.check()


def test_a_response_is_read_and_the_next_group_follows(url, view_of):
    view = view_of(url).open("/rollouts?run=plain&q=q_000000000000000000000000&at=2&step=2")
    first = view.tab.locator(".table tbody tr").first
    first.locator("td").last.click()
    view.tab.get_by_text("Step 2: it is").first.wait_for()
    view.until("() => location.search.includes('r0=1')")
    button = first.get_by_role("button", pressed=True)
    button.press("Enter")  # the keyboard puts it away, and reads it again
    view.until("() => !location.search.includes('r0=1')")
    first.get_by_role("button", pressed=False).press("Enter")
    view.until("() => location.search.includes('r0=1')")
    view.tab.get_by_role("button", name="Next group").click()
    view.until("() => location.search.includes('q=q_000000000000000000000001')")
    view.settle()
    view.check()


def test_a_click_on_a_heading_sorts_by_its_numbers(url, view_of):
    view = view_of(url).open("/rollouts?run=plain&q=q_000000000000000000000000&at=2")
    table = view.tab.locator(".table table").first
    heading = table.locator("th", has_text="advantage")
    cells = table.locator("tbody tr td:nth-child(4)")
    drawn = ["1.500", "−0.500", "−0.500", "1.500"]
    cells.first.wait_for()
    assert cells.all_inner_texts() == drawn
    for clicks, direction, order in (
        (1, "descending", ["1.500", "1.500", "−0.500", "−0.500"]),
        (2, "ascending", ["−0.500", "−0.500", "1.500", "1.500"]),
        (3, None, drawn),
    ):
        heading.get_by_role("button").click()
        found = heading.get_attribute("aria-sort"), cells.all_inner_texts()
        assert found == (direction, order), clicks
    heading.get_by_role("button").click()
    table.locator("tbody tr").last.locator("td").nth(2).click()  # the row, not its place after sorting
    view.until("() => location.search.includes('r0=3')")
    assert cells.all_inner_texts() == ["1.500", "1.500", "−0.500", "−0.500"]
    view.check()
