"""Which requests a run needs next, as far as the database shows: candidates for open slots, answers to judge.

Planning is idempotent. Two processes, or one that was killed, plan the same cells. In a run that tops up
others, their neighbors count.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from sqlalchemy import and_, func, or_, select
from sqlalchemy.orm import Session

from rephraser.reviews.status import CandidateStatus, current_statuses, statuses_by_question
from rephraser.run.ask import latest_reasons, read_reasons
from rephraser.run.check import looks_taken, read_structures
from rephraser.run.spec import ANSWER, PREMISES, PROPOSE, PremiseSpec, RunSpec, cell_seed
from rephraser.verdict import rule_for
from service.database import Database, in_parts
from service.errors import InputError
from service.runs.cells import CellPlan, add_cells
from service.runs.store import find_run, run_question_ids
from service.runs.tables import EMPTY, FINAL, AnswerRow, CellRow, RunCellRow

PLANS_PER_COMMIT = 10_000


@dataclass(frozen=True)
class OpenSlots:
    """Neighbors that a question still lacks, by strategy, and the round that would propose them."""

    question_id: str
    round: int
    missing: tuple[int, ...]


def open_slots(session: Session, run_id: str, spec: RunSpec, *, reach: int | None = None) -> list[OpenSlots]:
    """Return those of the first `reach` questions whose candidates are all judged and that lack neighbors.

    Rounds may be used up: the caller compares `round` with `spec.rounds`. A strategy whose request failed for
    good is not asked of the same question again, and nothing of `unreadable_questions`.
    """
    statuses = statuses_by_question(session, run_id)
    cells = _propose_cells(session, run_id)
    elsewhere = counted_neighbors(session, spec)
    names = [strategy.name for strategy in spec.strategies]
    open_now = []
    for question_id in run_question_ids(session, run_id)[:reach]:
        candidates = statuses.get(question_id, [])
        asked = cells.get(question_id, [])
        if any(not cell.done for cell in asked) or any(not candidate.final for candidate in candidates):
            continue
        filled = [
            names.index(c.strategy) for c in candidates if c.status in spec.counting and c.strategy in names
        ]
        slots = spec.slots(len(elsewhere.get(question_id, ())))
        hopeless = {cell.strategy for cell in asked if cell.final}
        missing = tuple(
            0 if place in hopeless else max(0, wanted - filled.count(place))
            for place, wanted in enumerate(slots)
        )
        if any(missing):
            rounds = [cell.round for cell in asked] + [candidate.round for candidate in candidates]
            open_now.append(OpenSlots(question_id, max(rounds, default=-1) + 1, missing))
    unreadable = unreadable_questions(session, spec, [slots.question_id for slots in open_now])
    return [slots for slots in open_now if slots.question_id not in unreadable]


def plan_proposals(
    session: Session, run_id: str, spec: RunSpec, *, reach: int | None = None
) -> list[CellPlan]:
    """Return the cells that ask for the candidates still missing of the first `reach` questions.

    Each keeps why earlier candidates failed, so that what it asks stays the same whatever is found later.
    """
    lacking_now = open_slots(session, run_id, spec, reach=reach)
    open_now = [slots for slots in lacking_now if slots.round < spec.rounds]
    reasons = _earlier_failures(
        session, run_id, spec, [slots.question_id for slots in open_now if slots.round]
    )
    return [
        CellPlan(
            scope=run_id,
            kind=PROPOSE,
            subject_id=slots.question_id,
            round=slots.round,
            ordinal=index,
            attempt=0,
            payload={
                "count": count,
                "seed": cell_seed(spec.seed, slots.question_id, slots.round, index, 0),
                **reasons.get(slots.question_id, {}),
            },
        )
        for slots in open_now
        for index, count in enumerate(slots.missing)
        if count
    ]


def _earlier_failures(
    session: Session, run_id: str, spec: RunSpec, question_ids: Sequence[str]
) -> dict[str, dict[str, dict[str, str]]]:
    """Return by question what its new cells keep of why earlier candidates failed: {"reasons": ...}."""
    if not question_ids or not spec.tells_reasons:
        return {}
    statuses = statuses_by_question(session, run_id)
    earlier = {question_id: statuses.get(question_id, []) for question_id in question_ids}
    reasons = read_reasons(
        session, run_id, [candidate for candidates in earlier.values() for candidate in candidates]
    )
    return {
        question_id: {"reasons": latest}
        for question_id, candidates in earlier.items()
        if (latest := latest_reasons(candidates, reasons))
    }


def awaiting_answers(session: Session, run_id: str) -> list[CandidateStatus]:
    """Return the candidates that passed the structural checks and are not decided yet."""
    return [
        status
        for status in current_statuses(session, run_id)
        if status.status is not None and not status.final
    ]


def unreadable_questions(session: Session, spec: RunSpec, question_ids: Iterable[str]) -> set[str]:
    """Return those of these questions of whose own answers too few can be read for any verdict.

    No answer to a candidate changes that, so none is asked for.
    """
    drawn = [
        and_(AnswerRow.solver_id == solver.id, AnswerRow.ordinal < share)
        for solver, share in zip(spec.solvers, spec.shares(spec.rule.original_samples), strict=True)
    ]
    most = spec.rule.max_unparsed_share * spec.rule.original_samples
    unreadable: set[str] = set()
    for part in in_parts(sorted(set(question_ids))) if drawn else ():
        query = (
            select(AnswerRow.subject_id)
            .where(or_(*drawn), AnswerRow.subject_id.in_(part), AnswerRow.extracted.is_(None))
            .group_by(AnswerRow.subject_id)
            .having(func.count() > most)
        )
        unreadable.update(session.scalars(query))
    return unreadable


def plan_answers(session: Session, run_id: str, spec: RunSpec) -> list[CellPlan]:
    """Return the cells that draw the answers which the next look at each open candidate needs.

    And those that ask about its premises, where a model is to be asked.
    """
    if not spec.solvers:
        return []
    planned = _known_keys(session, run_id, ANSWER)
    asked = {subject_id for _, subject_id, _ in _known_keys(session, run_id, PREMISES)}
    taken = looks_taken(session, run_id)
    plans: list[CellPlan] = []
    planned_questions: set[str] = set()
    waiting = awaiting_answers(session, run_id)
    unreadable = unreadable_questions(session, spec, [status.question_id for status in waiting])
    waiting = [status for status in waiting if status.question_id not in unreadable]
    structures = read_structures(session, run_id, spec, [status.candidate_id for status in waiting])
    for status in waiting:
        if spec.premises is not None and status.candidate_id not in asked:
            plans.append(premise_plan(spec.premises, status.candidate_id))
        if status.question_id not in planned_questions:
            planned_questions.add(status.question_id)
            plans += _answer_plans(spec, status.question_id, spec.rule.original_samples, planned)
        looks = rule_for(spec.rule, structures[status.candidate_id]).looks
        look = looks[min(taken[status.candidate_id], len(looks) - 1)]
        plans += _answer_plans(spec, status.candidate_id, look, planned)
    return plans


def premise_plan(premises: PremiseSpec, candidate_id: str, attempt: int = 0) -> CellPlan:
    """Return the cell that asks about a candidate's premises; runs with the same settings share it."""
    seed = cell_seed(premises.seed, premises.id, candidate_id, attempt)
    return CellPlan(premises.id, PREMISES, candidate_id, 0, 0, attempt, {"seed": seed})


def runs_to_top_up(session: Session, references: Sequence[str], questions: str) -> tuple[str, ...]:
    """Return the ids of these runs and of all that they top up themselves, each once.

    Raises:
        NotFoundError, InputError: no such run, not one of neighbors, or one of another question set.
    """
    topped: dict[str, None] = {}
    for reference in references:
        run = find_run(session, reference)
        if "strategies" not in run.spec:
            raise InputError(
                f"--tops-up {reference}: run {run.name!r} of kind {run.kind} holds no neighbors."
            )
        spec = RunSpec.from_json(run.spec)
        if spec.questions != questions:
            raise InputError(
                f"--tops-up {reference}: that run is about questions {spec.questions!r}, not {questions!r}."
            )
        topped |= dict.fromkeys((*spec.tops_up, run.id))
    return tuple(topped)


def counted_neighbors(session: Session, spec: RunSpec) -> dict[str, set[str]]:
    """Return by question the neighbors in the runs that this one tops up, as they stand now; reviews count.

    Of a run without a solver those that passed the structural checks count, as they do for itself.
    """
    counted: dict[str, set[str]] = defaultdict(set)
    for run_id in spec.tops_up:
        good = RunSpec.from_json(find_run(session, run_id).spec).counting
        for status in current_statuses(session, run_id):
            if status.status in good:
                counted[status.question_id].add(status.candidate_id)
    return counted


def lacking(session: Session, spec: RunSpec, question_ids: Sequence[str]) -> list[str]:
    """Return those of these questions that have fewer neighbors than wanted, in their order."""
    if not spec.tops_up:
        return list(question_ids)
    counted = counted_neighbors(session, spec)
    there: set[str] = set()
    for run_id in spec.tops_up:
        there.update(run_question_ids(session, run_id))
    return [
        question_id
        for question_id in question_ids
        if question_id in there and len(counted.get(question_id, ())) < spec.n
    ]


def add_planned(db: Database, run_id: str, plans: Sequence[CellPlan]) -> None:
    """Make planned cells, some at a time: other processes wait for the write lock meanwhile."""
    for part in in_parts(plans, PLANS_PER_COMMIT):
        with db.write() as session:
            add_cells(session, run_id, part)


def _answer_plans(
    spec: RunSpec, subject_id: str, samples: int, planned: AbstractSet[tuple[str, str, int]]
) -> list[CellPlan]:
    """Cells for the first `samples` answers, split over the solvers, without those that are known.

    Every cell draws `samples_per_request`, whatever is needed of the last, so that runs with other rules
    find the same cells.
    """
    return [
        CellPlan(
            scope=solver.id,
            kind=ANSWER,
            subject_id=subject_id,
            round=0,
            ordinal=start,
            attempt=0,
            payload={
                "start": start,
                "count": solver.samples_per_request,
                "seed": cell_seed(solver.seed, solver.id, subject_id, start, 0),
            },
        )
        for solver, share in zip(spec.solvers, spec.shares(samples), strict=True)
        for start in range(0, share, solver.samples_per_request)
        if (solver.id, subject_id, start) not in planned
    ]


@dataclass(frozen=True)
class _Asked:
    """A proposing cell, its strategy by place; done means read, not only filled, or failed for good."""

    round: int
    strategy: int
    done: bool
    final: bool


def _propose_cells(session: Session, run_id: str) -> dict[str, list[_Asked]]:
    """Return the run's proposing cells by question."""
    rows = session.execute(
        select(CellRow.subject_id, CellRow.round, CellRow.ordinal, CellRow.state, CellRow.outcome).where(
            CellRow.scope == run_id, CellRow.kind == PROPOSE
        )
    ).all()
    grouped: dict[str, list[_Asked]] = defaultdict(list)
    for subject_id, number, strategy, state, outcome in rows:
        final = state == FINAL
        done = final or (state != EMPTY and outcome is not None)
        grouped[subject_id].append(_Asked(number, strategy, done, final))
    return grouped


def _known_keys(session: Session, run_id: str, kind: str) -> set[tuple[str, str, int]]:
    rows = session.execute(
        select(CellRow.scope, CellRow.subject_id, CellRow.ordinal)
        .join(RunCellRow, RunCellRow.cell_id == CellRow.id)
        .where(RunCellRow.run_id == run_id, CellRow.kind == kind)
    ).all()
    return {(scope, subject_id, ordinal) for scope, subject_id, ordinal in rows}
