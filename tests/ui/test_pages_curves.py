"""The curves: methods by benchmark, differences, the paper's table, cost, and problems behind a point."""

from functools import partial

import pytest
from eval_runs import add_eval_run, add_methods, make_problems, regrade
from pages import open_page, tables
from pages import said as words
from training_pages import trainings

from evaluator.evals.problems import PlacedProblem
from evaluator.grading.versions import other_tool
from service.database import Database
from ui.charts.theme import PALETTE
from ui.charts.training_steps import method_colours
from ui.pages.curves.choosing import default_methods
from ui.pages.curves.cost import cost_rows, training_costs
from ui.pages.curves.data import PageReport
from ui.pages.state import settings
from ui.pages.widgets.methods import colours_of, evaluated_methods


@pytest.fixture
def db(tmp_path):
    path = tmp_path / "t.db"
    with Database.open(path) as opened:
        settings.use(settings.Settings(path))
        yield opened


shown = partial(open_page, "curves")


def pair(db, benchmark="aime24"):
    """Store two methods: the second solves what the first does not, and the other way round."""
    add_eval_run(db, f"base.{benchmark}", [(8, 8, 0), (8, 0, 0), (8, 4, 0)], benchmark=benchmark)
    add_eval_run(db, f"tuned.{benchmark}", [(8, 0, 0), (8, 8, 0), (8, 4, 0)], benchmark=benchmark, seed=1)


def test_without_eval_runs_the_page_says_what_to_do(db):
    app = shown()
    assert any(code.value.startswith("tagrpo eval run") for code in app.code)


def test_runs_without_grades_are_named_with_their_command(db):
    add_eval_run(db, "base.aime24", [(4, 1, 0)], benchmark="aime24", graded=[2])
    commands = [code.value for code in shown().code]
    assert any(command.startswith("tagrpo eval score base.aime24 --db ") for command in commands)


@pytest.mark.slow
def test_every_view_opens_on_methods_over_three_benchmarks(db):
    add_methods(db, "base", "tuned")
    for view in ("curves", "differences", "table", "cost"):
        app = shown(view=view)
        assert not app.error
        assert app.multiselect[0].value == ["base", "tuned"]


def test_another_tools_grades_are_named_with_the_command_that_lists_where_they_differ(db):
    run = add_eval_run(db, "base.aime24", [(4, 1, 0)], benchmark="aime24")
    regrade(db, run, [(4, 2, 0)], other_tool("accuracy"))
    said = words(shown())
    assert "for 3 of 4 responses, accuracy of the other tool agrees with the grader here" in said
    assert "tagrpo eval compare base.aime24 --tool-grades" in said


@pytest.mark.slow
def test_the_address_chooses_methods_and_metric(db):
    add_methods(db, "base", "tuned", "third")
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


def test_the_problems_behind_a_point_are_those_that_one_run_solves_and_the_other_does_not(db):
    pair(db)
    app = shown(point="aime24", of="tuned", against="base", k="4", which="first only")
    table = tables(app)[-1]
    assert list(table["problem"]) == ["1"]
    assert list(table["tuned: pass@4, %"]) == ["100.0%"]
    assert list(table["base: correct"]) == ["0 of 8"]
    both = shown(point="aime24", of="tuned", against="base", k="4", which="both")
    assert list(tables(both)[-1]["problem"]) == ["2"]  # 4 of 8: some of 4 draws is right nearly always


def test_a_problem_that_stands_elsewhere_in_the_other_run_has_both_places(db):
    pair(db)
    problems = make_problems(3, "aime24")
    turned = [problems[1], problems[0], problems[2]]
    add_eval_run(
        db, "turned.aime24", [(8, 0, 0)] * 3, benchmark="aime24", problems=turned, seed=2, temperature=0.5
    )
    app = shown(point="aime24", of="tuned", against="turned", k="4", which="first only")
    table = tables(app)[-1]
    assert list(table["tuned: problem"]) == ["1", "2"]
    assert list(table["turned: problem"]) == ["0", "2"]
    app.query_params["problem"] = table["id"][0]
    app.run()
    assert "problem 1 of tuned, 0 of turned" in words(app)


def test_where_answers_were_found_stands_below_the_curves_and_on_each_response(db):
    here = {"correct": "last sentence", "wrong": "marker"}
    add_eval_run(db, "base.aime24", [(8, 4, 0)], benchmark="aime24", sources=here)
    add_eval_run(db, "tuned.aime24", [(8, 8, 0)], benchmark="aime24", seed=1)
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


def test_a_k_that_a_run_has_no_samples_for_is_said(db):
    pair(db)
    app = shown(point="aime24", of="tuned", against="base", k="64")
    assert "k = 64" in words(app)
    assert "has at most 8 graded samples per problem here" in words(app)
    assert app.selectbox[-1].value == 8


@pytest.mark.slow
def test_a_warning_says_which_benchmark_and_k_it_is_about_as_the_command_does(db):
    pair(db)
    assert "(!) aime24 at k = 1, 2, 4, 8: only 2 of 3 problems differ" in words(shown(view="differences"))


def test_commands_in_the_notes_below_differences_are_code(db):
    problems = [PlacedProblem(problem, "g", place) for place, problem in enumerate(make_problems(2))]
    for seed, name in enumerate(("base.set", "tuned.set")):
        add_eval_run(db, name, [(4, 1, 0), (4, 2, 0)], benchmark="set", problems=problems, seed=seed)
    notes = [note.value for note in shown(view="differences").caption]
    assert sum("` tagrpo diagnose `" in note for note in notes) == 1


def test_differences_say_of_the_runs_what_the_command_says(db):
    for seed, (name, n) in enumerate((("base", 4), ("tuned", 8))):
        add_eval_run(db, f"{name}.aime24", [(n, 1, 0), (n, 2, 0)], temperature=1 - seed / 2, seed=seed)
    notes = words(shown(view="differences"))
    assert "test: sampled with different settings: sampling.temperature" in notes
    assert "2 problems have more samples on one side" in notes


def test_differences_say_that_they_are_of_pass_at_k(db):
    add_methods(db, "base", "tuned")
    assert "not of pass^k" in words(shown(view="differences", metric="pass^k")).replace("\\", "")
    assert "not of" not in words(shown(view="differences"))


def test_a_problem_stands_with_a_response_of_each_run(db):
    pair(db)
    app = shown(point="aime24", of="tuned", against="base", k="4", which="first only")
    app.query_params["problem"] = tables(app)[-1]["id"][0]
    app.run()
    assert not app.exception
    assert "aime24 1: what is 1 + 1?" in words(app)
    assert "Gold answer: 2" in words(app)
    first, second = app.selectbox[-2:]
    assert first.options[0] == "0: correct, 2"
    assert second.options[0] == "0: wrong, -1"


def test_gpqa_shows_no_text_in_tables_and_none_away_from_the_machine(db):
    pair(db, "gpqa-diamond")
    app = shown(point="gpqa-diamond", of="tuned", against="base", k="4", which="all")
    table = tables(app)[-1]
    assert "text" not in table
    app.query_params["problem"] = table["id"][0]
    app.run()
    assert "The texts of this benchmark are gated" in words(app)  # nothing says where the pages are served
    assert "what is" not in words(app)
    assert "Gold answer" not in words(app)


def test_two_methods_on_different_problems_say_why_they_are_not_compared(db):
    add_eval_run(db, "base.aime24", [(4, 1, 0)], benchmark="aime24")
    add_eval_run(db, "tuned.aime25", [(4, 1, 0)], benchmark="aime25")
    app = shown(view="differences")
    assert "have no common benchmark" in words(app)


def test_paired_differences_stand_in_a_table(db):
    pair(db)
    table = tables(shown(view="differences", of="tuned", against="base"))[-1]
    assert list(table["k"]) == ["1", "2", "4", "8"]
    assert list(table["difference, points"]) == ["0.0"] * 4
    assert list(table["better"]) == ["1"] * 4
    assert list(table["worse"]) == ["1"] * 4


def test_the_paper_stands_beside_runs_of_its_models(db):
    for name, seed in (("base", 0), ("tuned", 1)):
        add_eval_run(
            db, f"{name}.aime24", [(32, 8, 0)] * 3, benchmark="aime24", seed=seed, model="Qwen/Qwen3-4B"
        )
    app = shown(view="table")
    table = tables(app)[0]
    assert "TA-GRPO (paper)" in list(table["method"])
    assert "57.37" in list(table["AIME24"])
    assert "arXiv:2601.22478" in words(app)


def test_the_table_stands_at_the_k_that_is_chosen(db):
    for name in ("base", "tuned"):
        add_eval_run(db, f"{name}.aime25", [(32, 8, 0)] * 3, benchmark="aime25", model="Qwen/Qwen2.5-Math-7B")
    app = shown(view="table")
    assert "35.1" in list(tables(app)[0]["AIME25"])
    app.selectbox[-1].select(1).run()
    table = tables(app)[0]
    assert "DAPO + A-GRAE (paper)" in list(table["method"])
    assert "13.3" in list(table["AIME25"])
    assert "figures from the A-GRAE paper" in words(app)
    assert "13.3" in list(tables(shown(view="table", k=1))[0]["AIME25"])
    assert "no table at k \\= 64 here" in shown(view="table", k=64).warning[0].value


def test_scores_stand_over_the_responses_drawn_for_their_checkpoints():
    score = {"run": "r", "benchmark": "b", "k": 4, "value": 0.5, "low": 0.4, "high": 0.6, "source": "runs"}
    found = PageReport(
        k=4,
        records=(
            {**score, "label": "tuned", "model": "m/1"},
            {**score, "label": "tuned", "model": "m/1", "k": 2},
            {**score, "label": "base", "model": "m/0"},
        ),
    )
    rows = cost_rows(found, {"m/1": ("train", 6, 960, 96_000)})
    assert [(row["label"], row["k"], row["responses"], row["tokens"]) for row in rows] == [
        ("tuned", 4, 960, 96_000)
    ]


def test_a_method_has_its_colour_of_the_pages_of_training():
    trainings = {"grpo-s1": "grpo", "grpo-s2": "grpo", "ta-s1": "ta_grpo"}
    models = {
        "base": "Qwen/Qwen3-4B",
        "after": "runs/ta-s1/checkpoints/global_step_20/actor",  # by its path
        "grpo-s2": "somewhere/else",  # by its name
        "gpt": "openai/gpt-4-turbo",
    }
    methods = evaluated_methods(models, trainings)
    assert methods == {"base": "base", "after": "ta_grpo", "grpo-s2": "grpo", "gpt": "gpt"}
    on_training = method_colours(trainings, list(trainings.values()))
    for chosen in (list(models), ["after", "gpt"], ["gpt", "grpo-s2"]):
        found = colours_of(chosen, methods, trainings)
        assert {
            name: found.get(name, colour)
            for name, colour in (
                ("after", on_training["ta-s1"]),
                ("grpo-s2", on_training["grpo-s1"]),
                ("gpt", PALETTE[3]),
            )
        } == {"after": PALETTE[1], "grpo-s2": PALETTE[0], "gpt": PALETTE[3]}


def test_where_training_started_stands_at_no_cost(tmp_path):
    path = trainings(tmp_path, model="/somewhere/demo/policy")
    settings.use(settings.Settings(path))
    found = training_costs(("demo/policy", "other/policy", "runs/joint/checkpoints/global_step_2/actor"))
    assert found.keys() == {"demo/policy", "runs/joint/checkpoints/global_step_2/actor"}
    start, trained = found.values()
    assert start[1:] == (0, 0, 0)
    assert trained[:2] == ("joint", 2)
    assert trained[2] > 0


def test_only_methods_with_a_benchmark_in_common_are_compared(db):
    add_eval_run(db, "alone.mine", [(8, 8, 0)], benchmark="mine")
    pair(db)
    app = shown(view="differences")
    assert not app.error
    assert [list(box.options) for box in app.selectbox] == [["base", "tuned"], ["base"]]
    app = shown()
    assert app.selectbox[0].value == "aime24"


@pytest.mark.slow
def test_majorities_are_counted_on_a_button(db):
    pair(db)
    app = shown(metric="maj@k", view="table")
    assert [button.label for button in app.button] == ["Compute maj@k"]
    app.button[0].click().run()
    assert not app.exception
    assert app.query_params["made"] == "1"
    table = tables(app)[0]
    # base is right in 8, 0 and 4 of 8 samples: at k = 8 the first problem, and a tie in the third.
    assert [cell.split()[0] for cell in table.iloc[:, -1]][:2] == ["50.00", "50.00"]


def test_the_oldest_and_the_newest_methods_are_shown_at_first():
    assert default_methods(["a", "b"]) == ["a", "b"]
    assert default_methods(list("abcdefgh")) == list("adefgh")
