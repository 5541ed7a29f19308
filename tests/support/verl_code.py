"""Runs a piece of code in a process of its own in which verl is loaded with the CPU platform."""

import json
import subprocess
from pathlib import Path
from typing import Any

from forks import Forks


def run_code(forks: Forks, code: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run Python code in `folder`, as a fork of what has imported the packages that verl needs."""
    script = folder / "run_in_a_fork.py"
    script.write_text(code)
    variables = {"VERL_USE_EXTERNAL_MODULES": "trainer_adapter.verl.cpu.registration", **environment}
    worker = forks.worker(script=script, **variables)
    out, err = worker.communicate(timeout=180)
    return subprocess.CompletedProcess(worker.args, worker.returncode, out, err)


def result_of(forks: Forks, code: str, folder: Path) -> Any:
    """Return what the code prints as JSON behind RESULT."""
    done = run_code(forks, code, folder)
    assert done.returncode == 0, done.stderr
    [line] = [line for line in done.stdout.splitlines() if line.startswith("RESULT ")]
    return json.loads(line.removeprefix("RESULT "))
