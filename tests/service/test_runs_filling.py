"""Filling cells: leases outlive the slowest answer, and nobody else asks meanwhile."""

import asyncio
import time
from pathlib import Path

import pytest
from sqlalchemy import update

from service.database import Database
from service.questions import make_question, store_questions
from service.runs import cells
from service.runs.filling import keep_leases
from service.runs.store import open_run
from service.runs.tables import CellRow

QUESTION = make_question("What is 1 + 1?", "2")


@pytest.mark.timeout(30)
def test_leases_are_renewed_although_no_answer_comes(tmp_path: Path) -> None:
    db = Database.open(tmp_path / "t.db")
    with db.write() as session:
        store_questions(session, [QUESTION])
        run, _ = open_run(
            session, name="run", kind="propose", spec={}, question_ids=[QUESTION.id], versions={}
        )
        cells.add_cells(session, run.id, [cells.CellPlan(run.id, "propose", QUESTION.id, 0, 0, 0)])
        (cell,) = cells.claim_cells(session, run.id, run.id, owner="slow|1|1|t", limit=9)
        session.execute(update(CellRow).values(lease_until=time.time() - 1))

    def lease_until() -> float:
        with db.read() as session:
            row = session.get_one(CellRow, cell.id)
            return row.lease_until or 0.0

    async def wait_for_an_answer() -> None:
        async with keep_leases(db, "slow|1|1|t", every_s=0.01):
            while lease_until() < time.time():
                await asyncio.sleep(0.01)

    asyncio.run(wait_for_an_answer())
    with db.write() as session:
        assert cells.claim_cells(session, run.id, run.id, owner="other|1|1|t", limit=9) == []
