"""The curves: methods, differences, the paper's table, cost, problems behind a point, responses, grades."""

import re
from functools import partial

import pytest
from eval_runs import add_eval_run, add_methods, regrade
from pages import open_page, tables
from pages import said as words
from training_pages import trainings

from evaluator.grading.versions import other_tool
from ui.pages.curves.reports import training_costs
from ui.pages.state import settings

shown = partial(open_page, "curves")


def pair(db, benchmark="aime24"):
    """Store two methods: the second solves what the first does not, and the other way round."""
    add_eval_run(db, f"base.{benchmark}", [(8, 8, 0), (8, 0, 0), (8, 4, 0)], benchmark=benchmark)
    add_eval_run(db, f"tuned.{benchmark}", [(8, 0, 0), (8, 8, 0), (8, 4, 0)], benchmark=benchmark, seed=1)


def test_runs_without_grades_are_named_with_their_command(page_db):
    add_eval_run(page_db, "base.aime24", [(4, 1, 0)], benchmark="aime24", graded=[2])
    app = shown()
    app.session_state["ungraded"] = True
    commands = [code.value for code in app.run().code]
    assert any(command.startswith("tagrpo eval score base.aime24 --db ") for command in commands)


def test_another_tools_grades_are_named_with_the_command_that_lists_where_they_differ(page_db):
    run = add_eval_run(page_db, "base.aime24", [(4, 1, 0)], benchmark="aime24")
    regrade(page_db, run, [(4, 2, 0)], other_tool("accuracy"))
    said = words(shown())
    assert "for 3 of 4 responses, accuracy of the other tool agrees with the grader here" in said
    assert "tagrpo eval compare base.aime24 --tool-grades" in said


@pytest.mark.slow
def test_the_address_chooses_methods_and_metric(page_db):
    add_methods(page_db, "base", "tuned", "third")
    assert "no method lost here" in shown(of="base", against="lost").warning[0].value
    assert not shown(of="base", against="base", view="differences").warning
    gone = shown(run=["base", "gone"])
    assert gone.multiselect[0].value == ["base"]
    assert "evaluation of gone here" in gone.warning[0].value
    app = shown(run=["base", "third"], metric="pass^k", on="aime25")
    assert app.multiselect[0].value == ["base", "third"]
    assert "2 of 3 methods" in words(app)
    assert "of 3 methods" not in words(shown())
    assert "share of problems that all k samples solve" in words(app)


def test_the_problems_behind_a_point_are_those_that_one_run_solves_and_the_other_does_not(page_db):
    pair(page_db)
    app = shown(point="aime24", of="tuned", against="base", k="4", which="first only")
    table = tables(app)[-1]
    assert list(table["problem"]) == ["1"]
    assert list(table["tuned: pass@4"]) == ["100.0%"]
    assert list(table["base: correct"]) == ["0 of 8"]
    both = shown(point="aime24", of="tuned", against="base", k="4", which="both")
    assert list(tables(both)[-1]["problem"]) == ["2"]  # 4 of 8: some of 4 draws is right nearly always


def test_where_answers_were_found_stands_below_the_curves_and_on_each_response(page_db):
    here = {"correct": "last sentence", "wrong": "marker"}
    add_eval_run(page_db, "base.aime24", [(8, 4, 0)], benchmark="aime24", sources=here)
    add_eval_run(page_db, "tuned.aime24", [(8, 8, 0)], benchmark="aime24", seed=1)
    app = shown()
    table = next(one for one in tables(app) if "last sentence" in one)
    assert list(table["last sentence"]) == ["50.0", "0.0"]
    assert list(table["correct from last sentence"]) == ["100.0", "0.0"]
    assert "Many correct answers come from the last sentence" in words(app)
    assert "--answers boxed" in words(app)
    behind = shown(point="aime24", of="tuned", against="base", k="1", which="all")
    behind.query_params["problem"] = tables(behind)[-1]["id"][0]
    behind.run()
    assert "answer found in: box" in words(behind).replace("\\", "")


def test_differences_say_of_the_runs_what_the_command_says(page_db):
    for seed, (name, n) in enumerate((("base", 4), ("tuned", 8))):
        add_eval_run(page_db, f"{name}.aime24", [(n, 1, 0), (n, 2, 0)], temperature=1 - seed / 2, seed=seed)
    notes = words(shown(view="differences"))
    assert "test: sampled with different settings: sampling.temperature" in notes
    assert "2 problems have more samples on one side" in notes


def test_gpqa_shows_no_text_in_tables_and_none_away_from_the_machine_and_takes_no_grades_there(page_db):
    pair(page_db, "gpqa-diamond")
    app = shown(point="gpqa-diamond", of="tuned", against="base", k="4", which="all")
    table = tables(app)[-1]
    assert "text" not in table
    app.query_params["problem"] = table["id"][0]
    app.run()
    assert "The texts of this benchmark are gated" in words(app)  # nothing says where the pages are served
    assert "what is" not in words(app)
    assert "Gold answer" not in words(app)
    path = settings.current().database
    app = open_page("curves", path, review=True, view="samples", of="base", sample="1")
    assert "Grade as correct" not in [button.label for button in app.button]
    assert "answer" not in tables(app)[-1]
    assert "The texts of this benchmark are gated" in words(app)
    assert "what is" not in words(app)
    assert "Search" not in [field.label for field in app.text_input]


def test_the_paper_stands_beside_runs_of_its_models(page_db):
    for name, seed in (("base", 0), ("tuned", 1)):
        about = {"benchmark": "aime24", "seed": seed, "model": "Qwen/Qwen3-4B"}
        add_eval_run(page_db, f"{name}.aime24", [(32, 8, 0)] * 3, **about)
    app = shown(view="table")
    table = tables(app)[0]
    assert "TA-GRPO (paper)" in list(table["method"])
    assert "57.37" in list(table["AIME24"])
    assert "arXiv:2601.22478" in words(app)


def test_where_training_started_stands_at_no_cost(tmp_path):
    path = trainings(tmp_path, model="/somewhere/demo/policy")
    settings.use(settings.PageSettings(path))
    found = training_costs(("demo/policy", "other/policy", "runs/joint/checkpoints/global_step_2/actor"))
    assert found.keys() == {"demo/policy", "runs/joint/checkpoints/global_step_2/actor"}
    start, trained = found.values()
    assert [start[key] for key in ("step", "responses", "tokens")] == [0, 0, 0]
    assert (trained["train_run"], trained["step"]) == ("joint", 2)
    assert trained["responses"] > 0


@pytest.mark.slow
def test_majorities_are_counted_on_a_button(page_db):
    pair(page_db)
    app = shown(metric="maj@k", view="table")
    assert [button.label for button in app.button] == ["Compute maj@k"]
    app.button[0].click().run()
    assert not app.exception
    assert app.query_params["made"] == "1"
    table = tables(app)[0]
    # base is right in 8, 0 and 4 of 8 samples: at k = 8 the first problem, and a tie in the third.
    assert [cell.split()[0] for cell in table.iloc[:, -1]][:2] == ["50.00", "50.00"]


def press(app, label):
    next(button for button in app.button if button.label == label).click().run()
    assert not app.exception


def field(app, label):
    return next(field for field in app.text_input if field.label == label)


def test_responses_of_one_method_are_read_without_a_second_one(page_db):
    add_eval_run(page_db, "base.aime24", [(8, 8, 0), (8, 0, 0), (8, 4, 0)], benchmark="aime24")
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
    assert "No matching responses" in words(shown(view="samples", text="nowhere to be read"))
    assert "1 response." in words(shown(view="samples", grade="correct", at="2", **{"from": "2:2"}))


def test_responses_of_an_evaluation_without_grades_are_read(page_db):
    add_eval_run(page_db, "new.aime24", [(4, 1, 0)], benchmark="aime24", graded=[0])
    app = shown(view="samples", sample="2")
    assert set(tables(app)[-1]["grade"]) == {"not graded"}
    assert "So it is" in words(app)
    add_eval_run(page_db, "base.aime24", [(4, 1, 0)], benchmark="aime24", seed=1)  # a graded one beside it
    app = shown(view="samples", of="new")
    assert set(tables(app)[-1]["grade"]) == {"not graded"}
    assert not app.warning  # what the address asks for is shown
    asked = [warning.value for warning in shown(view="samples", of="none", point="nowhere").warning]
    assert [re.sub(r"[\\\u2060]", "", words) for words in asked] == [
        "There is no evaluation of none here. Showing base instead.",
        "There is no benchmark nowhere here. Showing aime24 instead.",
    ]


@pytest.mark.slow
def test_a_person_grades_a_response_and_sees_what_that_changes(page_db):
    add_eval_run(page_db, "base.aime24", [(4, 1, 0), (4, 0, 0)], benchmark="aime24")
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
