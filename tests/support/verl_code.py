"""Runs a piece of code in a process of its own in which verl is loaded with the CPU platform."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any


def run_code(code: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run Python code in `folder`; variables of verl in this process's own environment are left out."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("VERL_")}
    return subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code],
        cwd=folder,
        env={
            **inherited,
            "PYTHONPATH": str(Path(__file__).parents[2]),
            "VERL_USE_EXTERNAL_MODULES": "trainer_adapter.verl.cpu.registration",
            **environment,
        },
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )


def result_of(code: str, folder: Path) -> Any:
    """Return what the code prints as JSON behind RESULT."""
    done = run_code(code, folder)
    assert done.returncode == 0, done.stderr
    [line] = [line for line in done.stdout.splitlines() if line.startswith("RESULT ")]
    return json.loads(line.removeprefix("RESULT "))
