"""Register agent loop, advantage estimator and trainer; verl loads this module in every process.

Registering needs verl's modules, which take seconds to import and select a device. So nothing is imported
here: a registration waits until verl itself imports the module that has the registry.
"""

import hashlib
import importlib
import importlib.abc
import importlib.util
import logging
import os
import sys
from collections.abc import Callable, Sequence
from functools import partial, wraps
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from service.errors import PrerequisiteError
from trainer_adapter.verl.plugin import NAME

_LOG = logging.getLogger("tagrpo.trainer")

TRAINERS = "verl.trainer.ppo.v1.trainer_base"
ESTIMATORS = "verl.trainer.ppo.core_algos"
AGENT_LOOPS = "verl.experimental.agent_loop.agent_loop"
ENGINES = ("verl.workers.engine.base", "verl.workers.engine_workers")
WEIGHTS = "verl.workers.rollout.vllm_rollout.bucketed_weight_transfer"

_waiting: dict[str, list[Callable[[], None]]] = {}


def after_import(module: str, then: Callable[[], None]) -> None:
    """Call `then` after `module` is imported, or at once if it already is; calls keep their order.

    Errors of `then` propagate out of the import.
    """
    loaded = sys.modules.get(module)
    if loaded is not None and not getattr(loaded.__spec__, "_initializing", False):
        then()
        return
    _waiting.setdefault(module, []).append(then)
    if _finder not in sys.meta_path:
        sys.meta_path.insert(0, _finder)


def register_agent_loop() -> None:
    """Register the agent loop by its name only: Hydra imports it where responses are drawn."""
    from verl.experimental.agent_loop.agent_loop import _agent_loop_registry

    _agent_loop_registry[NAME] = {"_target_": "trainer_adapter.verl.plugin.agent_loop.NeighborAgentLoop"}


def register_estimator() -> None:
    """Register the advantage estimator."""
    from verl.trainer.ppo.core_algos import register_adv_est

    from trainer_adapter.verl.plugin.steps.advantages import estimate_advantages

    register_adv_est(NAME)(estimate_advantages)


def register_trainer() -> None:
    """Register the trainer, unless the installed verl lacks a part that it needs.

    Then verl's own trainer can still train recipes of tier 1.

    Raises:
        PrerequisiteError: another training runs on the Ray cluster.
    """
    from trainer_adapter.verl.hooks import TIER_2
    from trainer_adapter.verl.plugin.checks import check_version

    try:
        check_version(TIER_2)
    except PrerequisiteError as error:
        _LOG.warning("trainer mode %s is not available. %s", NAME, error)
        return
    from verl.trainer.ppo.v1 import trainer_base

    from trainer_adapter.verl.plugin.trainer import NeighborTrainer
    from trainer_adapter.verl.transfer import check_queue

    check_queue()
    trainer_base.register_trainer(NAME)(NeighborTrainer)


def repair_positions(module: str) -> None:
    """Make an engine's module pack positions of images by tokens."""
    from trainer_adapter.verl.plugin.images.positions import pack_by_tokens

    sys.modules[module].maybe_fix_3d_position_ids = pack_by_tokens  # type: ignore[attr-defined]


def separate_sockets() -> None:
    """Name the socket of the weight transfer to vLLM after the training too, by its metrics file.

    verl names it after Ray's job, and the first job of every Ray cluster is 01000000. Without this, two
    trainings on one machine, each with its own cluster, wait forever or send their weights to each other's
    engine.
    """
    training = hashlib.sha256(os.environ.get("VERL_FILE_LOGGER_PATH", "").encode()).hexdigest()[:12]

    def of_training(start: Callable[..., None]) -> Callable[..., None]:
        @wraps(start)
        def starts(self: Any, zmq_handle: str, *others: Any, **named: Any) -> None:
            start(self, f"{zmq_handle}-{training}", *others, **named)

        return starts

    transfer: Any = sys.modules[WEIGHTS]
    for end in (transfer.BucketedWeightSender, transfer.BucketedWeightReceiver):
        end.__init__ = of_training(end.__init__)


class _Finder(importlib.abc.MetaPathFinder):
    """Find the awaited modules as every other finder does, and add their callbacks."""

    def __init__(self) -> None:
        self._looking: set[str] = set()

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname not in _waiting or fullname in self._looking:
            return None
        self._looking.add(fullname)
        try:
            spec = importlib.util.find_spec(fullname)
        finally:
            self._looking.discard(fullname)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader)
        return spec


class _Loader(importlib.abc.Loader):
    """Load as the original loader does, then run the callbacks of the module."""

    def __init__(self, loader: Any) -> None:
        self._loader = loader

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        made: ModuleType | None = self._loader.create_module(spec)
        return made

    def exec_module(self, module: ModuleType) -> None:
        self._loader.exec_module(module)
        for then in _waiting.pop(module.__name__, []):
            then()


_finder = _Finder()
after_import(AGENT_LOOPS, register_agent_loop)
after_import(ESTIMATORS, register_estimator)
after_import(TRAINERS, register_trainer)
after_import(WEIGHTS, separate_sockets)
for engine in ENGINES:
    after_import(engine, partial(repair_positions, engine))
