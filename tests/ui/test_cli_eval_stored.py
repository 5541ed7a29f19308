"""Commands on evaluations that are stored: graded anew, their responses shown, hidden or made harmless."""

import json
from pathlib import Path
from typing import Any

from command_line import CommandLine, words
from eval_runs import add_eval_run, make_problems

from service.database import Database


def test_boxed_answers_alone_are_counted_beside_all(cli: CommandLine) -> None:
    def said(place: Any, ordinal: int, grade: str) -> str:
        answer = place.problem.answer
        return f"\\boxed{{{answer}}}" if ordinal else f"The answer is {answer}."

    with Database.open("tagrpo.db") as db:
        add_eval_run(db, "a", [(4, 0, 0)] * 2, problems=make_problems(2), texts=said, graded=[0, 0])
    everything = json.loads(cli("eval", "grade", "a", "--json").out)
    assert (everything["correct"], everything["compared_with"], everything["changed_by_source"]) == (
        8,
        None,
        [],
    )
    boxed = cli("eval", "grade", "a", "--answers", "boxed", "--changes")
    assert boxed.code == 0, boxed.err
    assert "8 new grades by" in boxed.out
    assert "6 of 8 correct" in boxed.out
    assert "2 verdicts changed: correct to wrong 2" in boxed.out
    as_json = json.loads(cli("eval", "grade", "a", "--answers", "boxed", "--json").out)
    assert as_json["grader"].endswith("boxed answers only")
    assert as_json["changed_by_source"] == [
        {"old": "correct", "new": "wrong", "old_source": "marker", "new_source": None, "grades": 2}
    ]
    shown = json.loads(cli("runs", "show", "a", "--json").out)
    assert (shown["correct"], shown["sources"]["marker"]) == (8, 0.25)
    assert "answers: box 75.0%, marker 25.0%" in cli("runs", "show", "a").out
    assert "found in: marker" in cli("eval", "samples", "a", "0").out
    reported = json.loads(cli("eval", "report", "a", "--answers", "boxed", "--k", "1", "--json").out)
    assert (reported["scores"][0]["value"], reported["scores"][0]["none_found"]) == (0.75, 0.25)


def test_nothing_of_a_gated_benchmark_is_printed(cli: CommandLine) -> None:
    with Database.open("tagrpo.db") as db:
        for version in ("old grader", "older grader"):
            add_eval_run(
                db,
                version.split()[0],
                [(2, 1, 0)],
                benchmark="gpqa",
                texts=lambda *_: "SECRET \\boxed{SECRET}",
                answers=[["SECRET", "SECRET"]],
                grader_version=version,
            )
    for arguments in (
        ["eval", "samples", "old", "0"],
        ["eval", "samples", "old", "0", "--full", "--json"],
        ["eval", "grade", "old", "--changes"],
        ["eval", "grade", "old", "--changes", "--json"],
    ):
        done = cli(*arguments)
        assert done.code == 0, done.err
        assert "SECRET" not in done.out + done.err
        assert "what is 0 + 1" not in done.out + done.err


def test_files_of_rows_are_for_benchmarks(cli: CommandLine) -> None:
    done = cli("eval", "run", "neighbors=x", "--from", "y.jsonl", "--model", "m")
    assert (done.code, "sources apply only to benchmarks" in words(done.err)) == (2, True)


def test_commands_on_runs_of_neighbors_point_to_those_on_eval_runs(cli: CommandLine) -> None:
    with Database.open("tagrpo.db") as db:
        add_eval_run(db, "base.sums", [(1, 1, 0)])
    done = cli("sets", "publish", "x", "--run", "base.sums")
    assert (done.code, "tagrpo runs show base.sums" in words(done.err)) == (2, True)
    done = cli("resume", "base.sums")
    assert (done.code, "Repeat the command that started it" in words(done.err)) == (2, True)
    assert "there are no runs yet" in words(cli("rephrase", "list").err)


def test_a_persons_grade_counts_is_said_and_can_be_left_out(cli: CommandLine) -> None:
    with Database.open("tagrpo.db") as db:
        add_eval_run(db, "base.test", [(4, 1, 0), (4, 0, 0)])
    graded = cli(
        "eval", "human-grade", "base.test", "1", "2", "--correct", "--reviewer", "ada", "--comment", "=1/2"
    )
    assert graded.code == 0, graded.err
    assert "correct by ada; the grader says wrong" in graded.out
    assert "1 human grade counted, 1 different from the grader's" in graded.out
    again = json.loads(
        cli("eval", "human-grade", "base.test", "1", "2", "--correct", "--reviewer", "ada", "--json").out
    )
    assert again["pass_at_k"][0] == {"k": 1, "grader": 0.125, "human": 0.25}
    assert "1 human grade counted, 1 different from the grader's" in cli("runs", "show", "base.test").out
    values = {}
    for grades in ("human", "grader"):
        report = json.loads(cli("eval", "report", "base", "--k", "1", "--grades", grades, "--json").out)
        values[grades] = report["grades"], report["scores"][0]["value"]
        assert any("1 human grade" in note for note in report["notes"])
    assert values == {"human": ("human", 0.25), "grader": ("grader", 0.125)}

    assert "correct by a person, wrong" in cli("eval", "samples", "base.test", "1", "--grade", "human").out

    assert cli("eval", "human-grades", "base.test", "--out", "grades.csv").code == 0
    assert "'=1/2" in Path("grades.csv").read_text(encoding="utf-8")  # no spreadsheet takes it for a formula
    refused = cli("eval", "human-grades", "base.test", "--out", "grades.csv")
    assert (refused.code, "--overwrite" in refused.err) == (2, True)
    taken = cli("eval", "human-grade", "base.test", "1", "2", "--withdraw", "--reviewer", "ada")
    assert "by ada withdrawn" in taken.out
    missing = cli("eval", "human-grade", "base.test", "1", "9", "--wrong")
    assert (missing.code, "has no response 9" in missing.err) == (2, True)


def test_comments_on_a_gated_benchmark_are_left_out(cli: CommandLine) -> None:
    with Database.open("tagrpo.db") as db:
        add_eval_run(db, "base", [(2, 1, 0)], benchmark="gpqa-diamond")
    cli("eval", "human-grade", "base", "0", "1", "--correct", "--comment", "SECRET", "--reviewer", "ada")
    for options in ((), ("--json",)):
        listed = cli("eval", "human-grades", "base", *options)
        assert listed.code == 0, listed.err
        assert "ada" in listed.out
        assert "SECRET" not in listed.out


def test_samples_are_searched_but_those_of_gated_benchmarks(cli: CommandLine) -> None:
    with Database.open("tagrpo.db") as db:
        add_eval_run(db, "open", [(4, 1, 0)])
        add_eval_run(db, "gated", [(4, 1, 0)], benchmark="gpqa-diamond", seed=1)
    page = json.loads(cli("eval", "samples", "open", "0", "--text", "BOXED{-2}", "--json").out)
    assert [sample["ordinal"] for sample in page["samples"]] == [1]
    refused = cli("eval", "samples", "gated", "0", "--text", "boxed")
    assert (refused.code, "cannot be searched" in refused.err) == (2, True)
