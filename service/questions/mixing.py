"""Mixes a set with seeded chunks of another, without overlaps: the control of the TA-GRPO paper.

The paper trains GRPO on MATH plus chunks of 3,749 questions of OpenR1-Math-220k, so that the data grows from
1x to 2.5x without rephrasings. A chunk is half of the base (7,498 / 2).
"""

import hashlib
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy.orm import Session

from service.database import Database
from service.errors import InputError
from service.questions.duplicates import NEAR_RATIO, NearIndex, comparable
from service.questions.question import Question
from service.questions.store import (
    Member,
    StoredSet,
    check_set_name,
    find_set,
    get_set,
    load_members,
    members_hash,
    store_set,
)
from service.telling import TellStage

REPORT_EVERY = 200


@dataclass(frozen=True)
class MixReport:
    """A mix: how many questions of each set it has, and what was passed over.

    `overlaps` counts extra questions by the reason: same_text (equal but for blanks and case, the same id
    included) or near (similar wording with the same digits), with a question of the base or an earlier one.
    """

    name: str
    created: bool
    base: int
    extra: int
    chunk: int
    chunks: int
    overlaps: dict[str, int]
    spec: dict[str, Any] = field(repr=False)

    @property
    def times(self) -> float:
        """The size of the mix over that of its base."""
        return (self.base + self.extra) / self.base


def seeded_order(questions: Sequence[Question], seed: int) -> list[Question]:
    """Return the questions in an order that hangs on the seed and their ids alone, not on their places."""

    def key(question: Question) -> bytes:
        return hashlib.sha256(f"tagrpo-mix\0{seed}\0{question.id}".encode()).digest()

    return sorted(questions, key=key)


def choose_extra(
    base: Sequence[Question],
    extra: Sequence[Question],
    count: int,
    seed: int,
    progress: TellStage | None = None,
) -> tuple[list[Question], dict[str, int]]:
    """Return the first `count` questions of `extra`, in seeded order, that overlap with nothing before them.

    A larger count with the same seed begins with the same questions, so that mixes are nested. The list is
    shorter than `count` when the extra set runs out.
    """
    indexes: defaultdict[tuple[str, ...], NearIndex] = defaultdict(NearIndex)  # by images
    texts: set[tuple[tuple[str, ...], str]] = set()
    for done, question in enumerate(base):
        texts.add((question.images, comparable(question.text)))
        indexes[question.images].add(done, question.text)
        _tell(progress, "reading the base", done + 1, len(base))
    chosen: list[Question] = []
    overlaps = {"same_text": 0, "near": 0}
    for question in seeded_order(extra, seed):
        if len(chosen) == count:
            break
        same = question.images, comparable(question.text)
        if same in texts:
            overlaps["same_text"] += 1
            continue
        match = indexes[question.images].nearest(question.text)
        if match is not None and match.same_digits:
            overlaps["near"] += 1
            continue
        texts.add(same)
        indexes[question.images].add(len(base) + len(chosen), question.text)
        chosen.append(question)
        _tell(progress, "choosing", len(chosen), count)
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
    progress: TellStage | None = None,
) -> MixReport:
    """Store a new set: the usable questions of `base`, then `chunks` seeded chunks of those of `extra`.

    A chunk is half of the base unless its size is given. Making the same mix again changes nothing.
    """
    check_set_name(name)
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
        stored = _same_or_none(session, name, spec)
        if stored is None:
            store_set(session, name, members, spec)
    return MixReport(name, stored is None, len(own), len(chosen), chunk, chunks, overlaps, spec)


def _same_or_none(session: Session, name: str, spec: dict[str, Any]) -> StoredSet | None:
    stored = find_set(session, name)
    if stored is None or stored.spec == spec:
        return stored
    if stored.content_hash == spec["content_hash"]:
        how = "the same questions, but was created with other settings"
    else:
        how = "other questions"
    raise InputError(
        f'the question set "{name}" ({stored.created_at}) has {how}. A set never changes, so choose another '
        "name for this mix."
    )


def _tell(progress: TellStage | None, what: str, done: int, total: int) -> None:
    if progress is not None and (done % REPORT_EVERY == 0 or done == total):
        progress(what, done, total)
