"""Commands of tagrpo that the study of a real model runs at the same time, until a deadline."""

from __future__ import annotations

import ctypes
import fcntl
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Container, Mapping, Sequence
from pathlib import Path

from benchmarks.harness import ROOT

MARGIN_S = 40.0
"""Seconds before the deadline at which everything is stopped: verl takes half a minute to end."""


class StudyError(Exception):
    """A command failed; the message has the end of its log."""


class OutOfTime(Exception):
    """The deadline came; what is finished is kept."""


def run_together(
    place: Path,
    deadline: float,
    commands: Mapping[str, Sequence[str]],
    *,
    allowed: Container[int] = (0,),
    watch: Callable[[Mapping[str, subprocess.Popen[bytes]]], None] | None = None,
) -> dict[str, Path]:
    """Run commands of tagrpo at the same time, each with a log; return what each printed.

    Args:
        place: the folder of the study; logs are in `logs`.
        deadline: on the clock of `time.monotonic`.
        allowed: exit codes that are no failure.

    Raises:
        StudyError: a command failed.
        OutOfTime: the deadline came; they were stopped.
    """
    logs = place / "logs"
    logs.mkdir(exist_ok=True)
    outputs = {name: logs / f"{name}.out" for name in commands}
    processes = {}
    for name, words in commands.items():
        with outputs[name].open("wb") as out, (logs / f"{name}.log").open("ab") as log:
            processes[name] = subprocess.Popen(
                [sys.executable, "-m", "tagrpo", *words],
                stdout=out,
                stderr=log,
                env=child_environment(),
                preexec_fn=end_with_parent,
                pass_fds=(lock_of(place),),
            )
    late = failed = False
    while any(process.poll() is None for process in processes.values()):
        if watch is not None:
            watch(processes)
        if not (failed or late):
            codes = [process.poll() for process in processes.values()]
            failed = any(code is not None and code not in allowed for code in codes)
            late = not failed and time.monotonic() > deadline - MARGIN_S
            for process in processes.values() if failed or late else ():
                process.terminate()
        time.sleep(0.5)
    if late:
        raise OutOfTime(f"stopped {', '.join(commands)}")
    for name, process in processes.items():
        if process.returncode not in allowed:
            texts = ((logs / f"{name}{end}").read_text("utf-8", "replace") for end in (".out", ".log"))
            end = "\n".join(line for text in texts for line in text.splitlines()[-15:])
            raise StudyError(f"{name} ended with exit code {process.returncode}:\n{end}")
    return outputs


def child_environment() -> dict[str, str]:
    paths = (str(ROOT), os.environ.get("PYTHONPATH", ""))
    return {
        "VLLM_USE_FLASHINFER_SAMPLER": "0",  # the packages that travel have no FlashInfer
        "VLLM_NO_USAGE_STATS": "1",
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
        "HF_HUB_OFFLINE": "1",
    }


def end_with_parent() -> None:
    """Ask the kernel for SIGTERM when the parent dies, so that a kill leaves no training behind."""
    ctypes.CDLL(None).prctl(1, signal.SIGTERM)


_locks: dict[Path, int] = {}


def lock_of(place: Path) -> int:
    """Return the lock of a folder; wait while another `run`, or a command that it left, still works there."""
    if place not in _locks:
        _locks[place] = os.open(place / ".lock", os.O_CREAT | os.O_RDWR)
        fcntl.flock(_locks[place], fcntl.LOCK_EX)
    return _locks[place]
