"""Values of neighbor sets and their hashes: a neighbor, a question with its own, a header, a whole set."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from rephraser.verdict.successes import Successes
from service.answer_kinds import AnswerKind
from service.hashing import Json, content_hash, content_id
from service.questions import Question

POSTERIOR_DIGITS = 6


@dataclass(frozen=True)
class Neighbor:
    """A candidate as a member of a set, with the verdict it was published with.

    Attributes:
        strategy_hash: hash of the instruction; empty where the proposer has none.
        verdict: accepted, undecided, unverified or rejected.
        posterior: of "same problem", rounded to 6 digits, in earlier sets; None in new ones.
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


def entry_hash(entry: SetEntry) -> str:
    """Return the SHA-256 of a question with its neighbors.

    It covers the question's text, answer, level, subject, kind (unless that is latex) and images (where there
    are any) and, of every neighbor in order, the text, proposer, strategy and its hash, model, verdict,
    posterior (6 digits) and whether it was reviewed. Other ids are left out: they follow from these. So are
    success counts, which grow with every verdict and change nothing that is trained on; the id covers their
    own hash, which stands in the version's counts.
    """
    question = entry.question
    value: dict[str, Json] = {
        "question": question.text,
        "answer": question.answer,
        "level": question.level,
        "subject": question.subject,
        "neighbors": [_neighbor(neighbor) for neighbor in entry.neighbors],
    }
    if question.kind != AnswerKind.LATEX:
        value["kind"] = str(question.kind)
    if question.images:
        value["images"] = list(question.images)
    return content_hash("set-entry", value)


def set_hash(entries: Iterable[SetEntry]) -> str:
    """Return the SHA-256 of a set's members: of the sorted hashes of its entries.

    The order of the questions does not matter, the order of a question's neighbors does (who trains with
    fewer than N takes the first ones).
    """
    return content_hash("neighbor-set", sorted(entry_hash(entry) for entry in entries))


def set_id(header: SetHeader) -> str:
    """Return the id that a version must have: it covers all of the header but the time and the tags."""
    return content_id(
        "set",
        {
            "name": header.name,
            "version": header.version,
            "parent": header.parent_id,
            "content": header.content_hash,
            "spec": header.spec,
            "counts": header.counts,
        },
    )


def _neighbor(neighbor: Neighbor) -> dict[str, Json]:
    posterior = neighbor.posterior
    return {
        "text": neighbor.text,
        "proposer": neighbor.proposer,
        "strategy": neighbor.strategy,
        "strategy_hash": neighbor.strategy_hash,
        "model": neighbor.model,
        "verdict": neighbor.verdict,
        # Spelled out, so that the hash does not hang on how a language prints floats.
        "posterior": None if posterior is None else f"{posterior:.{POSTERIOR_DIGITS}f}",
        "reviewed": neighbor.reviewed,
    }
