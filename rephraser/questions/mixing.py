"""Mixes a set with seeded chunks of another, without overlaps: the control of the TA-GRPO paper.

The paper trains GRPO on MATH plus chunks of 3,749 questions of OpenR1-Math-220k, so that the data grows from
1x to 2.5x without rephrasings. A chunk is half of the base (7,498 / 2).
"""

import hashlib
from collections.abc import Sequence
from typing import Any

from rephraser.questions.duplicates import NEAR_RATIO, NearIndex
from rephraser.questions.store import Member, find_same_set, get_set, load_members, members_hash, store_set
from service.database import Database
from service.errors import InputError
from service.questions.question import Question
from service.runs.store import check_name
from service.telling import TellStage, tell_nobody


def choose_extra(
    base: Sequence[Question], extra: Sequence[Question], count: int, seed: int, progress: TellStage
) -> tuple[list[Question], dict[str, int]]:
    """Return the first `count` questions of `extra`, in seeded order, that overlap with nothing before them.

    The order depends on the seed and the ids, so a larger count begins with the same questions. The list is
    shorter than `count` when the extra set runs out.
    """

    def order(question: Question) -> bytes:
        return hashlib.sha256(f"tagrpo-mix\0{seed}\0{question.id}".encode()).digest()

    index = NearIndex()
    for done, question in enumerate(base):
        index.nearest(question, done)
        progress("reading the base", done, len(base))
    chosen: list[Question] = []
    overlaps = {"same_text": 0, "near": 0}
    for question in sorted(extra, key=order):
        if len(chosen) == count:
            break
        match = index.nearest(question)
        if match is not None and match.same_digits:
            overlaps["same_text" if match.ratio == 100 else "near"] += 1
            continue
        index.nearest(question, len(base) + len(chosen))
        chosen.append(question)
        progress("choosing", len(chosen), count)
    return chosen, overlaps


def mix_sets(
    db: Database,
    name: str,
    *,
    base: str,
    extra: str,
    seed: int,
    chunks: int,
    chunk: int | None = None,
    progress: TellStage = tell_nobody,
) -> dict[str, Any]:
    """Store a new set: the usable questions of `base`, then `chunks` seeded chunks of those of `extra`.

    A chunk is half of the base unless its size is given. Making the same mix again changes nothing. Returns
    the machine-readable form with the spec that is stored; `overlaps` in it counts extra questions that were
    passed over: same_text (equal but for blanks and case) or near (similar wording with the same digits).
    """
    check_name(name)
    with db.read() as session:
        base_set, extra_set = get_set(session, base), get_set(session, extra)
        base_members, extra_members = load_members(session, base), load_members(session, extra)
    if base == extra:
        raise InputError(f'the base and the extra set are both "{base}". A set cannot be mixed with itself.')
    own = [member.question for member in base_members if member.held is None]
    offered = [member.question for member in extra_members if member.held is None]
    if not own:
        raise InputError(f'the base "{base}" has no usable questions.')
    chunk = max(1, len(own) // 2) if chunk is None else chunk
    if chunk < 1 or chunks < 0:
        raise InputError(f"{chunks} chunks of {chunk} questions cannot be drawn. Give at least 1 question.")
    wanted = chunk * chunks
    everything = [member.question for member in base_members]
    chosen, overlaps = choose_extra(everything, offered, wanted, seed, progress)
    if len(chosen) < wanted:
        raise InputError(
            f'"{extra}" has only {len(chosen):,} questions that do not overlap with "{base}" or each other '
            f"({len(offered):,} usable, {overlaps['same_text']:,} identical, {overlaps['near']:,} "
            f"near-duplicates). {chunks} chunks of {chunk:,} need {wanted:,}. Import more, or request fewer."
        )
    members = [Member(position, question) for position, question in enumerate([*own, *chosen])]
    spec: dict[str, Any] = {
        "kind": "mix",
        "content_hash": members_hash((member.position, member.question.id) for member in members),
        "base": {"set": base, "content_hash": base_set.content_hash, "questions": len(own)},
        "extra": {"set": extra, "content_hash": extra_set.content_hash, "questions": len(chosen)},
        "chunk": chunk,
        "chunks": chunks,
        "seed": seed,
        "near_ratio": NEAR_RATIO,
        "overlaps": overlaps,
    }
    with db.write() as session:
        stored = find_same_set(session, name, spec["content_hash"])
        if stored is None:
            store_set(session, name, members, spec)
    return {
        "set": name,
        "created": stored is None,
        "questions": len(members),
        "times": len(members) / len(own),
        "spec": spec if stored is None else stored.spec,
    }
