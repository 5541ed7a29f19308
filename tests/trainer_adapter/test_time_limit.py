import asyncio
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from trainer_adapter.verl.time_limit import call_within


def test_what_comes_back_in_time_is_returned_and_raised_as_it_is() -> None:
    def fail() -> None:
        raise TimeoutError("of its own")

    assert call_within(60, lambda: 7, "too late") == 7
    with pytest.raises(TimeoutError, match="of its own"):
        call_within(60, fail, "too late")


def test_what_never_comes_back_is_left_behind() -> None:
    released = threading.Event()
    with pytest.raises(TimeoutError, match="step 3: too late"):
        call_within(0.01, released.wait, "step 3: too late")
    released.set()


def test_verls_weight_updates_have_a_limit() -> None:
    from verl.trainer.ppo.v1 import (
        trainer_base,
    )  # first, since the plug-in registers itself when it is imported
    from verl.utils.ray_utils import auto_await

    from trainer_adapter.verl.plugin.settings import RunSettings
    from trainer_adapter.verl.plugin.trainer import NeighborTrainer

    assert issubclass(NeighborTrainer, trainer_base.PPOTrainer)
    updated: list[int] = []

    async def update_weights(global_steps: int) -> None:
        updated.append(global_steps)
        if global_steps == 1:
            await asyncio.Event().wait()  # as verl waits for an engine that failed

    trainer: Any = NeighborTrainer.__new__(NeighborTrainer)
    trainer.settings = RunSettings(weight_update_limit_s=0.2)
    trainer.checkpoint_manager = SimpleNamespace(update_weights=auto_await(update_weights))
    trainer.global_steps, trainer.timing_raw = 0, {}
    trainer.on_init_end()
    trainer.global_steps = 1
    with pytest.raises(
        TimeoutError, match=r"step 1: the rollout engine did not load the new weights within 0\.2"
    ):
        trainer.on_step_end()
    assert updated == [0, 1]
