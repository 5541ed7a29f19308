"""Retention by step: the files of every K-th step stay, those of the others go. Counts and metrics stay."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from service.telling import TellProgress
from trainer_adapter.record.files import step_path, texts_path
from trainer_adapter.record.groups import GroupFilters
from trainer_adapter.record.reading import Record


@dataclass(frozen=True)
class PrunableStep:
    """A step whose files can go; headers come first, since texts without headers are never read."""

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


def prune(prunable: Sequence[PrunableStep], *, report: TellProgress | None = None) -> None:
    """Remove the files of these steps. What a kill leaves goes at the next call."""
    for place, each in enumerate(prunable):
        if report is not None:
            report(place, len(prunable))
        for path in each.files:
            path.unlink(missing_ok=True)
    if report is not None:
        report(len(prunable), len(prunable))
