"""Cells in the database: planned, leased to one process, filled with a raw answer, or failed.

Continuing a run is a query for its empty cells. A cell is leased in one transaction, so two processes never
send the same request; leases of processes that died are taken back at once on the same machine.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from sqlalchemy import (
    ColumnElement,
    Float,
    Select,
    String,
    Table,
    and_,
    bindparam,
    func,
    insert,
    literal,
    not_,
    or_,
    select,
    update,
)
from sqlalchemy.orm import Session, aliased

from service.database import columns_of, in_parts, upsert, utc_now
from service.runs.leases import NO_LEASE, charge_lost, is_free, needed_by, new_lease
from service.runs.tables import (
    EMPTY,
    FAILED,
    FILLED,
    FINAL,
    CellBodyRow,
    CellRow,
    RunCellCountRow,
    RunCellRow,
)


@dataclass(frozen=True)
class CellPlan:
    """A cell to be made. Two plans with the same key are the same request."""

    scope: str
    kind: str
    subject_id: str
    round: int
    ordinal: int
    attempt: int
    payload: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Cell:
    """A cell as stored."""

    id: int
    scope: str
    kind: str
    subject_id: str
    round: int
    ordinal: int
    attempt: int
    payload: dict[str, Any]
    state: str


@dataclass(frozen=True)
class Receipt:
    """What an answer cost: tokens, USD (None: price not known), HTTP requests, seconds.

    `doubtful_usd` of the USD are the worst case of attempts whose bill is not known.
    """

    model: str
    prompt_tokens: int
    completion_tokens: int
    cost_usd: float | None
    attempts: int
    latency_s: float
    doubtful_usd: float = 0.0


_CELL_COLUMNS = columns_of(CellRow, Cell)

_KEY = ("scope", "kind", "subject_id", "round", "ordinal")  # and the attempt
_RUN_CELLS = cast(Table, RunCellRow.__table__)
# Statements of each answer go to the bare tables: the ORM spends more on them than SQLite does.
_CELLS = cast(Table, CellRow.__table__)
_BODIES = cast(Table, CellBodyRow.__table__)
_MAKE = (
    upsert(_CELLS)
    .on_conflict_do_nothing()
    .returning(_CELLS.c.id, *(_CELLS.c[name] for name in (*_KEY, "attempt")))
)
_EARLIER = aliased(CellRow)
_FIND_RUNS: Select[Any, int] = (
    select(RunCellRow.run_id, CellRow.id)
    .select_from(CellRow)
    .join(_EARLIER, and_(*(getattr(_EARLIER, name) == getattr(CellRow, name) for name in _KEY)))
    .join(RunCellRow, RunCellRow.cell_id == _EARLIER.id)
    .where(*(getattr(CellRow, name) == bindparam(f"key_{name}") for name in _KEY))
)


def _known_cost(spent: ColumnElement[float | None]) -> ColumnElement[float | None]:
    """Return the known cost of a cell and of what was spent now; NULL where neither is known."""
    known = _CELLS.c.cost_usd
    return func.coalesce(known + spent, known, spent)


# Built once: making this statement anew took longer than all else of storing an answer.
_FILL = (
    update(_CELLS)
    .where(_CELLS.c.id == bindparam("cell"), _CELLS.c.state != FILLED)
    .values(
        state=FILLED,
        error=None,
        **NO_LEASE,
        reserved_usd=None,
        filled_at=bindparam("now"),
        model=bindparam("spent_model"),
        prompt_tokens=bindparam("spent_prompt_tokens"),
        completion_tokens=bindparam("spent_completion_tokens"),
        latency_s=bindparam("spent_latency_s"),
        attempts=func.coalesce(_CELLS.c.attempts, 0) + bindparam("spent_attempts"),
        cost_usd=_known_cost(bindparam("spent_cost_usd", type_=Float)),
        doubtful_usd=func.coalesce(_CELLS.c.doubtful_usd, 0.0) + bindparam("spent_doubtful_usd"),
    )
    .returning(_CELLS.c.id)
)
_INSERT_BODY = insert(_BODIES)


def add_cells(session: Session, run_id: str, plans: Sequence[CellPlan]) -> None:
    """Make the cells that do not exist yet and note that the run needs them all.

    A run that needs a cell needs its later attempts too, whichever run they are made for: a solver's answers
    are shared, and so is what is missing of them.
    """
    for part in in_parts(plans):
        rows = [{**vars(plan), "state": EMPTY} for plan in part]
        made = {tuple(key): cell_id for cell_id, *key in session.connection().execute(_MAKE, rows)}
        if made:
            session.execute(
                upsert(_RUN_CELLS).on_conflict_do_nothing(),
                [{"run_id": run_id, "cell_id": cell_id} for cell_id in made.values()],
            )
        later = [_key(plan) for plan in part if plan.attempt]
        if later:
            session.execute(
                upsert(_RUN_CELLS)
                .from_select(["run_id", "cell_id"], _FIND_RUNS, include_defaults=False)
                .on_conflict_do_nothing(),
                later,
            )
        # A first attempt that is new has no others.
        there = [plan for plan in part if plan.attempt or _full_key(plan) not in made]
        _note_needed(session, run_id, there)


def _note_needed(session: Session, run_id: str, plans: Sequence[CellPlan]) -> None:
    """Note that the run needs all attempts of these cells: many subjects by one statement."""
    subjects: dict[tuple[str, str, int, int], list[str]] = defaultdict(list)
    for plan in plans:
        subjects[plan.scope, plan.kind, plan.round, plan.ordinal].append(plan.subject_id)
    for (scope, kind, round, ordinal), ids in subjects.items():
        needed = select(literal(run_id, String), CellRow.id).where(
            CellRow.scope == scope,
            CellRow.kind == kind,
            CellRow.round == round,
            CellRow.ordinal == ordinal,
            CellRow.subject_id.in_(ids),
        )
        session.execute(
            upsert(_RUN_CELLS)
            .from_select(["run_id", "cell_id"], needed, include_defaults=False)
            .on_conflict_do_nothing()
        )


def claim_cells(session: Session, run_id: str, scope: str, *, owner: str, limit: int) -> list[Cell]:
    """Lease up to `limit` empty cells of run and scope to `owner`, oldest first, in a write transaction.

    From now on the run pays for them. What another run has spent on them in vain stays in its ledger, so that
    the cap of neither is passed.
    """
    rows = session.execute(
        select(*_CELL_COLUMNS)
        .where(
            needed_by(run_id),
            CellRow.scope == scope,
            CellRow.state == EMPTY,
            CellRow.outcome.is_(None),  # always so where empty; it lets the index find them in order of id
            CellRow.batch_id.is_(None),
            is_free(),
        )
        .order_by(CellRow.id)
        .limit(limit)
    ).all()
    cells = [Cell(*row) for row in rows]
    if cells:
        claimed = CellRow.id.in_([cell.id for cell in cells])
        charge_lost(session, claimed)
        session.execute(
            update(CellRow)
            .where(claimed, CellRow.paid_by.is_distinct_from(run_id))
            .values(paid_by=run_id, attempts=None, cost_usd=None, doubtful_usd=None)
        )
        session.execute(update(CellRow).where(claimed).values(**new_lease(owner)))
    return cells


def fill_cell(session: Session, cell_id: int, body: str, receipt: Receipt) -> bool:
    """Store a raw answer with its receipt; return whether it was. The caller commits before it is parsed.

    A cell that is filled already keeps its answer: two processes may collect the same batch job. What failed
    requests for the cell cost before is added up.
    """
    connection = session.connection()
    filled = connection.execute(_FILL, {"cell": cell_id, "now": utc_now(), **_spent(receipt)})
    if filled.scalar() is None:
        return False
    connection.execute(_INSERT_BODY, {"cell_id": cell_id, "body": body})
    return True


def fail_cell(
    session: Session,
    cell_id: int,
    error: str,
    *,
    attempts: int,
    cost_usd: float | None,
    doubtful_usd: float = 0.0,
    final: bool = False,
) -> None:
    """Note that a request got no answer after all its attempts; unless it is final, it is asked again later.

    What it cost is added to the cost of earlier requests for the cell.
    """
    session.execute(
        update(_CELLS)
        .where(_CELLS.c.id == cell_id, _CELLS.c.state != FILLED)
        .values(
            state=FINAL if final else FAILED,
            error=error,
            **NO_LEASE,
            batch_id=None,
            reserved_usd=None,
            filled_at=utc_now(),
            doubtful_usd=func.coalesce(_CELLS.c.doubtful_usd, 0.0) + doubtful_usd,
            attempts=func.coalesce(_CELLS.c.attempts, 0) + attempts,
            cost_usd=_known_cost(literal(cost_usd, Float)),
        )
    )


def open_cells(session: Session, run_id: str) -> int:
    """Return how many of the run's cells are empty: to be asked by anyone, or held by a living process.

    Cells of a batch job that no process waits for are not counted; only a later invocation collects them.
    """
    if not _in_state(session, run_id, [EMPTY]):
        return 0
    query = select(func.count(CellRow.id)).where(
        needed_by(run_id),
        CellRow.state == EMPTY,
        CellRow.outcome.is_(None),
        or_(CellRow.batch_id.is_(None), not_(is_free())),
    )
    return session.scalar(query) or 0


def is_complete(session: Session, run_id: str) -> bool:
    """Return whether none of the run's cells is empty, in a batch job or failed and to be asked again."""
    return not _in_state(session, run_id, [EMPTY, FAILED])


def reopen_failed_cells(session: Session, run_id: str, *, final: bool = False) -> int:
    """Make the run's failed cells empty again, to be asked once more; return how many.

    Those that failed for good only where `final` is set.
    """
    states = [FAILED, FINAL] if final else [FAILED]
    if not _in_state(session, run_id, states):
        return 0
    failed = session.scalars(
        # Without an answer nothing was found in one; it lets the index find them.
        select(CellRow.id).where(needed_by(run_id), CellRow.state.in_(states), CellRow.outcome.is_(None))
    ).all()
    for part in in_parts(failed):
        session.execute(update(CellRow).where(CellRow.id.in_(part)).values(state=EMPTY, error=None))
    return len(failed)


def allow_again(session: Session, cell_ids: Sequence[int]) -> None:
    """Let failures that were taken for final be asked again later."""
    for part in in_parts(cell_ids):
        session.execute(
            update(CellRow).where(CellRow.id.in_(part), CellRow.state == FINAL).values(state=FAILED)
        )


def has_answers(session: Session, scope: str) -> bool:
    """Return whether any request of this scope was answered."""
    answered = select(CellRow.id).where(CellRow.scope == scope, CellRow.state == FILLED).limit(1)
    unread = answered.where(CellRow.outcome.is_(None))  # which the index finds
    return session.scalar(unread) is not None or session.scalar(answered) is not None


def unparsed_cells(session: Session, run_id: str, kind: str, *, limit: int) -> list[Cell]:
    """Return the first `limit` filled cells of the run whose content was not looked at, by scope and id."""
    query = (
        select(*_CELL_COLUMNS)
        .where(needed_by(run_id), CellRow.kind == kind, CellRow.state == FILLED, CellRow.outcome.is_(None))
        .order_by(CellRow.scope, CellRow.id)
        .limit(limit)
    )
    return [Cell(*row) for row in session.execute(query)]


def read_cells(session: Session, *conditions: ColumnElement[bool]) -> list[Cell]:
    """Return the cells that meet the conditions, in order of id."""
    rows = session.execute(select(*_CELL_COLUMNS).where(*conditions).order_by(CellRow.id)).all()
    return [Cell(*row) for row in rows]


def read_bodies(session: Session, cell_ids: Sequence[int]) -> dict[int, str]:
    """Return the raw answers of the cells by id; cells without one are missing."""
    bodies: dict[int, str] = {}
    for part in in_parts(cell_ids):
        query = select(CellBodyRow.cell_id, CellBodyRow.body).where(CellBodyRow.cell_id.in_(part))
        bodies.update(session.execute(query).all())
    return bodies


def set_outcomes(session: Session, outcomes: Mapping[int, str]) -> None:
    """Note by id what parsing found in cells, so that they are parsed once."""
    if outcomes:
        session.connection().execute(
            update(_CELLS).where(_CELLS.c.id == bindparam("cell")).values(outcome=bindparam("found")),
            [{"cell": cell_id, "found": outcome} for cell_id, outcome in outcomes.items()],
        )


def _spent(receipt: Receipt) -> dict[str, Any]:
    return {f"spent_{name}": value for name, value in vars(receipt).items()}


def _key(plan: CellPlan) -> dict[str, Any]:
    return {f"key_{name}": getattr(plan, name) for name in _KEY}


def _full_key(plan: CellPlan) -> tuple[Any, ...]:
    return (*(getattr(plan, name) for name in _KEY), plan.attempt)


def _in_state(session: Session, run_id: str, states: Sequence[str]) -> int:
    """Return how many of the run's cells are in one of these states, from the counts."""
    row = RunCellCountRow
    counted = select(func.sum(row.cells)).where(row.run_id == run_id, row.state.in_(states))
    return int(session.scalar(counted) or 0)
