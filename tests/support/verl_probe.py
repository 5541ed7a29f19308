"""Makes verl know the trainer for tests; loaded by `VERL_USE_EXTERNAL_MODULES` after the plug-in."""

import importlib
from typing import Any

from wrapt import when_imported

from trainer_adapter.verl.plugin import NAME
from trainer_adapter.verl.plugin.registration import AGENT_LOOPS, TRAINERS


@when_imported(AGENT_LOOPS)
def _register_agent_loop(module: Any) -> None:
    module._agent_loop_registry[NAME] = {"_target_": "verl_probe_parts.ProbeAgentLoop"}


@when_imported(TRAINERS)
def _register_trainer(_: Any) -> None:
    importlib.import_module("verl_probe_parts")
