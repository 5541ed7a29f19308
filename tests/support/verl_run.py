"""Runs verl's own entry point in a process of its own, with a hard limit, and ends what Ray leaves."""

import json
import math
import os
import subprocess
import sys
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from trainer_adapter.runs.composing import CPU_PLUGIN, PYTHON_KEY
from trainer_adapter.runs.launching import MARK, end_processes, make_ray_folder
from trainer_adapter.verl.cpu.forks import python_of_workers
from trainer_adapter.verl.plugin.overrides import hydra_arguments

SUPPORT = Path(__file__).parent


@dataclass(frozen=True)
class VerlRun:
    """What a run printed, how it ended (None: stopped at the limit), and what verl logged of each step."""

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
        *(f"+ray_kwargs.ray_init._temp_dir={ray_folder}", "trainer.logger=[console,file]", *overrides),
    ]
    metrics = folder / "metrics.jsonl"
    metrics.unlink(missing_ok=True)
    inherited = {
        **os.environ,
        **(environment or {}),
        "PYTHONPATH": os.pathsep.join([str(SUPPORT), *filter(None, [os.environ.get("PYTHONPATH")])]),
        "VERL_FILE_LOGGER_PATH": str(metrics),
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
            streams = {"stdout": written, "stderr": subprocess.STDOUT}
            process = subprocess.Popen(command, cwd=folder, env=inherited, start_new_session=True, **streams)
            try:
                returncode = process.wait(limit_s)
            except subprocess.TimeoutExpired:
                pass
    finally:
        end_processes(mark, ray_folder, patience_s=0.0)
    output = log.read_text(errors="replace")
    return VerlRun(output, returncode, tuple(_metrics_of_steps(metrics) if metrics.exists() else ()))


def _metrics_of_steps(path: Path) -> Iterator[dict[str, float]]:
    """Yield what verl's file logger wrote of each step, its numbers only; it writes null for NaN.

    Not from the console: Ray now and then tears a line of a worker in two.
    """
    for line in path.read_text().splitlines():
        logged = json.loads(line)
        numbers = {name: math.nan if value is None else value for name, value in logged["data"].items()}
        yield {"step": logged["step"], **{k: v for k, v in numbers.items() if isinstance(v, int | float)}}
