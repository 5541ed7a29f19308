"""The replay buffer of verl that looks for finished responses as often as ours does, for `verl_step.py`.

verl's own looks every two seconds, which would be half of so short a step. It is put in by verl's own setting
`trainer.v1.sampler.custom_sampler`.
"""

import os
from typing import Any

from verl.trainer.ppo.v1.replay_buffer import ReplayBuffer

POLL_ENV = "TAGRPO_BENCHMARK_POLL_S"


class OftenPolled(ReplayBuffer):  # type: ignore[misc]
    """verl's buffer with another pause between two looks."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(poll_interval=float(os.environ[POLL_ENV]), **kwargs)
