"""Samples of eval runs: what is planned, what grows, what is counted; problems and their ids."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import insert, text, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from evaluator.evals.missing import (
    Block,
    asked_in_vain,
    block_item,
    missing_by_problem,
    most_wanted,
    samples_lost,
    unfinished_blocks,
)
from evaluator.evals.problems import (
    PlacedProblem,
    RunProblem,
    make_problem,
    number_copies,
    problems_hash,
    run_problems,
    store_run_problems,
)
from evaluator.evals.running import NewSample, _gaps, insert_samples, plan_blocks, sample_seed
from evaluator.evals.runs import EVAL, EvalSpec
from evaluator.evals.samples import count_samples
from evaluator.evals.tables import GradeRow
from evaluator.grading import AnswerKind
from evaluator.grading.versions import find_grader, grader_id
from service.asks.tables import DONE, FAILED_TASK, TaskRow
from service.database import Database
from service.models.settings import PromptSpec, SamplingSettings
from service.runs.store import open_run

PROBLEMS = number_copies(
    [make_problem("What is 1 + 1?", "2"), make_problem("What is 2 + 2?", "4", AnswerKind.INTEGER)]
)


def open_eval(session: Session, name: str = "r") -> tuple[str, list[RunProblem]]:
    run, _ = open_run(session, name=name, kind=EVAL, spec={"name": name}, question_ids=[], versions={})
    store_run_problems(session, run.id, [PlacedProblem(problem) for problem in PROBLEMS])
    return run.id, run_problems(session, run.id)


def draw(session: Session, run_id: str, *, stop: str = "stop") -> list[tuple[int, int]]:
    """Store the samples of every unfinished block; return (problem of the run, ordinal) of each."""
    drawn = []
    for block in unfinished_blocks(session, run_id):
        places = [(block.run_problem_id, block.first + place) for place in range(block.count)]
        insert_samples(
            session,
            [NewSample(problem, at, None, None, f"answer {at}", stop, 10, 5) for problem, at in places],
        )
        drawn += places
    session.execute(update(TaskRow).where(TaskRow.run_id == run_id).values(state=DONE))
    return drawn


def test_a_run_grows_by_what_is_missing(db: Database) -> None:
    with db.write() as session:
        run_id, problems = open_eval(session)
        assert plan_blocks(session, run_id, problems, 6, 4) == 4  # 0-3, 4-5 of each problem
        first = draw(session, run_id)
        assert plan_blocks(session, run_id, problems, 6, 4) == 0
        assert plan_blocks(session, run_id, problems, 11, 4) == 4  # 6-9, 10 of each
        assert plan_blocks(session, run_id, problems, 11, 4) == 0  # planned already
        second = draw(session, run_id)
        assert missing_by_problem(session, run_id, 7) == {problem.id: 0 for problem in problems}
        assert missing_by_problem(session, run_id, 14) == {problem.id: 3 for problem in problems}
    assert sorted(first) == sorted((p.id, ordinal) for p in problems for ordinal in range(6))
    assert sorted(second) == sorted((p.id, ordinal) for p in problems for ordinal in range(6, 11))


def test_blocks_that_failed_are_lost_and_asked_in_vain(db: Database) -> None:
    with db.write() as session:
        run_id, problems = open_eval(session)
        plan_blocks(session, run_id, problems, 6, 4)
        failed = block_item(Block(problems[0].id, 4, 2))
        session.execute(
            update(TaskRow).where(TaskRow.item == failed).values(state=FAILED_TASK, error="time-out: none")
        )
        assert samples_lost(session, run_id, 6) == 2
        assert samples_lost(session, run_id, 5) == 1
        assert asked_in_vain(session, [run_id])[run_id] == {problems[0].id: 2}
        assert most_wanted(session, run_id) == 6


def test_counts_tell_grades_of_one_grader_and_truncated_responses(db: Database) -> None:
    with db.write() as session:
        run_id, problems = open_eval(session)
        plan_blocks(session, run_id, problems[:1], 4, 4)
        draw(session, run_id, stop="length")
        old, new = grader_id(session, "1"), grader_id(session, "2")
        assert grader_id(session, "1") == old
        assert find_grader(session, "3") is None
        ids = session.scalars(text("SELECT id FROM samples ORDER BY ordinal")).all()
        values = {new: ("correct", "wrong", "unknown"), old: ("wrong",) * 4}
        for grader, given_values in values.items():
            session.execute(
                insert(GradeRow),
                [
                    {
                        "sample_id": sample,
                        "grader_id": grader,
                        "run_problem_id": problems[0].id,
                        "value": value,
                        "reason": "exact",
                        "extracted": None,
                        "source": None,
                    }
                    for sample, value in zip(ids, given_values, strict=False)
                ],
            )
        one, other = count_samples(session, run_id, new)
        assert (one.samples, one.truncated, one.correct, one.wrong, one.unknown) == (4, 4, 1, 1, 1)
        assert one.graded == 3
        assert (other.samples, other.graded) == (0, 0)
        assert count_samples(session, run_id, old)[0].wrong == 4
        assert count_samples(session, run_id, None)[0].graded == 0


def test_samples_and_grades_are_never_changed(db: Database) -> None:
    with db.write() as session:
        run_id, problems = open_eval(session)
        plan_blocks(session, run_id, problems, 1, 1)
        draw(session, run_id)
    for statement in ("UPDATE samples SET seed = 1", "DELETE FROM sample_texts", "DELETE FROM problems"):
        with pytest.raises(IntegrityError, match="append-only"), db.write() as session:
            session.execute(text(statement))


def test_a_seed_follows_from_run_problem_and_ordinal() -> None:
    seeds = {sample_seed(s, p, o) for s in (0, 1) for p in ("p_1", "p_2") for o in range(50)}
    assert len(seeds) == 200
    assert all(0 <= seed < 2**31 for seed in seeds)
    assert sample_seed(0, "p_1", 3) == sample_seed(0, "p_1", 3)


def test_a_repeated_problem_is_a_copy_with_its_own_id() -> None:
    same = [make_problem("Q\r\n", " 5 "), make_problem("Q", "5"), make_problem("Q", "5", tolerance="1e-2")]
    first, second, third = number_copies(same)
    assert first.id != second.id
    assert (second.copy, third.copy) == (1, 0)
    assert problems_hash([first, second]) != problems_hash([second, first])


def test_a_spec_comes_back_from_json() -> None:
    spec = EvalSpec(
        problems="aime24",
        problems_hash="0" * 64,
        size=30,
        source={"file": "a.jsonl"},
        model="m",
        engine={"sampler": "remote"},
        prompt=PromptSpec(
            template="{question}\nBox it.", system="s", chat_template_kwargs={"enable_thinking": False}
        ),
        sampling=SamplingSettings(seed=3),
    )
    assert EvalSpec.from_json(spec.to_json()) == spec
    assert spec.prompt.fill("1 + 1 = {?}") == "1 + 1 = {?}\nBox it."


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: PromptSpec(template="no place"), "must contain {question}"),
        (lambda: PromptSpec(template="{question}", form="raw", system="s"), "need a chat prompt"),
        (lambda: SamplingSettings(samples_per_request=0), "greater than or equal to 1"),
    ],
)
def test_settings_that_cannot_be_used_are_refused(make: object, says: str) -> None:
    assert callable(make)
    with pytest.raises(ValueError, match=says):
        make()


@given(st.sets(st.integers(0, 40)), st.integers(0, 40), st.integers(1, 9))
def test_gaps_cover_exactly_what_is_missing(covered: set[int], n: int, longest: int) -> None:
    gaps = list(_gaps(covered, n, longest))
    ordinals = [ordinal for first, count in gaps for ordinal in range(first, first + count)]
    assert ordinals == [ordinal for ordinal in range(n) if ordinal not in covered]
    assert all(1 <= count <= longest for _, count in gaps)


def test_a_problem_that_stands_in_two_groups_is_drawn_for_each(db: Database) -> None:
    with db.write() as session:
        run, _ = open_run(session, name="r", kind=EVAL, spec={}, question_ids=[], versions={})
        shared = PROBLEMS[0]
        store_run_problems(session, run.id, [PlacedProblem(shared, "q_1"), PlacedProblem(shared, "q_2", 1)])
        problems = run_problems(session, run.id)
        assert plan_blocks(session, run.id, problems, 3, 8) == 2
        draw(session, run.id)
        counts = count_samples(session, run.id, None)
    assert [(c.group_id, c.variant, c.samples) for c in counts] == [("q_1", 0, 3), ("q_2", 1, 3)]
