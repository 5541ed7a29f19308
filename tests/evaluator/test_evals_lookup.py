"""Eval runs by the names users give, and what diagnostics read of their tokens."""

import pytest
from eval_runs import add_eval_run

from evaluator.evals.runs import find_eval_run
from evaluator.signal.sources.eval_runs import load_runs
from service.database import Database
from service.errors import InputError, NotFoundError
from service.runs.store import open_run


def test_a_name_stands_for_the_one_run_made_under_it(db: Database) -> None:
    pilot = add_eval_run(db, "pilot.set-1", [(4, 2, 0)])
    for benchmark in ("amc23", "aime24"):
        add_eval_run(db, f"base.{benchmark}", [(4, 2, 0)], benchmark=benchmark)
    with db.write() as session:
        open_run(session, name="rules", kind="propose", spec={}, question_ids=[], versions={})
    with db.read() as session:
        for name in ("pilot", "pilot.set-1", pilot.id, pilot.id[:12]):
            assert find_eval_run(session, name).id == pilot.id
        assert [checkpoint.label for checkpoint in load_runs(session, ["pilot"])] == ["pilot.set-1"]
        with pytest.raises(InputError, match=r"several eval runs: base\.aime24, base\.amc23"):
            find_eval_run(session, "base")
        with pytest.raises(InputError, match="run rules is no eval run"):
            find_eval_run(session, "rules")
        with pytest.raises(NotFoundError, match="no eval run 'pil'"):
            find_eval_run(session, "pil")
