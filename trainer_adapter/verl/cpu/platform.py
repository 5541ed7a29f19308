"""The CPU as a platform of verl, and the part of `torch.cuda` that verl calls, for the CPU."""

import resource
from contextlib import nullcontext
from types import ModuleType
from typing import Any

import psutil
import torch
from verl.plugin.platform import PlatformBase


def _always(value: Any) -> Any:
    return staticmethod(lambda *_, **__: value)


def _resident(device: Any = None) -> int:
    return int(psutil.Process().memory_info().rss)


def _peak(device: Any = None) -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _free_and_total(device: Any = None) -> tuple[int, int]:
    memory = psutil.virtual_memory()
    return memory.available, memory.total


_DEVICE = ModuleType("trainer_adapter.verl.cpu.device")
"""What verl asks of `torch.cuda`, answered for the CPU; device memory is this process's memory."""

vars(_DEVICE).update(
    vars(torch.cpu)
    | dict.fromkeys(("set_device", "empty_cache", "ipc_collect"), lambda *_: None)
    | dict.fromkeys(("memory_allocated", "memory_reserved"), _resident)
    | dict.fromkeys(("max_memory_allocated", "max_memory_reserved"), _peak)
    | {
        "get_device_name": lambda device=None: "CPU",
        "mem_get_info": _free_and_total,
        "get_rng_state": lambda device=None: torch.get_rng_state(),
        "set_rng_state": lambda state, device=None: torch.set_rng_state(state),
    }
)


class CpuPlatform(PlatformBase):  # type: ignore[misc]
    """verl's view of a machine without an accelerator: one device, gloo between processes."""

    device_name = vendor_name = "cpu"
    device_module = _DEVICE
    manual_seed = manual_seed_all = staticmethod(torch.manual_seed)
    set_device = synchronize = set_allocator_settings = empty_cache = _always(None)
    profiler_start = profiler_stop = cudart = _always(None)
    is_available = _always(True)
    current_device = _always(torch.device("cpu"))  # verl calls `.to(...)` with it; 0 would be the first GPU
    device_count = _always(1)
    get_device_capability = _always((None, None))
    communication_backend_name = _always("gloo")
    visible_devices_envvar = _always("CUDA_VISIBLE_DEVICES")
    ray_resource_name = _always("GPU")  # which verl counts before it starts (`single_controller/ray/base.py`)
    ray_noset_envvars = _always([])
    is_ipc_supported = _always(False)
    nvtx_range = _always(nullcontext())
