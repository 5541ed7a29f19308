"""The rates of the steps: neither the first nor the last of a cosine trains nothing."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from training_configs import assign

from trainer_adapter.methods.recipes import RECIPES
from trainer_adapter.runs.composing import Composition, Machine, compose_run
from trainer_adapter.runs.presets import PRESETS

pytest.importorskip("verl")

OPTIMIZER = "actor_rollout_ref.actor.optim"
KEY = f"{OPTIMIZER}.zero_indexed_step"


def composed(*texts: str, preset: str = "ta") -> Composition:
    overrides = assign(RECIPES["ta_grpo"], texts).overrides
    return compose_run(RECIPES["ta_grpo"], Machine(4), overrides=overrides, preset=PRESETS[preset])


def test_a_cosine_is_counted_from_one_unless_the_user_says_otherwise() -> None:
    assert composed().value(KEY) is False
    assert composed(preset="cw").value(KEY) is False
    assert composed(f"{KEY}=true").value(KEY) is True
    for constant in (composed(preset="a_grae"), composed(f"{OPTIMIZER}.lr_scheduler_type=constant")):
        assert constant.value(KEY) is None


def rates(steps: int, *, from_zero: bool, monkeypatch: pytest.MonkeyPatch, **changes: Any) -> list[float]:
    """Return the rates that verl gives the steps of a training of so many, as its trainer and engine do."""
    from omegaconf import OmegaConf
    from verl.trainer.ppo.v1.trainer_sync import PPOTrainerSync
    from verl.workers.engine.fsdp.transformer_impl import FSDPEngine

    from trainer_adapter.verl.plugin.trainer import NeighborTrainer

    schedule = {
        "lr": 1.0,
        "lr_scheduler_type": "cosine",
        "lr_warmup_steps": -1,
        "lr_warmup_steps_ratio": 0.1,
        "min_lr_ratio": 0.0,
        "num_cycles": 0.5,
        "zero_indexed_step": from_zero,
        "total_training_steps": -1,
        **changes,
    }
    trainer: Any = NeighborTrainer.__new__(NeighborTrainer)
    trainer.config = OmegaConf.create({"actor_rollout_ref": {"actor": {"optim": schedule}}})
    OmegaConf.set_struct(trainer.config, True)
    trainer.train_dataset = None

    def set_total(self: Any) -> None:
        self.config.actor_rollout_ref.actor.optim.total_training_steps = steps

    monkeypatch.setattr(PPOTrainerSync, "_init_dataloader", set_total)
    trainer._init_dataloader()
    engine: Any = SimpleNamespace(optimizer_config=trainer.config.actor_rollout_ref.actor.optim, rank=1)
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)
    scheduler = FSDPEngine._build_lr_scheduler(engine, optimizer)
    made = []
    for _ in range(steps):
        made.append(scheduler.get_last_lr()[0])
        optimizer.step()
        scheduler.step()
    return made


@pytest.mark.parametrize("steps", [1, 3, 10, 56, 99])
def test_every_step_of_a_cosine_trains(steps: int, monkeypatch: pytest.MonkeyPatch) -> None:
    made = rates(steps, from_zero=False, monkeypatch=monkeypatch)
    assert min(made) > 0
    assert max(made) == pytest.approx(1.0, abs=0.51 if steps == 1 else 0.16)
    warm_up = int(0.1 * (steps + 1))
    assert made[:warm_up] == pytest.approx([step / warm_up for step in range(1, warm_up + 1)])
