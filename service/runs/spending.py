"""Costs of runs, and the cap that all processes of a run share.

Sums are kept in whole picodollars, in the transactions that store answers.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sqlalchemy import func, insert, select, update
from sqlalchemy.orm import Session

from service.asks.tables import AskRow
from service.database import Database
from service.errors import InputError
from service.runs.store import Run
from service.runs.tables import PICO_PER_USD, CapRow, RunRow, RunSpendingRow


@dataclass(frozen=True)
class LedgerLine:
    """One kind of request to one model. `usd` counts known prices only; `unpriced` says how many had none.

    `doubtful_usd` of the USD are worst cases: the bill is not known, as of time-outs and killed processes.
    """

    kind: str
    model: str
    requests: int
    prompt_tokens: int
    completion_tokens: int
    usd: float
    unpriced: int
    doubtful_usd: float = 0.0


def read_ledger(session: Session, run_id: str) -> list[LedgerLine]:
    """Return what this run paid for, failures included; answers reused from other runs are not in it."""
    row = RunSpendingRow
    rows = session.scalars(select(row).where(row.run_id == run_id).order_by(row.kind, row.model))
    return [
        LedgerLine(
            line.kind,
            line.model,
            line.requests,
            line.prompt_tokens,
            line.completion_tokens,
            line.pico_usd / PICO_PER_USD,
            line.unpriced,
            line.doubtful_pico_usd / PICO_PER_USD,
        )
        for line in rows
    ]


def spent_usd(session: Session, run_id: str) -> float:
    """Return the USD this run has spent, as far as prices are known."""
    pico = session.scalar(select(func.sum(RunSpendingRow.pico_usd)).where(RunSpendingRow.run_id == run_id))
    return float(pico or 0) / PICO_PER_USD


def known_cost(session: Session, run_id: str) -> float | None:
    """Return what a run cost; None where a price is not known."""
    ledger = read_ledger(session, run_id)
    return None if any(line.unpriced for line in ledger) else sum((line.usd for line in ledger), 0.0)


@dataclass(frozen=True)
class Account:
    """The money of all runs under one cap; of a run alone if it has none (`max_usd` None).

    `committed_usd` counts requests in flight at their worst case.
    """

    max_usd: float | None
    spent_usd: float
    committed_usd: float


def read_account(session: Session, run_id: str) -> Account:
    """Return how much the runs that share a run's cap have spent."""
    cap = session.execute(
        select(CapRow.id, CapRow.max_pico, CapRow.committed_pico)
        .join(RunRow, RunRow.cap_id == CapRow.id)
        .where(RunRow.id == run_id)
    ).first()
    if cap is None:
        spent = spent_usd(session, run_id)
        return Account(None, spent, spent)
    runs = session.scalars(select(RunRow.id).where(RunRow.cap_id == cap.id)).all()
    pico = session.scalar(select(func.sum(RunSpendingRow.pico_usd)).where(RunSpendingRow.run_id.in_(runs)))
    return Account(
        cap.max_pico / PICO_PER_USD, float(pico or 0) / PICO_PER_USD, cap.committed_pico / PICO_PER_USD
    )


def hold_cap(db: Database, runs: Sequence[Run], max_usd: float | None, note: Callable[[str], None]) -> None:
    """Cap what runs may cost together, or leave them the caps that they have; say what changes or stays."""
    with db.write() as session:
        for run in runs:
            account = read_account(session, run.id)
            if account.max_usd is not None and max_usd in (None, account.max_usd):
                note(f"{run.name} keeps its cap of ${account.max_usd:g}, ${account.spent_usd:.2f} spent")
            elif account.max_usd not in (None, max_usd):
                note(f"{run.name}: the cap changes from ${account.max_usd:g} to ${max_usd:g}")
        if max_usd is not None:
            set_cap(session, [run.id for run in runs], max_usd)


def set_cap(session: Session, run_ids: Sequence[str], max_usd: float) -> float | None:
    """Cap what these runs may cost together, from now on; return the cap that they had before, if any.

    Raises:
        InputError: a cap that is negative or not a number.
    """
    if not 0 <= max_usd < math.inf:
        raise InputError(f"--max-usd {max_usd}: give an amount of at least 0.")
    max_pico = round(max_usd * PICO_PER_USD)
    caps = set(session.scalars(select(RunRow.cap_id).where(RunRow.id.in_(run_ids))))
    cap_id = caps.pop() if len(caps) == 1 else None
    sharing = set(session.scalars(select(RunRow.id).where(RunRow.cap_id == cap_id)))
    if cap_id is not None and sharing == set(run_ids):
        cap = session.get_one(CapRow, cap_id)
        before, cap.max_pico = cap.max_pico / PICO_PER_USD, max_pico
        return before
    committed = session.scalar(
        select(func.sum(func.coalesce(AskRow.cost_pico, AskRow.worst_pico))).where(AskRow.run_id.in_(run_ids))
    )
    added = session.execute(
        insert(CapRow).values(max_pico=max_pico, committed_pico=int(committed or 0)).returning(CapRow.id)
    ).scalar_one()
    session.execute(update(RunRow).where(RunRow.id.in_(run_ids)).values(cap_id=added))
    return None
