import asyncio
from types import SimpleNamespace
from typing import Any

import pytest


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


def test_a_step_that_fails_leaves_its_rollouts_on_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    from verl.trainer.ppo.v1.trainer_sync import PPOTrainerSync

    from trainer_adapter.verl.plugin.trainer import NeighborTrainer

    def fail(*_: Any) -> None:
        raise RuntimeError("out of memory")

    flushed: list[str] = []
    trainer: Any = NeighborTrainer.__new__(NeighborTrainer)
    trainer._record = SimpleNamespace(flush=lambda: flushed.append("flushed"))
    monkeypatch.setattr(PPOTrainerSync, "step", fail)
    with pytest.raises(RuntimeError, match="out of memory"):
        trainer.step({}, {})
    assert flushed == ["flushed"]
