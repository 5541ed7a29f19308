"""The samples that a judge is to be asked about, and what it replied so far."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, exists, select
from sqlalchemy.orm import Session, aliased

from evaluator.evals.problems import RunProblem
from evaluator.evals.samples import read_texts
from evaluator.evals.tables import GradeRow, SampleRow
from evaluator.grading import GradeValue
from evaluator.judging.asking import Question, read_verdict, shown_response
from service.asks.ask import unpack
from service.asks.request import Choice, read_reply
from service.asks.tables import ANSWERED, FINAL, AskBodyRow, AskRow
from service.database import Database

JUDGE = "judge"
"""The kind of a judge's runs, and of their asks: one request about one response."""

SAMPLES_AT_ONCE = 500


@dataclass(frozen=True)
class Pending:
    """A sample with its base grade and without one of the judge's version.

    `asked` is the id of what the judge is asked about it, in so many `characters`; None where of nothing.
    """

    sample_id: int
    run_problem_id: int
    row: Mapping[str, Any]
    asked: str | None
    characters: int = 0


def question_about(problem: RunProblem, text: str) -> Question | None:
    """Return what is asked about a response; None where there is nothing to compare."""
    answer = shown_response(text)
    if not answer or not problem.answer.strip():
        return None
    return Question(problem.text, problem.answer, problem.kind, problem.tolerance, answer)


def read_pending(
    db: Database, problems: Mapping[int, RunProblem], base_row: int, judge_row: int, kinds: Sequence[str]
) -> Iterator[Pending]:
    """Yield the samples of a run without a grade in the judge's version, problem by problem."""
    for problem in problems.values():
        after = -1
        while True:
            with db.read() as session:
                rows = session.execute(_base_grades(problem.id, base_row, judge_row, after)).all()
                asked_about = [row[0] for row in rows if row[2] in kinds]
                texts = read_texts(session, asked_about)
            if not rows:
                break
            for sample_id, _, value, reason, extracted, source in rows:
                question = question_about(problem, texts[sample_id]) if sample_id in texts else None
                kept = {"value": value, "reason": reason, "extracted": extracted, "source": source}
                kept["asked_about"] = sample_id in texts
                if question is None:
                    yield Pending(sample_id, problem.id, kept, None)
                else:
                    yield Pending(sample_id, problem.id, kept, question.id, len(question.text))
            after = rows[-1][1]


def _base_grades(run_problem_id: int, base_row: int, judge_row: int, after: int) -> Any:
    judged = aliased(GradeRow)
    has_judged: ColumnElement[bool] = exists().where(
        judged.sample_id == SampleRow.id, judged.grader_id == judge_row
    )
    return (
        select(
            SampleRow.id,
            SampleRow.ordinal,
            GradeRow.value,
            GradeRow.reason,
            GradeRow.extracted,
            GradeRow.source,
        )
        .join(GradeRow, GradeRow.sample_id == SampleRow.id)
        .where(
            SampleRow.run_problem_id == run_problem_id,
            SampleRow.ordinal > after,
            GradeRow.grader_id == base_row,
            ~has_judged,
        )
        .order_by(SampleRow.ordinal)
        .limit(SAMPLES_AT_ONCE)
    )


def read_verdicts(session: Session, judge: str, asked: Sequence[str]) -> dict[str, GradeValue | None]:
    """Return by question what the judge with this id replied; None for a reply without a verdict.

    A question that failed for good has no verdict; one without a reply is not in the result.
    """
    rows = session.execute(
        select(AskRow.about, AskRow.state, AskBodyRow.reply)
        .join(AskBodyRow, AskBodyRow.ask_id == AskRow.id)
        .where(
            AskRow.scope == judge,
            AskRow.kind == JUDGE,
            AskRow.about.in_(set(asked)),
            AskRow.state.in_((ANSWERED, FINAL)),
        )
    )
    verdicts: dict[str, GradeValue | None] = {}
    for question, state, reply in rows:
        choice = read_reply(unpack(reply))[0][0] if reply is not None and state == ANSWERED else None
        verdicts[question] = None if choice is None else read_choice(choice)
    return verdicts


def read_choice(choice: Choice) -> GradeValue | None:
    """Return what a judge's reply says; None for no verdict."""
    return read_verdict(choice.full_text, truncated=choice.finish_reason == "length")
