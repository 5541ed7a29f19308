"""Trainings whose steps come in while they are made: how far, how fast, how long still."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from sqlalchemy import select
from sqlalchemy.orm import Session

from service.runs.store import Run, list_runs
from trainer_adapter.record.importing import TRAIN
from trainer_adapter.record.tables import RolloutShardRow

LAST_STEPS = 10
QUICKEST_STEP_S = 1.0
"""Steps that were read faster than this were there before: an import afterwards, not a training."""

_TOTAL = "trainer.total_training_steps"
_TIME = "%Y-%m-%dT%H:%M:%SZ"


@dataclass(frozen=True)
class TrainingProgress:
    """A training under way, by the steps that `tagrpo rollouts watch` has read.

    Attributes:
        step: the last one read.
        total: steps of the whole training, None where its settings do not say.
        seconds_a_step: mean over the last steps, as they were read.
        read_at: when the last one was.
        responses: of the last step.
    """

    run: Run
    step: int
    total: int | None
    seconds_a_step: float
    read_at: datetime
    responses: int

    @property
    def minutes_left(self) -> float | None:
        if self.total is None:
            return None
        return max(0, self.total - self.step) * self.seconds_a_step / 60


def trainings_under_way(session: Session, now: datetime, quiet: timedelta) -> list[TrainingProgress]:
    """Return the trainings of which a step was read within `quiet` before `now`, newest first.

    Left out are those at their last step, and those whose steps were read all at once.
    """
    found = []
    for run in list_runs(session):
        if run.kind != TRAIN:
            continue
        rows = session.execute(
            select(RolloutShardRow.step, RolloutShardRow.imported_at, RolloutShardRow.rows)
            .where(RolloutShardRow.run_id == run.id)
            .order_by(RolloutShardRow.step.desc())
            .limit(LAST_STEPS)
        ).all()
        if len(rows) < 2:
            continue
        newest, oldest = _time(rows[0].imported_at), _time(rows[-1].imported_at)
        pace = (newest - oldest).total_seconds() / (rows[0].step - rows[-1].step)
        total = _total(run)
        if now - newest > quiet or pace < QUICKEST_STEP_S or (total is not None and rows[0].step >= total):
            continue
        found.append(TrainingProgress(run, rows[0].step, total, pace, newest, rows[0].rows))
    return found[::-1]


def _time(text: str) -> datetime:
    return datetime.strptime(text, _TIME).replace(tzinfo=UTC)


def _total(run: Run) -> int | None:
    settings = run.spec.get("settings")
    value = settings.get(_TOTAL) if isinstance(settings, dict) else None
    try:
        return int(value) if value is not None else None
    except (TypeError, ValueError):
        return None
