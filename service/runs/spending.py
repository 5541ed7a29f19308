"""A run's cap on money across processes: what others have spent and hold in flight counts here too."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import cast

from sqlalchemy import Table, bindparam, update
from sqlalchemy.orm import Session

from service.models.remote import Budget, ChatRequest, Price
from service.models.remote.money import worst_case_usd
from service.runs.ledger import reserved_usd, spent_usd
from service.runs.tables import CellRow


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
        others_spent = spent_usd(session, run_id) - self.begun_usd - self.stored_usd
        process = owner.rsplit("|", 1)[0]
        self.budget.elsewhere_usd = max(0.0, others_spent) + reserved_usd(
            session, run_id, except_process=process
        )

    def reserve(self, session: Session, requests: Sequence[ChatRequest], price: Price | None) -> None:
        """Write the worst case of leased cells to the database, where other processes see it."""
        if self.budget.max_usd is None or price is None or not requests:
            return
        cells = cast(Table, CellRow.__table__)
        session.connection().execute(
            update(cells).where(cells.c.id == bindparam("cell")).values(reserved_usd=bindparam("usd")),
            [{"cell": int(request.key), "usd": worst_case_usd(request, price)} for request in requests],
        )
