"""A plug-in of vLLM by which an engine ends with the command that started it, however that ends.

Killed (SIGKILL, out of memory), a command cannot tell its engine, which would live on with all its memory.
vLLM calls the plug-in in each of its processes; only those of a command that named itself heed it.
"""

import os
import signal
import threading
import time

from service.process import Process, this_process

_COMMAND = "TAGRPO_ENGINE_OF"
_LOOK_EVERY_S = 1.0


def name_this_command() -> None:
    """Let engines that are started from now on end with this process.

    They have to be spawned, as vLLM does for a server too: a forked one loads no plug-ins of its own.
    """
    os.environ[_COMMAND] = str(this_process())
    os.environ.setdefault("VLLM_WORKER_MULTIPROC_METHOD", "spawn")


def end_with_command() -> None:
    """Watch the command that this process draws for, if there is one, and end when it has."""
    text = os.environ.get(_COMMAND)
    if text is None or text == str(this_process()):
        return
    threading.Thread(target=_watch, args=(Process.parse(text),), name="tagrpo-command", daemon=True).start()


def _watch(command: Process) -> None:
    while not command.has_ended():  # None where that cannot be seen
        time.sleep(_LOOK_EVERY_S)
    os.kill(os.getpid(), signal.SIGKILL)
