"""Runs verl's own entry point in a process of its own, with a hard limit, and ends what Ray leaves."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from trainer_adapter.runs.composing import PYTHON_KEY
from trainer_adapter.verl.cpu.fork_server import START, VARIABLE, python_of_workers
from trainer_adapter.verl.plugin.overrides import hydra_arguments

SUPPORT = Path(__file__).parent
_RUN = "TAGRPO_TEST_RUN"
_METRIC = re.compile(r"([\w./@-]+):((?:np\.\w+\()?[-+]?(?:\d[\d.]*(?:e[-+]?\d+)?|nan|inf)\)?)(?= - |\s*$)")


@dataclass(frozen=True)
class VerlRun:
    """What a run printed, how it ended (None: stopped at the limit), and the metrics of each step."""

    output: str
    returncode: int | None
    steps: tuple[dict[str, float], ...]


def run_main_ppo(
    overrides: Sequence[str],
    *,
    folder: Path,
    limit_s: float,
    modules: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
) -> VerlRun:
    """Run `python -m verl.trainer.main_ppo` on the CPU with `overrides` after those every user gives.

    `modules` are loaded by verl after the CPU platform; they may stand in tests/support.

    Afterwards every process started under it is ended: Ray's daemons are in sessions of their own and would
    outlive a killed driver.
    """
    mark = uuid.uuid4().hex
    ray_folder = tempfile.mkdtemp(prefix="ray-")  # short: paths of Ray's sockets must fit into 107 bytes
    command = [
        *(sys.executable, "-W", "ignore", "-m", "verl.trainer.main_ppo"),
        *("hydra.searchpath=[pkg://trainer_adapter.verl.configs]", "+tagrpo=cpu", "hydra.run.dir=hydra"),
        *hydra_arguments({PYTHON_KEY: python_of_workers()}),
        *(f"+ray_kwargs.ray_init._temp_dir={ray_folder}", *overrides),
    ]
    inherited = {
        **os.environ,
        **(environment or {}),
        "PYTHONPATH": os.pathsep.join([str(SUPPORT), *filter(None, [os.environ.get("PYTHONPATH")])]),
        "VERL_USE_EXTERNAL_MODULES": ",".join(["trainer_adapter.verl.cpu", *modules]),
        "HF_HUB_OFFLINE": "1",
        "OMP_NUM_THREADS": "1",
        "RAY_TMPDIR": ray_folder,
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_worker_niceness": "0",  # of 15 by default, which starves a run on a machine that does more
        VARIABLE: START,
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
        end_processes_of(mark, ray_folder)
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


def end_processes_of(mark: str, ray_folder: str) -> None:
    """Kill what has the mark in its environment or a file in Ray's folder open, until nothing is left.

    The folder is needed too, because some of Ray's processes write their title over their environment.
    """
    found: list[psutil.Process] = []
    for _ in range(20):
        found = [process for process in psutil.process_iter() if _belongs(process, mark, ray_folder)]
        if not found:
            return
        for process in found:
            try:
                process.kill()
            except psutil.NoSuchProcess:
                continue
        psutil.wait_procs(found, timeout=5)
    raise RuntimeError(f"processes of the run are left: {[process.pid for process in found]}")


def _belongs(process: psutil.Process, mark: str, ray_folder: str) -> bool:
    try:
        if process.pid == os.getpid() or process.status() == psutil.STATUS_ZOMBIE:
            return False
        if process.environ().get(_RUN) == mark:
            return True
        return any(file.path.startswith(f"{ray_folder}/") for file in process.open_files())
    except psutil.Error:
        return False
