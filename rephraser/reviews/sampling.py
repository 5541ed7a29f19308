"""Sampling of an audit: how many of each stratum, and which. Pure functions of a seed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from service.hashing import content_hash

STRATA: dict[str, int] = {"accepted": 2, "rejected": 2, "unverified": 2, "undecided": 1}
"""Strata with their weights. Both error rates are measured, so accepted and rejected get equal shares;
undecided ones belong to neither rate and get half as many.
"""


@dataclass(frozen=True)
class AuditMember:
    """A candidate in an audit: its verdict at the draw, and the number of candidates with that verdict.

    In an audit of groups, `stratum_size` is the number of questions with accepted neighbors.
    """

    candidate_id: str
    status: str
    stratum_size: int


def allocate(sizes: Mapping[str, int], places: int) -> dict[str, int]:
    """Distribute `places` over strata by their weights, at most as many as a stratum has.

    Each place goes to the stratum with the fewest for its weight, so that places that a small stratum cannot
    use go to the others. With at least 4 places, every non-empty stratum gets one. With fewer candidates than
    places, all are taken.

    Args:
        sizes: number of candidates by stratum; keys of `STRATA`.
        places: number of candidates to draw, at least 0.
    """
    allotted = dict.fromkeys(STRATA, 0)
    order = list(STRATA)
    for _ in range(min(places, sum(sizes.values()))):
        open_strata = [name for name in STRATA if allotted[name] < sizes.get(name, 0)]
        poorest = min(
            open_strata,
            key=lambda name: ((allotted[name] + 1) / STRATA[name], allotted[name], order.index(name)),
        )
        allotted[poorest] += 1
    return allotted


def draw(strata: Mapping[str, Sequence[str]], *, size: int, seed: int) -> list[AuditMember]:
    """Draw `size` candidates at random without replacement, in the shuffled order of their review.

    Randomness comes from hashes of seed and candidate id: the same candidates, size and seed give the same
    sample on every machine, in any input order.

    Args:
        strata: candidate ids by verdict.
    """
    places = allocate({name: len(ids) for name, ids in strata.items()}, size)
    drawn = [
        AuditMember(candidate_id, name, len(ids))
        for name, ids in strata.items()
        for candidate_id in sorted(ids, key=lambda identity: _chance("draw", seed, identity))[: places[name]]
    ]
    return sorted(drawn, key=lambda member: _chance("order", seed, member.candidate_id))


def draw_groups(accepted: Mapping[str, Sequence[str]], *, size: int, seed: int) -> list[AuditMember]:
    """Draw `size` questions at random, with all their accepted neighbors, question by question.

    Args:
        accepted: candidate ids by question id.
    """
    questions = sorted(accepted, key=lambda identity: _chance("draw", seed, identity))[:size]
    return [
        AuditMember(candidate_id, "accepted", len(accepted))
        for question in questions
        for candidate_id in sorted(
            accepted[question], key=lambda candidate_id: _chance("order", seed, candidate_id)
        )
    ]


def _chance(what: str, seed: int, candidate_id: str) -> str:
    return content_hash(f"audit-{what}", [seed, candidate_id])
