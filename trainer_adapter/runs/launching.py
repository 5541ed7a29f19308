"""Run training in a separate process: follow its log and stop all of its processes.

Ray's processes live in sessions of their own, so that they are found by a mark in their environment.
"""

import os
import re
import shlex
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import psutil

from trainer_adapter.runs.composing import external_modules

GRACE_S = 30.0
"""Seconds between asking a training to stop and killing it; a second signal kills at once."""

_LOOK_EVERY_S = 0.2
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@dataclass(frozen=True)
class TrainEnd:
    """How a training ended."""

    seconds: float  # how long it ran; if tagrpo was killed, until its log ended
    # of verl; 0 if training finished, negative if a signal ended it, None if tagrpo was killed first
    returncode: int | None
    stopped_by: str | None = None  # the signal that this process got and passed on
    killed: bool = False  # whether it had to be killed
    left_behind: int = 0  # processes it had started that had to be killed after its end


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
) -> TrainEnd:
    """Run `command` until it ends, then end everything that it has started and remove its Ray's folder.

    The process writes into `log` itself and not into a pipe, so that it neither waits for us nor dies with
    us. It has a session of its own: Ctrl-C reaches this process only, which passes it on as SIGTERM, waits,
    and then kills.
    """
    started = time.monotonic()
    killed = False
    with log.open("ab") as written, log.open("rb") as reading, _stop_signals() as received:
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
            while process.poll() is None:
                lines.pass_on()
                if received and deadline is None:
                    deadline = time.monotonic() + grace_s
                    _signal_group(process, signal.SIGTERM)
                late = deadline is not None and time.monotonic() > deadline
                if not killed and (late or len(received) > 1):
                    killed = True
                    _signal_group(process, signal.SIGKILL)
                with suppress(subprocess.TimeoutExpired):
                    process.wait(_LOOK_EVERY_S)
        finally:
            if process.poll() is None:
                _signal_group(process, signal.SIGKILL)
            returncode = process.wait()
            left = end_processes(mark, ray_folder, patience_s=0.0 if received else patience_s)
        lines.pass_on(to_the_end=True)
    stopped_by = signal.Signals(received[0]).name if received else None
    return TrainEnd(round(time.monotonic() - started, 1), returncode, stopped_by, killed, left)


@contextmanager
def _stop_signals() -> Iterator[list[int]]:
    """Collect the signals that ask to stop, where this is the thread that gets them.

    One that is ignored stays ignored: `nohup` says by it that the terminal may close.
    """
    received: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield received
        return
    heard = [number for number in _SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, lambda got, _: received.append(got)) for number in heard}
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _signal_group(process: subprocess.Popen[bytes], number: int) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, number)


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


MARK = "TAGRPO_TRAINING"
"""Stands in the environment of a training and so in that of everything it starts."""

_ROUNDS = 20


def make_ray_folder() -> Path:
    """Return a new folder for Ray's files; short, since the paths of its sockets must fit into 107 bytes."""
    parent = os.environ.get("RAY_TMPDIR") or ("/tmp" if os.access("/tmp", os.W_OK) else None)
    return Path(tempfile.mkdtemp(prefix="ray-", dir=parent))


def find_processes(mark: str, ray_folder: Path | None) -> list[psutil.Process]:
    """Return the living processes that bear the mark or have a file in Ray's folder open.

    The folder is needed too, because some of Ray's processes write their title over their environment.
    """
    return [process for process in psutil.process_iter() if _belongs(process, mark, ray_folder)]


def end_processes(mark: str, ray_folder: Path | None, *, patience_s: float = 5.0) -> int:
    """End what is left of a training and remove Ray's folder; return how many processes had to be killed."""
    processes = find_processes(mark, ray_folder)
    deadline = time.monotonic() + patience_s
    while processes and time.monotonic() < deadline:
        psutil.wait_procs(processes, timeout=min(0.5, patience_s))
        processes = find_processes(mark, ray_folder)
    killed = 0
    for _ in range(_ROUNDS):
        if not processes:
            break
        for process in processes:
            with suppress(psutil.NoSuchProcess):
                process.kill()
                killed += 1
        psutil.wait_procs(processes, timeout=5)
        processes = find_processes(mark, ray_folder)
    if processes:
        raise RuntimeError(f"training processes are still running: {[process.pid for process in processes]}")
    if ray_folder is not None:
        shutil.rmtree(ray_folder, ignore_errors=True)
    return killed


def _belongs(process: psutil.Process, mark: str, ray_folder: Path | None) -> bool:
    try:
        if process.pid == os.getpid() or process.status() == psutil.STATUS_ZOMBIE:
            return False
        if process.environ().get(MARK) == mark:
            return True
        if ray_folder is None:
            return False
        return any(file.path.startswith(f"{ray_folder}/") for file in process.open_files())
    except (psutil.Error, OSError):
        return False


_END = 400_000
_ANSI = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_PREFIX = re.compile(r"^\((?:[\w.:<>]+ )?pid=\d+(?:, ip=[\d.]+)?\)\s?")
_STEP = re.compile(r"\bstep:(\d+) - ")
_TOTAL = re.compile(r"\bTotal training steps: (\d+)")
_ERROR = re.compile(
    r"^(?:[\w.]*\.)?(?:[A-Z]\w*)?(?:Error|Exception|Interrupt|Exit|Timeout)(?:\(\w+\))?(?::.*)?$"
)
_OURS = re.compile(r"(?:InputError|PrerequisiteError): ")

HINTS = {
    "CUDA out of memory": "the GPU ran out of memory: resume with a lower "
    "verl.actor_rollout_ref.actor.ppo_max_token_len_per_gpu or "
    "verl.actor_rollout_ref.rollout.gpu_memory_utilization (`tagrpo resume NAME KEY=VALUE`), or see `tagrpo "
    "train plan`",
    "No available memory for the cache blocks": "vLLM has no memory for its cache: raise "
    "verl.actor_rollout_ref.rollout.gpu_memory_utilization",
    "timed out during startup": "Ray did not start within 30 seconds on a busy machine: start again",
    "available GPUs 0": "Ray sees fewer GPUs than requested",
    "gated repo": "the model is gated: accept its terms on the Hub and set HF_TOKEN",
    "No space left on device": "the disk is full",
    "AutoModelForCausalLMWithValueHead": "verl cannot import the installed TRL: run pip uninstall trl, or "
    "separate the environments",
    "max_token_len must be greater than the sequence length": "raise "
    "verl.actor_rollout_ref.actor.ppo_max_token_len_per_gpu to the longest prompt plus response",
    "AF_UNIX path": "the path of Ray's temporary folder is too long: set RAY_TMPDIR to a short path",
}
"""Words of a log, and what they mean."""


def step_of(line: str) -> int | None:
    """Return the step whose metrics a line of the log shows; None where it shows none."""
    return int(match[1]) if (match := _STEP.search(line)) else None


def total_steps_of(line: str) -> int | None:
    """Return how many steps a training has, where a line of its log says so."""
    return int(match[1]) if (match := _TOTAL.search(line)) else None


def last_step(log: Path) -> int | None:
    """Return the last step whose metrics the log shows; None where there is none."""
    steps = [int(step) for line in _lines(log) for step in _STEP.findall(line)]
    return steps[-1] if steps else None


def last_errors(log: Path) -> list[str]:
    """Return the last five error lines of a log, each once; the last lines if none looks like an error."""
    lines = list(_lines(log))
    errors = [line.strip() for line in lines if _ERROR.match(line.strip()) or _OURS.search(line)]
    chosen = errors or [line.strip() for line in lines if line.strip()]
    return list(dict.fromkeys(reversed(chosen)))[:5][::-1]


def hints(log: Path) -> list[str]:
    """Return what the known error messages in a log mean."""
    text = "\n".join(_lines(log))
    return [meaning for words, meaning in HINTS.items() if words in text]


def _lines(log: Path) -> Iterator[str]:
    """Yield the lines at the end of a log without colours and without Ray's `(worker pid=1)`."""
    try:
        with log.open("rb") as file:
            file.seek(0, 2)
            file.seek(max(0, file.tell() - _END))
            text = file.read().decode("utf-8", "replace")
    except FileNotFoundError:
        return
    for line in text.replace("\r", "\n").split("\n"):
        yield _PREFIX.sub("", _ANSI.sub("", line))


_ON_THE_CPU = {
    "OMP_NUM_THREADS": "1",
    # Ray would start a Python a core in advance, which no worker of verl's uses: theirs has other variables.
    "RAY_prestart_worker_first_driver": "0",
    "RAY_worker_niceness": "0",  # with Ray's 15, a training next to another program hardly moves
}


def training_environment(cpu: bool, metrics: Path) -> dict[str, str]:
    """Return what the process of a training finds in its environment beside the user's own."""
    modules = [os.environ.get("VERL_USE_EXTERNAL_MODULES", ""), external_modules(cpu)]
    defaults = _ON_THE_CPU if cpu else {}
    # Whole paths: verl runs in another folder, and finds the user's formulas by them.
    folders = [folder for folder in os.environ.get("PYTHONPATH", "").split(os.pathsep) if folder]
    python_path = {"PYTHONPATH": os.pathsep.join(map(os.path.abspath, folders))} if folders else {}
    return {
        "VERL_USE_EXTERNAL_MODULES": ",".join(module for module in modules if module),
        "VERL_FILE_LOGGER_PATH": str(metrics),
        "RAY_USAGE_STATS_ENABLED": os.environ.get("RAY_USAGE_STATS_ENABLED", "0"),
        "PYTHONUNBUFFERED": "1",
        **python_path,
        **{name: os.environ.get(name, value) for name, value in defaults.items()},
    }


def shell_command(words: Sequence[str], environment: Mapping[str, str]) -> str:
    """Return a command for a POSIX shell, one argument a line."""
    lines = [f"{name}={shlex.quote(value)}" for name, value in environment.items()]
    start = next((place for place, word in enumerate(words) if "=" in word), len(words))
    lines.append(shlex.join(words[:start]))
    lines += [shlex.quote(word) for word in words[start:]]
    return " \\\n    ".join(lines)


_FOR_WORKERS = ("HF_", "NCCL_", "TORCH_", "TRANSFORMERS_", "VERL_", "VLLM_")
_SECRET = ("TOKEN", "KEY", "SECRET", "PASSWORD")


def worker_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return variables for workers of a running Ray cluster: ours, and those that the user set for libraries.

    Secrets are left out, since the command is printed and kept.
    """
    of_user = {
        name: value
        for name, value in os.environ.items()
        if name.startswith(_FOR_WORKERS) and not any(word in name for word in _SECRET)
    }
    return {**of_user, **environment}
