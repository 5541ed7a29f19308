"""Register agent loop, advantage estimator and trainer; verl loads this module in every process.

Registering needs verl's modules, which take seconds to import and select a device. So nothing is imported
here: a registration waits until verl itself imports the module that has the registry.
"""

import hashlib
import logging
import os
from collections.abc import Callable
from functools import wraps
from typing import Any

from wrapt import when_imported

from service.errors import PrerequisiteError
from trainer_adapter.verl.plugin import NAME

_LOG = logging.getLogger("tagrpo.trainer")

TRAINERS = "verl.trainer.ppo.v1.trainer_base"
ESTIMATORS = "verl.trainer.ppo.core_algos"
AGENT_LOOPS = "verl.experimental.agent_loop.agent_loop"
WEIGHTS = "verl.workers.rollout.vllm_rollout.bucketed_weight_transfer"


@when_imported(AGENT_LOOPS)
def register_agent_loop(module: Any) -> None:
    """Register the agent loop by its name only: Hydra imports it where responses are drawn."""
    module._agent_loop_registry[NAME] = {
        "_target_": "trainer_adapter.verl.plugin.agent_loop.NeighborAgentLoop"
    }


@when_imported(ESTIMATORS)
def register_estimator(module: Any) -> None:
    """Register the advantage estimator."""
    from trainer_adapter.verl.plugin.steps.advantages import estimate_advantages

    module.register_adv_est(NAME)(estimate_advantages)


@when_imported(TRAINERS)
def register_trainer(module: Any) -> None:
    """Register the trainer, unless the installed verl lacks a part that it needs.

    Then verl's own trainer can still train recipes of tier 1.
    """
    from trainer_adapter.verl.hooks import TIER_2
    from trainer_adapter.verl.plugin.checks import check_version

    try:
        check_version(TIER_2)
    except PrerequisiteError as error:
        _LOG.warning("trainer mode %s is not available. %s", NAME, error)
        return
    from trainer_adapter.verl.plugin.trainer import NeighborTrainer
    from trainer_adapter.verl.transfer import check_queue

    check_queue()
    module.register_trainer(NAME)(NeighborTrainer)


@when_imported("verl.utils.tensordict_utils")
def repair_positions(module: Any) -> None:
    """Make engines, which import it from here, pack positions of images by tokens."""
    from trainer_adapter.verl.plugin.images.positions import pack_by_tokens

    module.maybe_fix_3d_position_ids = pack_by_tokens


@when_imported(WEIGHTS)
def separate_sockets(module: Any) -> None:
    """Name the socket of the weight transfer to vLLM after the training too, by its metrics file.

    verl names it after Ray's job, and the first job of every Ray cluster is 01000000: two trainings on one
    machine would wait forever or send their weights to each other's engine.
    """
    training = hashlib.sha256(os.environ.get("VERL_FILE_LOGGER_PATH", "").encode()).hexdigest()[:12]

    def of_training(start: Callable[..., None]) -> Callable[..., None]:
        @wraps(start)
        def starts(self: Any, zmq_handle: str, *others: Any, **named: Any) -> None:
            start(self, f"{zmq_handle}-{training}", *others, **named)

        return starts

    for end in (module.BucketedWeightSender, module.BucketedWeightReceiver):
        end.__init__ = of_training(end.__init__)
