"""Runs verl's own entry point in a process of its own, with a hard limit, and ends what Ray leaves."""

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

_RUN = "TAGRPO_TEST_RUN"
_METRIC = re.compile(r"([\w./@-]+):((?:np\.\w+\()?[-+]?(?:\d[\d.]*(?:e[-+]?\d+)?|nan|inf)\)?)(?= - |\s*$)")


@dataclass(frozen=True)
class VerlRun:
    """What a run printed, how it ended (None: stopped at the limit), and the metrics of each step."""

    output: str
    returncode: int | None
    steps: tuple[dict[str, float], ...]


def run_main_ppo(overrides: Sequence[str], *, folder: Path, limit_s: float) -> VerlRun:
    """Run `python -m verl.trainer.main_ppo` on the CPU with `overrides` after those every user gives.

    Afterwards every process that was started under it is ended, found by a mark in its environment: Ray's
    daemons are in sessions of their own and would outlive a killed driver.
    """
    mark = uuid.uuid4().hex
    ray_folder = tempfile.mkdtemp(prefix="ray-")  # short: paths of Ray's sockets must fit into 107 bytes
    command = [
        *(sys.executable, "-W", "ignore", "-m", "verl.trainer.main_ppo"),
        *("hydra.searchpath=[pkg://trainer_adapter.configs]", "+tagrpo=cpu", "hydra.run.dir=hydra"),
        *(f"+ray_kwargs.ray_init._temp_dir={ray_folder}", *overrides),
    ]
    inherited = {
        **os.environ,
        "VERL_USE_EXTERNAL_MODULES": "trainer_adapter.verl_cpu",
        "HF_HUB_OFFLINE": "1",
        "OMP_NUM_THREADS": "1",
        "RAY_USAGE_STATS_ENABLED": "0",
        _RUN: mark,
    }
    log = folder / "main_ppo.log"
    returncode: int | None = None
    try:
        with log.open("w") as written:
            process = subprocess.Popen(
                command,
                cwd=folder,
                env=inherited,
                stdout=written,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            try:
                returncode = process.wait(limit_s)
            except subprocess.TimeoutExpired:
                pass
    finally:
        end_marked(mark)
        shutil.rmtree(ray_folder, ignore_errors=True)
    output = log.read_text(errors="replace")
    return VerlRun(output, returncode, tuple(metrics_of_steps(output)))


def metrics_of_steps(output: str) -> list[dict[str, float]]:
    """Return the metrics that verl's console logger printed, a dict for each step."""
    steps = [line[line.index("step:") :] for line in output.splitlines() if "step:" in line and " - " in line]
    return [
        {name: float(re.sub(r"^np\.\w+\(|\)$", "", value)) for name, value in _METRIC.findall(line)}
        for line in steps
    ]


def end_marked(mark: str) -> None:
    """Kill what was started with the mark in its environment, until nothing of it is left."""
    for _ in range(20):
        found = [process for process in psutil.process_iter() if _environment(process).get(_RUN) == mark]
        if not found:
            return
        for process in found:
            try:
                process.send_signal(signal.SIGKILL)
            except psutil.NoSuchProcess:
                continue
        psutil.wait_procs(found, timeout=5)
    raise RuntimeError(f"processes of the run are left: {[process.pid for process in found]}")


def _environment(process: psutil.Process) -> dict[str, str]:
    try:
        return {} if process.status() == psutil.STATUS_ZOMBIE else process.environ()
    except psutil.Error:
        return {}
