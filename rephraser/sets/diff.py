"""What changed from one version to another: questions, neighbors and their verdicts."""

from dataclasses import dataclass, replace

from sqlalchemy.orm import Session

from rephraser.reviews.status import current_statuses
from rephraser.sets.store import load_set
from rephraser.sets.types import Neighbor, SetEntry, SetHeader


@dataclass(frozen=True)
class Place:
    """A neighbor and the question it belongs to.

    Attributes:
        now: for a removed neighbor, where its candidate stands now in the runs behind the newer version
            (rejected, say); None where these did not propose it, and for added neighbors.
    """

    question_id: str
    neighbor: Neighbor
    now: str | None = None


@dataclass(frozen=True)
class Change:
    """The same text in both versions with another verdict, posterior, review or origin."""

    question_id: str
    before: Neighbor
    after: Neighbor

    @property
    def verdict_changed(self) -> bool:
        """True where the verdict itself differs."""
        return self.before.verdict != self.after.verdict

    @property
    def fields(self) -> tuple[str, ...]:
        """Names of the fields that differ; success counts are no part of the content."""
        return tuple(
            key
            for key, value in vars(self.before).items()
            if key != "successes" and getattr(self.after, key) != value
        )


@dataclass(frozen=True)
class SetDiff:
    """The way from version `a` to version `b`; questions and neighbors are the same where their ids are.

    Attributes:
        questions_relabelled: same question, other level or subject.
        reordered: questions with the same neighbors in another order.
    """

    a: SetHeader
    b: SetHeader
    questions_added: tuple[str, ...]
    questions_removed: tuple[str, ...]
    questions_relabelled: tuple[str, ...]
    added: tuple[Place, ...]
    removed: tuple[Place, ...]
    changed: tuple[Change, ...]
    reordered: tuple[str, ...]

    @property
    def same(self) -> bool:
        """True where both versions have the same content."""
        return self.a.content_hash == self.b.content_hash

    @property
    def verdicts_changed(self) -> tuple[Change, ...]:
        """The changes in which the verdict itself differs."""
        return tuple(change for change in self.changed if change.verdict_changed)


def diff(session: Session, a: str, b: str) -> SetDiff:
    """Compare two versions (of one name or of two), in the order of `b`, then of `a` for what is gone.

    Neighbors of a question that is only in one version count as added or removed too.

    Raises:
        NotFoundError: one of them does not exist.
    """
    before, after = load_set(session, a), load_set(session, b)
    old = {entry.question.id: entry for entry in before.entries}
    new = {entry.question.id: entry for entry in after.entries}
    statuses = _statuses(session, after.header)
    shared = [(old[key], entry) for key, entry in new.items() if key in old]
    return SetDiff(
        a=before.header,
        b=after.header,
        questions_added=tuple(key for key in new if key not in old),
        questions_removed=tuple(key for key in old if key not in new),
        questions_relabelled=tuple(x.question.id for x, y in shared if x.question != y.question),
        added=tuple(place for entry in after.entries for place in _only_in(entry, old)),
        removed=tuple(
            replace(place, now=statuses.get(place.neighbor.candidate_id))
            for entry in before.entries
            for place in _only_in(entry, new)
        ),
        changed=tuple(change for x, y in shared for change in _changes(x, y)),
        reordered=tuple(x.question.id for x, y in shared if _reordered(x, y)),
    )


def _statuses(session: Session, header: SetHeader) -> dict[str, str | None]:
    """Return where candidates stand in the version's runs; the first that proposed one counts."""
    return {
        item.candidate_id: item.status
        for run in reversed(header.runs)
        for item in current_statuses(session, run["id"])
    }


def _only_in(entry: SetEntry, other: dict[str, SetEntry]) -> list[Place]:
    there = other.get(entry.question.id)
    known = set() if there is None else {neighbor.candidate_id for neighbor in there.neighbors}
    return [Place(entry.question.id, item) for item in entry.neighbors if item.candidate_id not in known]


def _changes(x: SetEntry, y: SetEntry) -> list[Change]:
    after = {neighbor.candidate_id: neighbor for neighbor in y.neighbors}
    both = (
        Change(x.question.id, neighbor, after[neighbor.candidate_id])
        for neighbor in x.neighbors
        if neighbor.candidate_id in after
    )
    return [change for change in both if change.fields]


def _reordered(x: SetEntry, y: SetEntry) -> bool:
    ids_x = [neighbor.candidate_id for neighbor in x.neighbors]
    ids_y = [neighbor.candidate_id for neighbor in y.neighbors]
    return ids_x != ids_y and sorted(ids_x) == sorted(ids_y)
