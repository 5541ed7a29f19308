"""The benchmark's simulation in small: error rates far enough from their bounds to hold at any seed."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
DATA = Path(os.environ.get("TAGRPO_DATA", ROOT.parent / "shared" / "data"))


def run_benchmark(*arguments: str) -> tuple[str, dict[str, dict[str, float]]]:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.studies.verdict", "--cases", "300", *arguments],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
    )
    return done.stdout, json.loads(done.stdout.splitlines()[-1])


@pytest.mark.slow
def test_the_benchmark_runs_without_real_data_and_says_so(tmp_path: Path) -> None:
    printed, report = run_benchmark("--data", str(tmp_path))
    assert "no real responses were judged" in printed
    assert "real" not in report
    assert report["overlap"]["broken_among_accepted_at_10pct"] < 0.03
    assert report["overlap"]["good_accepted_from_35"] > 0.6


@pytest.mark.slow
@pytest.mark.shared
def test_real_responses_to_one_problem_are_told_from_those_to_another() -> None:
    if not (DATA / "qwen25math_100x8.jsonl").exists():
        pytest.skip(
            f"{DATA / 'qwen25math_100x8.jsonl'} is not here; set TAGRPO_DATA to the folder that holds it"
        )
    _, report = run_benchmark("--data", str(DATA))
    real: Any = report["real"]
    assert real["same_problem"]["accepted"] > 0.9
    assert real["same_problem"]["rejected"] < 0.005
    assert real["different_problems_another_gold"]["accepted"] < 0.002
    assert real["different_problems_another_gold"]["rejected"] > 0.9
