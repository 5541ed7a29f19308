"""Recorded rollouts as the diagnostics want them: counts of each visit of a question, and texts."""

from collections.abc import Iterator, Sequence

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from evaluator.signal.groups import CheckpointGroups, GroupTexts, PromptSample, QuestionGroup, Source
from service.errors import InputError
from service.runs.store import Run
from trainer_adapter.record.browsing import read_rollout_texts
from trainer_adapter.record.tables import RolloutPromptRow, RolloutRow, RolloutShardRow

_QUESTIONS_AT_ONCE = 50
_ORIGINAL = 0


def training_source(session: Session, run: Run, first: int, last: int) -> Source:
    """Return the responses of the steps `first` to `last`, read while the session is open.

    Raises:
        InputError: as `load_visits`.
    """
    checkpoint = load_visits(session, run, first, last)
    return Source(checkpoint.label, (checkpoint,), lambda _, ids: visit_texts(session, run, first, last, ids))


def load_visits(session: Session, run: Run, first: int, last: int) -> CheckpointGroups:
    """Return the groups of the steps `first` to `last`, one a visit of a question, labelled by run and steps.

    Raises:
        InputError: no rollouts are recorded at these steps.
    """
    rows = session.execute(
        select(
            RolloutShardRow.step,
            RolloutPromptRow.question_id,
            RolloutPromptRow.variant,
            RolloutPromptRow.neighbor_id,
            RolloutPromptRow.strategy,
            RolloutRow.grade,
            func.count(),
            func.sum(RolloutRow.tokens),
        )
        .join(RolloutRow, RolloutRow.shard_id == RolloutShardRow.id)
        .join(RolloutPromptRow, RolloutPromptRow.id == RolloutRow.prompt_id)
        .where(RolloutShardRow.run_id == run.id, RolloutShardRow.step.between(first, last))
        .group_by(RolloutShardRow.step, RolloutPromptRow.id, RolloutRow.grade)
    )
    visits: dict[tuple[int, str], dict[int, dict[str, int]]] = {}
    about: dict[tuple[str, int], tuple[str | None, str | None]] = {}
    for step, question, variant, neighbor, strategy, grade, responses, tokens in rows:
        tally = visits.setdefault((step, question), {}).setdefault(variant, {"tokens": 0})
        tally[grade] = tally.get(grade, 0) + responses
        tally["tokens"] += tokens
        about[question, variant] = (question if variant == _ORIGINAL else neighbor, strategy)
    if not visits:
        raise InputError(f"run {run.name} has no rollouts at the steps {first} to {last}.")
    groups = []
    for (_, question), prompts in visits.items():
        samples = []
        for variant, tally in prompts.items():
            source, strategy = about[question, variant]
            correct, wrong, unknown = (tally.get(grade, 0) for grade in ("correct", "wrong", "unknown"))
            drawn = correct + wrong + unknown
            prompt = PromptSample(variant, correct, wrong, unknown, strategy, source, tally["tokens"], drawn)
            samples.append(prompt)
        groups.append(QuestionGroup(question, tuple(samples)))
    return CheckpointGroups(stretch_label(run, first, last), tuple(groups))


def stretch_label(run: Run, first: int, last: int) -> str:
    """Return what a stretch of a run is called: "ta, steps 1-20"."""
    return f"{run.name}, step {first}" if first == last else f"{run.name}, steps {first}-{last}"


def visit_texts(
    session: Session, run: Run, first: int, last: int, question_ids: Sequence[str]
) -> Iterator[GroupTexts]:
    """Yield the responses to these questions at the steps `first` to `last`, some questions at a time.

    Visits of a question are pooled, in the order of steps.

    Raises:
        InputError: as `browsing.read_rollout_texts`.
    """
    for start in range(0, len(question_ids), _QUESTIONS_AT_ONCE):
        part = list(question_ids[start : start + _QUESTIONS_AT_ONCE])
        by_question: dict[str, dict[int, list[str]]] = {question: {} for question in part}
        shards = select(RolloutShardRow.id).where(
            RolloutShardRow.run_id == run.id, RolloutShardRow.step.between(first, last)
        )
        rows = session.execute(
            select(RolloutPromptRow.question_id, RolloutPromptRow.variant, RolloutRow.id)
            .join(RolloutRow, RolloutRow.prompt_id == RolloutPromptRow.id)
            .where(
                RolloutPromptRow.run_id == run.id,
                RolloutPromptRow.question_id.in_(part),
                RolloutRow.shard_id.in_(shards),
            )
            .order_by(RolloutRow.shard_id, RolloutRow.id)
        ).all()
        texts = read_rollout_texts(session, [row.id for row in rows])
        for question, variant, id in rows:
            by_question[question].setdefault(variant, []).append(texts[id])
        for question, prompts in by_question.items():
            yield GroupTexts(question, {variant: tuple(texts) for variant, texts in prompts.items()})
