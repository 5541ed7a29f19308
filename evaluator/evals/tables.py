"""Tables of eval runs (problems, samples, texts, grades, what people say of these) and contamination checks.

Headers stand apart from texts so that lists and curves stay fast; integers stand for runs and problems in the
large tables.
"""

from typing import Any

from sqlalchemy import JSON, ForeignKey, Index
from sqlalchemy.orm import Mapped, mapped_column

from evaluator.grading import versions as _grading  # noqa: F401  (foreign keys)
from service.asks import tables as _asks  # noqa: F401  (foreign keys)
from service.database.base import BY_KEY_ALONE, Base, CompressedText
from service.database.triggers import append_only, write_once
from service.runs import tables as _runs  # noqa: F401  (foreign keys)

SAMPLE = "sample"
"""The kind of an eval run's asks."""


@append_only
class ProblemRow(Base):
    """A problem as it is put to a model, addressed by its content. Never updated."""

    __tablename__ = "problems"
    id: Mapped[str] = mapped_column(primary_key=True)
    text: Mapped[str]
    answer: Mapped[str]
    kind: Mapped[str]  # an AnswerKind
    tolerance: Mapped[str | None]
    images: Mapped[list[Any] | None] = mapped_column(JSON(none_as_null=True))  # ids in order; null for none
    created_at: Mapped[str]


class RunProblemRow(Base):
    """A problem's place in an eval run. Over a neighbor set, a question and its neighbors share a group."""

    __tablename__ = "run_problems"
    id: Mapped[int] = mapped_column(primary_key=True)
    run_id: Mapped[str] = mapped_column(ForeignKey("runs.id"))
    position: Mapped[int]
    problem_id: Mapped[str] = mapped_column(ForeignKey("problems.id"), index=True)
    group_id: Mapped[str]  # the original's question id; the problem's own id where there are no neighbors
    variant: Mapped[int]  # 0 for the original, 1.. for its neighbors
    source_id: Mapped[str | None]  # the question or candidate it was made from
    strategy: Mapped[str | None]  # of a neighbor

    __table_args__ = (
        Index(None, "run_id", "position", unique=True),
        Index(None, "run_id", "group_id", "variant", unique=True),
        Index(None, "source_id"),
    )


@write_once
class SampleRow(Base):
    """A response drawn for evaluation, without its text."""

    __tablename__ = "samples"
    id: Mapped[int] = mapped_column(primary_key=True)
    run_problem_id: Mapped[int] = mapped_column(ForeignKey("run_problems.id"))
    ordinal: Mapped[int]  # 0.. within run and problem
    ask_id: Mapped[int | None] = mapped_column(ForeignKey("asks.id"))  # null if imported
    seed: Mapped[int | None]
    stop_reason: Mapped[str]  # stop, length, content_filter, ...
    prompt_tokens: Mapped[int | None]
    completion_tokens: Mapped[int | None]  # null where a server counts several responses together

    __table_args__ = (Index(None, "run_problem_id", "ordinal", unique=True), Index(None, "ask_id"))


@write_once
class SampleTextRow(Base):
    """The text of a sample."""

    __tablename__ = "sample_texts"
    sample_id: Mapped[int] = mapped_column(ForeignKey("samples.id"), primary_key=True)
    text: Mapped[str] = mapped_column(CompressedText)


@write_once
class GradeRow(Base):
    """A sample's grade by one version of the grader; grades of other versions stay."""

    __tablename__ = "grades"
    sample_id: Mapped[int] = mapped_column(ForeignKey("samples.id"), primary_key=True)
    grader_id: Mapped[int] = mapped_column(ForeignKey("graders.id"), primary_key=True)
    run_problem_id: Mapped[int] = mapped_column(ForeignKey("run_problems.id"))  # so that counts need no join
    value: Mapped[str]  # correct, wrong, unknown
    reason: Mapped[str]
    extracted: Mapped[str | None]
    source: Mapped[str | None]  # where the answer was found, see evaluator.grading.SOURCES; null for none

    __table_args__ = (BY_KEY_ALONE,)


@write_once
class HumanGradeRow(Base):
    """A person's grade of a sample. The newest that was not withdrawn counts, over that of any grader."""

    __tablename__ = "human_grades"
    id: Mapped[int] = mapped_column(primary_key=True)
    sample_id: Mapped[int] = mapped_column(ForeignKey("samples.id"), index=True)
    run_problem_id: Mapped[int] = mapped_column(ForeignKey("run_problems.id"), index=True)
    reviewer: Mapped[str]
    before: Mapped[str | None]  # the grade that counted until then: correct, wrong, unknown; null for none
    value: Mapped[str]  # correct, wrong
    comment: Mapped[str]
    created_at: Mapped[str]


@write_once
class HumanGradeWithdrawalRow(Base):
    """A person's grade that was taken back: what was said before counts again."""

    __tablename__ = "human_grade_withdrawals"
    human_grade_id: Mapped[int] = mapped_column(
        ForeignKey("human_grades.id"), primary_key=True, autoincrement=False
    )
    created_at: Mapped[str]


class SampleCountsRow(Base):
    """Samples of a problem of a run. Made with the problem, raised with its samples."""

    __tablename__ = "sample_counts"
    run_problem_id: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    samples: Mapped[int]
    truncated: Mapped[int]  # cut at the limit of tokens
    refused: Mapped[int]  # content_filter or refusal
    with_tokens: Mapped[int]  # those that say how many tokens they have
    tokens: Mapped[int]  # of these


class GradeCountsRow(Base):
    """Grades of a problem's samples by one version of the grader; no row where there are none."""

    __tablename__ = "grade_counts"
    run_problem_id: Mapped[int] = mapped_column(primary_key=True)
    grader_id: Mapped[int] = mapped_column(primary_key=True)
    correct: Mapped[int]
    wrong: Mapped[int]
    unknown: Mapped[int]

    __table_args__ = (BY_KEY_ALONE,)


class GradeSourcesRow(Base):
    """Grades of a problem's samples by where the answer was found."""

    __tablename__ = "grade_sources"
    run_problem_id: Mapped[int] = mapped_column(primary_key=True)
    grader_id: Mapped[int] = mapped_column(primary_key=True)
    source: Mapped[str] = mapped_column(primary_key=True)  # "" where none was found
    grades: Mapped[int]
    correct: Mapped[int]

    __table_args__ = (BY_KEY_ALONE,)


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
