"""A server cuts a connection off, another process lets the run grow: no answer is lost or paid twice."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from eval_sampling import draw, running_server, sampler, start, stored, sums
from sqlalchemy import select
from sqlalchemy.orm import Session

from evaluator.evals.problems import run_problems
from evaluator.evals.running import EvalCells, plan_run
from evaluator.evals.runs import EvalSpec
from evaluator.evals.tables import SampleRow
from service.database import Database
from service.errors import ConnectionLostError
from service.models.drawing import DrawnCell, Response
from service.runs.cells import Receipt
from service.runs.progress import count_states

PROBLEMS = sums(4)


def cut_off(db: Database, monkeypatch: pytest.MonkeyPatch, hits: Callable[[Session], bool]) -> list[str]:
    """End the connection in the first transaction that `hits`, as a server does that restarts."""
    write, cut = db.write, list[str]()

    @contextmanager
    def cutting() -> Iterator[Session]:
        with write() as session:
            yield session
            if not cut and hits(session):
                cut.append("cut off")
                raise ConnectionLostError(cut[0])

    monkeypatch.setattr(db, "write", cutting)
    return cut


def holds_samples(session: Session) -> bool:
    return session.scalar(select(SampleRow.id).limit(1)) is not None


def test_answers_whose_transaction_was_cut_off_are_stored_and_not_asked_for_again(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = start(db, "r", PROBLEMS)
    with running_server() as server:
        cut = cut_off(db, monkeypatch, holds_samples)
        outcome = draw(db, run, sampler(server), 8)
    assert (cut, outcome.missing, len(server.requests)) == (["cut off"], 0, 4)


def test_what_an_engine_drew_is_stored_where_the_connection_was_cut_off(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = start(db, "r", PROBLEMS[:1])
    with db.read() as session:
        problems = run_problems(session, run.id)
    plan_run(db, run.id, problems, 2, 1)
    cells = EvalCells(db, run.id, EvalSpec.from_json(run.spec), {each.id: each for each in problems})
    cut = cut_off(db, monkeypatch, lambda session: True)
    first, second = cells.lease(9)
    cut.clear()
    cells.store([DrawnCell(first, [Response("so 2", "stop")], Receipt("m", 1, 1, 0.0, 1, 0.1))])
    cut.clear()
    cells.fail(second, "the engine ended the request")
    assert cut == ["cut off"]
    with db.read() as session:
        assert count_states(session, run.id) == {("sample", "filled"): 1, ("sample", "failed"): 1}
    assert [row[-1] for row in stored(db, run)] == ["so 2"]


def test_problems_that_another_process_adds_are_drawn_by_either(db: Database) -> None:
    run = start(db, "r", PROBLEMS)
    with db.read() as session:
        problems = run_problems(session, run.id)
    plan_run(db, run.id, problems, 2, 2)
    spec = EvalSpec.from_json(run.spec)
    cells = EvalCells(db, run.id, spec, {each.id: each for each in problems[:2]})
    with running_server() as server:
        filled = sampler(server).fill(cells, lambda drawn, words: None)
    assert (filled.answered, len(stored(db, run))) == (4, 8)
