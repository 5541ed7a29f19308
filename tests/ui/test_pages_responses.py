"""Responses of an evaluation on the page "Curves": filtered, searched, read, graded by people."""

import re
from functools import partial

import pytest
from eval_runs import add_eval_run
from pages import open_page, tables
from pages import said as words

from service.database import Database
from ui.pages.state import settings


@pytest.fixture
def db(tmp_path):
    path = tmp_path / "t.db"
    with Database.open(path) as opened:
        settings.use(settings.PageSettings(path))
        yield opened


shown = partial(open_page, "curves")


def press(app, label):
    next(button for button in app.button if button.label == label).click().run()
    assert not app.exception


def field(app, label):
    return next(field for field in app.text_input if field.label == label)


def test_responses_of_one_method_are_read_without_a_second_one(db):
    add_eval_run(db, "base.aime24", [(8, 8, 0), (8, 0, 0), (8, 4, 0)], benchmark="aime24")
    app = shown(view="samples", grade="wrong", at="2")
    table = tables(app)[-1]
    assert list(table["sample"]) == ["4", "5", "6", "7"]
    assert set(table["grade"]) == {"wrong"}
    app.query_params["sample"] = "21"
    app.run()
    assert "aime24 2: what is 2 + 1?" in words(app)
    assert "answer found in: box" in words(app)
    found = shown(view="samples", text="boxed{3}")
    assert set(tables(found)[-1]["problem"]) == {"2"}
    assert "No such responses" in words(shown(view="samples", text="nowhere to be read"))
    assert "1 response." in words(shown(view="samples", grade="correct", at="2", **{"from": "2:2"}))


def test_responses_of_gpqa_show_no_text_away_from_the_machine(db):
    add_eval_run(db, "base.gpqa-diamond", [(8, 8, 0), (8, 4, 0)], benchmark="gpqa-diamond")
    app = shown(view="samples", of="base", sample="1")
    assert "answer" not in tables(app)[-1]
    assert "The texts of this benchmark are gated" in words(app)
    assert "what is" not in words(app)
    assert "Search" not in [field.label for field in app.text_input]


def test_responses_of_an_evaluation_without_grades_are_read(db):
    add_eval_run(db, "new.aime24", [(4, 1, 0)], benchmark="aime24", graded=[0])
    app = shown(view="samples", sample="2")
    assert set(tables(app)[-1]["grade"]) == {"not graded"}
    assert "So it is" in words(app)
    add_eval_run(db, "base.aime24", [(4, 1, 0)], benchmark="aime24", seed=1)  # a graded one beside it
    app = shown(view="samples", of="new")
    assert set(tables(app)[-1]["grade"]) == {"not graded"}
    assert not app.warning  # what the address asks for is shown
    asked = [warning.value for warning in shown(view="samples", of="none", point="nowhere").warning]
    assert [re.sub(r"[\\\u2060]", "", words) for words in asked] == [
        "There is no evaluation of none here. Showing base instead.",
        "There is no benchmark nowhere here. Showing aime24 instead.",
    ]


@pytest.mark.slow
def test_a_person_grades_a_response_and_sees_what_that_changes(db):
    add_eval_run(db, "base.aime24", [(4, 1, 0), (4, 0, 0)], benchmark="aime24")
    path = settings.current().database
    reading = shown(view="samples", sample="5")
    assert not [button for button in reading.button if button.label == "Grade as correct"]

    app = open_page("curves", path, review=True, view="samples", sample="5")
    press(app, "Grade as correct")
    assert "enter your name first" in words(app)
    field(app, "Reviewer").set_value("ada").run()
    field(app, "Comment").set_value("equal to the gold").run()
    press(app, "Grade as correct")
    assert not app.error
    assert "ada, " in words(app)
    assert "before: wrong" in words(app)
    assert "pass@1 12.50 by the grader, 25.00 with human grades" in words(app)
    assert "pass@4 50.00 by the grader, 100.00 with human grades" in words(app)
    assert list(tables(app)[-1]["by a person"]) == ["", "", "", "", "correct", "", "", ""]
    assert list(tables(shown(view="samples", grade="human"))[-1]["grade"]) == ["wrong"]
    assert "1 human grade used instead of the grader's" in words(shown())

    app = open_page("curves", path, review=True, view="samples", sample="5", reviewer="ada")
    press(app, "Withdraw my grade")
    assert "; withdrawn " in words(app)
    assert "pass@1 12.50 by the grader, 12.50 with human grades" in words(app)


def test_gated_texts_take_no_grades_away_from_the_machine(db):
    add_eval_run(db, "base.gpqa-diamond", [(8, 8, 0), (8, 4, 0)], benchmark="gpqa-diamond")
    path = settings.current().database
    app = open_page("curves", path, review=True, view="samples", of="base", sample="1")
    assert "Grade as correct" not in [button.label for button in app.button]
