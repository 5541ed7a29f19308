"""Changes between two versions: questions and neighbors added, removed or changed.

The changes are available as counts, page by page, and complete.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from sqlalchemy import ColumnElement, and_, case, func, or_, select, tuple_
from sqlalchemy.orm import Session, aliased

from rephraser.reviews.status import current_statuses
from rephraser.sets.store import find_set, neighbor_columns, read_neighbor
from rephraser.sets.types import Neighbor, SetHeader
from rephraser.tables import CandidateRow, NeighborSetMemberRow, NeighborSetQuestionRow

ChangeKind = Literal["added", "removed", "changed"]
CONTENT = ("verdict", "posterior", "reviewed", "strategy", "strategy_hash", "model", "proposer")
"""Fields of a neighbor that may change, in addition to its text; success counts are no content."""


@dataclass(frozen=True)
class ChangeCounts:
    """Counts of differences; `changed` neighbors are in both with another verdict or origin."""

    questions_added: int
    questions_removed: int
    added: int
    removed: int
    changed: int


@dataclass(frozen=True)
class Change:
    """A neighbor that is in one version only, or in both with another verdict, posterior, review or origin.

    Attributes:
        position: in the newer version; of a removed neighbor in the older one. A page continues after the key
            (question_id, position).
        before, after: the neighbor in either version, or None.
        now: for a removed neighbor in a complete comparison, its candidate's current status in the runs of
            the newer version (such as rejected); None if they did not propose it.
    """

    question_id: str
    position: int
    before: Neighbor | None
    after: Neighbor | None
    now: str | None = None

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

    @property
    def verdict_changed(self) -> bool:
        """Whether the verdict itself differs."""
        return "verdict" in self.fields


@dataclass(frozen=True)
class SetDiff:
    """The changes from version `a` to version `b`; questions and neighbors are matched by id.

    Attributes:
        questions_added, questions_removed: in the order of their version.
        added, removed, changed: by question and position.
        reordered: questions with the same neighbors in another order.
    """

    a: SetHeader
    b: SetHeader
    questions_added: tuple[str, ...]
    questions_removed: tuple[str, ...]
    added: tuple[Change, ...]
    removed: tuple[Change, ...]
    changed: tuple[Change, ...]
    reordered: tuple[str, ...]

    @property
    def same(self) -> bool:
        """Whether both versions have the same content."""
        return self.a.content_hash == self.b.content_hash

    def to_json(self) -> dict[str, Any]:
        """Return the machine-readable form."""
        return {
            "a": self.a.ref,
            "b": self.b.ref,
            "same": self.same,
            "questions_added": list(self.questions_added),
            "questions_removed": list(self.questions_removed),
            "neighbors_added": [_moved(change) for change in self.added],
            "neighbors_removed": [_moved(change) for change in self.removed],
            "neighbors_changed": [
                {
                    "question_id": change.question_id,
                    "before": change.before and asdict(change.before),
                    "after": change.after and asdict(change.after),
                    "fields": list(change.fields),
                    "verdict_changed": change.verdict_changed,
                }
                for change in self.changed
            ],
            "reordered": list(self.reordered),
        }


def _moved(change: Change) -> dict[str, Any]:
    return {"question_id": change.question_id, "neighbor": asdict(change.neighbor), "now": change.now}


def diff(session: Session, a: str, b: str) -> SetDiff:
    """Compare two versions (of one name or of two).

    Neighbors of a question that is only in one version also count as added or removed.

    Raises:
        NotFoundError: one of them does not exist.
    """
    before, after = find_set(session, a), find_set(session, b)
    removed = page_changes(session, before.id, after.id, "removed", limit=None)
    if removed:
        standing = _statuses(session, after)
        removed = [replace(change, now=standing.get(change.neighbor.candidate_id)) for change in removed]
    return SetDiff(
        a=before,
        b=after,
        questions_added=_only_in(session, after.id, before.id),
        questions_removed=_only_in(session, before.id, after.id),
        added=tuple(page_changes(session, before.id, after.id, "added", limit=None)),
        removed=tuple(removed),
        changed=tuple(page_changes(session, before.id, after.id, "changed", limit=None)),
        reordered=_reordered(session, before.id, after.id),
    )


def count_changes(session: Session, a_id: str, b_id: str) -> ChangeCounts:
    """Return how many questions and neighbors differ between the versions with these ids.

    Reads one version once; published versions never change, so the result may be cached.
    """
    here, there = aliased(NeighborSetMemberRow), aliased(NeighborSetMemberRow)
    in_both, changed = session.execute(
        select(func.count(), func.sum(case((_differs(here, there), 1), else_=0)))
        .select_from(here)
        .join(there, _same(here, there, a_id))
        .where(here.set_id == b_id)
    ).one()
    sizes = {
        id: session.scalar(select(func.count()).where(NeighborSetMemberRow.set_id == id)) or 0
        for id in (a_id, b_id)
    }
    return ChangeCounts(
        questions_added=len(_only_in(session, b_id, a_id)),
        questions_removed=len(_only_in(session, a_id, b_id)),
        added=sizes[b_id] - in_both,
        removed=sizes[a_id] - in_both,
        changed=int(changed or 0),
    )


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
    query, here, there = _members(a_id, b_id, kind) if kind == "removed" else _members(b_id, a_id, kind)
    if after is not None:
        query = query.where(here.question_id >= after[0], tuple_(here.question_id, here.position) > after)
    rows = session.execute(
        query.join(CandidateRow, CandidateRow.id == here.candidate_id)
        .with_only_columns(here.question_id, here.position, *neighbor_columns(here), *neighbor_columns(there))
        .order_by(here.question_id, here.position)
        .limit(limit)
    )
    return [_change(kind, row) for row in rows]


def _change(kind: ChangeKind, row: Sequence[Any]) -> Change:
    question_id, position, *columns = row
    half = len(columns) // 2
    mine = read_neighbor(columns[:half])
    if kind == "changed":
        return Change(question_id, position, read_neighbor(columns[half:]), mine)
    return Change(question_id, position, *((None, mine) if kind == "added" else (mine, None)))


def _statuses(session: Session, header: SetHeader) -> dict[str, str | None]:
    """Return the candidates' status in the version's runs; the first that proposed one counts."""
    return {
        item.candidate_id: item.status
        for run in reversed(header.runs)
        for item in current_statuses(session, run["id"])
    }


def _members(of: str, other: str, kind: ChangeKind) -> Any:
    """Return the query of members of `of` that are missing or different in `other`, and both sides."""
    here, there = aliased(NeighborSetMemberRow), aliased(NeighborSetMemberRow)
    query = select(here.question_id).where(here.set_id == of)
    if kind == "changed":
        return query.join(there, _same(here, there, other)).where(_differs(here, there)), here, there
    missing = there.candidate_id.is_(None)
    return query.outerjoin(there, _same(here, there, other)).where(missing), here, there


def _same(here: Any, there: Any, other: str) -> ColumnElement[bool]:
    # A candidate belongs to one question, so its id is enough.
    return and_(there.candidate_id == here.candidate_id, there.set_id == other)


def _differs(here: Any, there: Any) -> ColumnElement[bool]:
    return or_(*(getattr(here, name).is_distinct_from(getattr(there, name)) for name in CONTENT))


def _only_in(session: Session, of: str, other: str) -> tuple[str, ...]:
    row = NeighborSetQuestionRow
    query = select(row.question_id).where(
        row.set_id == of, row.question_id.not_in(select(row.question_id).where(row.set_id == other))
    )
    return tuple(session.scalars(query.order_by(row.position)))


def _reordered(session: Session, a_id: str, b_id: str) -> tuple[str, ...]:
    old, new = _orders(session, a_id), _orders(session, b_id)
    return tuple(
        key for key, ids in new.items() if key in old and old[key] != ids and sorted(old[key]) == sorted(ids)
    )


def _orders(session: Session, set_id: str) -> dict[str, list[str]]:
    """Return the neighbors of each question in their order."""
    row = NeighborSetMemberRow
    orders: dict[str, list[str]] = {}
    query = select(row.question_id, row.candidate_id).where(row.set_id == set_id)
    for question_id, candidate_id in session.execute(query.order_by(row.question_id, row.position)):
        orders.setdefault(question_id, []).append(candidate_id)
    return orders
