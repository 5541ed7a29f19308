"""The benchmark's simulation in small: error rates far enough from their bounds to hold at any seed."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from numpy.random import default_rng

from benchmarks.studies import verdict_simulation as simulation
from rephraser.verdict import OverlapRule, Verdict

ROOT = Path(__file__).resolve().parents[2]
DATA = Path(os.environ.get("TAGRPO_DATA", ROOT.parent / "shared" / "data"))
CASES = 400


def shares(cases: list[simulation.Case], rule: OverlapRule) -> tuple[float, float]:
    """Accepted and rejected share."""
    verdicts = [simulation.decide(case, rule)[0] for case in cases]
    return verdicts.count(Verdict.ACCEPTED) / len(cases), verdicts.count(Verdict.REJECTED) / len(cases)


@pytest.fixture(scope="module")
def good() -> list[simulation.Case]:
    rng = default_rng(11)
    return [simulation.good_case(rng, independent=False) for _ in range(CASES)]


def broken(kind: str) -> list[simulation.Case]:
    rng = default_rng(12)
    return [simulation.broken_case(rng, simulation.KINDS[kind]) for _ in range(CASES)]


def test_most_good_candidates_are_accepted_and_hardly_any_rejected(good: list[simulation.Case]) -> None:
    accepted, rejected = shares(good, OverlapRule())
    assert accepted > 0.7
    assert rejected <= 1 / CASES
    able = [case for case in good if min(case.question_rate, case.candidate_rate) >= 0.35]
    assert shares(able, OverlapRule())[0] > 0.87


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "most_accepted", "least_rejected"),
    [
        ("changed answer", 0.02, 0.14),
        ("leaked original", 0.07, 0.0),
        ("unanswerable", 0.02, 0.0),
        ("gold is a frequent wrong answer", 0.08, 0.02),
        ("swapped", 0.02, 0.3),
    ],
)
def test_broken_candidates_are_seldom_accepted(
    kind: str, most_accepted: float, least_rejected: float
) -> None:
    accepted, rejected = shares(broken(kind), OverlapRule())
    assert accepted < most_accepted
    assert rejected > least_rejected


def test_deciding_stops_at_the_first_look_that_decides() -> None:
    always = simulation.Case([0] * 32, [0] * 20, 1.0, 1.0)
    assert simulation.decide(always, OverlapRule()) == (Verdict.ACCEPTED, 12)
    late = simulation.Case([0] * 32, [1, 2, 3, 4] + [0] * 8 + [0] * 8, 1.0, 0.9)
    assert simulation.decide(late, OverlapRule()) == (Verdict.ACCEPTED, 16)
    never = simulation.Case([0] * 32, [0] * 5 + list(range(1, 16)), 1.0, 0.3)
    assert simulation.decide(never, OverlapRule()) == (Verdict.UNDECIDED, 16)


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
