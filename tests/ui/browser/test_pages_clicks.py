"""The pages in a browser: what clicks, keys and the way back do; hostile texts stay texts."""

from datetime import UTC, datetime

import pytest
from active_runs import add_active_run, finish_tasks
from candidates import publish_apples
from eval_runs import add_eval_run
from page_view import served, tagrpo_ui
from runs import Proposed, add_run
from training_pages import trainings

from service.database import Database

POINTS = '[data-testid="stVegaLiteChart"] svg .mark-symbol path'
CHARTS = "([n]) => document.querySelectorAll('[data-testid=stVegaLiteChart] svg.marks').length >= n"
HOSTILE = '<img src="https://e.invalid/a.png"> ![x](https://e.invalid/b.png) <script>alert(1)</script> ok'


def proposed(n):
    """Return the neighbors of question `n`: an honest one, and a hostile one."""
    verdict = "rejected" if n % 3 == 0 else "accepted"
    honest = Proposed(f"What is $7x + {n}$, if $x = \\frac{{{n}}}{{7}}$ is given?")
    return [honest, Proposed(HOSTILE, (verdict,), strategy="format")]


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    """Two versions of a set of 40 questions, 45 other questions, two trainings, two models' evaluations."""
    path = tmp_path_factory.mktemp("pages") / "t.db"
    publish_apples(path, 40).close()
    trainings(path.parent)
    question = "Let $x = \\frac{{{n}}}{{7}}$ be given. What is $7x + {n}$?"
    with Database.open(path) as db:
        add_run(db, "first", [(question.format(n=n), str(2 * n), proposed(n)) for n in range(45)])
        for benchmark in ("aime24", "gpqa-diamond"):
            base, tuned = [(8, 8, 0), (8, 0, 0), (8, 4, 0)], [(8, 0, 0), (8, 8, 0), (8, 6, 0)]
            add_eval_run(db, f"base.{benchmark}", base, benchmark=benchmark)
            add_eval_run(db, f"tuned.{benchmark}", tuned, benchmark=benchmark, seed=1)
    with served(tagrpo_ui(path)) as address:
        yield address


def test_a_run_shows_up_by_itself_and_grows_in_place(tmp_path, view_of):
    with Database.open(tmp_path / "t.db") as db, served(tagrpo_ui(tmp_path / "t.db")) as url:
        add_eval_run(db, "base.aime24", [(4, 1, 0)], benchmark="aime24")
        view = view_of(url).open("/")
        view.tab.get_by_text("No active runs").wait_for()
        view.tab.evaluate("window.stayed = true")
        run = add_active_run(db, "under-way", datetime.now(UTC), done=250, open_tasks=750)
        view.tab.get_by_text("250 of 1,000 questions").wait_for()
        finish_tasks(db, run, 250)
        view.tab.get_by_text("500 of 1,000 questions").wait_for()
        assert view.tab.evaluate("window.stayed") is True
        view.check()


def opens(view):
    return view.tab.locator("[class*=st-key-open-] button")


def test_search_page_open_and_go_back(url, view_of):
    view = view_of(url).open("/questions")
    view.tab.get_by_text("15 of 85 questions").wait_for()
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


def test_a_click_on_a_point_chooses_it(url, view_of):
    view = view_of(url).open("/curves?run=base&run=tuned&on=aime24")
    view.tab.locator(POINTS + '[aria-label*="label: base; k: 2;"]').click()
    view.until("() => location.search.includes('point=aime24') && location.search.includes('k=2')")
    assert "of=base" in view.tab.url
    view.settle()
    assert "only base: 1" in view.text()
    view.check()


def test_a_problem_stands_with_both_responses_and_gated_ones_on_this_machine_only(url, view_of):
    view = view_of(url)
    for benchmark in ("aime24", "gpqa-diamond"):
        view.open(f"/curves?point={benchmark}&of=tuned&against=base&k=4&which=first+only")
        view.choose_first_row(0, "problem")
        view.tab.get_by_text("Gold answer: 2").wait_for()
        view.settle()
        assert "Gold answer: 2" in view.text()
        assert "problem=p_" in view.tab.url
        view.check()
    view.open("/curves?view=differences&of=tuned&against=base").check()
    view.open("/curves?view=table").check()
    view.open("/curves?view=cost").check()


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
