"""`make gpu-check` stops at what fails; an interpreter in Python's place says what each command prints."""

import os
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "benchmarks" / "gpu_check.sh"
STAND_IN = """#!/bin/bash
case "$*" in
  -c*) echo "$0" ;;
  *"train metrics"*) printf 'run step actor/grad_norm\\ngrpo 1 {gradient}\\ngrpo 2 {gradient}\\n' ;;
  *"{failing}"*) exit 3 ;;
  *) echo "ran $*" ;;
esac
"""


@pytest.mark.parametrize(
    ("gradient", "failing", "code", "last"),
    [
        ("0.5", "nothing", 0, "gpu-check: done"),
        ("0", "nothing", 1, "gpu-check: grpo changed no weights"),
        ("0.5", "train run ta_grpo", 3, "grpo 2 0.5"),
    ],
)
def test_the_script_ends_at_the_first_fault(
    tmp_path: Path, gradient: str, failing: str, code: int, last: str
) -> None:
    python = tmp_path / "python"
    python.write_text(STAND_IN.format(gradient=gradient, failing=failing), encoding="utf-8")
    python.chmod(0o755)
    environment, pipe = {**os.environ, "PYTHON": str(python)}, subprocess.PIPE
    done = subprocess.run([SCRIPT], env=environment, stdout=pipe, stderr=subprocess.STDOUT, text=True)
    assert (done.returncode, done.stdout.splitlines()[-1]) == (code, last)
    assert "sampler=vllm" in done.stdout or code
