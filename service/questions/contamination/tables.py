"""Tables of contamination checks: which set was compared with which benchmark, and what was found."""

from typing import Any

from sqlalchemy import ForeignKey, Index
from sqlalchemy.orm import Mapped, mapped_column

from service.database.base import BY_KEY_ALONE, Base
from service.database.triggers import append_only


@append_only
class ContaminationCheckRow(Base):
    """A comparison of a set of texts with a benchmark. Without overlaps it says that none were found."""

    __tablename__ = "contamination_checks"
    id: Mapped[int] = mapped_column(primary_key=True)
    set_name: Mapped[str]  # a question set, or a neighbor set with its version
    set_hash: Mapped[str]
    benchmark: Mapped[str]
    problems_hash: Mapped[str]  # see evaluator.evals.problems
    settings: Mapped[dict[str, Any]]
    created_at: Mapped[str]

    __table_args__ = (Index(None, "problems_hash"),)


@append_only
class OverlapRow(Base):
    """A text of the set that repeats a problem of the benchmark, by its strongest measure."""

    __tablename__ = "overlaps"
    check_id: Mapped[int] = mapped_column(ForeignKey("contamination_checks.id"), primary_key=True)
    source_id: Mapped[str] = mapped_column(primary_key=True)  # a question or candidate
    problem_id: Mapped[str] = mapped_column(primary_key=True)
    measure: Mapped[str]  # exact, fuzzy, n-gram, variant
    score: Mapped[float]

    __table_args__ = (BY_KEY_ALONE,)
