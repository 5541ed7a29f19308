"""Questions whose gold the solvers contradict, agreeing on another answer to question and neighbors.

A wrong gold shows in this way, and so does a mistake that the solver always makes; a person has to tell.
"""

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from rephraser.tables import StandingRow, VerdictRow
from rephraser.verdict.successes import solver_name
from service.questions.tables import QuestionRow
from service.runs.tables import RunRow

AGREEMENT = 0.75
MIN_ANSWERS = 12


def find_suspects(
    session: Session, *, run_id: str | None = None, question_id: str | None = None
) -> list[dict[str, Any]]:
    """Return the suspect questions of one run or of all, the most agreed on first.

    A question is suspect if at least 75% of the answers to it, and of those to its accepted neighbors
    together, are one answer that is not the gold (`agreed`, as one of the solvers wrote it), and each side
    has at least 12 answers. Answers that could not be read or compared count as drawn, so that they never
    make a question suspect.
    """
    evidence = VerdictRow.evidence
    query = (
        select(
            *(StandingRow.run_id, StandingRow.question_id, QuestionRow.text, QuestionRow.answer),
            evidence["counts"],
        )
        .join(VerdictRow, VerdictRow.id == StandingRow.verdict_id)
        .join(QuestionRow, QuestionRow.id == StandingRow.question_id)
        .where(StandingRow.status == "accepted", evidence[("counts", "gold")].as_integer().is_not(None))
    )
    for column, value in ((StandingRow.run_id, run_id), (StandingRow.question_id, question_id)):
        if value is not None:
            query = query.where(column == value)
    by_question: dict[tuple[str, ...], list[Mapping[str, Any]]] = defaultdict(list)
    for *key, counts in session.execute(query):
        if max(counts["original"]) > counts["original"][counts["gold"]]:
            by_question[tuple(key)].append(counts)
    named = {run for run, *_ in by_question}
    runs = {row.id: row for row in session.scalars(select(RunRow).where(RunRow.id.in_(named)))}
    suspects = []
    for (run, question, text, answer), verdicts in by_question.items():
        # The answers to the question are those of the verdict with the most of them.
        asked = max(verdicts, key=lambda counts: _drawn(counts, "original"))
        top, drawn = _top(asked), _drawn(asked, "original")
        neighbor_agreeing = sum(counts["candidate"][_top(counts)] for counts in verdicts)
        neighbor_drawn = sum(_drawn(counts, "candidate") for counts in verdicts)
        sides = ((asked["original"][top], drawn), (neighbor_agreeing, neighbor_drawn))
        if any(of < MIN_ANSWERS or agreeing < AGREEMENT * of for agreeing, of in sides):
            continue
        suspects.append(
            {
                "run": runs[run].name,
                "question_id": question,
                "question": text,
                "gold": answer,
                "agreed": str(asked["classes"][top]),
                "question_agreeing": asked["original"][top],
                "question_drawn": drawn,
                "neighbor_agreeing": neighbor_agreeing,
                "neighbor_drawn": neighbor_drawn,
                "gold_given": asked["original"][asked["gold"]]
                + sum(counts["candidate"][counts["gold"]] for counts in verdicts),
                "neighbors": len(verdicts),
                "solvers": [solver_name(solver) for solver in runs[run].spec["solvers"]],
                "share": round((asked["original"][top] + neighbor_agreeing) / (drawn + neighbor_drawn), 4),
            }
        )
    names = ("question_id", "run")
    return sorted(
        suspects,
        key=lambda each: (-each["share"], -each["neighbor_drawn"], *(each[name] for name in names)),
    )


def _top(counts: Mapping[str, Any]) -> int:
    """Return the place of the most frequent answer to the question, which is not the gold."""
    question, neighbor = counts["original"], counts["candidate"]
    return max(range(len(question)), key=lambda place: (question[place], neighbor[place]))


def _drawn(counts: Mapping[str, Any], side: str) -> int:
    """Return the answers to the question ("original") or its neighbor, readable or not."""
    return int(sum(counts[side]) + counts[f"{side}_unparsed"] + counts.get(f"{side}_unsettled", 0))
