"""Trainings under way: by the times at which the files of their steps were written."""

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from rollout_shards import make_step

from service.runs.store import Run
from trainer_adapter.record import RolloutWriter
from trainer_adapter.record.progress import TrainingProgress, training_progress
from trainer_adapter.record.reading import Record

NOW = datetime(2026, 1, 31, 12, 0, 0, tzinfo=UTC)
QUIET = timedelta(minutes=10)


def progress(folder: Path, seconds_before: list[int], *, total: str | None = "60") -> TrainingProgress | None:
    """Return how far a training is whose steps 1, 2, ... were written so many seconds before NOW."""
    spec = {"settings": {"trainer.total_training_steps": total} if total else {}}
    with RolloutWriter(folder, "ta", spec=spec) as writer:
        for step in range(1, len(seconds_before) + 1):
            writer.write(step, make_step(step))
    for step, before in enumerate(seconds_before, start=1):
        at = NOW.timestamp() - before
        os.utime(folder / f"step-{step:08d}.parquet", (at, at))
    run = Run("run_1", "ta", "train", spec, {}, "2026-01-31T10:00:00Z", None)
    return training_progress(run, Record(folder), NOW, QUIET)


def test_a_resumed_training_is_under_way_before_it_passes_where_it_stopped(tmp_path: Path) -> None:
    found = progress(tmp_path, [5000, 4900, 60, 30, 4600, 4500])  # steps 3 and 4 were trained again
    assert found is not None
    assert found.step == 4
    assert found.seconds_a_step == pytest.approx((5000 - 30) / 3)


@pytest.mark.parametrize(
    ("seconds_before", "total"),
    [
        ([], "60"),
        ([10], "60"),  # no pace yet
        ([700, 650], "60"),  # quiet
        ([5, 5, 5, 5], "60"),  # copied, all at once
        ([60, 30], "2"),  # at its last step
    ],
)
def test_what_is_not_under_way_is_left_out(tmp_path: Path, seconds_before: list[int], total: str) -> None:
    assert progress(tmp_path, seconds_before, total=total) is None
