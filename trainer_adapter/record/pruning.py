"""Retention by step: keep the files of every K-th step and remove the others. Counts and metrics stay."""

from dataclasses import dataclass
from pathlib import Path

from trainer_adapter.record.files import step_path, texts_path
from trainer_adapter.record.groups import GroupFilters
from trainer_adapter.record.reading import Record


@dataclass(frozen=True)
class PrunableStep:
    """A step whose files can go, in the order to remove them: texts without headers are never read."""

    step: int
    rollouts: int
    files: tuple[Path, ...]
    bytes: int


def steps_to_prune(record: Record, *, keep_every: int, keep_last: int = 1) -> list[PrunableStep]:
    """Return the steps to prune if every `keep_every`-th and the last `keep_last` stay."""
    steps, counts = record.steps(), record.counts()
    prunable = []
    for step in steps[: max(0, len(steps) - keep_last)]:
        if step % keep_every:
            paths = (step_path(record.folder, step), texts_path(record.folder, step))
            files = tuple(path for path in paths if path.is_file())
            rollouts = sum(each.responses for each in counts.page_steps(GroupFilters(step=step)))
            size = sum(path.stat().st_size for path in files)
            prunable.append(PrunableStep(step, rollouts, files, size))
    return prunable
