"""Replacements for the two places where verl 0.9.1 assumes an accelerator.

Each names the line it goes around, and these lines are read first: another verl fails here, with a message,
not somewhere in a worker. No file of verl is touched, only what its modules hold.
"""

import sys
from typing import Any

from service.engines.images import leave_out_videos
from service.errors import PrerequisiteError
from trainer_adapter.verl.contract import differences, installed_folders
from trainer_adapter.verl.hooks import CPU, PLUGIN, TESTED_VERSIONS
from trainer_adapter.verl.plugin.checks import check_version


def check_verl() -> None:
    """Raise unless the installed verl is one that these workarounds fit.

    Raises:
        PrerequisiteError: verl is missing, does not fit, or no longer has the lines in question.
    """
    check_version((*PLUGIN, *CPU))
    lines = tuple(hook for hook in CPU if hook.package == "verl" and hook.use == "line")
    for lacking in differences(installed_folders(), lines):
        raise PrerequisiteError(
            f"{lacking}; the installed verl differs from the one that trainer_adapter.verl.cpu supports. "
            f"Reinstall verl {TESTED_VERSIONS[-1]}."
        )


def apply() -> None:
    """Put the workarounds into verl's modules; a second call changes nothing."""
    _name_one_backend()
    _offload_without_pinning()
    leave_out_videos()


def _name_one_backend() -> None:
    """Go around `verl/utils/distributed.py:89`.

    It asks torch for "cpu:gloo,<device>:<backend>", which torch refuses where the device is the CPU again.
    """
    from verl.utils import distributed

    original = distributed.initialize_global_process_group_ray
    if getattr(original, "wrapped_for_cpu", False):
        return

    def initialize_global_process_group_ray(
        timeout_second: float | None = None, backend: str | None = None
    ) -> None:
        original(timeout_second=timeout_second, backend=backend or "cpu:gloo")

    initialize_global_process_group_ray.wrapped_for_cpu = True  # type: ignore[attr-defined]
    _replace(distributed, "initialize_global_process_group_ray", initialize_global_process_group_ray)


def _offload_without_pinning() -> None:
    """Go around `verl/workers/engine/fsdp/transformer_impl.py:462`.

    The engine of the reference policy asks for pinned memory, which only an accelerator's driver can give.
    """
    from verl.utils import fsdp_utils

    original: Any = fsdp_utils.CPUOffloadPolicy
    if getattr(original, "wrapped_for_cpu", False):
        return

    class CPUOffloadPolicy(original):  # type: ignore[misc]
        wrapped_for_cpu = True

        def __init__(self, pin_memory: bool = False) -> None:
            super().__init__(pin_memory=False)

    _replace(fsdp_utils, "CPUOffloadPolicy", CPUOffloadPolicy)


def _replace(module: Any, name: str, new: object) -> None:
    """Set an attribute, after making sure that no module of verl has taken the old one already."""
    old = getattr(module, name)
    taken = [
        other
        for other, holder in sorted(sys.modules.items())
        if other.startswith("verl.") and holder is not module and vars(holder).get(name) is old
    ]
    if taken:
        raise PrerequisiteError(
            f"{', '.join(taken)} was imported before trainer_adapter.verl.cpu and keeps the old {name}. "
            "Load the plug-in with VERL_USE_EXTERNAL_MODULES=trainer_adapter.verl.cpu.registration."
        )
    setattr(module, name, new)
