"""Questions with their candidates over all runs: filtered, searched, paged by the question's id; suspects."""

import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Select, exists, func, select, union_all
from sqlalchemy.orm import InstrumentedAttribute, Session

from rephraser.questions.store import get_set, load_questions
from rephraser.sets.store import find_set
from rephraser.tables import (
    CandidateFindingRow,
    CandidateRow,
    NeighborSetQuestionRow,
    QuestionRow,
    QuestionSetMemberRow,
    StandingRow,
    VerdictRow,
)
from rephraser.verdict.successes import solver_name
from service.questions.question import Question
from service.runs.tables import RunRow

COUNTED_AT_MOST = 10_000
AGREEMENT, MIN_ANSWERS = 0.75, 12  # of suspects
_TERM = re.compile(r'"([^"]+)"|(\S+)')


@dataclass(frozen=True)
class QuestionFilters:
    """Which questions are wanted; None does not restrict.

    `status`, `strategy`, `model`, `finding` and `run_id` are of one and the same candidate of the question:
    "rejected" and "format" finds questions with a rejected candidate of that strategy.
    """

    text: str | None = None  # words that the question, its answer or one of its candidates contains
    subject: str | None = None
    level: str | None = None
    status: str | None = None
    strategy: str | None = None
    model: str | None = None
    finding: str | None = None  # name of a structural finding, in any verdict
    run_id: str | None = None
    question_set: str | None = None
    neighbor_set: str | None = None
    suspect: bool = False  # whose gold the solvers contradict


class ListedQuestion(NamedTuple):
    """A question with the number of its proposals by status, over all runs."""

    question: Question
    candidates: dict[str, int]


class QuestionPage(NamedTuple):
    """Some questions in order of id, and the ids to go on and back from; None at the end or start."""

    questions: tuple[ListedQuestion, ...]
    after: str | None
    before: str | None = None


def page_questions(
    session: Session,
    filters: QuestionFilters,
    *,
    after: str | None = None,
    before: str | None = None,
    limit: int = 25,
) -> QuestionPage:
    """Return up to `limit` questions behind the id `after`, or those right before the id `before`; by key."""
    query, key = _matching(session, filters)
    # Every id is behind "": the index is entered by key on the first page too.
    place, order = (key > (after or ""), key) if before is None else (key < before, key.desc())
    ids = list(session.scalars(query.where(place).order_by(order).limit(limit + 1)))
    more, page = len(ids) > limit, ids[:limit] if before is None else ids[:limit][::-1]
    earlier, later = (after is not None, more) if before is None else (more, True)
    questions = load_questions(session, page)
    counts: dict[str, dict[str, int]] = defaultdict(dict)
    of_question = (StandingRow.question_id, StandingRow.status)
    counted = select(*of_question, func.count()).group_by(*of_question)
    for id, status, number in session.execute(counted.where(StandingRow.question_id.in_(page))):
        counts[id][status] = number
    return QuestionPage(
        tuple(ListedQuestion(questions[id], counts[id]) for id in page),
        page[-1] if page and later else None,
        page[0] if page and earlier else None,
    )


def count_questions(session: Session, filters: QuestionFilters) -> tuple[int, bool]:
    """Return how many questions match, and whether that is all: counting rows stops at 10,000."""
    if filters == QuestionFilters(subject=filters.subject, level=filters.level):
        known = select(func.count()).select_from(QuestionRow)
        return session.scalar(known.where(*_question_conditions(session, filters))) or 0, True
    query, _ = _matching(session, filters)
    counted = query.limit(COUNTED_AT_MOST + 1).subquery()
    number = session.scalar(select(func.count()).select_from(counted)) or 0
    return min(number, COUNTED_AT_MOST), number <= COUNTED_AT_MOST


def _matching(session: Session, filters: QuestionFilters) -> tuple[Select[str], InstrumentedAttribute[str]]:
    """Return the query of the ids, which walks the index of one filter, and the column they stand in."""
    about_question = _question_conditions(session, filters)
    about_candidate = _equal(StandingRow, filters, "status", "strategy", "model", "run_id")
    key: InstrumentedAttribute[str]
    query: Select[Any]
    if filters.finding is not None:
        key = CandidateFindingRow.question_id
        query = select(key).where(CandidateFindingRow.name == filters.finding)
        if filters.run_id is not None:
            query = query.where(CandidateFindingRow.run_id == filters.run_id)
        if about_candidate:
            same = (
                # Given by the candidate, but with it every index of standings leads to few rows.
                StandingRow.question_id == CandidateFindingRow.question_id,
                StandingRow.candidate_id == CandidateFindingRow.candidate_id,
                StandingRow.run_id == CandidateFindingRow.run_id,
            )
            query = query.where(exists().where(*same, *about_candidate))
    elif about_candidate:
        key = StandingRow.question_id
        query = select(key).where(*about_candidate)
    else:
        return select(QuestionRow.id).where(*about_question), QuestionRow.id
    if about_question:
        query = query.join(QuestionRow, QuestionRow.id == key).where(*about_question)
    return query.group_by(key), key


def _equal(row: Any, filters: QuestionFilters, *names: str) -> list[ColumnElement[bool]]:
    values = {name: getattr(filters, name) for name in names}
    return [getattr(row, name) == value for name, value in values.items() if value is not None]


def _question_conditions(session: Session, filters: QuestionFilters) -> list[ColumnElement[bool]]:
    conditions = _equal(QuestionRow, filters, "subject", "level")
    if filters.question_set is not None:
        member, wanted = QuestionSetMemberRow, get_set(session, filters.question_set)
        conditions.append(exists().where(member.set_id == wanted.id, member.question_id == QuestionRow.id))
    if filters.neighbor_set is not None:
        header = find_set(session, filters.neighbor_set)
        # SQLite would test `exists` on every question of the database; a set is smaller.
        members = select(NeighborSetQuestionRow.question_id).where(NeighborSetQuestionRow.set_id == header.id)
        conditions.append(QuestionRow.id.in_(members))
    if filters.suspect:
        suspects = find_suspects(session, run_id=filters.run_id)
        conditions.append(QuestionRow.id.in_({suspect["question_id"] for suspect in suspects}))
    if terms := search_terms(filters.text or ""):
        searched = (
            (QuestionRow.id, QuestionRow.text),
            (QuestionRow.id, QuestionRow.answer),
            (CandidateRow.question_id, CandidateRow.text),
        )
        rows = (
            select(id).where(*(text.icontains(term, autoescape=True) for term in terms))
            for id, text in searched
        )
        conditions.append(QuestionRow.id.in_(union_all(*rows)))
    return conditions


def search_terms(words: str) -> list[str]:
    """Return the words of a search; text between quotation marks stays together.

    SQLite's texts end at the character 0, and so does a search.
    """
    return [quoted or word for quoted, word in _TERM.findall(words.split("\0", 1)[0])]


def find_suspects(
    session: Session, *, run_id: str | None = None, question_id: str | None = None
) -> list[dict[str, Any]]:
    """Return the questions of one run or of all whose gold the solvers contradict, the most agreed on first.

    A wrong gold shows in this way, and so does a mistake that the solver always makes; a person has to tell.
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
        suspects, key=lambda each: (-each["share"], -each["neighbor_drawn"], *(each[name] for name in names))
    )


def _top(counts: Mapping[str, Any]) -> int:
    """Return the place of the most frequent answer to the question, which is not the gold."""
    question, neighbor = counts["original"], counts["candidate"]
    return max(range(len(question)), key=lambda place: (question[place], neighbor[place]))


def _drawn(counts: Mapping[str, Any], side: str) -> int:
    """Return the answers to the question ("original") or its neighbor, readable or not."""
    return int(sum(counts[side]) + counts[f"{side}_unparsed"] + counts.get(f"{side}_unsettled", 0))
