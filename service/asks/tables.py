"""Tables of asks: workers, tasks, requests, answers and costs."""

from typing import Any

from sqlalchemy import ForeignKey, Index, LargeBinary, text
from sqlalchemy.orm import Mapped, mapped_column

from service.database.base import BY_KEY_ALONE, Base, CompressedText

OPEN, DONE, FAILED_TASK = "open", "done", "failed"
"""States of a task; a failed one needs a request that failed for good."""

SENT, ANSWERED, FINAL, FAILED, LOST = "sent", "answered", "final", "failed", "lost"
"""States of an ask. Only sent, answered and final ones hold a key, so that others may be sent again."""


class WorkerRow(Base):
    """A process that works on runs; it is dead if its process has ended, or was silent for too long."""

    __tablename__ = "workers"
    id: Mapped[int] = mapped_column(primary_key=True)
    process: Mapped[str]
    seen_at: Mapped[float]  # wall clock, seconds


_IS_OPEN = text("state = 'open'")


class TaskRow(Base):
    """A piece of a run that one coroutine does: a question to rephrase, a block of samples of a problem."""

    __tablename__ = "tasks"
    run_id: Mapped[str] = mapped_column(ForeignKey("runs.id"), primary_key=True)
    position: Mapped[int] = mapped_column(primary_key=True)
    item: Mapped[str]
    state: Mapped[str]
    worker: Mapped[int | None]
    error: Mapped[str | None]

    __table_args__ = (
        Index(None, "run_id", "item", unique=True),
        Index("ix_tasks_open", "run_id", "position", sqlite_where=_IS_OPEN, postgresql_where=_IS_OPEN),
    )


_IN_A_JOB, _UNDER_WAY = text("job IS NOT NULL"), text("state = 'sent'")


class AskRow(Base):
    """One attempt: an HTTP request, or a line of a batch job, that may be billed."""

    __tablename__ = "asks"
    id: Mapped[int] = mapped_column(primary_key=True)
    key: Mapped[bytes | None] = mapped_column(LargeBinary, unique=True)
    run_id: Mapped[str | None] = mapped_column(ForeignKey("runs.id"))  # pays; NULL after it was removed
    scope: Mapped[str]
    kind: Mapped[str]
    about: Mapped[str]
    place: Mapped[int]  # of the answers among those about the same: `Request.draw`
    model: Mapped[str]
    state: Mapped[str]
    worker: Mapped[int]
    job: Mapped[str | None]  # tag of its batch job, or `store.UNSENT`
    seeded: Mapped[bool]
    worst_pico: Mapped[int | None]  # 1e-12 USD; NULL if the price is not known
    cost_pico: Mapped[int | None]  # NULL: it counts at its worst case
    prompt_tokens: Mapped[int | None]
    completion_tokens: Mapped[int | None]
    seconds: Mapped[float | None]
    error: Mapped[str | None]
    outcome: Mapped[str | None]  # what parsing found in the reply, if anything was to be parsed
    ended_at: Mapped[float | None]  # wall clock, seconds

    __table_args__ = (
        Index(None, "run_id", "ended_at"),
        Index(None, "about", "kind"),
        Index(None, "scope"),
        Index(  # what a ledger reads, in the order in which it is summed
            "ix_asks_costs",
            *("run_id", "kind", "model", "state", "cost_pico", "worst_pico"),
            *("prompt_tokens", "completion_tokens"),
        ),
        Index("ix_asks_job", "job", sqlite_where=_IN_A_JOB, postgresql_where=_IN_A_JOB),
        Index("ix_asks_sent", "run_id", sqlite_where=_UNDER_WAY, postgresql_where=_UNDER_WAY),
    )


class AskBodyRow(Base):
    """Request and reply as JSON, separate from the header."""

    __tablename__ = "ask_bodies"
    ask_id: Mapped[int] = mapped_column(ForeignKey("asks.id", ondelete="CASCADE"), primary_key=True)
    request: Mapped[str] = mapped_column(CompressedText)
    reply: Mapped[str | None] = mapped_column(CompressedText)


class NoteRow(Base):
    """A value that is computed once for a run, so that a replay takes the same path."""

    __tablename__ = "notes"
    run_id: Mapped[str] = mapped_column(ForeignKey("runs.id"), primary_key=True)
    name: Mapped[str] = mapped_column(primary_key=True)
    value: Mapped[dict[str, Any]]

    __table_args__ = (BY_KEY_ALONE,)


class JobRow(Base):
    """A provider's batch job; stored before it is sent, so that none is paid for twice."""

    __tablename__ = "jobs"
    tag: Mapped[str] = mapped_column(primary_key=True)
    run_id: Mapped[str] = mapped_column(ForeignKey("runs.id"), index=True)
    model: Mapped[str]
    worker: Mapped[int]
    remote_id: Mapped[str | None]
    collected: Mapped[bool]  # each request in it has an outcome
