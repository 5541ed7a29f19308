"""Tables of questions and of the named sets they were imported into."""

from typing import Any

from sqlalchemy import JSON, ForeignKey, Index
from sqlalchemy.orm import Mapped, mapped_column

from service.database.base import Base
from service.database.triggers import append_only


@append_only
class QuestionRow(Base):
    """A question, addressed by the hash of its text, gold answer, kind and images. Never updated."""

    __tablename__ = "questions"
    id: Mapped[str] = mapped_column(primary_key=True)
    text: Mapped[str]
    answer: Mapped[str]  # gold; empty where the source has none
    level: Mapped[str | None]
    subject: Mapped[str | None]
    kind: Mapped[str] = mapped_column(server_default="latex")  # an AnswerKind
    images: Mapped[list[Any] | None] = mapped_column(JSON(none_as_null=True))  # ids in order; null for none
    created_at: Mapped[str]

    __table_args__ = (
        Index(None, "subject", "id"),
        Index(None, "level", "id"),
        Index(None, "subject", "level"),  # by which they are counted
    )


class QuestionSetRow(Base):
    """A named set of questions: an import, or a mix of others."""

    __tablename__ = "question_sets"
    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(unique=True)
    spec: Mapped[dict[str, Any]]  # kind (import, mix), source, hash of the file, column mapping, seed
    created_at: Mapped[str]

    @property
    def content_hash(self) -> str:
        return str(self.spec["content_hash"])


class QuestionSetMemberRow(Base):
    """A question's place in a set. `held` says why it is kept out of runs; null where it is fine."""

    __tablename__ = "question_set_members"
    set_id: Mapped[int] = mapped_column(ForeignKey("question_sets.id"), primary_key=True)
    position: Mapped[int] = mapped_column(primary_key=True)  # row in the source, from 0
    question_id: Mapped[str] = mapped_column(ForeignKey("questions.id"))
    held: Mapped[str | None]

    __table_args__ = (Index(None, "set_id", "question_id", unique=True), Index(None, "question_id"))
