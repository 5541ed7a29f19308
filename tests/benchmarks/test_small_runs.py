"""Every benchmark that trains nothing runs at a small size and ends with one JSON object."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SIZES = {
    "speed.cli_help": "--repeats 1",
    "speed.passk": "--pairs 1000 --loop-pairs 100",
    "speed.remote_client": "--cells 64 --rounds 1",
    "speed.rollouts": "--rollouts 4000",
    "speed.sampling_remote": "--problems 8 --samples 2 --rounds 1",
    "speed.sets": "--questions 20",
    "speed.store": "--samples 2000 --times 2",
    "studies.sandbox_study_table": "",
}
ON_DATA = {
    "speed.contamination": "--subset 20 --rows 300",
    "speed.grading_speed": "--rows 40 --skip-hostile --repeats 1",
    "speed.questions_import": "--rows 200",
    "studies.cost": "--rows 50",
    "studies.forecast": "--pilots 2 --questions 20",
    "studies.grading_accuracy": "--rows 5 --skip-math-verify --files grader_cases",
    "studies.neighbors": "",
    "studies.rules": "--rows 200 --sample 2",
    "studies.structural_checks": "--rows 5",
}
ON_TORCH = {"speed.sampling": "--problems 4 --samples 2 --tokens 8 --rounds 1 --no-remote"}
ON_VERL = {"speed.advantages": "--tokens 64 --repeats 1", "speed.reward": "--rows 40"}
SOAK = {"studies.soak": "--rounds 2 --disturbances 3 --questions 3"}
ELSEWHERE = {"studies.gate", "studies.passk_coverage", "studies.verdict", "pages.latency"}
"""Run by tests of their own."""
TRAINING = {
    *("speed.verl_start", "speed.verl_step", "studies.sandbox_base", "studies.sandbox_other_policy"),
    *("studies.sandbox_plain", "studies.sandbox_study"),
}
"""Minutes to days; only their help is asked for."""


def scripts() -> set[str]:
    return {
        f"{path.parent.name}.{path.stem}"
        for path in (ROOT / "benchmarks").glob("*/*.py")
        if '__name__ == "__main__"' in path.read_text(encoding="utf-8")
    }


def run(name: str, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", f"benchmarks.{name}", *arguments], capture_output=True, text=True, cwd=ROOT
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_benchmark_is_listed_here() -> None:
    assert scripts() == {*SIZES, *ON_DATA, *ON_TORCH, *ON_VERL, *SOAK, *ELSEWHERE, *TRAINING}


@pytest.mark.parametrize("name", SIZES)
def test_small(name: str) -> None:
    assert json.loads(run(name, *SIZES[name].split()).splitlines()[-1])


@pytest.mark.e2e
@pytest.mark.parametrize("name", SOAK)
def test_small_soak(name: str) -> None:
    assert json.loads(run(name, *SOAK[name].split()).splitlines()[-1])["failures"] == []


@pytest.mark.shared
@pytest.mark.parametrize("name", ON_DATA)
def test_small_on_public_data(name: str) -> None:
    from benchmarks.harness import DATA

    if not DATA.is_dir():
        pytest.skip(f"{DATA} is not here; set TAGRPO_DATA to the folder of public data")
    assert json.loads(run(name, *ON_DATA[name].split()).splitlines()[-1])


@pytest.mark.parametrize("name", ON_TORCH)
def test_small_with_torch(name: str) -> None:
    pytest.importorskip("torch", reason="needs torch")
    assert json.loads(run(name, *ON_TORCH[name].split()).splitlines()[-1])


@pytest.mark.shared
@pytest.mark.parametrize("name", ON_VERL)
def test_small_with_verl(name: str) -> None:
    pytest.importorskip("verl", reason="needs verl")
    assert json.loads(run(name, *ON_VERL[name].split()).splitlines()[-1])


def test_pages_small(tmp_path: Path) -> None:
    """Nothing here is as slow as its limit, which is told by the exit code."""
    database = str(tmp_path / "t.db")
    asked = ("--queries", database, "--warm", "1", "--cold", "1")
    report = json.loads(run("pages.latency", "--make", database, "--scale", "0.01", *asked).splitlines()[-1])
    assert report["database_mb"] > 0


@pytest.mark.parametrize("name", sorted(TRAINING))
def test_trainings_explain_themselves(name: str) -> None:
    assert "usage:" in run(name, "--help")
