"""What a run has cost: requests, tokens and USD, by kind and model."""

from dataclasses import dataclass

from sqlalchemy import case, func, or_, select
from sqlalchemy.orm import Session

from service.runs.cells import EMPTY
from service.runs.tables import CellRow


@dataclass(frozen=True)
class LedgerLine:
    """One kind of request to one model. `usd` counts known prices only; `unpriced` says how many had none."""

    kind: str
    model: str
    requests: int
    prompt_tokens: int
    completion_tokens: int
    usd: float
    unpriced: int


def read_ledger(session: Session, run_id: str) -> list[LedgerLine]:
    """Return what this run paid for, failures included; answers reused from other runs are not in it."""
    unpriced = func.sum(case((CellRow.cost_usd.is_(None), 1), else_=0))
    rows = session.execute(
        select(
            CellRow.kind,
            func.coalesce(CellRow.model, "-"),
            func.coalesce(func.sum(CellRow.attempts), 0),
            func.coalesce(func.sum(CellRow.prompt_tokens), 0),
            func.coalesce(func.sum(CellRow.completion_tokens), 0),
            func.coalesce(func.sum(CellRow.cost_usd), 0.0),
            unpriced,
        )
        .where(CellRow.paid_by == run_id, CellRow.attempts.is_not(None))
        .group_by(CellRow.kind, CellRow.model)
        .order_by(CellRow.kind, CellRow.model)
    ).all()
    return [LedgerLine(*row) for row in rows]


def spent_usd(session: Session, run_id: str) -> float:
    """Return the USD this run has spent, as far as prices are known."""
    return float(session.scalar(select(func.sum(CellRow.cost_usd)).where(CellRow.paid_by == run_id)) or 0.0)


def reserved_usd(session: Session, run_id: str, *, except_process: str) -> float:
    """Return the worst-case USD of requests that other processes of this run have in flight.

    Batch jobs that no process waits for at present are among them.

    `except_process` is the beginning of an owner's name (`host|pid|start time`).
    """
    total = session.scalar(
        select(func.sum(CellRow.reserved_usd)).where(
            CellRow.paid_by == run_id,
            CellRow.state == EMPTY,
            or_(CellRow.lease_owner.is_(None), CellRow.lease_owner.not_like(f"{except_process}|%")),
        )
    )
    return float(total or 0.0)
