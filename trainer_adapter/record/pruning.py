"""Retention by step: keep the files of every K-th step and remove the others. Counts and metrics stay."""

from pathlib import Path

from trainer_adapter.record.files import step_path, texts_path
from trainer_adapter.record.reading import Record


def files_to_prune(record: Record, *, keep_every: int, keep_last: int = 1) -> dict[int, list[Path]]:
    """Return the files to prune by step if every `keep_every`-th and the last `keep_last` steps stay.

    They are in the order to remove them: texts without headers are never read.
    """
    steps = record.steps()
    return {
        step: [
            path
            for path in (step_path(record.folder, step), texts_path(record.folder, step))
            if path.is_file()
        ]
        for step in steps[: max(0, len(steps) - keep_last)]
        if step % keep_every
    }
