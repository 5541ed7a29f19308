"""Values of neighbor sets and their hashes: a neighbor, a question's entry, a header, a whole set."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rephraser.verdict.successes import Successes
from service.answer_kinds import AnswerKind
from service.errors import InputError
from service.hashing import Json, content_hash, content_id
from service.questions.question import Question

POSTERIOR_DIGITS = 6


@dataclass(frozen=True)
class Neighbor:
    """A candidate as a member of a set, with its verdict at publication.

    `posterior`, of "same problem", is set in earlier sets only. `successes` are not part of the content hash,
    which covers only what is trained on.
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
    """A question of a set with its neighbors in order, possibly none."""

    question: Question
    neighbors: tuple[Neighbor, ...]


@dataclass(frozen=True)
class SetHeader:
    """A version without its members.

    `spec` is its provenance: runs with their settings and versions, filters, packages; or the import.
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
        """The runs from which it was published, with their settings; empty if none is recorded."""
        return list(self.spec.get("runs", []))


@dataclass(frozen=True)
class NeighborSet:
    """A version with all its members, questions in the order they were published."""

    header: SetHeader
    entries: tuple[SetEntry, ...]


@dataclass(frozen=True)
class PublishedSet:
    """Result of publishing or importing: the version that now has the content, and whether it is new.

    `same_as` is an older version of the name with this content, if a new one was created nevertheless.
    """

    header: SetHeader
    created: bool
    same_as: str | None = None


def select_strategies(entries: Sequence[SetEntry], names: Sequence[str], place: str) -> tuple[SetEntry, ...]:
    """Return the entries with their neighbors of these strategies only; without names, all of them."""
    if not names:
        return tuple(entries)
    known = {neighbor.strategy for entry in entries for neighbor in entry.neighbors}
    if unknown := sorted(set(names) - known):
        raise InputError(
            f"{place}: no neighbor has the strategy {', '.join(unknown)}. Choose from "
            f"{', '.join(sorted(known)) or 'none'}."
        )
    return tuple(
        replace(entry, neighbors=tuple(each for each in entry.neighbors if each.strategy in names))
        for entry in entries
    )


def canonical_posterior(value: float | None) -> float | None:
    """Return a posterior as stored in sets: 6 digits, no negative zero."""
    return None if value is None else round(float(value), POSTERIOR_DIGITS) + 0.0


def entry_hash(entry: SetEntry) -> str:
    """Return the SHA-256 of a question with its neighbors, in order and without their success counts.

    These grow with every verdict. The id covers their hash in the version's counts.
    """
    question = entry.question
    hashed = ("text", "proposer", "strategy", "strategy_hash", "model", "verdict", "reviewed")
    neighbors: list[Json] = [
        # Spelled out, so that the hash does not depend on how a language prints floats.
        {"posterior": None if each.posterior is None else f"{each.posterior:.{POSTERIOR_DIGITS}f}"}
        | {name: getattr(each, name) for name in hashed}
        for each in entry.neighbors
    ]
    value: dict[str, Json] = {
        "question": question.text,
        "answer": question.answer,
        "level": question.level,
        "subject": question.subject,
        "neighbors": neighbors,
    }
    if question.kind != AnswerKind.LATEX:
        value["kind"] = str(question.kind)
    if question.images:
        value["images"] = list(question.images)
    return content_hash("set-entry", value)


def set_hash(entries: Iterable[SetEntry]) -> str:
    """Return the SHA-256 of a set's members: of the sorted hashes of its entries.

    The order of the questions does not matter; the order of a question's neighbors does (a training with
    fewer than N uses the first ones).
    """
    return content_hash("neighbor-set", sorted(entry_hash(entry) for entry in entries))


def set_id(header: SetHeader) -> str:
    """Return the required id of a version: it covers the header except the time and the tags."""
    covered = {name: getattr(header, name) for name in ("name", "version", "spec", "counts")}
    return content_id("set", {**covered, "parent": header.parent_id, "content": header.content_hash})
