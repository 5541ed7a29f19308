"""Progress of an active training run, from the files of its steps."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from service.runs.store import Run
from trainer_adapter.record.files import file_state, step_path
from trainer_adapter.record.groups import GroupFilters
from trainer_adapter.record.reading import Record

LAST_STEPS = 10
QUICKEST_STEP_S = 1.0
"""Files of steps that appeared faster than this were copied, not trained."""

_TOTAL = "trainer.total_training_steps"


@dataclass(frozen=True)
class TrainingProgress:
    """A training under way, by the files of its steps."""

    run: Run
    step: int  # the last one
    total: int | None  # steps of the whole training; None if its settings do not say
    seconds_a_step: float  # mean over the last steps, as they were written
    written_at: datetime  # when the last one was
    responses: int  # of the last step

    @property
    def minutes_left(self) -> float | None:
        if self.total is None:
            return None
        return max(0, self.total - self.step) * self.seconds_a_step / 60


def training_progress(run: Run, record: Record, now: datetime, quiet: timedelta) -> TrainingProgress | None:
    """Return how far a training is; None if it is at its end or wrote no step within `quiet` before `now`.

    Steps after the one that was written last are of an earlier start, and not trained again yet.
    """
    states = {step: file_state(step_path(record.folder, step)) for step in record.steps()}
    written = {step: state[0] / 1e9 for step, state in states.items() if state is not None}
    if not written:
        return None
    last = max(written, key=lambda step: (written[step], step))
    steps = sorted(step for step in written if step <= last)[-LAST_STEPS:]
    if len(steps) < 2:
        return None
    pace = (written[last] - written[steps[0]]) / (last - steps[0])
    settings = run.spec.get("settings")
    stated = settings.get(_TOTAL) if isinstance(settings, dict) else None
    total = int(str(stated)) if str(stated).isdecimal() else None
    at = datetime.fromtimestamp(written[last], UTC)
    if now - at > quiet or pace < QUICKEST_STEP_S or (total is not None and last >= total):
        return None
    groups = record.counts().page_steps(GroupFilters(step=last))
    return TrainingProgress(run, last, total, pace, at, sum(step.responses for step in groups))
