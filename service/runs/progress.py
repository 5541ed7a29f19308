"""Progress and costs of runs, and the cap that all processes of a run share.

Costs are whole picodollars, so that sums are exact.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, delete, func, insert, select, update
from sqlalchemy.orm import Session

from service.asks.tables import DONE, FAILED_TASK, OPEN, SENT, AskRow, TaskRow
from service.database import Database
from service.runs.store import Run
from service.runs.tables import PICO_PER_USD, CapRow, RunRow

_PAID = func.coalesce(AskRow.cost_pico, AskRow.worst_pico, 0)
_UNPRICED = func.count().filter(AskRow.cost_pico.is_(None), AskRow.worst_pico.is_(None))


@dataclass(frozen=True)
class LedgerLine:
    """One kind of request to one model. `usd` counts known prices only; `unpriced` says how many had none.

    `doubtful_usd` of the USD are worst cases: the bill is unknown, for example after a time-out.
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
    return read_ledgers(session, [run_id])[run_id]


def read_ledgers(session: Session, run_ids: Sequence[str]) -> dict[str, list[LedgerLine]]:
    """Return the ledgers of runs by id."""
    ask = AskRow
    columns = (ask.run_id, ask.kind, ask.model)
    sums = (
        func.count(),
        func.coalesce(func.sum(ask.prompt_tokens), 0),
        func.coalesce(func.sum(ask.completion_tokens), 0),
        func.sum(_PAID) / float(PICO_PER_USD),
        _UNPRICED,
        func.coalesce(func.sum(ask.worst_pico).filter(ask.cost_pico.is_(None)), 0) / float(PICO_PER_USD),
    )
    ended = (ask.run_id.in_(run_ids), ask.state != SENT)
    ledgers: dict[str, list[LedgerLine]] = {run_id: [] for run_id in run_ids}
    rows: Any = session.execute(select(*columns, *sums).where(*ended).group_by(*columns).order_by(*columns))
    for run_id, *line in rows:
        ledgers[run_id].append(LedgerLine(*line))
    return ledgers


@dataclass(frozen=True)
class RunProgress:
    """A run with the state of its tasks and what it has paid for.

    `failed` tasks are open and lack a request that failed, `final` ones need a request that failed for good.
    """

    run: Run
    done: int
    open: int
    failed: int
    final: int
    ledger: list[LedgerLine]

    @property
    def planned(self) -> int:
        return self.done + self.open + self.failed + self.final

    @property
    def usd(self) -> float:
        """Of known prices; `unpriced` says how many requests had none."""
        return sum(line.usd for line in self.ledger)

    @property
    def unpriced(self) -> int:
        return sum(line.unpriced for line in self.ledger)

    @property
    def state(self) -> str:
        """finished, open (tasks are left), failed (all that are left did) or done."""
        if self.open:
            return "open"
        if self.failed or (self.final and not self.done):
            return "failed"
        return "finished" if self.run.finished_at else "done"


def progress_of(session: Session, runs: Sequence[Run]) -> list[RunProgress]:
    """Return where these runs are, in their order."""
    ids = [run.id for run in runs]
    is_open, has_error, number = TaskRow.state == OPEN, TaskRow.error.is_not(None), func.count()
    counts = (
        number.filter(TaskRow.state == DONE),
        number.filter(is_open, ~has_error),
        number.filter(is_open, has_error),
        number.filter(TaskRow.state == FAILED_TASK),
    )
    query = select(TaskRow.run_id, *counts).where(TaskRow.run_id.in_(ids)).group_by(TaskRow.run_id)
    tasks = {id: (done, left, failed, final) for id, done, left, failed, final in session.execute(query)}
    ledgers = read_ledgers(session, ids)
    return [RunProgress(run, *tasks.get(run.id, (0, 0, 0, 0)), ledgers[run.id]) for run in runs]


def frequent_errors(session: Session, run_id: str, *, limit: int = 5) -> dict[str, int]:
    """Return the most frequent errors of the run's tasks, and how many tasks have each."""
    rows = session.execute(
        select(TaskRow.error, func.count())
        .where(TaskRow.run_id == run_id, TaskRow.error.is_not(None))
        .group_by(TaskRow.error)
        .order_by(func.count().desc(), TaskRow.error)
        .limit(limit)
    )
    return {str(error): count for error, count in rows}


def sum_costs(session: Session, *conditions: ColumnElement[bool]) -> tuple[float, int]:
    """Return the USD of runs' requests, as far as prices are known, and the number of those without one."""
    ended = (AskRow.run_id.is_not(None), AskRow.state != SENT, *conditions)
    pico, unpriced = session.execute(select(func.sum(_PAID), _UNPRICED).where(*ended)).one()
    return float(pico or 0) / PICO_PER_USD, int(unpriced)


def known_cost(session: Session, run_id: str) -> float | None:
    """Return what a run cost; None where a price is not known."""
    usd, unpriced = sum_costs(session, AskRow.run_id == run_id)
    return None if unpriced else usd


def read_account(session: Session, run_id: str) -> tuple[float | None, float]:
    """Return the cap in USD that a run is under, None without one, and what the runs under it have spent."""
    cap = session.scalar(select(CapRow).join(RunRow, RunRow.cap_id == CapRow.id).where(RunRow.id == run_id))
    sharing = RunRow.id == run_id if cap is None else RunRow.cap_id == cap.id
    spent, _ = sum_costs(session, AskRow.run_id.in_(select(RunRow.id).where(sharing)))
    return None if cap is None else cap.max_pico / PICO_PER_USD, spent


def hold_cap(db: Database, runs: Sequence[Run], max_usd: float | None, note: Callable[[str], None]) -> None:
    """Cap what runs may cost together, or keep their caps; report both."""
    with db.write() as session:
        for run in runs:
            cap_usd, spent_usd = read_account(session, run.id)
            if cap_usd is not None and max_usd in (None, cap_usd):
                note(f"{run.name} keeps its cap of ${cap_usd:g}, ${spent_usd:.2f} spent")
            elif cap_usd is not None:
                note(f"{run.name}: the cap changes from ${cap_usd:g} to ${max_usd:g}")
        if max_usd is not None:
            set_cap(session, [run.id for run in runs], max_usd)


def set_cap(session: Session, run_ids: Sequence[str], max_usd: float) -> None:
    """Cap what these runs may cost together from now on; what they have cost counts."""
    committed = int(session.scalar(select(func.sum(_PAID)).where(AskRow.run_id.in_(run_ids))) or 0)
    values = {"max_pico": round(max_usd * PICO_PER_USD), "committed_pico": committed}
    cap_id = session.execute(insert(CapRow).values(values).returning(CapRow.id)).scalar_one()
    session.execute(update(RunRow).where(RunRow.id.in_(run_ids)).values(cap_id=cap_id))
    is_used = select(RunRow.id).where(RunRow.cap_id == CapRow.id).exists()
    session.connection().execute(delete(CapRow).where(~is_used))
