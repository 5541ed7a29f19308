"""The curves in a browser: a click on a point leads to its problems, and a problem to the responses."""

import pytest
from eval_runs import add_eval_run
from page_view import served, tagrpo_ui

from service.database import Database

POINTS = '[data-testid="stVegaLiteChart"] svg .mark-symbol path'


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    path = tmp_path_factory.mktemp("curves") / "t.db"
    with Database.open(path) as db:
        for benchmark in ("aime24", "gpqa-diamond"):
            base, tuned = [(8, 8, 0), (8, 0, 0), (8, 4, 0)], [(8, 0, 0), (8, 8, 0), (8, 6, 0)]
            add_eval_run(db, f"base.{benchmark}", base, benchmark=benchmark)
            add_eval_run(db, f"tuned.{benchmark}", tuned, benchmark=benchmark, seed=1)
    with served(tagrpo_ui(path)) as address:
        yield address


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
