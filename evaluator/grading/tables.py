"""Tables of the grader: its versions, and the cache of its verdicts."""

from sqlalchemy import ForeignKey
from sqlalchemy.orm import Mapped, mapped_column

from service.database.base import BY_KEY_ALONE, Base


class GraderRow(Base):
    """A version of the grader, and which answers it took; see `evaluator.grading.versions`."""

    __tablename__ = "graders"
    id: Mapped[int] = mapped_column(primary_key=True)
    version: Mapped[str] = mapped_column(unique=True)


class CachedVerdictRow(Base):
    """A verdict on (gold, extracted answer) by one version of the grader, so that it is computed once."""

    __tablename__ = "verdict_cache"
    grader_id: Mapped[int] = mapped_column(ForeignKey("graders.id"), primary_key=True)
    key: Mapped[bytes] = mapped_column(primary_key=True)  # 16 bytes; see evaluator.grading
    value: Mapped[str]
    reason: Mapped[str]

    __table_args__ = (BY_KEY_ALONE,)
