"""Which problems one run solves and another does not."""

import pytest
from eval_runs import add_eval_run, make_problems

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
