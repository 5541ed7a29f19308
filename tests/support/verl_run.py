"""Runs verl's own entry point in a process of its own, with a hard limit, and ends what Ray leaves."""

import os
import re
import subprocess
import sys
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from trainer_adapter.runs.composing import CPU_PLUGIN, PYTHON_KEY
from trainer_adapter.runs.launching import MARK, end_processes, make_ray_folder
from trainer_adapter.verl.cpu.fork_server import python_of_workers
from trainer_adapter.verl.plugin.overrides import hydra_arguments

SUPPORT = Path(__file__).parent
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
    """Run verl's main_ppo on the CPU with `overrides` after those every user gives.

    `modules` are loaded by verl after the CPU platform; they may stand in tests/support.

    Afterwards every process started under it is ended: Ray's daemons are in sessions of their own and would
    outlive a killed driver.
    """
    mark = uuid.uuid4().hex
    ray_folder = make_ray_folder()
    command = [
        *(sys.executable, "-W", "ignore", "-m", "trainer_adapter.verl.cpu"),
        *("hydra.searchpath=[pkg://trainer_adapter.verl.configs]", "+tagrpo=cpu", "hydra.run.dir=hydra"),
        *hydra_arguments({PYTHON_KEY: python_of_workers()}),
        *(f"+ray_kwargs.ray_init._temp_dir={ray_folder}", *overrides),
    ]
    inherited = {
        **os.environ,
        **(environment or {}),
        "PYTHONPATH": os.pathsep.join([str(SUPPORT), *filter(None, [os.environ.get("PYTHONPATH")])]),
        "VERL_USE_EXTERNAL_MODULES": ",".join([CPU_PLUGIN, *modules]),
        "HF_HUB_OFFLINE": "1",
        "OMP_NUM_THREADS": "1",
        "RAY_TMPDIR": str(ray_folder),
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_worker_niceness": "0",  # of 15 by default, which starves a run on a machine that does more
        MARK: mark,
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
        end_processes(mark, ray_folder, patience_s=0.0)
    output = log.read_text(errors="replace")
    return VerlRun(output, returncode, tuple(metrics_of_steps(output)))


def metrics_of_steps(output: str) -> list[dict[str, float]]:
    """Return the metrics that verl's console logger printed, a dict for each step."""
    steps = [line[line.index("step:") :] for line in output.splitlines() if "step:" in line and " - " in line]
    return [
        {name: float(re.sub(r"^np\.\w+\(|\)$", "", value)) for name, value in _METRIC.findall(line)}
        for line in steps
    ]
