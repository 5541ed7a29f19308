"""Tables of runs and of caps on their costs."""

from typing import Any

from sqlalchemy import ForeignKey, Index
from sqlalchemy.orm import Mapped, mapped_column

from service.database.base import Base

PICO_PER_USD = 10**12
"""Money is counted in whole picodollars, so that sums are exact."""


class CapRow(Base):
    """A cap on what runs may cost together; a run without one is not capped."""

    __tablename__ = "caps"
    id: Mapped[int] = mapped_column(primary_key=True)
    max_pico: Mapped[int]  # 1e-12 USD
    committed_pico: Mapped[int]  # costs of asks, at their worst case until they are known


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


class RunConfigRow(Base):
    """The config that a run was last worked on with, and the folder in which its relative paths hold."""

    __tablename__ = "run_configs"
    run_id: Mapped[str] = mapped_column(ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True)
    folder: Mapped[str]
    config: Mapped[dict[str, Any]]


class RunQuestionRow(Base):
    """The questions of a run, in order; a run over the first of a set can grow by more of them."""

    __tablename__ = "run_questions"
    run_id: Mapped[str] = mapped_column(ForeignKey("runs.id"), primary_key=True)
    position: Mapped[int] = mapped_column(primary_key=True)
    question_id: Mapped[str] = mapped_column(ForeignKey("questions.id"), index=True)
