"""Verification of a published version: recompute everything possible and compare it."""

from collections.abc import Iterator
from typing import NamedTuple

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from rephraser.sets.counts import count_members
from rephraser.sets.store import find_set, load_entries
from rephraser.sets.types import SetEntry, SetHeader, set_hash, set_id
from rephraser.tables import NeighborSetMemberRow, NeighborSetRow, ProposalRow, candidate_id
from service.questions import question_id
from service.runs.tables import RunRow

_SHOWN = 5


class VerifyReport(NamedTuple):
    """Result of a verification: the hash of the present members, and one sentence for each problem."""

    header: SetHeader
    derived_hash: str
    problems: list[str]


def verify(session: Session, reference: str) -> VerifyReport:
    """Recompute a version's hash, id, counts and the ids of its texts, and compare them with the stored ones.

    Neighbors must have been proposed in the version's runs, if these are in the database.
    """
    header = find_set(session, reference)
    entries = load_entries(session, header.id)
    derived = set_hash(entries)
    problems: list[str] = []
    if derived != header.content_hash:
        problems.append(
            f"the hash of the members is {derived}, but the published one is {header.content_hash}: members "
            "have changed"
        )
    if set_id(header) != header.id:
        problems.append(
            f"the id computed from name, version, parent, content, spec and counts is {set_id(header)}, not "
            f"{header.id}: one of them has changed"
        )
    counted = count_members(entries)
    problems += [
        f"the members have {key} = {value}, but the set records {header.counts.get(key)}"
        for key, value in ({"successes": None} | counted).items()
        if header.counts.get(key) != value
    ]
    wrong = [*_wrong_ids(entries), *_find_unproposed(session, header, entries)]
    more = len(wrong) - _SHOWN
    problems += wrong[:_SHOWN] + ([f"and {more} more such problems"] if more > 0 else [])
    stored = session.scalar(
        select(func.count()).select_from(NeighborSetMemberRow).where(NeighborSetMemberRow.set_id == header.id)
    )
    if stored != counted["neighbors"]:
        problems.append(f"{stored} neighbors are stored, but {counted['neighbors']} belong to its questions")
    if header.parent_id is not None and session.get(NeighborSetRow, header.parent_id) is None:
        problems.append(f"its parent {header.parent_id} is missing")
    return VerifyReport(header, derived, problems)


def _find_unproposed(session: Session, header: SetHeader, entries: list[SetEntry]) -> list[str]:
    """Report neighbors that none of the set's runs proposed, if this database has these runs."""
    runs = [run["id"] for run in header.runs]
    held = session.scalar(select(func.count()).select_from(RunRow).where(RunRow.id.in_(runs)))
    if "import" in header.spec or not runs or held != len(runs):
        return []
    proposed = set(session.scalars(select(ProposalRow.candidate_id).where(ProposalRow.run_id.in_(runs))))
    return [
        f"neighbor {neighbor.candidate_id} does not come from any of the set's runs"
        for entry in entries
        for neighbor in entry.neighbors
        if neighbor.candidate_id not in proposed
    ]


def _wrong_ids(entries: list[SetEntry]) -> Iterator[str]:
    for entry in entries:
        question = entry.question
        if question_id(question.text, question.answer, question.kind, question.images) != question.id:
            yield f"the text, answer or images of question {question.id} do not match its id"
        for neighbor in entry.neighbors:
            if candidate_id(question.id, neighbor.text) != neighbor.candidate_id:
                yield f"the text of neighbor {neighbor.candidate_id} does not match its id"
