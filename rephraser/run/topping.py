"""A run that tops up others: what of their neighbors counts, and what they have proposed."""

from collections import defaultdict
from collections.abc import Collection, Sequence

from sqlalchemy import select
from sqlalchemy.orm import Session

from rephraser.reviews.status import current_statuses
from rephraser.run.spec import RunSpec
from rephraser.tables import CandidateRow, ProposalRow, StandingRow
from service.errors import InputError
from service.runs.store import find_run, run_question_ids


def runs_to_top_up(session: Session, references: Sequence[str], questions: str) -> tuple[str, ...]:
    """Return the ids of these runs and of all that they top up themselves, each once.

    Raises:
        NotFoundError, InputError: no such run, not one of neighbors, or one of another question set.
    """
    found: dict[str, None] = {}
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
        found |= dict.fromkeys((*spec.tops_up, run.id))
    return tuple(found)


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
    return [one for one in question_ids if one in there and len(counted.get(one, ())) < spec.n]


def earlier_texts(
    session: Session, spec: RunSpec, question_ids: Collection[str], *, standing: bool = False
) -> dict[str, list[str]]:
    """Return by question what the topped-up runs have proposed, in their order; `standing`: not rejected."""
    found: dict[str, list[str]] = defaultdict(list)
    for run_id in spec.tops_up:
        query = (
            select(ProposalRow.question_id, CandidateRow.text)
            .join(CandidateRow, CandidateRow.id == ProposalRow.candidate_id)
            .where(ProposalRow.run_id == run_id, ProposalRow.question_id.in_(question_ids))
            .order_by(ProposalRow.question_id, ProposalRow.ordinal)
        )
        if standing:
            query = query.join(
                StandingRow,
                (StandingRow.run_id == ProposalRow.run_id)
                & (StandingRow.candidate_id == ProposalRow.candidate_id),
            ).where(StandingRow.status != "rejected")
        for question_id, text in session.execute(query):
            found[question_id].append(text)
    return found
