"""The canonical form of a set's members and its hash."""

from collections.abc import Iterable

from rephraser.sets.types import POSTERIOR_DIGITS, Neighbor, SetEntry, SetHeader
from service.hashing import Json, content_hash, content_id


def entry_hash(entry: SetEntry) -> str:
    """Return the SHA-256 of a question with its neighbors.

    It covers the question's text, answer, level and subject and, of every neighbor in order, the text,
    proposer, strategy and its hash, model, verdict, posterior (6 digits) and whether it was reviewed. Ids are
    left out: they follow from the texts. So are success counts, which grow with every verdict and change
    nothing that is trained on; the id covers their own hash, which stands in the version's counts.
    """
    question = entry.question
    return content_hash(
        "set-entry",
        {
            "question": question.text,
            "answer": question.answer,
            "level": question.level,
            "subject": question.subject,
            "neighbors": [_neighbor(neighbor) for neighbor in entry.neighbors],
        },
    )


def set_hash(entries: Iterable[SetEntry]) -> str:
    """Return the SHA-256 of a set's members: of the sorted hashes of its entries.

    The order of the questions does not matter, the order of a question's neighbors does (who trains with
    fewer than N takes the first ones).
    """
    return hash_of_entry_hashes(entry_hash(entry) for entry in entries)


def hash_of_entry_hashes(hashes: Iterable[str]) -> str:
    """Return the set's hash from the hashes of its entries, in any order."""
    return content_hash("neighbor-set", sorted(hashes))


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
