"""Running a training in a process of its own: its log followed, signals passed on, nothing left behind."""

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import IO

from trainer_adapter.runs.remains import MARK, end_processes

GRACE_S = 30.0
"""Seconds between asking a training to stop and killing it; a second signal kills at once."""

_LOOK_EVERY_S = 0.2
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@dataclass(frozen=True)
class Ended:
    """How a training ended.

    Attributes:
        returncode: of the process; negative where a signal ended it.
        stopped_by: the signal that this process got and passed on; None where none came.
        killed: whether it had to be killed.
        left_behind: processes it had started that had to be killed after its end.
        seconds: how long it ran.
    """

    returncode: int
    stopped_by: str | None
    killed: bool
    left_behind: int
    seconds: float


def run_child(
    command: Sequence[str],
    environment: Mapping[str, str],
    log: Path,
    *,
    folder: Path,
    mark: str,
    ray_folder: Path | None,
    echo: Callable[[str], None],
    grace_s: float = GRACE_S,
    patience_s: float = 5.0,
) -> Ended:
    """Run `command` until it ends, and end everything that it has started.

    The process writes into `log` itself and not into a pipe, so that it neither waits for us nor dies with
    us, and what it leaves behind keeps nobody waiting. It has a session of its own: Ctrl-C reaches this
    process only, which passes it on as SIGTERM, waits, and then kills.

    Args:
        environment: all of the process's environment; the mark is added.
        folder: its working folder.
        mark: by which its processes are known, see `remains`.
        ray_folder: of its Ray, removed afterwards.
        echo: gets each line of the log as it appears.
        patience_s: how long processes that it left behind may take to end.
    """
    started = time.monotonic()
    killed = False
    with log.open("ab") as written, log.open("rb") as reading, _stop_signals() as stop:
        reading.seek(0, os.SEEK_END)
        lines = _Lines(reading, echo)
        process = subprocess.Popen(
            list(command),
            cwd=folder,
            env={**environment, MARK: mark},
            stdin=subprocess.DEVNULL,
            stdout=written,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            deadline: float | None = None
            while True:
                lines.pass_on()
                try:
                    returncode = process.wait(_LOOK_EVERY_S)
                    break
                except subprocess.TimeoutExpired:
                    pass
                if stop.received and deadline is None:
                    deadline = time.monotonic() + grace_s
                    _signal_group(process, signal.SIGTERM)
                if (
                    deadline is not None
                    and not killed
                    and (len(stop.received) > 1 or time.monotonic() > deadline)
                ):
                    killed = True
                    _signal_group(process, signal.SIGKILL)
        finally:
            if process.poll() is None:
                _signal_group(process, signal.SIGKILL)
                process.wait()
            asked_to_hurry = bool(stop.received)
            left = end_processes(mark, ray_folder, patience_s=0.0 if asked_to_hurry else patience_s)
        lines.pass_on(to_the_end=True)
    stopped_by = signal.Signals(stop.received[0]).name if stop.received else None
    return Ended(returncode, stopped_by, killed, left, time.monotonic() - started)


class _Stop:
    def __init__(self) -> None:
        self.received: list[int] = []

    def __call__(self, number: int, frame: FrameType | None) -> None:
        self.received.append(number)


@contextmanager
def _stop_signals() -> Iterator[_Stop]:
    """Collect the signals that ask to stop, where this is the thread that gets them.

    One that is ignored stays ignored: `nohup` says by it that the terminal may close.
    """
    stop = _Stop()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    heard = [number for number in _SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, stop) for number in heard}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _signal_group(process: subprocess.Popen[bytes], number: int) -> None:
    try:
        os.killpg(process.pid, number)
    except ProcessLookupError:
        return


class _Lines:
    """Hands on the lines that were added to a file."""

    def __init__(self, file: IO[bytes], echo: Callable[[str], None]) -> None:
        self._file, self._echo, self._rest = file, echo, b""

    def pass_on(self, *, to_the_end: bool = False) -> None:
        *whole, self._rest = (self._rest + self._file.read()).split(b"\n")
        if to_the_end and self._rest:
            whole, self._rest = [*whole, self._rest], b""
        for line in whole:
            self._echo(line.decode("utf-8", "replace").rstrip("\r"))
