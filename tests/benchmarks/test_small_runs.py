"""Every benchmark that trains nothing runs at a small size and ends with one JSON object."""

import json
import runpy
import sys
from collections.abc import Callable, Iterator
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
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Callable[..., str]]:
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


def test_every_benchmark_is_listed_here_and_by_the_package(capsys: pytest.CaptureFixture[str]) -> None:
    here = {*SIZES, *ON_DATA, *ELSEWHERE, *TRAINING}
    assert {name.removeprefix("benchmarks.") for name in scripts()} == here
    list_benchmarks()
    output = capsys.readouterr().out
    assert all(f"{name} " in output and line in output for name, line in scripts().items())
    assert all(scripts().values())


@pytest.mark.slow
@pytest.mark.parametrize("name", SIZES)
def test_small(name: str, run: Callable[..., str]) -> None:
    assert json.loads(run(name, *SIZES[name].split()).splitlines()[-1])


@pytest.mark.slow
@pytest.mark.shared
@pytest.mark.parametrize("name", [pytest.param(name, marks=OF_FILES.get(name, ())) for name in ON_DATA])
def test_small_on_public_data(name: str, run: Callable[..., str]) -> None:
    if not harness.DATA.is_dir():
        pytest.skip(f"{harness.DATA} is not here; set TAGRPO_DATA to the folder of public data")
    assert json.loads(run(name, *ON_DATA[name].split()).splitlines()[-1])


@pytest.mark.slow
@pytest.mark.sqlite  # makes a file
def test_pages_small(tmp_path: Path, run: Callable[..., str]) -> None:
    output = run("pages.latency", "--make", str(tmp_path / "t.db"), "--scale", "0.01")
    assert json.loads(output.splitlines()[-1])["database_mb"] > 0
