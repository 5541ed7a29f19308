"""Tables of runs, their cells (one remote request each) and the answers drawn from solvers."""

from typing import Any

from sqlalchemy import ForeignKey, Index, text
from sqlalchemy.orm import Mapped, mapped_column

from service.database.base import BY_KEY_ALONE, Base, CompressedText
from service.database.triggers import count_new_rows, row_trigger

PICO_PER_USD = 10**12

EMPTY, FILLED, FAILED, FINAL = "empty", "filled", "failed", "final"
"""States of a cell; a failure that is final is not asked again, however often the run goes on."""


class CapRow(Base):
    """A cap on what runs may cost together; a run without one is not capped."""

    __tablename__ = "caps"
    id: Mapped[int] = mapped_column(primary_key=True)
    max_usd: Mapped[float]
    max_pico: Mapped[int] = mapped_column(default=0)  # 1e-12 USD
    committed_pico: Mapped[int] = mapped_column(default=0)  # costs of asks, at their worst until they are known


class RunRow(Base):
    """A run: its whole specification is its key, so other settings are another run; questions may come."""

    __tablename__ = "runs"
    id: Mapped[str] = mapped_column(primary_key=True)  # hash of kind, spec and questions
    name: Mapped[str] = mapped_column(unique=True)
    kind: Mapped[str]
    spec: Mapped[dict[str, Any]]
    versions: Mapped[dict[str, Any]]
    created_at: Mapped[str]
    finished_at: Mapped[str | None]
    cap_id: Mapped[int | None] = mapped_column(ForeignKey("caps.id"), index=True)

    __table_args__ = (Index(None, "kind", "created_at"),)


class RunCommandRow(Base):
    """The command that a run was last worked on with, and the folder it was given in."""

    __tablename__ = "run_commands"
    run_id: Mapped[str] = mapped_column(ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True)
    folder: Mapped[str]
    words: Mapped[dict[str, Any]]


class RunQuestionRow(Base):
    """The questions of a run, in order; a run over the first of a set can grow by more of them."""

    __tablename__ = "run_questions"
    run_id: Mapped[str] = mapped_column(ForeignKey("runs.id"), primary_key=True)
    position: Mapped[int] = mapped_column(primary_key=True)
    question_id: Mapped[str] = mapped_column(ForeignKey("questions.id"), index=True)


class BatchRow(Base):
    """A batch job at a provider; its row is written before the job is sent, so that none is paid twice."""

    __tablename__ = "batches"
    id: Mapped[str] = mapped_column(primary_key=True)  # our key, also in the job's metadata
    run_id: Mapped[str] = mapped_column(ForeignKey("runs.id"), index=True)
    model: Mapped[str]
    remote_id: Mapped[str | None]  # null until the provider has confirmed the job
    state: Mapped[str]  # submitting, submitted, collected, failed
    created_at: Mapped[str]


_UNREAD, _LEASED = text("outcome IS NULL"), text("lease_owner IS NOT NULL")


class CellRow(Base):
    """One request. `scope` is what shares its answer: a run, or a solver whose answers all runs reuse."""

    __tablename__ = "cells"
    id: Mapped[int] = mapped_column(primary_key=True)
    scope: Mapped[str]
    kind: Mapped[str]  # propose, answer
    subject_id: Mapped[str]  # question or candidate
    round: Mapped[int]
    ordinal: Mapped[int]
    attempt: Mapped[int]  # rises when the content of an answer could not be used and the seed changes
    payload: Mapped[dict[str, Any]]  # what the request needs beyond the run's spec: seed, count, strategy
    state: Mapped[str]  # empty, filled, failed, final
    outcome: Mapped[str | None]  # what parsing found, once parsed
    lease_owner: Mapped[str | None]
    lease_until: Mapped[float | None]  # by the wall clock
    lease_uptime: Mapped[float | None]  # by the uptime of the owner's machine
    batch_id: Mapped[str | None] = mapped_column(ForeignKey("batches.id"), index=True)
    paid_by: Mapped[str | None] = mapped_column(ForeignKey("runs.id"))  # of what was spent from then on
    reserved_usd: Mapped[float | None]  # worst case of what was sent and is not settled, written before it is
    model: Mapped[str | None]  # as the server reports it
    prompt_tokens: Mapped[int | None]
    completion_tokens: Mapped[int | None]
    cost_usd: Mapped[float | None]  # null where the price is not known
    doubtful_usd: Mapped[float | None]  # the part of it that is a worst case, the bill not being known
    attempts: Mapped[int | None]  # HTTP requests made
    latency_s: Mapped[float | None]
    error: Mapped[str | None]
    filled_at: Mapped[str | None]

    __table_args__ = (
        Index(None, "scope", "kind", "subject_id", "round", "ordinal", "attempt", unique=True),
        # What is to be asked, what is to be read. PostgreSQL takes the order of ids from it only where no
        # column stands before them that is looked up by IS NULL.
        Index(None, "state", "scope", "id", sqlite_where=_UNREAD, postgresql_where=_UNREAD),
        Index(None, "lease_owner", sqlite_where=_LEASED, postgresql_where=_LEASED),
        Index(None, "paid_by", "state"),  # what failed of a run
    )


class RunCellRow(Base):
    """The cells a run needs. A solver's cell may be needed by several runs and is paid by the first."""

    __tablename__ = "run_cells"
    run_id: Mapped[str] = mapped_column(ForeignKey("runs.id"), primary_key=True)
    cell_id: Mapped[int] = mapped_column(ForeignKey("cells.id"), primary_key=True)

    __table_args__ = (Index(None, "cell_id"),)


class CellBodyRow(Base):
    """The raw answer of a cell, apart from its header so that lists stay fast."""

    __tablename__ = "cell_bodies"
    cell_id: Mapped[int] = mapped_column(ForeignKey("cells.id"), primary_key=True)
    body: Mapped[str] = mapped_column(CompressedText)


class AnswerRow(Base):
    """One answer of a solver to a question or candidate; its text is one choice of the cell's body."""

    __tablename__ = "answers"
    id: Mapped[int] = mapped_column(primary_key=True)
    cell_id: Mapped[int] = mapped_column(ForeignKey("cells.id"))
    solver_id: Mapped[str]
    subject_id: Mapped[str]
    ordinal: Mapped[int]  # 0.. within solver and subject
    choice: Mapped[int]
    extracted: Mapped[str | None]
    finish_reason: Mapped[str]

    __table_args__ = (Index(None, "solver_id", "subject_id", "ordinal", unique=True), Index(None, "cell_id"))


class RunCellCountRow(Base):
    """How many cells a run needs, by kind and state. Kept by triggers, as are the three tables below."""

    __tablename__ = "run_cell_counts"
    run_id: Mapped[str] = mapped_column(primary_key=True)
    kind: Mapped[str] = mapped_column(primary_key=True)
    state: Mapped[str] = mapped_column(primary_key=True)
    cells: Mapped[int]

    __table_args__ = (BY_KEY_ALONE,)


class RunSpendingRow(Base):
    """What a run has paid for by kind of request and model ("-": not known yet), failures included."""

    __tablename__ = "run_spending"
    run_id: Mapped[str] = mapped_column(primary_key=True)
    kind: Mapped[str] = mapped_column(primary_key=True)
    model: Mapped[str] = mapped_column(primary_key=True)
    requests: Mapped[int]
    prompt_tokens: Mapped[int]
    completion_tokens: Mapped[int]
    pico_usd: Mapped[int]  # 1e-12 USD, of cells whose price is known
    doubtful_pico_usd: Mapped[int]  # the part of it that is a worst case
    unpriced: Mapped[int]  # cells whose price is not known

    __table_args__ = (BY_KEY_ALONE,)


class RunReservedRow(Base):
    """What the requests of a run that are in flight may cost at most."""

    __tablename__ = "run_reserved"
    run_id: Mapped[str] = mapped_column(primary_key=True)
    pico_usd: Mapped[int]

    __table_args__ = (BY_KEY_ALONE,)


class RunMinuteRow(Base):
    """Cells of a run that were filled or failed within a minute (`2026-01-31T12:00`), as they are now."""

    __tablename__ = "run_minutes"
    run_id: Mapped[str] = mapped_column(primary_key=True)
    minute: Mapped[str] = mapped_column(primary_key=True)
    filled: Mapped[int]
    failed: Mapped[int]
    completion_tokens: Mapped[int]
    pico_usd: Mapped[int]

    __table_args__ = (BY_KEY_ALONE,)


# Money is counted in whole picodollars: sums of whole numbers do not depend on their order, so what is added
# and taken away again leaves nothing behind.
_PICO = "CAST(ROUND(COALESCE({0}, 0) * 1e12) AS BIGINT)"
_USD = _PICO.format("{0}cost_usd")
_DOUBTFUL = _PICO.format("{0}doubtful_usd")
_RESERVED = _PICO.format("{0}reserved_usd")
_ENDED = "{0}.state <> 'empty' AND {0}.paid_by IS NOT NULL AND {0}.filled_at IS NOT NULL"
_PAID = "{0}.attempts IS NOT NULL AND {0}.paid_by IS NOT NULL"
_SPENT = "AFTER UPDATE OF attempts, cost_usd, prompt_tokens, completion_tokens, model, paid_by"
_MINUTE = "AFTER UPDATE OF state, filled_at, cost_usd, completion_tokens, paid_by"
_FLAG = "CAST({0} AS INTEGER)"


def _added(table: str, *columns: str) -> str:
    return ", ".join(f"{column} = {table}.{column} + excluded.{column}" for column in columns)


count_new_rows(
    RunCellRow,
    "run_cells_counted",
    "run_cell_counts",
    {"run_id": "NEW.run_id", "kind": "cells.kind", "state": "cells.state"},
    {"cells": "1"},
    source="cells WHERE cells.id = NEW.cell_id",
)
row_trigger(
    CellRow,
    "cells_counted",
    "AFTER UPDATE OF state",
    f"""
        UPDATE run_cell_counts SET cells = cells - 1
        WHERE kind = OLD.kind AND state = OLD.state
              AND run_id IN (SELECT run_id FROM run_cells WHERE cell_id = OLD.id);
        INSERT INTO run_cell_counts (run_id, kind, state, cells)
        SELECT run_id, NEW.kind, NEW.state, 1 FROM run_cells WHERE cell_id = NEW.id
        ON CONFLICT (run_id, kind, state) DO UPDATE SET {_added("run_cell_counts", "cells")};
    """,
    condition="OLD.state <> NEW.state",
)
row_trigger(
    CellRow,
    "cells_unspent",
    _SPENT,
    f"""
        UPDATE run_spending SET
            requests = requests - OLD.attempts,
            prompt_tokens = prompt_tokens - COALESCE(OLD.prompt_tokens, 0),
            completion_tokens = completion_tokens - COALESCE(OLD.completion_tokens, 0),
            pico_usd = pico_usd - {_USD.format("OLD.")},
            doubtful_pico_usd = doubtful_pico_usd - {_DOUBTFUL.format("OLD.")},
            unpriced = unpriced - {_FLAG.format("OLD.cost_usd IS NULL")}
        WHERE run_id = OLD.paid_by AND kind = OLD.kind AND model = COALESCE(OLD.model, '-');
    """,
    condition=f"{_PAID.format('OLD')} AND NEW.paid_by IS NOT DISTINCT FROM OLD.paid_by",
)
row_trigger(
    CellRow,
    "cells_spent",
    _SPENT,
    f"""
        INSERT INTO run_spending (run_id, kind, model, requests, prompt_tokens, completion_tokens, pico_usd,
                                  doubtful_pico_usd, unpriced)
        VALUES (NEW.paid_by, NEW.kind, COALESCE(NEW.model, '-'), NEW.attempts, COALESCE(NEW.prompt_tokens, 0),
                COALESCE(NEW.completion_tokens, 0), {_USD.format("NEW.")}, {_DOUBTFUL.format("NEW.")},
                {_FLAG.format("NEW.cost_usd IS NULL")})
        ON CONFLICT (run_id, kind, model) DO UPDATE SET {
        _added(
            "run_spending",
            *("requests", "prompt_tokens", "completion_tokens", "pico_usd", "doubtful_pico_usd", "unpriced"),
        )
    };
    """,
    condition=_PAID.format("NEW"),
)
row_trigger(
    CellRow,
    "cells_settled",
    "AFTER UPDATE OF reserved_usd, paid_by",
    f"UPDATE run_reserved SET pico_usd = pico_usd - {_RESERVED.format('OLD.')} WHERE run_id = OLD.paid_by;",
    condition="OLD.reserved_usd IS NOT NULL AND OLD.paid_by IS NOT NULL",
)
row_trigger(
    CellRow,
    "cells_reserved",
    "AFTER UPDATE OF reserved_usd, paid_by",
    f"""
        INSERT INTO run_reserved (run_id, pico_usd) VALUES (NEW.paid_by, {_RESERVED.format("NEW.")})
        ON CONFLICT (run_id) DO UPDATE SET {_added("run_reserved", "pico_usd")};
    """,
    condition="NEW.reserved_usd IS NOT NULL AND NEW.paid_by IS NOT NULL",
)
row_trigger(
    CellRow,
    "cells_minute_left",
    _MINUTE,
    f"""
        UPDATE run_minutes SET
            filled = filled - {_FLAG.format("OLD.state = 'filled'")},
            failed = failed - {_FLAG.format("OLD.state <> 'filled'")},
            completion_tokens = completion_tokens - COALESCE(OLD.completion_tokens, 0),
            pico_usd = pico_usd - {_USD.format("OLD.")}
        WHERE run_id = OLD.paid_by AND minute = substr(OLD.filled_at, 1, 16);
    """,
    condition=_ENDED.format("OLD"),
)
row_trigger(
    CellRow,
    "cells_minute",
    _MINUTE,
    f"""
        INSERT INTO run_minutes (run_id, minute, filled, failed, completion_tokens, pico_usd)
        VALUES (NEW.paid_by, substr(NEW.filled_at, 1, 16), {_FLAG.format("NEW.state = 'filled'")},
                {_FLAG.format("NEW.state <> 'filled'")}, COALESCE(NEW.completion_tokens, 0),
                {_USD.format("NEW.")})
        ON CONFLICT (run_id, minute) DO UPDATE SET {
        _added("run_minutes", "filled", "failed", "completion_tokens", "pico_usd")
    };
    """,
    condition=_ENDED.format("NEW"),
)
