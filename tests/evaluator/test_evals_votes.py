"""Votes of eval runs, and maj@k over them."""

from collections import Counter
from collections.abc import Hashable, Sequence
from pathlib import Path

import pytest
from eval_runs import add_eval_run
from runs import open_empty

from evaluator.evals.votes import GOLD, UNKNOWN, UNSETTLED, Votes, majority_values, make_votes, read_answers
from evaluator.grading import GRADER_VERSION, Clustering, ClusterJob


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
    assert votes.votes == counted(
        (GOLD, GOLD, seven, seven, ("wrong", "?"), None), (UNKNOWN, UNKNOWN, ("wrong", "4"))
    )


def test_unknown_grades_bound_the_majority() -> None:
    votes = Votes(("p",), counted((GOLD, GOLD, UNKNOWN, ("wrong", "4"), ("wrong", "4"))))
    low, high = majority_values(votes, 5)
    assert (low.tolist(), high.tolist()) == ([0.0], [1.0])
    low, high = majority_values(votes, 1)
    assert (low.tolist(), high.tolist()) == ([pytest.approx(2 / 5)], [pytest.approx(3 / 5)])


def test_an_unsettled_answer_bounds_the_majority_too() -> None:
    def unsure(jobs: Sequence[ClusterJob]) -> list[Clustering]:
        return [Clustering(("4",), (0, None), None, 1, (1,)) for _ in jobs]

    graded = [("correct", "1"), ("correct", "1"), ("wrong", "4"), ("wrong", "4"), ("wrong", "x")]
    votes = make_votes([{"p": Counter(graded)}], unsure)
    four = ("wrong", ("class", 0))
    assert votes.votes == counted((GOLD, GOLD, four, four, (UNSETTLED, "x")))
    low, high = majority_values(votes, 5)
    assert (low.tolist(), high.tolist()) == ([0.0], [0.5])
    unsettled = counted((GOLD, GOLD, (UNSETTLED, "x"), (UNSETTLED, "y")))
    low, high = majority_values(Votes(("p",), unsettled), 4)
    assert (low.tolist(), high.tolist()) == ([0.5], [1.0])
