"""What runs have spent, and the cap on it across processes.

Sums come from `run_spending`, which triggers keep in whole picodollars, so none takes long.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import cast

from sqlalchemy import Table, bindparam, func, or_, select, update
from sqlalchemy.orm import Session

from service.models.remote import Budget, ChatRequest, Price
from service.models.remote.money import worst_case_usd
from service.runs.tables import EMPTY, PICO_PER_USD, CellRow, RunSpendingRow

USD_DIGITS = 12  # that are stored


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
        )
        for line in rows
    ]


def spent_usd(session: Session, run_id: str) -> float:
    """Return the USD this run has spent, as far as prices are known."""
    pico = session.scalar(select(func.sum(RunSpendingRow.pico_usd)).where(RunSpendingRow.run_id == run_id))
    return float(pico or 0) / PICO_PER_USD


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


@dataclass
class Spending:
    """The budget of this process, kept in step with the database.

    `begun_usd` is what the run had spent when this process began, `stored_usd` what it has committed since.
    """

    budget: Budget
    begun_usd: float
    stored_usd: float = field(default=0.0)

    def refresh(self, session: Session, run_id: str, owner: str) -> None:
        """Count what other processes of the run have spent since, and the worst case of what they hold."""
        if self.budget.max_usd is None:
            return
        others_spent = round(spent_usd(session, run_id) - self.begun_usd - self.stored_usd, USD_DIGITS - 2)
        process = owner.rsplit("|", 1)[0]
        self.budget.elsewhere_usd = max(0.0, others_spent) + reserved_usd(
            session, run_id, except_process=process
        )

    def add_stored(self, costs_usd: Iterable[float | None]) -> None:
        """Count costs that this process has written, under the write lock that `refresh` holds too."""
        self.stored_usd += sum(round(cost or 0.0, USD_DIGITS) for cost in costs_usd)

    def reserve(self, session: Session, requests: Sequence[ChatRequest], price: Price | None) -> None:
        """Write the worst case of leased cells to the database, where other processes see it."""
        if self.budget.max_usd is None or price is None or not requests:
            return
        cells = cast(Table, CellRow.__table__)
        session.connection().execute(
            update(cells).where(cells.c.id == bindparam("cell")).values(reserved_usd=bindparam("usd")),
            [{"cell": int(request.key), "usd": worst_case_usd(request, price)} for request in requests],
        )
