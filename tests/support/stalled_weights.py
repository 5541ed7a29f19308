"""Makes the CPU rollout fail as vLLM does: the engine's error is printed, and the update never comes back.

Loaded by `VERL_USE_EXTERNAL_MODULES`.
"""

import asyncio
from typing import Any

from trainer_adapter.verl.plugin.registration import after_import

ERROR = "RuntimeError: the engine has no such weight"


async def _never(self: Any, *args: Any, **kwargs: Any) -> None:
    print(ERROR, flush=True)
    await asyncio.Event().wait()


def _stall() -> None:
    from trainer_adapter.verl.cpu import rollout

    rollout.TransformersRollout.update_weights = _never  # type: ignore[method-assign]


after_import("trainer_adapter.verl.cpu.rollout", _stall)
