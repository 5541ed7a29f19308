"""What runs have spent and have in flight, and the cap on both, which all processes of a run share.

Sums come from tables that triggers keep in whole picodollars, so none takes long.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from sqlalchemy import Table, bindparam, func, insert, or_, select, update
from sqlalchemy.orm import Session

from service.models.remote.money import check_amount
from service.runs.tables import EMPTY, PICO_PER_USD, CapRow, CellRow, RunReservedRow, RunRow, RunSpendingRow

ROUNDING_USD = 1e-9  # amounts are kept to 1e-12


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
    rows = session.scalars(
        select(row)
        # A line stays with zeros where the cells' model became known only later.
        .where(row.run_id == run_id, or_(row.requests > 0, row.pico_usd > 0, row.completion_tokens > 0))
        .order_by(row.kind, row.model)
    )
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
    """The money of all runs under one cap; of a run alone where it has none (`max_usd` None)."""

    max_usd: float | None
    spent_usd: float
    reserved_usd: float

    @property
    def left_usd(self) -> float:
        """What may still be reserved; infinite without a cap."""
        if self.max_usd is None:
            return math.inf
        return self.max_usd - self.spent_usd - self.reserved_usd + ROUNDING_USD

    def describe(self) -> str:
        """Say how the cap stands, for a message."""
        spent = f"${self.spent_usd:.4f} of --max-usd {self.max_usd} are spent"
        if not self.reserved_usd:
            return spent
        return f"{spent} and ${self.reserved_usd:.4f} reserved by requests in flight"


def read_account(session: Session, run_id: str) -> Account:
    """Return how the money of a run stands, with that of the runs that share its cap."""
    cap = session.execute(
        select(CapRow.id, CapRow.max_usd).join(RunRow, RunRow.cap_id == CapRow.id).where(RunRow.id == run_id)
    ).first()
    runs = [run_id]
    if cap is not None:
        runs = list(session.scalars(select(RunRow.id).where(RunRow.cap_id == cap.id)))
    spent, reserved = (
        float(session.scalar(select(func.sum(row.pico_usd)).where(row.run_id.in_(runs))) or 0) / PICO_PER_USD
        for row in (RunSpendingRow, RunReservedRow)
    )
    return Account(None if cap is None else cap.max_usd, spent, reserved)


def set_cap(session: Session, run_ids: Sequence[str], max_usd: float) -> float | None:
    """Cap what these runs may cost together, from now on; return the cap that held for them before, if any.

    Raises:
        InputError: a cap that is negative or no number.
    """
    check_amount(max_usd)
    caps = set(session.scalars(select(RunRow.cap_id).where(RunRow.id.in_(run_ids))))
    cap_id = caps.pop() if len(caps) == 1 else None
    sharing = set(session.scalars(select(RunRow.id).where(RunRow.cap_id == cap_id)))
    if cap_id is not None and sharing == set(run_ids):
        cap = session.get_one(CapRow, cap_id)
        before, cap.max_usd = cap.max_usd, max_usd
        return before
    added = session.execute(insert(CapRow).values(max_usd=max_usd).returning(CapRow.id)).scalar_one()
    session.execute(update(RunRow).where(RunRow.id.in_(run_ids)).values(cap_id=added))
    return None


def reserve_cells(session: Session, worst_usd: Mapping[int, float]) -> None:
    """Note what the requests of cells, by id, may cost in all, before they are sent."""
    cells = cast(Table, CellRow.__table__)
    if worst_usd:
        session.connection().execute(
            update(cells)
            .where(cells.c.id == bindparam("cell"), cells.c.state == EMPTY)
            .values(reserved_usd=bindparam("usd")),
            [{"cell": cell, "usd": usd} for cell, usd in worst_usd.items()],
        )
