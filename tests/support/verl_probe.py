"""Makes verl know the trainer for tests; loaded by `VERL_USE_EXTERNAL_MODULES` after the plug-in."""

import importlib

from trainer_adapter.verl.plugin import NAME
from trainer_adapter.verl.plugin.registration import AGENT_LOOPS, TRAINERS, after_import


def _register_agent_loop() -> None:
    from verl.experimental.agent_loop.agent_loop import _agent_loop_registry

    _agent_loop_registry[NAME] = {"_target_": "verl_probe_parts.ProbeAgentLoop"}


def _register_trainer() -> None:
    importlib.import_module("verl_probe_parts")


after_import(AGENT_LOOPS, _register_agent_loop)
after_import(TRAINERS, _register_trainer)
