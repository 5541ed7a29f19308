"""Results of eval runs, read from runs made of nothing."""

from pathlib import Path

import pytest
from eval_runs import add_eval_run, regrade
from runs import open_empty

from evaluator.evals.graders import find_grader
from evaluator.evals.samples import count_samples
from evaluator.grading import GRADER_VERSION
from evaluator.runs.ledger import spent_usd


def test_the_helper_stores_what_it_was_told(tmp_path: Path) -> None:
    with open_empty(tmp_path / "t.db") as db:
        run = add_eval_run(db, "a", [(8, 3, 1), (8, 0, 0), (4, 4, 0)], truncated=[2, 0, 4], usd=0.3)
        regrade(db, run, [(8, 1, 0), (8, 0, 0), (4, 4, 0)], "other 1")
        with db.read() as session:
            counts = count_samples(session, run.id, find_grader(session, GRADER_VERSION))
            other = count_samples(session, run.id, find_grader(session, "other 1"))
            assert spent_usd(session, run.id) == pytest.approx(0.3)
    assert [(c.samples, c.correct, c.wrong, c.unknown, c.truncated) for c in counts] == [
        (8, 3, 4, 1, 2),
        (8, 0, 8, 0, 0),
        (4, 4, 0, 0, 4),
    ]
    assert [c.correct for c in other] == [1, 0, 4]
