"""From the findings of a candidate to what they mean for its verdict."""

from collections import defaultdict
from collections.abc import Iterable, Sequence

from sqlalchemy import select
from sqlalchemy.orm import Session

from rephraser.tables import CandidateFindingRow
from rephraser.verdict import Structure

PREMISE_CHANGED, PREMISE_DROPPED = "premise_changed", "premise_dropped"
PREMISES = "premises"
"""The group of what a model says about the question's premises."""

_GROUPS = {
    "number": "numbers",
    "numbers": "numbers",
    "formula": "formulas",
    "variables": "formulas",
    "renaming": "formulas",
    "unit": "units",
    "premise": PREMISES,
}
_NO_WEIGHT = frozenset({"formula_in_words"})


def structure_of(names: Iterable[str]) -> Structure:
    """Return what findings of these names mean. Those of words and names weigh nothing.

    They are as frequent on honest rephrasings as on broken ones (docs/verdicts.md).
    """
    found = set(names)
    groups = {_GROUPS.get(name.split("_")[0]) for name in found - _NO_WEIGHT} - {None}
    return Structure(frozenset(group for group in groups if group), PREMISE_DROPPED in found)


def read_structures(session: Session, run_id: str, candidate_ids: Sequence[str]) -> dict[str, Structure]:
    """Return what the structural checks of a run said about these candidates; each is in the answer."""
    names: dict[str, set[str]] = defaultdict(set)
    query = select(CandidateFindingRow.candidate_id, CandidateFindingRow.name).where(
        CandidateFindingRow.run_id == run_id
    )
    wanted = set(candidate_ids)
    for candidate_id, name in session.execute(query):
        if candidate_id in wanted:
            names[candidate_id].add(name)
    return {candidate_id: structure_of(names[candidate_id]) for candidate_id in wanted}
