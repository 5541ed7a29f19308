"""A vLLM plug-in that ends every vLLM process on this host together with tagrpo.

A killed tagrpo (SIGKILL, out of memory) cannot stop its server, which would keep the GPU's memory. vLLM calls
the plug-in in its server, engine and worker processes. Only processes that tagrpo started act on it.
"""

import os
import signal
import threading
import time
from collections.abc import Mapping

from service.process import has_ended, this_process

_OWNER = "TAGRPO_ENGINE_OF"
_CHECK_EVERY_S = 1.0


def owned_environment() -> Mapping[str, str]:
    """Return the environment variables that tie vLLM processes to this process.

    vLLM must spawn its processes: a forked process does not load plug-ins again.
    """
    method = os.environ.get("VLLM_WORKER_MULTIPROC_METHOD", "spawn")
    return {_OWNER: this_process(), "VLLM_WORKER_MULTIPROC_METHOD": method}


def end_with_command() -> None:
    """Watch the tagrpo process that started this vLLM process, if any, and end with it."""
    owner = os.environ.get(_OWNER)
    if owner is None or owner == this_process():
        return
    threading.Thread(target=_watch, args=(owner,), name="tagrpo-owner", daemon=True).start()


def _watch(owner: str) -> None:
    while not has_ended(owner):  # None on another host, where Ray ends the workers
        time.sleep(_CHECK_EVERY_S)
    if os.getpgrp() == os.getpid():  # the server leads the group of its processes
        os.killpg(0, signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)
