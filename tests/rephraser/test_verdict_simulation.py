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


@pytest.mark.slow
@pytest.mark.shared
def test_simulated_and_real_responses_are_judged_within_the_bounds() -> None:
    if not (DATA / "qwen25math_100x8.jsonl").exists():
        pytest.skip(
            f"{DATA / 'qwen25math_100x8.jsonl'} is not here; set TAGRPO_DATA to the folder that holds it"
        )
    command = [sys.executable, "-m", "benchmarks.studies.verdict", "--cases", "300", "--data", str(DATA)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    report: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    assert report["overlap"]["broken_among_accepted_at_10pct"] < 0.03
    assert report["overlap"]["good_accepted_from_35"] > 0.6
    real = report["real"]
    assert real["same_problem"]["accepted"] > 0.9
    assert real["same_problem"]["rejected"] < 0.005
    assert real["different_problems_another_gold"]["accepted"] < 0.002
    assert real["different_problems_another_gold"]["rejected"] > 0.9
