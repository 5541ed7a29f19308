from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from trainer_adapter.record import RolloutWriter
from trainer_adapter.runs.run_folder import RunFolder
from trainer_adapter.verl.alarms import CORRECT, ENTROPY, GAP, KL, MISSING, Alarms, alarms_of


@pytest.mark.parametrize(
    ("metric", "first", "fine", "wrong"),
    [
        (ENTROPY, 0.5, 0.051, 0.049),
        (KL, 0.0, 0.49, 0.51),
        (CORRECT, 0.2, 0.001, 0.0),
        (GAP, 1e-4, 9e-3, 0.02),
        (MISSING, 0, 0, 3),
    ],
)
def test_an_alarm_names_step_metric_and_value(metric: str, first: float, fine: float, wrong: float) -> None:
    alarms = Alarms()
    assert alarms.look(1, {metric: first}) == []
    assert alarms.look(2, {metric: fine, "actor/lr": 0.0}) == []
    [alarm] = alarms.look(3, {metric: wrong})
    assert (alarm.step, alarm.metric, alarm.value) == (3, metric, wrong)
    assert str(alarm).startswith(f"step 3: {metric} is {wrong:.3g}: ")


def test_what_goes_on_is_said_once_and_again_when_it_comes_back() -> None:
    correct = [0.0, 0.0, 0.1, 0.0, None]
    raised = alarms_of([(step, {CORRECT: value}) for step, value in enumerate(correct, start=1)])
    assert [alarm.step for alarm in raised] == [1, 4]


def test_a_runs_alarms_are_those_of_the_last_metrics_of_each_step(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    with RolloutWriter(folder.rollouts, "run") as writer:
        for step, entropy in ((1, 2.0), (2, 0.1), (2, 1.5), (3, 0.1)):
            writer.write_metrics(step, {ENTROPY: entropy})
    [alarm] = folder.alarms()
    assert alarm.startswith("step 3: tagrpo/entropy/mean is 0.1: less than 10% of the first step's")


def test_a_resume_measures_against_the_first_step_of_the_first_start(tmp_path: Path) -> None:
    import verl.trainer.ppo.v1  # noqa: F401  (first, since it loads the trainer of the plug-in)

    from trainer_adapter.verl.plugin.trainer import NeighborTrainer

    with RolloutWriter(tmp_path, "run") as writer:
        for step, entropy in ((1, 2.0), (2, 0.25), (3, 0.1)):
            writer.write_metrics(step, {ENTROPY: entropy, CORRECT: 0.0})
    trainer: Any = NeighborTrainer.__new__(NeighborTrainer)
    trainer._alarms, trainer._record = Alarms(), SimpleNamespace(folder=tmp_path)
    trainer._skipping = trainer._replaying = SimpleNamespace(load=lambda folder: None)
    saved = SimpleNamespace(resume_mode="auto", default_local_dir=str(tmp_path))
    trainer.config = SimpleNamespace(trainer=saved)
    trainer._resume(2)
    [alarm] = trainer._alarms.look(3, {ENTROPY: 0.19, CORRECT: 0.0})  # no right answer: said before
    assert (alarm.step, alarm.metric) == (3, ENTROPY)
