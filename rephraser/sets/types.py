"""Values of neighbor sets: a neighbor, a question with its neighbors, a version's header, a whole set."""

from dataclasses import dataclass
from typing import Any

from rephraser.verdict.successes import Successes
from service.questions import Question

POSTERIOR_DIGITS = 6


@dataclass(frozen=True)
class Neighbor:
    """A candidate as a member of a set, with the verdict it was published with.

    Attributes:
        strategy_hash: hash of the instruction; empty where the proposer has none.
        verdict: accepted, undecided, unverified or rejected.
        posterior: of "same problem", rounded to 6 digits; None where answers were not compared.
        reviewed: a human decision stands behind the verdict.
        successes: of a solver on question and neighbor; None where answers were not compared. No part of
            the content hash: it covers what is trained on.
    """

    candidate_id: str
    text: str
    proposer: str
    strategy: str
    strategy_hash: str
    model: str
    verdict: str
    posterior: float | None
    reviewed: bool
    successes: Successes | None = None


@dataclass(frozen=True)
class SetEntry:
    """A question of a set with its neighbors in order; there may be none."""

    question: Question
    neighbors: tuple[Neighbor, ...]


@dataclass(frozen=True)
class SetHeader:
    """A version without its members.

    Attributes:
        content_hash: SHA-256 over the members, the same wherever the same members are published.
        parent_id: the version of the same name before this one; None for the first.
        spec: what made it: runs with their settings and versions, filters, packages; or the import.
        counts: see `rephraser.sets.counts`.
        tags: names that point to it now.
    """

    id: str
    name: str
    version: int
    parent_id: str | None
    content_hash: str
    spec: dict[str, Any]
    counts: dict[str, Any]
    created_at: str
    tags: tuple[str, ...]

    @property
    def ref(self) -> str:
        """`NAME@VERSION`."""
        return f"{self.name}@{self.version}"

    @property
    def runs(self) -> list[dict[str, Any]]:
        """The runs that it was published from, with their settings; none recorded, none listed."""
        alone = self.spec.get("run")  # as versions before several runs have it
        return list(self.spec.get("runs", [alone] if alone else []))


@dataclass(frozen=True)
class NeighborSet:
    """A version with all its members, questions in the order they were published."""

    header: SetHeader
    entries: tuple[SetEntry, ...]


@dataclass(frozen=True)
class PublishedSet:
    """What publishing or importing came to.

    Attributes:
        header: the version that now holds the content.
        created: False where the newest version already had this very content.
        same_as: an older version of the name with this content, where a new one was made all the same.
    """

    header: SetHeader
    created: bool
    same_as: str | None = None


def canonical_posterior(value: float | None) -> float | None:
    """Return a posterior as sets hold it: 6 digits, no negative zero."""
    return None if value is None else round(float(value), POSTERIOR_DIGITS) + 0.0
