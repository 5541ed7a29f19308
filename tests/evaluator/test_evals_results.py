"""Results of eval runs, read from runs made of nothing, and the votes of their samples."""

from collections import Counter
from collections.abc import Hashable, Sequence
from pathlib import Path

import pytest
from eval_runs import add_eval_run, regrade
from runs import open_empty
from sqlalchemy import update

from evaluator.evals.counts import Block
from evaluator.evals.overview import choose_version, runs_overview
from evaluator.evals.problems import run_problems
from evaluator.evals.results import GOLD, UNKNOWN, load_result, majority_values, make_votes, read_answers
from evaluator.grading import GRADER_VERSION, Clustering, ClusterJob
from evaluator.passk import curve
from service.asks.store import add_tasks
from service.asks.tables import FAILED_TASK, OPEN, TaskRow
from service.database import Database
from service.errors import InputError
from service.runs.store import Run


def lose(db: Database, run: Run, position: int, first: int, count: int, *, final: bool = True) -> None:
    """Let a request for samples of a problem get no answer."""
    with db.write() as session:
        item = Block(run_problems(session, run.id)[position].id, first, count).item
        add_tasks(session, run.id, [item])
        session.execute(
            update(TaskRow)
            .where(TaskRow.item == item)
            .values(state=FAILED_TASK if final else OPEN, error="time-out: none")
        )


@pytest.mark.parametrize("final", [False, True])
def test_samples_that_were_asked_for_and_are_missing_are_unknown(db: Database, final: bool) -> None:
    run = add_eval_run(db, "a", [(8, 3, 1), (5, 5, 0), (8, 0, 0)])
    lose(db, run, 1, 5, 3, final=final)
    with db.read() as session:
        result = load_result(session, run)
        (line,) = runs_overview(session)
        answers = read_answers(session, run.id, result.grader_version)
    assert result.counts.n.tolist() == [8, 8, 8]
    assert result.counts.unknown.tolist() == [1, 3, 0]
    assert (result.samples, result.unknown, result.missing) == (21, 1, 3)
    point = curve(result.counts, [8])[8]  # as if the three were graded unknown
    assert (point.value, point.value_high) == (pytest.approx(2 / 3), pytest.approx(2 / 3))
    assert curve(result.counts, [1])[1].value_high == pytest.approx((4 / 8 + 8 / 8 + 0) / 3)
    assert (
        line.to_json()["pass_at_1"]
        == curve(result.counts, [1])[1].value
        == pytest.approx((3 / 8 + 5 / 8 + 0) / 3)
    )
    assert (line.missing, line.fewest) == (3, 5)
    assert [votes.total() for votes in answers.values()] == [8, 8, 8]


def test_grades_of_other_versions_serve_and_are_named(db: Database) -> None:
    run = add_eval_run(db, "a", [(4, 3, 0)], grader_version="old 1")
    regrade(db, run, [(4, 2, 0)], "old 2")
    with db.read() as session:
        newest, asked = load_result(session, run), load_result(session, run, "old 1")
    assert (newest.grader_version, newest.counts.correct.tolist()) == ("old 2", [2])
    assert (asked.grader_version, asked.counts.correct.tolist()) == ("old 1", [3])
    regrade(db, run, [(4, 1, 0)], GRADER_VERSION)
    with db.read() as session:
        assert load_result(session, run).counts.correct.tolist() == [1]
        with pytest.raises(InputError, match="no grade by 'older'"):
            load_result(session, run, "older")


def test_runs_are_read_by_one_version_of_the_grader(db: Database) -> None:
    first = add_eval_run(db, "a", [(4, 3, 0)], grader_version="old 1")
    second = add_eval_run(db, "b", [(4, 3, 0)])
    with db.read() as session, pytest.raises(InputError, match=r"a, b were graded by different versions"):
        choose_version(session, [first, second])
    regrade(db, second, [(4, 2, 0)], "old 1")
    with db.read() as session:
        assert choose_version(session, [first, second]) == "old 1"
        assert choose_version(session, [second]) == GRADER_VERSION


def same_number(jobs: Sequence[ClusterJob]) -> list[Clustering]:
    """Group answers by the number they spell; "?" cannot be read."""
    found = []
    for job in jobs:
        numbers = [None if answer in (None, "?") else float(str(answer)) for answer in job.answers]
        classes = list(dict.fromkeys(number for number in numbers if number is not None))
        places = tuple(None if number is None else classes.index(number) for number in numbers)
        found.append(Clustering(tuple(str(one) for one in classes), places, None, 0))
    return found


def counted(*problems: Sequence[Hashable | None]) -> tuple[Counter[Hashable | None], ...]:
    return tuple(map(Counter, problems))


def test_equal_wrong_answers_are_one_vote_however_they_are_spelled(tmp_path: Path) -> None:
    with open_empty(tmp_path / "t.db") as db:
        run = add_eval_run(
            db, "a", [(6, 2, 0), (3, 0, 2)], answers=[["1", "1.0", "7", "7.0", "?", None], [None, None, "4"]]
        )
        with db.read() as session:
            votes = make_votes([read_answers(session, run.id, GRADER_VERSION)], same_number)
    seven = ("wrong", ("class", 0))
    assert tuple(votes.values()) == counted(
        (GOLD, GOLD, seven, seven, ("wrong", "?"), None), (UNKNOWN, UNKNOWN, ("wrong", "4"))
    )


def test_unknown_grades_bound_the_majority() -> None:
    votes = {"p": counted((GOLD, GOLD, UNKNOWN, ("wrong", "4"), ("wrong", "4")))[0]}
    low, high = majority_values(votes, 5)
    assert (low.tolist(), high.tolist()) == ([0.0], [1.0])
    low, high = majority_values(votes, 1)
    assert (low.tolist(), high.tolist()) == ([pytest.approx(2 / 5)], [pytest.approx(3 / 5)])


def test_tokens_come_from_receipts_where_samples_do_not_tell(db: Database) -> None:
    run = add_eval_run(db, "a", [(4, 1, 0), (2, 0, 0)], tokens=lambda position, _: 40 if position else None)
    with db.read() as session:
        assert load_result(session, run).mean_tokens == pytest.approx((4 * 100 + 2 * 40) / 6)


def test_an_unknown_price_is_no_zero(db: Database) -> None:
    run = add_eval_run(db, "a", [(2, 1, 0)], usd=None)
    with db.read() as session:
        assert load_result(session, run).usd is None
