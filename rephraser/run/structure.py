"""What the structural checks, and a model asked about premises, mean for the verdict on a candidate."""

from collections import defaultdict
from collections.abc import Collection, Iterable

from sqlalchemy import select
from sqlalchemy.orm import Session

from rephraser.checks import groups_of
from rephraser.run.spec import RunSpec
from rephraser.tables import CandidateFindingRow
from rephraser.verdict import Structure
from service.runs.tables import CellRow

PREMISES = "premises"
"""The kind of a cell that asks about premises, and the group of what was found."""

PREMISE_CHANGED, PREMISE_DROPPED = "premise_changed", "premise_dropped"

WEIGHING = frozenset({"numbers", "words", PREMISES})
"""Groups that make a verdict ask for more: more frequent on broken candidates than on honest ones.

`benchmarks/studies/gate.py` prints how often each group is met on either.
"""


def structure_of(names: Iterable[str]) -> Structure:
    """Return what findings of these names mean for the verdict."""
    found = set(names)
    premises = {PREMISES} if found & {PREMISE_CHANGED, PREMISE_DROPPED} else set()
    return Structure((groups_of(found) | premises) & WEIGHING, PREMISE_DROPPED in found)


def read_structures(
    session: Session, run_id: str, spec: RunSpec, candidate_ids: Collection[str]
) -> dict[str, Structure]:
    """Return what is known about each of these candidates of a run beside their answers."""
    names: dict[str, set[str]] = defaultdict(set)
    query = select(CandidateFindingRow.candidate_id, CandidateFindingRow.name).where(
        CandidateFindingRow.run_id == run_id
    )
    for candidate_id, name in session.execute(query):
        names[candidate_id].add(name)
    for candidate_id, outcome in _premise_outcomes(session, spec):
        names[candidate_id].add(f"premise_{outcome}")
    return {candidate_id: structure_of(names[candidate_id]) for candidate_id in candidate_ids}


def _premise_outcomes(session: Session, spec: RunSpec) -> list[tuple[str, str]]:
    if spec.premises is None:
        return []
    query = select(CellRow.subject_id, CellRow.outcome).where(
        CellRow.scope == spec.premises.id,
        CellRow.kind == PREMISES,
        CellRow.outcome.in_(("changed", "dropped")),
    )
    return [(subject_id, str(outcome)) for subject_id, outcome in session.execute(query)]
