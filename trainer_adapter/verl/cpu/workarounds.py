"""Replacements for the two places where verl 0.9.1 assumes an accelerator.

Each names the line it goes around. No file of verl is touched, only what its modules hold.
"""

from typing import Any

from service.engines.images import leave_out_videos


def apply() -> None:
    """Put the workarounds into verl's modules, before others import from these."""
    _name_one_backend()
    _offload_without_pinning()
    leave_out_videos()


def _name_one_backend() -> None:
    """Go around `verl/utils/distributed.py:89`.

    It asks torch for "cpu:gloo,<device>:<backend>", which torch refuses where the device is the CPU again.
    """
    from verl.utils import distributed

    original = distributed.initialize_global_process_group_ray

    def initialize_global_process_group_ray(
        timeout_second: float | None = None, backend: str | None = None
    ) -> None:
        original(timeout_second=timeout_second, backend=backend or "cpu:gloo")

    distributed.initialize_global_process_group_ray = initialize_global_process_group_ray


def _offload_without_pinning() -> None:
    """Go around `verl/workers/engine/fsdp/transformer_impl.py:462`.

    The engine of the reference policy asks for pinned memory, which only an accelerator's driver can give.
    """
    from verl.utils import fsdp_utils

    original: Any = fsdp_utils.CPUOffloadPolicy

    class CPUOffloadPolicy(original):  # type: ignore[misc]
        def __init__(self, pin_memory: bool = False) -> None:
            super().__init__(pin_memory=False)

    fsdp_utils.CPUOffloadPolicy = CPUOffloadPolicy
