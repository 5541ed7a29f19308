"""Every benchmark that trains nothing runs at a small size; `make gpu-check` stops at what fails."""

import json
import os
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import harness
from benchmarks.__main__ import main as list_benchmarks
from benchmarks.__main__ import scripts

SIZES = {"speed.rollouts": "--rollouts 8192 --text-bytes 200", "studies.sandbox_study_table": ""}
ON_DATA = {
    "speed.grading_speed": "--rows 40 --skip-hostile --repeats 1",
    "studies.forecast": "--pilots 1 --questions 20 --worlds phrasing,run",
    "studies.grading_accuracy": "--rows 5 --skip-math-verify --files grader_cases",
    "studies.neighbors": "",
}
OF_FILES = {"studies.neighbors": pytest.mark.sqlite}  # unpacks one
ELSEWHERE = {"studies.gate", "studies.passk_coverage", "studies.verdict", "pages.latency"}
"""Run by tests of their own."""
TRAINING = {"speed.training_step", "studies.real_model", "studies.sandbox_study"}
"""Hours or days; files of tests with their names try their parts."""


@pytest.fixture
def run(monkeypatch, capsys):
    """Run a benchmark in this process."""

    def run_here(name: str, *arguments: object) -> str:
        monkeypatch.setattr(sys, "argv", [name, *map(str, arguments)])
        capsys.readouterr()
        runpy.run_module(f"benchmarks.{name}", run_name="__main__", alter_sys=True)
        return capsys.readouterr().out

    threads = torch.get_num_threads() if (torch := sys.modules.get("torch")) else None
    yield run_here
    if threads is not None:
        sys.modules["torch"].set_num_threads(threads)


def test_every_benchmark_is_listed_here_and_by_the_package(capsys):
    here = {*SIZES, *ON_DATA, *ELSEWHERE, *TRAINING}
    assert {name.removeprefix("benchmarks.") for name in scripts()} == here
    list_benchmarks()
    output = capsys.readouterr().out
    assert all(f"{name} " in output and line in output for name, line in scripts().items())
    assert all(scripts().values())


@pytest.mark.slow
@pytest.mark.parametrize("name", SIZES)
def test_small(name, run):
    assert json.loads(run(name, *SIZES[name].split()).splitlines()[-1])


@pytest.mark.slow
@pytest.mark.shared
@pytest.mark.parametrize("name", [pytest.param(name, marks=OF_FILES.get(name, ())) for name in ON_DATA])
def test_small_on_public_data(name, run):
    if not harness.DATA.is_dir():
        pytest.skip(f"{harness.DATA} is not here; set TAGRPO_DATA to the folder of public data")
    assert json.loads(run(name, *ON_DATA[name].split()).splitlines()[-1])


@pytest.mark.slow
@pytest.mark.sqlite  # makes a file
def test_pages_small(tmp_path, run):
    output = run("pages.latency", "--make", str(tmp_path / "t.db"), "--scale", "0.01")
    assert json.loads(output.splitlines()[-1])["database_mb"] > 0


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
def test_gpu_check_ends_at_a_fault(tmp_path, gradient, failing, code, last):
    python = tmp_path / "python"
    python.write_text(STAND_IN.format(gradient=gradient, failing=failing), encoding="utf-8")
    python.chmod(0o755)
    environment, pipe = {**os.environ, "PYTHON": str(python)}, subprocess.PIPE
    done = subprocess.run([SCRIPT], env=environment, stdout=pipe, stderr=subprocess.STDOUT, text=True)
    assert (done.returncode, done.stdout.splitlines()[-1]) == (code, last)
    assert "sampler=vllm" in done.stdout or code
