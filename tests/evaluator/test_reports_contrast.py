"""Which problems one run solves and another does not."""

import pytest
from eval_runs import add_eval_run, make_problems

from evaluator.evals.problems import PlacedProblem
from evaluator.passk.estimators import pass_at_k
from evaluator.reports.contrast import contrast_runs, contrast_texts
from service.database import Database
from service.errors import InputError


def test_problems_stand_by_the_size_of_their_difference(db: Database) -> None:
    problems = make_problems(5)
    first = add_eval_run(db, "a", [(8, 0, 0), (8, 8, 0), (8, 4, 0), (8, 8, 0)], problems=problems[:4])
    counts = [(8, 8, 0), (8, 0, 1), (8, 6, 0), (2, 2, 0), (8, 8, 0)]
    second = add_eval_run(db, "b", counts, problems=problems)
    with db.read() as session:
        found = contrast_runs(session, first.id, second.id, 4)
        assert (found.only_first, found.only_second, found.too_few) == (0, 1, 1)
        ids = [one.problem_id for one in found.problems]
        assert ids == [problems[0].id, problems[1].id, problems[2].id]
        assert [one.difference for one in found.problems[:2]] == [1.0, -1.0]
        assert found.problems[2].first == pytest.approx(pass_at_k(8, 4, 4))
        assert found.numbers() == {"first only": 1, "second only": 1, "both": 1, "neither": 0}
        (only,) = found.page("second only")
        texts = contrast_texts(session, [only])
        assert [texts[one.run_problem_id].text for one in only.counts] == [problems[0].text] * 2
        assert [one.problem_id for one in found.page(after=ids[0], limit=1)] == [ids[1]]
        assert found.page("both", after=ids[2]) == []
        with pytest.raises(InputError, match="not in this list"):
            found.page("both", after=ids[0])
        with pytest.raises(InputError, match="k is 0"):
            contrast_runs(session, first.id, second.id, 0)


def test_equal_differences_stand_by_the_right_samples_behind_them(db: Database) -> None:
    problems = make_problems(3)
    first = add_eval_run(db, "a", [(8, 1, 0), (8, 8, 0), (8, 4, 0)], problems=problems)
    second = add_eval_run(db, "b", [(8, 0, 0)] * 3, problems=problems)
    with db.read() as session:
        found = contrast_runs(session, first.id, second.id, 8)
    assert [one.difference for one in found.problems] == [-1.0, -1.0, -1.0]
    assert [one.counts[0].correct for one in found.problems] == [8, 4, 1]


def test_neighbors_can_be_left_out_of_problems_and_numbers(db: Database) -> None:
    problems = make_problems(3)
    placed = [PlacedProblem(problems[0]), PlacedProblem(problems[1], "g", 1), PlacedProblem(problems[2])]
    first = add_eval_run(db, "a", [(4, 1, 0), (4, 2, 0)], problems=placed[:2])
    second = add_eval_run(db, "b", [(4, 4, 0), (1, 1, 0), (4, 0, 0)], problems=placed)
    with db.read() as session:
        every = contrast_runs(session, first.id, second.id, 4)
        assert (len(every.problems), every.only_second, every.too_few) == (1, 1, 1)
        originals = contrast_runs(session, first.id, second.id, 4, originals=True)
        assert [one.problem_id for one in originals.problems] == [problems[0].id]
        assert (originals.only_second, originals.too_few) == (1, 0)


def test_runs_that_share_nothing_have_no_contrasts(db: Database) -> None:
    first = add_eval_run(db, "a", [(2, 1, 0)], benchmark="one")
    second = add_eval_run(db, "b", [(2, 1, 0)], benchmark="two")
    with db.read() as session:
        found = contrast_runs(session, first.id, second.id, 1)
        assert (found.problems, found.only_first, found.only_second) == ((), 1, 1)
