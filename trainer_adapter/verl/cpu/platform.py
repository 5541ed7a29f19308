"""The CPU as a platform of verl, and the part of `torch.cuda` that verl calls, for the CPU."""

import contextlib
import resource
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import psutil
import torch
from verl.plugin.platform import PlatformBase


def _nothing(*_: Any, **__: Any) -> None:
    """There is one device, it is set, computes at once, has no cache to give back and no profiler."""


class CpuDeviceModule(ModuleType):
    """What verl asks of `torch.cuda`, answered for the CPU; device memory is this process's memory.

    Anything else is looked up in `torch.cpu`.
    """

    set_device = empty_cache = ipc_collect = staticmethod(_nothing)

    def __init__(self) -> None:
        super().__init__("trainer_adapter.verl.cpu.device")

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(torch.cpu, name)

    def get_device_name(self, device: Any = None) -> str:
        return "CPU"

    def memory_allocated(self, device: Any = None) -> int:
        return int(psutil.Process().memory_info().rss)

    memory_reserved = memory_allocated

    def max_memory_allocated(self, device: Any = None) -> int:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        # The kernel brings the peak up to date now and then, so that it can lag behind what is allocated.
        return max(peak if sys.platform == "darwin" else peak * 1024, self.memory_allocated())

    max_memory_reserved = max_memory_allocated

    def mem_get_info(self, device: Any = None) -> tuple[int, int]:
        memory = psutil.virtual_memory()
        return int(memory.available), int(memory.total)

    def get_rng_state(self, device: Any = None) -> Any:
        return torch.get_rng_state()

    def set_rng_state(self, state: Any, device: Any = None) -> None:
        torch.set_rng_state(state)


class CpuPlatform(PlatformBase):  # type: ignore[misc]
    """verl's view of a machine without an accelerator: one device, gloo between processes."""

    device_name = "cpu"
    vendor_name = "cpu"
    device_module = CpuDeviceModule()
    set_device = synchronize = set_allocator_settings = empty_cache = staticmethod(_nothing)
    profiler_start = profiler_stop = cudart = staticmethod(_nothing)
    manual_seed = manual_seed_all = staticmethod(torch.manual_seed)

    def is_available(self) -> bool:
        return True

    def current_device(self) -> Any:
        # verl hands this to `.to(...)`, where a bare 0 would mean the first GPU.
        return torch.device("cpu")

    def device_count(self) -> int:
        return 1

    def get_device_capability(self, device_index: int = 0) -> tuple[int | None, int | None]:
        return None, None

    def communication_backend_name(self) -> str:
        return "gloo"

    def visible_devices_envvar(self) -> str:
        return "CUDA_VISIBLE_DEVICES"

    @contextlib.contextmanager
    def nvtx_range(self, msg: str) -> Iterator[None]:
        yield

    def ray_resource_name(self) -> str:
        # verl counts Ray's "GPU" before it starts (`verl/single_controller/ray/base.py:230`).
        return "GPU"

    def ray_noset_envvars(self) -> list[str]:
        return []

    def is_ipc_supported(self) -> bool:
        return False
