"""Timers that `verl_step.py` loads into verl's processes; what they wrap does what it did."""

import functools
import time
from typing import Any

from trainer_adapter.verl.plugin.registration import TRAINERS, after_import

FIT_MARK = "TAGRPO_BENCHMARK_FIT_BEGAN"


def _mark_the_first_step() -> None:
    """Print when training begins, which verl does not."""
    from verl.trainer.ppo.v1 import trainer_base

    fit = trainer_base.PPOTrainer.fit

    @functools.wraps(fit)
    def marked(self: Any, *args: Any) -> None:
        print(f"{FIT_MARK} {time.time():.3f}", flush=True)
        fit(self, *args)

    trainer_base.PPOTrainer.fit = marked


def _time_what_is_ours() -> None:
    """Add the seconds of our metrics and of the rollout record to verl's own."""
    from verl.trainer.ppo.v1.trainer_base import TRAINER_REGISTRY

    from trainer_adapter.verl.plugin import NAME, trainer

    if NAME not in TRAINER_REGISTRY:  # the stock side, where the plug-in is not loaded
        return
    spent: dict[str, float] = {}

    def timed(function: Any, name: str) -> Any:
        @functools.wraps(function)
        def called(*args: Any, **kwargs: Any) -> Any:
            began = time.perf_counter()
            try:
                return function(*args, **kwargs)
            finally:
                spent[name] = time.perf_counter() - began

        return called

    trainer.step_metrics = timed(trainer.step_metrics, "our_metrics")  # type: ignore[attr-defined]
    trainer.record_step = timed(trainer.record_step, "our_record")  # type: ignore[attr-defined]
    compute = trainer.NeighborTrainer._compute_metrics

    def with_ours(self: Any, batch: Any, metrics: dict[str, Any], *args: Any, **kwargs: Any) -> None:
        compute(self, batch, metrics, *args, **kwargs)
        metrics.update({f"timing_s/{name}": seconds for name, seconds in spent.items()})

    trainer.NeighborTrainer._compute_metrics = with_ours  # type: ignore[method-assign]


after_import(TRAINERS, _mark_the_first_step)
after_import(TRAINERS, _time_what_is_ours)
