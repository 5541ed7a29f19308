"""Where answers were found: counts by place, and which answers count."""

import pytest
from counted import assert_counts_hold
from eval_runs import add_eval_run, make_problems, regrade

from evaluator.evals.grading import Graded, grade_changes, grade_run
from evaluator.evals.overview import choose_version, other_version, runs_overview, shown_grader
from evaluator.evals.problems import PlacedProblem
from evaluator.evals.results import load_result
from evaluator.evals.runs import EvalSpec
from evaluator.evals.sources import PLACES, Sources, read_sources
from evaluator.grading import GRADER_VERSION, Grader
from evaluator.grading.versions import answers_of, find_grader, version_taking
from service.database import Database
from service.errors import InputError

ALL, BOXED = version_taking("all"), version_taking("boxed")
SAID = {"correct": "last sentence", "wrong": "marker", "unknown": None}


def sentence(place: PlacedProblem, ordinal: int, grade: str) -> str:
    """Every response is right; those of even ordinals box their answer."""
    answer = place.problem.answer
    return f"\\boxed{{{answer}}}" if ordinal % 2 == 0 else f"The answer is {answer}."


def test_grades_are_counted_by_place(db: Database) -> None:
    run = add_eval_run(db, "a", [(8, 3, 1), (5, 0, 0)], sources=SAID)
    other = add_eval_run(db, "b", [(4, 4, 0)], graded=[0])
    assert_counts_hold(db, "grade_sources")
    with db.read() as session:
        grader = find_grader(session, ALL)
        found = read_sources(session, {run.id: grader, other.id: grader, "gone": None})
        result = load_result(session, run)
    assert dict(zip(PLACES, found[run.id].grades, strict=True)) == {
        "box": 0,
        "marker": 9,
        "last sentence": 3,
        "none found": 1,
    }
    assert found[run.id].correct == (0, 0, 3, 0)
    assert result.sources == found[run.id]
    assert result.sources.shares == {
        "box": 0.0,
        "marker": 9 / 13,
        "last sentence": 3 / 13,
        "none found": 1 / 13,
    }
    assert result.sources.correct_shares is not None
    assert result.sources.correct_shares["last sentence"] == 1.0
    assert (found[other.id], found["gone"]) == (Sources(), Sources())
    assert Sources().shares is None


def test_a_result_counts_the_places_of_originals_alone(db: Database) -> None:
    problems = make_problems(2)
    placed = [PlacedProblem(one, group_id="g", variant=i) for i, one in enumerate(problems)]
    run = add_eval_run(db, "a", [(4, 4, 0), (2, 2, 0)], problems=placed)
    with db.read() as session:
        assert load_result(session, run).sources.grades == (4, 0, 0, 0)
        assert runs_overview(session)[0].sources.grades == (6, 0, 0, 0)


def test_boxed_answers_alone_count_where_the_run_says_so(db: Database) -> None:
    run = add_eval_run(db, "a", [(4, 0, 0)], texts=sentence, graded=[0])
    with Grader(workers=1) as grader:
        for version, expected in ((ALL, Graded(4, 0, 0)), (BOXED, Graded(2, 2, 0))):
            assert grade_run(db, run.id, grader, lambda *_: None, version=version) == expected
    with db.read() as session:
        assert load_result(session, run).sources.grades == (2, 2, 0, 0)
        boxed = load_result(session, run, choose_version(session, [run], "boxed"))
        assert (boxed.grader_version, boxed.sources.grades) == (BOXED, (2, 0, 0, 2))
        changes = grade_changes(session, run, ALL, BOXED)
        assert other_version(session, run.id, BOXED) == ALL
    assert [tuple(one[name] for name in ("old", "old_source", "new", "new_source")) for one in changes] == [
        ("correct", "marker", "wrong", None)
    ] * 2


def test_which_answers_count_is_part_of_the_run(db: Database) -> None:
    plain = add_eval_run(db, "a", [(2, 1, 0)])
    boxed = add_eval_run(db, "b", [(2, 1, 0)], counting="boxed")
    assert "answers" not in plain.spec  # as in runs made before there was a choice
    assert (boxed.spec["answers"], EvalSpec.from_json(boxed.spec).answers) == ("boxed", "boxed")
    assert EvalSpec.from_json(plain.spec).answers == "all"
    with pytest.raises(InputError, match="answers is 'some'; give all or boxed"):
        EvalSpec.from_json({**plain.spec, "answers": "some"})


def test_the_answers_that_a_run_was_made_with_are_reported_first(db: Database) -> None:
    run = add_eval_run(db, "a", [(4, 1, 0)], grader_version=BOXED, counting="boxed")
    regrade(db, run, [(4, 2, 0)], ALL)
    older = add_eval_run(db, "b", [(4, 1, 0)], grader_version="old")
    regrade(db, older, [(4, 2, 0)], BOXED)
    alone = add_eval_run(db, "c", [(4, 1, 0)], grader_version=BOXED, counting="boxed")
    with db.read() as session:
        for one, version in ((run, BOXED), (older, "old")):
            shown = shown_grader(session, one.id)
            assert shown is not None
            assert shown.version == choose_version(session, [one]) == version
        assert choose_version(session, [run], "all") == ALL
        assert choose_version(session, [run, older]) == BOXED  # the only one that graded both
        with pytest.raises(InputError, match=r"takes all answers; .*`tagrpo eval score c --answers all`"):
            choose_version(session, [older, alone], "all")
        with pytest.raises(InputError, match="4 of 4 samples have no grade by 'never'"):
            load_result(session, alone, "never")


def test_versions_say_which_answers_they_take() -> None:
    assert (ALL, answers_of(ALL), answers_of(BOXED), answers_of("older")) == (
        GRADER_VERSION,
        "all",
        "boxed",
        "all",
    )
