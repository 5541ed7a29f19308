"""Candidates that cost nothing: from rules, or from a file the user has."""

from collections.abc import Callable, Sequence

from rephraser.proposing.rules import propose_by_rules
from rephraser.run.ask import proposed_texts, read_texts
from rephraser.run.plan import OpenSlots, open_slots
from rephraser.run.read import Proposed, store_candidates
from rephraser.run.spec import RunSpec, cell_seed, proposal_ordinal
from service.database import Database, in_parts
from service.telling import TellProgress

QUESTIONS_PER_BATCH = 500
Source = Callable[[str, str, int], Sequence[str]]
"""Returns the first `count` candidates of a question, given its id, its text and the count."""


def rules_source(spec: RunSpec) -> Source:
    """Return the source of candidates made by rules."""

    def propose(question_id: str, text: str, count: int) -> list[str]:
        seed = cell_seed(spec.seed, question_id) or 0
        return [candidate.text for candidate in propose_by_rules(text, count, seed=seed)]

    return propose


def propose_locally(
    db: Database, run_id: str, spec: RunSpec, source: Source, *, reach: int, report: TellProgress
) -> int:
    """Store one more round for those of the first `reach` questions that lack neighbors; return how many.

    None stored means that the source has no more, or that all rounds are used up.
    """
    with db.read() as session:
        lacking = open_slots(session, run_id, spec, reach=reach)
    slots = [slot for slot in lacking if slot.round < spec.rounds]
    stored = looked_at = 0
    for batch in in_parts(slots, QUESTIONS_PER_BATCH):
        with db.read() as session:
            ids = [slot.question_id for slot in batch]
            texts, earlier = read_texts(session, ids), proposed_texts(session, run_id, ids)
        seen = {question_id: {text for _, text in proposed} for question_id, proposed in earlier.items()}
        fresh = [
            (slot, _next(source, slot, texts[slot.question_id], seen.get(slot.question_id, set())))
            for slot in batch
        ]
        proposed = [
            Proposed(
                slot.question_id,
                texts[slot.question_id],
                text,
                {
                    "cell_id": None,
                    "proposer": spec.proposer,
                    "strategy": spec.strategies[0].name,
                    "strategy_hash": spec.strategies[0].hash,
                    "model": spec.model,
                    "round": slot.round,
                    "ordinal": proposal_ordinal(slot.round, 0, 0, index),
                },
            )
            for slot, candidates in fresh
            for index, text in enumerate(candidates)
        ]
        with db.write() as session:
            stored += sum(store_candidates(session, run_id, proposed))
        looked_at += len(batch)
        report(looked_at, len(slots))
    return stored


def _next(source: Source, slot: OpenSlots, text: str, seen: set[str]) -> list[str]:
    missing = sum(slot.missing)
    proposed = source(slot.question_id, text, len(seen) + missing)
    return [candidate for candidate in proposed if candidate not in seen][:missing]
