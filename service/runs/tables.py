"""Tables of runs, their cells (one remote request each) and the answers drawn from solvers."""

from typing import Any

from sqlalchemy import ForeignKey, Index
from sqlalchemy.orm import Mapped, mapped_column

from service.database.base import BY_KEY_ALONE, Base, CompressedText


class RunRow(Base):
    """A run: its whole specification is its key, so other settings are another run."""

    __tablename__ = "runs"
    id: Mapped[str] = mapped_column(primary_key=True)  # hash of kind, spec and questions
    name: Mapped[str] = mapped_column(unique=True)
    kind: Mapped[str]
    spec: Mapped[dict[str, Any]]
    versions: Mapped[dict[str, Any]]
    created_at: Mapped[str]
    finished_at: Mapped[str | None]

    __table_args__ = (Index(None, "kind", "created_at"),)


class RunQuestionRow(Base):
    """The questions of a run, fixed when it was made."""

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
    state: Mapped[str]  # empty, filled, failed
    outcome: Mapped[str | None]  # what parsing found, once parsed
    lease_owner: Mapped[str | None]
    lease_until: Mapped[float | None]
    batch_id: Mapped[str | None] = mapped_column(ForeignKey("batches.id"), index=True)
    paid_by: Mapped[str | None] = mapped_column(ForeignKey("runs.id"))
    reserved_usd: Mapped[float | None]  # worst case while in flight
    model: Mapped[str | None]  # as the server reports it
    prompt_tokens: Mapped[int | None]
    completion_tokens: Mapped[int | None]
    cost_usd: Mapped[float | None]  # null where the price is not known
    attempts: Mapped[int | None]  # HTTP requests made
    latency_s: Mapped[float | None]
    error: Mapped[str | None]
    filled_at: Mapped[str | None]

    __table_args__ = (
        Index(None, "scope", "kind", "subject_id", "round", "ordinal", "attempt", unique=True),
        Index(None, "state", "outcome", "scope"),  # what is to be asked, what is to be read; by id within
        Index(None, "paid_by", "state", "cost_usd"),  # what a run has spent, without touching its rows
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
    """How many cells a run needs, by kind and state. Kept by triggers, as are the two tables below."""

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
    unpriced: Mapped[int]  # cells whose price is not known

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
