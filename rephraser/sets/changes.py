"""Changes between two versions, as counts, page by page, and complete."""

from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

from sqlalchemy import ColumnElement, and_, func, or_, select, tuple_
from sqlalchemy.orm import Session, aliased

from rephraser.candidates import PENDING
from rephraser.sets.store import find_set, neighbor_columns, read_neighbor
from rephraser.sets.types import Neighbor
from rephraser.tables import CandidateRow, NeighborSetMemberRow, NeighborSetQuestionRow, StandingRow

ChangeKind = Literal["added", "removed", "changed"]
CONTENT = ("verdict", "posterior", "reviewed", "strategy", "strategy_hash", "model", "proposer")
"""Fields of a neighbor that may change, in addition to its text; success counts are no content."""


@dataclass(frozen=True)
class Change:
    """A neighbor that is in one version only, or in both with another verdict, posterior, review or origin.

    `position` is that of the newer version, or of the older one for a removed neighbor. A page continues
    after the key (question_id, position).
    """

    question_id: str
    position: int
    before: Neighbor | None
    after: Neighbor | None

    @property
    def neighbor(self) -> Neighbor:
        """The neighbor in the newer version, or else in the older one."""
        neighbor = self.after or self.before
        assert neighbor is not None
        return neighbor

    @property
    def fields(self) -> tuple[str, ...]:
        """Names of the fields that differ; none for an added or removed neighbor."""
        if self.before is None or self.after is None:
            return ()
        return tuple(name for name in CONTENT if getattr(self.before, name) != getattr(self.after, name))


def diff(session: Session, a: str, b: str) -> dict[str, Any]:
    """Compare two versions (of one name or of two), as one JSON object.

    Questions are in the order of their version, neighbors by question and position. Neighbors of a question
    that is only in one version also count as added or removed. `reordered` are questions with the same
    neighbors in another order. `now` is the status that the candidate of a removed neighbor has in the runs
    of the newer version; null if they did not propose or judge it.
    """
    before, after = find_set(session, a), find_set(session, b)
    added, removed, changed = (
        page_changes(session, before.id, after.id, kind, limit=None) for kind in get_args(ChangeKind)
    )
    status = func.nullif(StandingRow.status, PENDING).label("status")
    proposed = select(StandingRow.candidate_id, status)
    standing = {  # the first run that proposed a candidate counts
        item.candidate_id: item.status
        for run in reversed(after.runs if removed else [])
        for item in session.execute(proposed.where(StandingRow.run_id == run["id"]))
    }

    def one_sided(change: Change) -> dict[str, Any]:
        now = standing.get(change.neighbor.candidate_id) if change.after is None else None
        return {"question_id": change.question_id, "neighbor": asdict(change.neighbor), "now": now}

    old, new = _orders(session, before.id), _orders(session, after.id)
    return {
        "a": before.ref,
        "b": after.ref,
        "same": before.content_hash == after.content_hash,
        "questions_added": _only_in(session, after.id, before.id),
        "questions_removed": _only_in(session, before.id, after.id),
        "neighbors_added": list(map(one_sided, added)),
        "neighbors_removed": list(map(one_sided, removed)),
        "neighbors_changed": [
            {
                "question_id": change.question_id,
                "before": change.before and asdict(change.before),
                "after": change.after and asdict(change.after),
                "fields": list(change.fields),
            }
            for change in changed
        ],
        "reordered": [
            key for key, ids in new.items() if key in old and old[key] != ids and {*old[key]} == {*ids}
        ],
    }


def count_changes(session: Session, a_id: str, b_id: str) -> dict[str, int]:
    """Return how many questions and neighbors differ between the versions with these ids.

    Published versions never change, so the result may be cached.
    """
    questions = {"added": _only_in(session, b_id, a_id), "removed": _only_in(session, a_id, b_id)}
    counts = {f"questions_{name}": len(ids) for name, ids in questions.items()}
    for kind in get_args(ChangeKind):
        members = _members(a_id, b_id, kind)[0].subquery()
        counts[kind] = session.scalar(select(func.count()).select_from(members)) or 0
    return counts


def page_changes(
    session: Session,
    a_id: str,
    b_id: str,
    kind: ChangeKind,
    *,
    after: tuple[str, int] | None = None,
    limit: int | None = 25,
) -> list[Change]:
    """Return up to `limit` changes of a kind after the key `after`, from version a to b.

    By question and position; without a limit, all.
    """
    query, here, there = _members(a_id, b_id, kind)
    if after is not None:
        query = query.where(here.question_id >= after[0], tuple_(here.question_id, here.position) > after)
    rows = session.execute(
        query.join(CandidateRow, CandidateRow.id == here.candidate_id)
        .with_only_columns(here.question_id, here.position, *neighbor_columns(here), *neighbor_columns(there))
        .order_by(here.question_id, here.position)
        .limit(limit)
    )
    changes = []
    for question_id, position, *columns in rows:
        half = len(columns) // 2
        mine = read_neighbor(columns[:half])
        other = read_neighbor(columns[half:]) if kind == "changed" else None
        sides = (mine, other) if kind == "removed" else (other, mine)
        changes.append(Change(question_id, position, *sides))
    return changes


def _members(a_id: str, b_id: str, kind: ChangeKind) -> Any:
    """Return the query of the members with a change, in the one version and aliased in the other."""
    of, other = (a_id, b_id) if kind == "removed" else (b_id, a_id)
    here, there = aliased(NeighborSetMemberRow), aliased(NeighborSetMemberRow)
    query = select(here.question_id).where(here.set_id == of)
    # A candidate belongs to one question, so its id is enough.
    same: ColumnElement[bool] = and_(there.candidate_id == here.candidate_id, there.set_id == other)
    if kind != "changed":
        return query.outerjoin(there, same).where(there.candidate_id.is_(None)), here, there
    differs = or_(*(getattr(here, name).is_distinct_from(getattr(there, name)) for name in CONTENT))
    return query.join(there, same).where(differs), here, there


def _only_in(session: Session, of: str, other: str) -> list[str]:
    row = NeighborSetQuestionRow
    query = select(row.question_id).where(
        row.set_id == of, row.question_id.not_in(select(row.question_id).where(row.set_id == other))
    )
    return list(session.scalars(query.order_by(row.position)))


def _orders(session: Session, set_id: str) -> dict[str, list[str]]:
    """Return the neighbors of each question in their order."""
    row = NeighborSetMemberRow
    orders: dict[str, list[str]] = {}
    query = select(row.question_id, row.candidate_id).where(row.set_id == set_id)
    for question_id, candidate_id in session.execute(query.order_by(row.question_id, row.position)):
        orders.setdefault(question_id, []).append(candidate_id)
    return orders
