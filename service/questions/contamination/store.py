"""Keeps contamination checks, so that reports can say what a training set shares with a benchmark."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from sqlalchemy import ForeignKey, Index, case, func, insert, select
from sqlalchemy.orm import Mapped, Session, mapped_column

from service.database import in_parts, utc_now
from service.database.base import BY_KEY_ALONE, Base
from service.database.triggers import append_only
from service.questions.contamination.finding import VARIANT, Overlap, OverlapSettings


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


class CheckedSet(NamedTuple):
    """What the newest check of a set against a benchmark found.

    `problems` counts the problems that the set repeats (0: none found), `variants` those it only resembles.
    """

    set_name: str
    problems: int
    variants: int


def store_check(
    session: Session,
    *,
    set_name: str,
    set_hash: str,
    benchmark: str,
    problems_hash: str,
    settings: OverlapSettings,
    overlaps: Sequence[Overlap],
) -> int:
    """Write a check with what it found, in a write transaction; return its id."""
    check_id = session.execute(
        insert(ContaminationCheckRow)
        .values(
            set_name=set_name,
            set_hash=set_hash,
            benchmark=benchmark,
            problems_hash=problems_hash,
            settings=settings.to_json(),
            created_at=utc_now(),
        )
        .returning(ContaminationCheckRow.id)
    ).scalar_one()
    for part in in_parts(overlaps):
        session.execute(insert(OverlapRow), [{"check_id": check_id, **vars(overlap)} for overlap in part])
    return check_id


def overlaps_with(session: Session, problems_hash: str) -> list[CheckedSet]:
    """Return the sets that were checked against these problems, each by its newest check, by name.

    An empty list means that nothing was checked; a set in which nothing was found has `problems` 0.
    """
    newest = (
        select(func.max(ContaminationCheckRow.id))
        .where(ContaminationCheckRow.problems_hash == problems_hash)
        .group_by(ContaminationCheckRow.set_name, ContaminationCheckRow.set_hash)
    )
    only_alike = func.min(case((OverlapRow.measure == VARIANT, 1), else_=0)).label("only_alike")
    overlaps = select(OverlapRow.check_id, only_alike).group_by(OverlapRow.check_id, OverlapRow.problem_id)
    each = overlaps.subquery()
    variants = func.coalesce(func.sum(each.c.only_alike), 0)
    rows = session.execute(
        select(ContaminationCheckRow.set_name, func.count(each.c.only_alike) - variants, variants)
        .join(each, each.c.check_id == ContaminationCheckRow.id, isouter=True)
        .where(ContaminationCheckRow.id.in_(newest))
        .group_by(ContaminationCheckRow.set_name, ContaminationCheckRow.id)
        .order_by(ContaminationCheckRow.set_name, ContaminationCheckRow.id)
    )
    return [CheckedSet(*row) for row in rows]
