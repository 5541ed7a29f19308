"""Tables of candidates, verdicts, reviews and published neighbor sets; of questions and question sets."""

from typing import Any

from sqlalchemy import JSON, ForeignKey, Index, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from service.asks import tables as _asks  # noqa: F401  (foreign keys)
from service.database.base import BY_KEY_ALONE, Base
from service.database.triggers import append_only, sealed_by, write_once
from service.runs import tables as _runs  # noqa: F401  (foreign keys)


@append_only
class CandidateRow(Base):
    """A proposed rephrasing, addressed by the hash of question id and text. Never updated."""

    __tablename__ = "candidates"
    id: Mapped[str] = mapped_column(primary_key=True)
    question_id: Mapped[str] = mapped_column(ForeignKey("questions.id"), index=True)
    text: Mapped[str]
    created_at: Mapped[str]
    likeness: Mapped[float]  # of its wording to the question's, 0 to 1


class ProposalRow(Base):
    """Who proposed a candidate in which run; the same text may be proposed by several runs."""

    __tablename__ = "proposals"
    id: Mapped[int] = mapped_column(primary_key=True)
    run_id: Mapped[str] = mapped_column(ForeignKey("runs.id"))
    question_id: Mapped[str] = mapped_column(ForeignKey("questions.id"))
    candidate_id: Mapped[str] = mapped_column(ForeignKey("candidates.id"), index=True)
    ask_id: Mapped[int | None] = mapped_column(ForeignKey("asks.id"))
    proposer: Mapped[str]  # llm, rules, file; human for a mended text
    strategy: Mapped[str]
    strategy_hash: Mapped[str]
    model: Mapped[str]
    round: Mapped[int]
    ordinal: Mapped[int]  # place among the proposals to this question in this run
    mended_from: Mapped[str | None] = mapped_column(ForeignKey("candidates.id"))
    mended_by: Mapped[str | None]

    __table_args__ = (
        UniqueConstraint("run_id", "candidate_id"),
        Index(None, "run_id", "question_id", "ordinal", unique=True),
    )


@write_once
class VerdictRow(Base):
    """A verdict with its evidence. Append-only: the newest of a run counts."""

    __tablename__ = "verdicts"
    id: Mapped[int] = mapped_column(primary_key=True)
    candidate_id: Mapped[str] = mapped_column(ForeignKey("candidates.id"), index=True)
    run_id: Mapped[str] = mapped_column(ForeignKey("runs.id"))
    status: Mapped[str]  # accepted, rejected, undecided, unverified
    reason: Mapped[str]
    final: Mapped[bool]  # false while more answers are to be drawn
    evidence: Mapped[dict[str, Any]]
    created_at: Mapped[str]

    __table_args__ = (Index(None, "run_id", "candidate_id", "id"),)


class AuditRow(Base):
    """A random sample drawn for blind review: of candidates by verdict, or of questions ("groups")."""

    __tablename__ = "audits"
    id: Mapped[int] = mapped_column(primary_key=True)
    run_id: Mapped[str] = mapped_column(ForeignKey("runs.id"))
    kind: Mapped[str]  # candidates, groups
    seed: Mapped[int]
    size: Mapped[int]
    created_at: Mapped[str]

    __table_args__ = (UniqueConstraint("run_id", "kind", "seed", "size"),)


@write_once
class AuditMemberRow(Base):
    """A neighbor in an audit, with the verdict it had when the sample was drawn and its stratum's size.

    The stratum of an audit of groups are the questions with accepted neighbors.
    """

    __tablename__ = "audit_members"
    audit_id: Mapped[int] = mapped_column(ForeignKey("audits.id"), primary_key=True)
    position: Mapped[int] = mapped_column(primary_key=True)
    candidate_id: Mapped[str] = mapped_column(ForeignKey("candidates.id"))
    status: Mapped[str]
    stratum_size: Mapped[int]


@append_only
class ReviewRow(Base):
    """A human decision. Append-only: the newest that was not withdrawn overrides the verdict."""

    __tablename__ = "reviews"
    id: Mapped[int] = mapped_column(primary_key=True)
    candidate_id: Mapped[str] = mapped_column(ForeignKey("candidates.id"), index=True)
    reviewer: Mapped[str]
    decision: Mapped[str]  # accepted, rejected
    reason: Mapped[str]
    audit_id: Mapped[int | None] = mapped_column(ForeignKey("audits.id"), index=True)
    created_at: Mapped[str]

    __table_args__ = (Index(None, "reviewer", "candidate_id"),)


class ReviewWithdrawalRow(Base):
    """A decision that its reviewer took back: it counts no longer, what was decided before counts again."""

    __tablename__ = "review_withdrawals"
    review_id: Mapped[int] = mapped_column(ForeignKey("reviews.id"), primary_key=True, autoincrement=False)
    created_at: Mapped[str]


class StandingRow(Base):
    """Where a proposal stands now, computed by `rephraser.candidates`; "pending" until the run judges it.

    `rephraser.candidates.update_standings` keeps it and the table below in the transactions that change them.
    """

    __tablename__ = "standings"
    proposal_id: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    run_id: Mapped[str]
    question_id: Mapped[str]
    ordinal: Mapped[int]
    candidate_id: Mapped[str]
    proposer: Mapped[str]
    strategy: Mapped[str]
    strategy_hash: Mapped[str]
    model: Mapped[str]
    status: Mapped[str]  # accepted, rejected, undecided, unverified, pending
    verdict_id: Mapped[int | None]  # the newest of the run
    review_id: Mapped[int | None]  # the newest that counts; where there is one, the status is its decision

    __table_args__ = (
        Index(None, "candidate_id", "run_id"),
        Index(None, "question_id", "run_id", "ordinal"),
        Index(None, "status", "question_id", "strategy", "model", "run_id"),
        Index(None, "strategy", "question_id"),
        Index(None, "model", "question_id"),
        Index(None, "run_id", "question_id", "ordinal", "status", "candidate_id"),
        Index("ix_standings_counted", "run_id", "proposer", "strategy", "strategy_hash", "model", "status"),
    )


class CandidateFindingRow(Base):
    """A finding of the structural checks, in any verdict of a run on a candidate."""

    __tablename__ = "candidate_findings"
    name: Mapped[str] = mapped_column(primary_key=True)
    question_id: Mapped[str] = mapped_column(primary_key=True)
    candidate_id: Mapped[str] = mapped_column(primary_key=True)
    run_id: Mapped[str] = mapped_column(primary_key=True)

    __table_args__ = (Index(None, "run_id", "name", "candidate_id"), BY_KEY_ALONE)


@append_only
class NeighborSetRow(Base):
    """A published version. Its row is written last and seals questions and members."""

    __tablename__ = "neighbor_sets"
    id: Mapped[str] = mapped_column(primary_key=True)
    name: Mapped[str]
    version: Mapped[int]
    parent_id: Mapped[str | None] = mapped_column(ForeignKey("neighbor_sets.id"))
    content_hash: Mapped[str]
    spec: Mapped[dict[str, Any]]
    counts: Mapped[dict[str, Any]]
    created_at: Mapped[str]

    __table_args__ = (UniqueConstraint("name", "version"),)


def _sealed_by_set() -> ForeignKey:
    return ForeignKey("neighbor_sets.id", deferrable=True, initially="DEFERRED")


@append_only
class NeighborSetQuestionRow(Base):
    """A question of a set, with or without neighbors."""

    __tablename__ = "neighbor_set_questions"
    set_id: Mapped[str] = mapped_column(_sealed_by_set(), primary_key=True)
    position: Mapped[int] = mapped_column(primary_key=True)
    question_id: Mapped[str] = mapped_column(ForeignKey("questions.id"))

    __table_args__ = (Index(None, "question_id", "set_id"),)


@append_only
class NeighborSetMemberRow(Base):
    """A neighbor of a set, with the verdict it was published with."""

    __tablename__ = "neighbor_set_members"
    set_id: Mapped[str] = mapped_column(_sealed_by_set(), primary_key=True)
    question_id: Mapped[str] = mapped_column(ForeignKey("questions.id"), primary_key=True)
    position: Mapped[int] = mapped_column(primary_key=True)  # 1..N
    candidate_id: Mapped[str] = mapped_column(ForeignKey("candidates.id"))
    proposer: Mapped[str]
    strategy: Mapped[str]
    strategy_hash: Mapped[str]
    model: Mapped[str]
    verdict: Mapped[str]
    posterior: Mapped[float | None]  # of earlier sets and their imports; null in new ones
    reviewed: Mapped[bool]  # a human decision stands behind the verdict
    successes: Mapped[dict[str, Any] | None] = mapped_column(JSON(none_as_null=True))

    __table_args__ = (Index(None, "candidate_id", "set_id"),)


class NeighborSetTagRow(Base):
    """A movable name for a version (`paper`, `latest-good`)."""

    __tablename__ = "neighbor_set_tags"
    name: Mapped[str] = mapped_column(primary_key=True)
    tag: Mapped[str] = mapped_column(primary_key=True)
    set_id: Mapped[str] = mapped_column(ForeignKey("neighbor_sets.id"))
    updated_at: Mapped[str]


for sealed in (NeighborSetQuestionRow, NeighborSetMemberRow):
    sealed_by(sealed, NeighborSetRow)


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
