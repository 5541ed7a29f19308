"""verl 0.9.1 on a machine without a GPU: a platform, a rollout, and workarounds for the rest.

verl imports this module in every process if `VERL_USE_EXTERNAL_MODULES` names it; importing it registers all
of it and chooses the CPU for the whole run, also if there is a GPU. Every weight is float32.
"""

import os
from functools import wraps
from typing import Any

from service.engines.images import leave_out_videos
from service.errors import PrerequisiteError

PLATFORM = "cpu"
ROLLOUT = "transformers"

# verl looks for the training engine by device name and knows the FSDP engine under "cuda"; "cpu" is no key
# (`verl/workers/engine/base.py:405`). Gloo would otherwise look up the host's name, which may not resolve.
# The queue would set torch to 8 threads for each call, and say so each time where there are fewer cores.
_ENVIRONMENT = {
    "VERL_PLATFORM": PLATFORM,
    "VERL_ENGINE_DEVICE": "cuda",
    "GLOO_SOCKET_IFNAME": "lo",
    "TQ_NUM_THREADS": "1",
}


def _register() -> None:
    chosen = os.environ.get("VERL_PLATFORM", PLATFORM)
    if chosen != PLATFORM:
        raise PrerequisiteError(
            f"VERL_PLATFORM is {chosen}, but trainer_adapter.verl.cpu is for the CPU. Unset one of the two."
        )
    for name, value in _ENVIRONMENT.items():
        os.environ.setdefault(name, value)

    from trainer_adapter.verl.hooks import CPU, TIER_1
    from trainer_adapter.verl.plugin.checks import check_version

    check_version((*TIER_1, *CPU))
    _leave_the_gpu_out_of_torch()
    leave_out_videos()
    from verl.plugin.platform import PlatformRegistry
    from verl.workers.rollout import base, replica

    from trainer_adapter.verl.cpu.platform import CpuPlatform

    PlatformRegistry.register(platform=PLATFORM)(CpuPlatform)
    base._ROLLOUT_REGISTRY[ROLLOUT, "async"] = "trainer_adapter.verl.cpu.rollout.TransformersRollout"
    replica.RolloutReplicaRegistry.register(ROLLOUT, _replica_class)


def _leave_the_gpu_out_of_torch() -> None:
    """Make torch ignore two requests of verl that only a GPU can meet, before verl imports from it.

    verl asks for a second backend for the device, which is the CPU again, and for pinned memory.
    """
    from torch import distributed
    from torch.distributed import fsdp

    start, policy = distributed.init_process_group, fsdp.CPUOffloadPolicy

    @wraps(start)
    def init_process_group(*args: Any, **named: Any) -> None:
        if named.get("backend") == "cpu:gloo,cpu:gloo":
            named["backend"] = "cpu:gloo"
        start(*args, **named)

    class CPUOffloadPolicy(policy):  # type: ignore[misc,valid-type]
        def __init__(self, pin_memory: bool = False) -> None:
            super().__init__(pin_memory=False)

    distributed.init_process_group, fsdp.CPUOffloadPolicy = init_process_group, CPUOffloadPolicy


def _replica_class() -> type:
    from trainer_adapter.verl.cpu.rollout import TransformersReplica

    return TransformersReplica


_register()
