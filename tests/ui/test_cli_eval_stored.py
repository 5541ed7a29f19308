"""Commands on evaluations that are stored: graded again, shown, labeled by a person, hidden if gated."""

from typing import Any

import pytest
from command_line import squeezed, words
from eval_runs import add_eval_run, make_problems
from sqlalchemy import text

from evaluator.grading import GradeValue
from service.database import Database


@pytest.fixture
def cli(cli):
    return cli.within("eval")


def half_boxed(db: Database, name: str) -> None:
    """Add a run of eight correct answers, six of them boxed, without grades."""

    def said(place: Any, ordinal: int, grade: str) -> str:
        answer = place.problem.answer
        return f"\\boxed{{{answer}}}" if ordinal else f"The answer is {answer}."

    add_eval_run(db, name, [(4, 0, 0)] * 2, problems=make_problems(2), texts=said, graded=[0, 0])


def test_boxed_answers_alone_are_counted_next_to_all(cli):
    with Database.open("tagrpo.db") as db:
        half_boxed(db, "a")
        half_boxed(db, "b")
        add_eval_run(db, "all-boxed", [(4, 2, 0)])
    everything = cli.json("score", "a")
    summary = [everything[name] for name in ("correct", "compared_with", "changed_by_source")]
    assert summary == [8, None, []]
    boxed = cli.ok("score", "a", "--answers", "boxed", "--changes")
    assert {"graded 8", "correct 6", "wrong 2", "changed correct to wrong=2"} <= {*squeezed(boxed.out)}
    assert "old extracted" in boxed.out
    unchanged = cli("score", "all-boxed", "--answers", "boxed", "--changes").out
    assert "old extracted" not in unchanged
    again = cli.json("score", "a", "answers=boxed")
    assert (again["graded"], again["grader"].endswith("boxed answers only")) == (0, True)
    assert again["changed_by_source"] == [
        {"old": "correct", "new": "wrong", "old_source": "marker", "new_source": None, "grades": 2}
    ]
    shown = cli.within("runs").json("show", "a")
    assert (shown["correct"], shown["sources"]["marker"]) == (8, 0.25)
    assert "marker" in cli("show", "a", "0").out
    reported = cli.json("report", "a", "--answers", "boxed", "--k", "1")["scores"][0]
    assert (reported["value"], reported["none_found"]) == (0.75, 0.25)

    cli.ok("score", "b", "--answers", "boxed")
    cli.ok("compare", "a", "b")
    assert "needs a judge" in cli("score", "a", "--for", "all").err
    assert "--dry-run estimates the cost of a judge" in cli("score", "a", "--dry-run").err


def test_grades_of_another_version_are_compared(cli):
    with Database.open("tagrpo.db") as db:
        half_boxed(db, "a")
        cli("score", "a")
        with db.write() as session:
            session.execute(text("INSERT INTO graders (id, version) VALUES (99, 'old grader')"))
            value = "CASE WHEN sample_id % 4 = 0 THEN 'unknown' ELSE value END"
            columns = f"sample_id, 99, run_problem_id, {value}, reason, extracted, source"
            session.execute(text(f"INSERT INTO grades SELECT {columns} FROM grades"))
            counts = ", ".join(f"COUNT(*) FILTER (WHERE value = '{value}')" for value in GradeValue)
            made = f"SELECT run_problem_id, 99, {counts} FROM grades WHERE grader_id = 99 GROUP BY 1"
            session.execute(text(f"INSERT INTO grade_counts {made}"))
    told = cli("score", "a", "--changes")
    assert {"compared with old grader", "changed unknown to correct=2"} <= {*squeezed(told.out)}
    as_json = cli.json("score", "a", "--changes")
    assert (as_json["graded"], as_json["changed"]) == (0, {"unknown to correct": 2})
    assert [(change["old"], change["new"]) for change in as_json["changes"]] == [("unknown", "correct")] * 2


def test_responses_are_shown_searched_and_paged(cli):
    with Database.open("tagrpo.db") as db:
        add_eval_run(db, "open", [(8, 4, 0)] * 3)
    page = cli.json("show", "open", "2", "--limit", "3")
    assert ([sample["ordinal"] for sample in page["samples"]], page["after"]) == ([0, 1, 2], 2)
    by_id = cli.json("show", "open", page["problem_id"], "--after", "6")
    assert [(sample["ordinal"], sample["value"]) for sample in by_id["samples"]] == [(7, "wrong")]
    assert "more:" not in cli("show", "open", page["problem_id"], "--after", "6").out
    assert "more: --after 1" in cli("show", "open", "0", "--limit", "2").out
    assert "no such samples" in cli("show", "open", "0", "--grade", "unknown").out
    found = cli.json("show", "open", "0", "--text", "BOXED{-2}")["samples"]
    assert found
    assert all("boxed{-2}" in sample["text"] for sample in found)
    assert "0 to 2" in cli.refused("show", "open", "6")


def test_nothing_of_a_gated_benchmark_is_printed(cli):
    with Database.open("tagrpo.db") as db:
        for version in ("old grader", "older grader"):
            texts = {"texts": lambda *_: "SECRET \\boxed{SECRET}", "answers": [["SECRET", "SECRET"]]}
            of = {"benchmark": "gpqa", "grader_version": version}
            add_eval_run(db, version.split()[0], [(2, 1, 0)], **texts, **of)
    label = ("label", "old", "0", "1", "--correct", "--comment", "SECRET", "--reviewer", "ada")
    cli.ok(*label)
    for arguments in (("show", "old", "0", "--full"), ("score", "old", "--changes"), ("label", "old")):
        for form in ((), ("--json",)):
            done = cli.ok(*arguments, *form)
            assert "SECRET" not in done.out + done.err
            assert "what is 0 + 1" not in done.out + done.err
    assert "cannot be searched" in cli.refused("show", "old", "0", "--text", "boxed")


def test_a_persons_grade_counts_is_reported_and_can_be_left_out(cli):
    with Database.open("tagrpo.db") as db:
        add_eval_run(db, "base.test", [(4, 1, 0), (4, 0, 0)])
    label = ("label", "base.test", "1", "2", "--reviewer", "ada")
    graded = cli.ok(*label, "--correct", "--comment", "=1/2")
    for said in ("recorded correct by ada", "grader wrong", "human grades 1", "grades changed by people 1"):
        assert said in squeezed(graded.out)
    again = cli.json(*label, "--correct")
    assert again["pass_at_k"][0] == {"k": 1, "grader": 0.125, "human": 0.25}
    values = {}
    for grades in ("human", "grader"):
        report = cli.json("report", "base", "--k", "1", "--grades", grades)
        values[grades] = report["grades"], report["scores"][0]["value"]
        assert any("1 human grade" in note for note in report["notes"])
    assert values == {"human": ("human", 0.25), "grader": ("grader", 0.125)}
    [sample] = cli.json("show", "base.test", "1", "--grade", "human")["samples"]
    assert (sample["human"], sample["value"]) == ("correct", "wrong")

    assert "=1/2" in cli("label", "base.test").out
    assert "by ada, now withdrawn" in cli(*label, "--withdraw").out
    cli.refuses(
        {
            "label base.test 1 9 --wrong": "has no response 9",
            "label base.test --wrong": "name the problem and the response",
            "label base.test 1 --wrong": "give a problem, a response and one of",
            "label base.test 1 2 --wrong --withdraw --reviewer ada": "one of --correct, --wrong and",
        }
    )


def test_commands_on_runs_of_neighbors_point_to_those_on_eval_runs(cli):
    with Database.open("tagrpo.db") as db:
        add_eval_run(db, "base.sums", [(1, 1, 0)])
    anywhere = cli.within()
    assert "is of kind eval, not propose" in anywhere.refused("sets", "publish", "x", "--run", "base.sums")
    assert "Repeat the command that started it" in anywhere.refused("resume", "base.sums")
    assert "there are no rephrasing runs yet" in words(anywhere("rephrase", "list").err)
