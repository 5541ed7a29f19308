"""Questions whose gold the solvers contradict, agreeing on another answer to question and neighbors.

Nobody is asked: the answers are those that the verdicts were made from. A wrong gold shows in this way, and
so does a mistake that the solver always makes; a person has to tell them apart.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from rephraser.tables import StandingRow, VerdictRow
from rephraser.verdict.successes import solver_name
from service.database import in_parts
from service.database.expressions import json_item
from service.errors import InputError
from service.questions.tables import QuestionRow
from service.runs.tables import RunRow

AGREEMENT = 0.75
MIN_ANSWERS = 12


@dataclass(frozen=True)
class Suspect:
    """A question of a run with the answer that its solvers agree on.

    Attributes:
        agreed: the answer, as one of the solvers wrote it.
        question_agreeing, question_drawn: answers to the question that are `agreed`, of all drawn.
        neighbor_agreeing, neighbor_drawn: the same of its accepted neighbors, together.
        gold_given: answers that equal the gold, to question and neighbors.
        neighbors: accepted neighbors whose answers were compared.
    """

    run: str
    question_id: str
    question: str
    gold: str
    agreed: str
    question_agreeing: int
    question_drawn: int
    neighbor_agreeing: int
    neighbor_drawn: int
    gold_given: int
    neighbors: int
    solvers: tuple[str, ...]

    @property
    def share(self) -> float:
        """Of all answers to question and neighbors that are the agreed one."""
        return (self.question_agreeing + self.neighbor_agreeing) / (self.question_drawn + self.neighbor_drawn)

    def to_json(self) -> dict[str, Any]:
        """Return the machine-readable form."""
        return {**asdict(self), "share": round(self.share, 4)}


def find_suspects(
    session: Session,
    *,
    run_id: str | None = None,
    question_id: str | None = None,
    agreement: float = AGREEMENT,
    min_answers: int = MIN_ANSWERS,
) -> list[Suspect]:
    """Return the suspect questions of one run or of all, the most agreed on first.

    A question is suspect where at least `agreement` of the answers to it, and of those to its accepted
    neighbors together, are one answer that is not the gold, and each side has at least `min_answers`. Answers
    that could not be read or compared count as drawn, so that they never make a question suspect.

    Raises:
        InputError: `agreement` is not above 1/2 and at most 1, `min_answers` is not positive.
    """
    if not 0.5 < agreement <= 1:
        raise InputError(f"--agreement {agreement:g}: give a share above 0.5, at most 1.")
    if min_answers < 1:
        raise InputError(f"--min-answers {min_answers}: give at least 1.")
    suspects = [
        suspect
        for suspect in _agreed(session, run_id, question_id)
        if min(suspect.question_drawn, suspect.neighbor_drawn) >= min_answers
        and suspect.question_agreeing >= agreement * suspect.question_drawn
        and suspect.neighbor_agreeing >= agreement * suspect.neighbor_drawn
    ]
    return sorted(
        suspects,
        key=lambda suspect: (-suspect.share, -suspect.neighbor_drawn, suspect.question_id, suspect.run),
    )


def _agreed(session: Session, run_id: str | None, question_id: str | None) -> Iterator[Suspect]:
    """Every question with accepted neighbors whose most frequent answer is not the gold."""
    gold = VerdictRow.evidence[("counts", "gold")].as_integer()
    of_gold = json_item(VerdictRow.evidence, "counts", "original", gold)
    query = (
        select(StandingRow.run_id, StandingRow.question_id, VerdictRow.evidence["counts"])
        .join(VerdictRow, VerdictRow.id == StandingRow.verdict_id)
        .where(
            StandingRow.status == "accepted",
            gold.is_not(None),
            # Most verdicts end here, before they are read.
            VerdictRow.evidence["original_top"].as_float() > of_gold,
        )
    )
    if run_id is not None:
        query = query.where(StandingRow.run_id == run_id)
    if question_id is not None:
        query = query.where(StandingRow.question_id == question_id)
    tallies: dict[tuple[str, str], list[_Tally]] = defaultdict(list)
    for run, question, counts in session.execute(query):
        tallies[run, question].append(_tally(counts))
    named = {run for run, _ in tallies}
    runs = {row.id: row for row in session.scalars(select(RunRow).where(RunRow.id.in_(named)))}
    ids = sorted({question for _, question in tallies})
    questions = {
        row.id: row
        for part in in_parts(ids)
        for row in session.scalars(select(QuestionRow).where(QuestionRow.id.in_(part)))
    }
    for (run, question), members in tallies.items():
        first = max(members, key=lambda tally: tally.question_drawn)
        yield Suspect(
            run=runs[run].name,
            question_id=question,
            question=questions[question].text,
            gold=questions[question].answer,
            agreed=first.answer,
            question_agreeing=first.question_agreeing,
            question_drawn=first.question_drawn,
            neighbor_agreeing=sum(tally.neighbor_agreeing for tally in members),
            neighbor_drawn=sum(tally.neighbor_drawn for tally in members),
            gold_given=first.gold_on_question + sum(tally.gold_on_neighbor for tally in members),
            neighbors=len(members),
            solvers=tuple(solver_name(solver) for solver in runs[run].spec["solvers"]),
        )


@dataclass(frozen=True)
class _Tally:
    """The most frequent answer to a question, which is not the gold, beside one of its neighbors."""

    answer: str
    question_agreeing: int
    question_drawn: int
    neighbor_agreeing: int
    neighbor_drawn: int
    gold_on_question: int
    gold_on_neighbor: int


def _tally(counts: Mapping[str, Any]) -> _Tally:
    """Read the counts of a verdict."""
    question, neighbor, gold = counts["original"], counts["candidate"], counts["gold"]
    top = max(range(len(question)), key=lambda place: (question[place], neighbor[place]))
    drawn = {
        side: sum(counts[side]) + counts[f"{side}_unparsed"] + counts.get(f"{side}_unsettled", 0)
        for side in ("original", "candidate")
    }
    return _Tally(
        answer=str(counts["classes"][top]),
        question_agreeing=question[top],
        question_drawn=drawn["original"],
        neighbor_agreeing=neighbor[top],
        neighbor_drawn=drawn["candidate"],
        gold_on_question=question[gold],
        gold_on_neighbor=neighbor[gold],
    )
