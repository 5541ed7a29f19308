"""What single lines of verl's log say about how far training is."""

import pytest

from trainer_adapter.runs.launching import step_of, total_steps_of


@pytest.mark.parametrize(
    ("line", "step", "total"),
    [
        ("(TaskRunnerV1 pid=10256) step:3 - actor/lr:0.0001 - tagrpo/correct/mean:0.5", 3, None),
        ("INFO:2026-11-21 23:09:56,330:Total training steps: 60", None, 60),
        ("total_training_steps: 60", None, None),
        ("footstep: 3 - no metrics", None, None),
        ("", None, None),
    ],
)
def test_a_line_tells_the_step_or_how_many_there_are(line: str, step: int | None, total: int | None) -> None:
    assert (step_of(line), total_steps_of(line)) == (step, total)
