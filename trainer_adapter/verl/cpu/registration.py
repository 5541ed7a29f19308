"""verl 0.9.1 on a machine without a GPU: a platform, a rollout, and workarounds for the rest.

    VERL_USE_EXTERNAL_MODULES=trainer_adapter.verl.cpu.registration python -m verl.trainer.main_ppo \\
        'hydra.searchpath=[pkg://trainer_adapter.verl.configs]' +tagrpo=cpu algorithm.adv_estimator=grpo \\
        data.train_files=... data.val_files=... actor_rollout_ref.model.path=... actor_rollout_ref.rollout.n=4

verl imports this module in every process (`verl/__init__.py:49`); importing it registers all of it, since
verl has no other way in. It chooses the CPU for the whole run, also where there is a GPU. Meant for tests,
demonstrations and exact checks of formulas: every weight is float32, and the processor does all the work.
"""

import os

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

    from trainer_adapter.verl.cpu import workarounds
    from trainer_adapter.verl.hooks import CPU, TIER_1
    from trainer_adapter.verl.plugin.checks import check_version

    check_version((*TIER_1, *CPU))
    workarounds.apply()
    from verl.plugin.platform import PlatformRegistry
    from verl.workers.rollout import base, replica

    from trainer_adapter.verl.cpu.platform import CpuPlatform

    PlatformRegistry.register(platform=PLATFORM)(CpuPlatform)
    base._ROLLOUT_REGISTRY[ROLLOUT, "async"] = "trainer_adapter.verl.cpu.rollout.TransformersRollout"
    replica.RolloutReplicaRegistry.register(ROLLOUT, _replica_class)


def _replica_class() -> type:
    from trainer_adapter.verl.cpu.rollout import TransformersReplica

    return TransformersReplica


_register()
