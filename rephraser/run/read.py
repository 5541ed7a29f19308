"""From raw answers in cells to candidates, sampled answers and premises. Reading twice changes nothing."""

import json
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from sqlalchemy import Table, insert, or_, select
from sqlalchemy.orm import Session, aliased

from evaluator.grading import AnswerKind, find_answer
from rephraser.checks.premises import UNREADABLE, Premises, parse_premises
from rephraser.checks.wording import likeness
from rephraser.proposing.parsing import Outcome, parse_candidates
from rephraser.run.ask import read_texts
from rephraser.run.plan import premise_plan
from rephraser.run.spec import ANSWER, PREMISES, PROPOSE, RunSpec, cell_seed, proposal_ordinal
from rephraser.tables import CandidateRow, ProposalRow, candidate_id
from service.database import in_parts, upsert, utc_now
from service.hashing import canonical_text
from service.models.remote.chat import InvalidAnswerError, read_body
from service.questions.tables import QuestionRow
from service.runs.cells import (
    Cell,
    CellPlan,
    add_cells,
    read_bodies,
    read_cells,
    set_outcomes,
    unparsed_cells,
)
from service.runs.tables import EMPTY, FILLED, FINAL, AnswerRow, CellRow

_CELLS_PER_READ = 500
_GROUPS_PER_READ = 100
# The bare tables: the ORM spends more on a statement than SQLite does.
_CANDIDATES = cast(Table, CandidateRow.__table__)
_PROPOSALS = cast(Table, ProposalRow.__table__)


@dataclass(frozen=True)
class Proposed:
    """A text that was proposed to a question, whose own text is `question`; `columns` of its proposal."""

    question_id: str
    question: str
    text: str
    columns: Mapping[str, Any]


def store_candidates(session: Session, run_id: str, proposed: Sequence[Proposed]) -> list[bool]:
    """Store candidates and who proposed them; return of each whether it is new to the run.

    Of equal texts to one question the first is. All of `proposed` have the same columns.
    """
    ids = [candidate_id(each.question_id, each.text) for each in proposed]
    there = _proposed_already(session, run_id, ids)
    new = []
    for identity in ids:
        new.append(identity not in there)
        there.add(identity)
    fresh = [(identity, each) for identity, each, is_new in zip(ids, proposed, new, strict=True) if is_new]
    if fresh:
        now = utc_now()
        candidates = [
            {
                "id": identity,
                "question_id": each.question_id,
                "text": canonical_text(each.text),
                "created_at": now,
                "likeness": likeness(each.question, each.text),
            }
            for identity, each in fresh
        ]
        session.execute(upsert(_CANDIDATES).on_conflict_do_nothing(), candidates)
        proposals = [
            {"run_id": run_id, "question_id": each.question_id, "candidate_id": identity, **each.columns}
            for identity, each in fresh
        ]
        session.execute(insert(_PROPOSALS), proposals)
    return new


def _proposed_already(session: Session, run_id: str, candidate_ids: Sequence[str]) -> set[str]:
    there: set[str] = set()
    for part in in_parts(candidate_ids):
        query = select(ProposalRow.candidate_id).where(
            ProposalRow.run_id == run_id, ProposalRow.candidate_id.in_(part)
        )
        there.update(session.scalars(query))
    return there


def collect_proposals(session: Session, run_id: str, spec: RunSpec) -> int:
    """Read the filled proposing cells of some questions and rounds; return how many cells were read.

    The cells of a question and round are read together, in order, once none of them is empty: which of two
    equal candidates counts must not depend on which answer came first.
    """
    groups = _ready_groups(session, run_id, _GROUPS_PER_READ)
    if not groups:
        return 0
    cells = read_cells(
        session,
        CellRow.scope == run_id,
        CellRow.kind == PROPOSE,
        CellRow.subject_id.in_({subject_id for subject_id, _ in groups}),
        CellRow.state == FILLED,
        CellRow.outcome.is_(None),
    )
    ready = [cell for cell in cells if (cell.subject_id, cell.round) in groups]
    _read_proposals(session, run_id, spec, ready)
    return len(ready)


def _read_proposals(session: Session, run_id: str, spec: RunSpec, cells: Sequence[Cell]) -> None:
    bodies = read_bodies(session, [cell.id for cell in cells])
    texts = read_texts(session, [cell.subject_id for cell in cells])
    models = _models(session, [cell.id for cell in cells])
    ordered = sorted(cells, key=lambda c: (c.subject_id, c.round, c.ordinal, c.attempt))
    read: list[tuple[Cell, Outcome]] = []
    proposed: list[Proposed] = []
    for cell in ordered:
        text, truncated, refused = first_choice(bodies[cell.id])
        question = texts[cell.subject_id]
        count = int(cell.payload["count"])
        parsed = parse_candidates(text, question=question, count=count, truncated=truncated)
        strategy = spec.strategies[cell.ordinal]
        proposed += [
            Proposed(
                cell.subject_id,
                question,
                candidate,
                {
                    "cell_id": cell.id,
                    "proposer": spec.proposer,
                    "strategy": strategy.name,
                    "strategy_hash": strategy.hash,
                    "model": models[cell.id] or spec.model,
                    "round": cell.round,
                    "ordinal": proposal_ordinal(cell.round, cell.ordinal, cell.attempt, index),
                },
            )
            for index, candidate in enumerate(parsed.candidates)
        ]
        read.append((cell, Outcome.REFUSED if refused else parsed.outcome))
    wanted = Counter(each.columns["cell_id"] for each in proposed)
    new = store_candidates(session, run_id, proposed)
    stored = Counter(each.columns["cell_id"] for each, is_new in zip(proposed, new, strict=True) if is_new)
    outcomes: dict[int, str] = {}
    retries: list[CellPlan] = []
    for cell, outcome in read:
        count = int(cell.payload["count"])
        partial = stored[cell.id] < wanted[cell.id] and outcome is Outcome.OK
        outcomes[cell.id] = (Outcome.PARTIAL if partial else outcome).value
        if stored[cell.id] < count and cell.attempt + 1 < spec.content_attempts:
            retries.append(_retry(spec, cell, count - stored[cell.id]))
    set_outcomes(session, outcomes)
    add_cells(session, run_id, retries)


def _retry(spec: RunSpec, cell: Cell, count: int) -> CellPlan:
    attempt = cell.attempt + 1
    seed = cell_seed(spec.seed, cell.subject_id, cell.round, cell.ordinal, attempt)
    payload = {**cell.payload, "count": count, "seed": seed}
    return CellPlan(cell.scope, cell.kind, cell.subject_id, cell.round, cell.ordinal, attempt, payload)


def collect_answers(session: Session, run_id: str) -> int:
    """Read up to `_CELLS_PER_READ` filled answering cells; return how many were read.

    A server that returned fewer answers than asked is asked for the rest.
    """
    cells = unparsed_cells(session, run_id, ANSWER, limit=_CELLS_PER_READ)
    bodies = read_bodies(session, [cell.id for cell in cells])
    programs = _asking_for_programs(session, [cell.subject_id for cell in cells])
    rows: list[dict[str, Any]] = []
    rest: list[CellPlan] = []
    for cell in cells:
        # A body without choices counts as one empty answer, else it would be paid for again and again.
        choices = read_choices(bodies[cell.id]) or [("", "")]
        start, count = int(cell.payload["start"]), int(cell.payload["count"])
        for index, (text, finish_reason) in enumerate(choices[:count]):
            rows.append(
                {
                    "cell_id": cell.id,
                    "solver_id": cell.scope,
                    "subject_id": cell.subject_id,
                    "ordinal": start + index,
                    "choice": index,
                    "extracted": _extracted(text, finish_reason, program=cell.subject_id in programs),
                    "finish_reason": finish_reason,
                }
            )
        if len(choices) < count:
            attempt = cell.attempt + 1
            payload = {
                "start": start + len(choices),
                "count": count - len(choices),
                "seed": cell_seed(cell.payload["seed"], attempt),
            }
            key = (cell.scope, cell.kind, cell.subject_id, cell.round, cell.ordinal)
            rest.append(CellPlan(*key, attempt, payload))
    if rows:
        session.execute(upsert(AnswerRow).on_conflict_do_nothing(), rows)
    set_outcomes(session, {cell.id: Outcome.OK.value for cell in cells})
    add_cells(session, run_id, rest)
    return len(cells)


def _asking_for_programs(session: Session, ids: Sequence[str]) -> frozenset[str]:
    """Return those of these questions and candidates that ask for a program."""
    coded = QuestionRow.kind == AnswerKind.CODE
    questions = select(QuestionRow.id).where(QuestionRow.id.in_(ids), coded)
    candidates = (
        select(CandidateRow.id)
        .join(QuestionRow, QuestionRow.id == CandidateRow.question_id)
        .where(CandidateRow.id.in_(ids), coded)
    )
    return frozenset(session.scalars(questions)) | frozenset(session.scalars(candidates))


def _extracted(text: str, finish_reason: str, *, program: bool) -> str | None:
    """The answer of a response; where a program is asked for, all of it: the grader finds the program.

    Of a response that was cut off a box alone counts: its last sentence is any line of its working, and that
    of a solver in a loop is the same for every question.
    """
    cut_off = finish_reason == "length"
    if program:
        return None if cut_off else text.strip() or None
    answer = find_answer(text, boxed_only=cut_off)
    return None if answer is None else answer.text


def collect_premises(session: Session, run_id: str, spec: RunSpec) -> int:
    """Read up to `_CELLS_PER_READ` filled cells; return how many were read.

    Unreadable answers are asked for again.
    """
    if spec.premises is None:
        return 0
    cells = unparsed_cells(session, run_id, PREMISES, limit=_CELLS_PER_READ)
    premises = _parse_premises(session, cells)
    set_outcomes(session, {cell.id: premises[cell.id].outcome for cell in cells})
    retries = [
        premise_plan(spec.premises, cell.subject_id, cell.attempt + 1)
        for cell in cells
        if premises[cell.id].outcome == UNREADABLE and cell.attempt + 1 < spec.content_attempts
    ]
    add_cells(session, run_id, retries)
    return len(cells)


def read_premises(session: Session, spec: RunSpec, candidate_ids: Collection[str]) -> dict[str, Premises]:
    """Return what the model said about these candidates; one that is still to be asked is not in it.

    Where the request failed for good, nothing readable was said.
    """
    if spec.premises is None:
        return {}
    cells = read_cells(
        session,
        CellRow.scope == spec.premises.id,
        CellRow.kind == PREMISES,
        CellRow.subject_id.in_(candidate_ids),
        or_(CellRow.outcome.is_not(None), CellRow.state == FINAL),
    )
    latest: dict[str, Cell] = {}
    for cell in sorted(cells, key=lambda cell: cell.attempt):
        latest[cell.subject_id] = cell
    premises = _parse_premises(session, list(latest.values()))
    return {
        candidate_id: premises[cell.id]
        for candidate_id, cell in latest.items()
        if premises[cell.id].outcome != UNREADABLE
        or cell.attempt + 1 >= spec.content_attempts
        or cell.state == FINAL
    }


def read_choices(body: str) -> list[tuple[str, str]]:
    """Return (text, finish reason) of the choices of a stored completion; [] where it has none."""
    try:
        answer = read_body(json.loads(body), body)
    except (ValueError, AttributeError, InvalidAnswerError):
        return []
    return [(choice.text, choice.finish_reason) for choice in answer.choices]


def first_choice(body: str) -> tuple[str, bool, bool]:
    """Return the text of the first choice, whether it was cut off, and whether it was refused."""
    choices = read_choices(body)
    if not choices:
        return "", False, False
    text, reason = choices[0]
    return text, reason == "length", reason in {"content_filter", "refusal"}


def _ready_groups(session: Session, run_id: str, limit: int) -> set[tuple[str, int]]:
    """Return (question, round) of cells that can be read: filled, and none of the same group is empty."""
    empty = aliased(CellRow)
    waiting = (
        select(empty.id)
        .where(
            empty.scope == CellRow.scope,
            empty.kind == CellRow.kind,
            empty.subject_id == CellRow.subject_id,
            empty.round == CellRow.round,
            empty.state == EMPTY,
        )
        .exists()
    )
    rows = session.execute(
        select(CellRow.subject_id, CellRow.round)
        .where(
            CellRow.scope == run_id,
            CellRow.kind == PROPOSE,
            CellRow.state == FILLED,
            CellRow.outcome.is_(None),
            ~waiting,
        )
        .distinct()
        .limit(limit)
    ).all()
    return {(subject_id, number) for subject_id, number in rows}


def _models(session: Session, cell_ids: Sequence[int]) -> dict[int, str | None]:
    query = select(CellRow.id, CellRow.model).where(CellRow.id.in_(cell_ids))
    return dict(session.execute(query).all())


def _parse_premises(session: Session, cells: Sequence[Cell]) -> dict[int, Premises]:
    bodies = read_bodies(session, [cell.id for cell in cells])
    premises = {}
    for cell in cells:
        text, truncated, _ = first_choice(bodies.get(cell.id, ""))
        premises[cell.id] = parse_premises(text, truncated=truncated)
    return premises
