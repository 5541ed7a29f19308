"""The study of a real model from end to end with the sandbox's policy, killed after the base was measured."""

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from benchmarks.studies import real_model

ROOT = Path(__file__).parents[2]
LIMIT_S = 900


@pytest.fixture
def study(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Return a function that runs a command of the study in this process, and returns what it printed."""
    monkeypatch.setenv("RAY_worker_niceness", "0")

    def carry_out(*words: object) -> str:
        assert real_model.main([*map(str, words)]) == 0, capsys.readouterr().err
        return capsys.readouterr().out

    return carry_out


def rows_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


@pytest.mark.timeout(1800)
def test_a_killed_study_goes_on_and_another_machine_repeats_nothing(
    study: Callable[..., str], tmp_path: Path
) -> None:
    travel, place, out = tmp_path / "travel", tmp_path / "place", tmp_path / "out"
    rows = out / "rows.jsonl"
    study("prepare", travel, "--tiny")
    run = ("run", travel, place, "--out", out, "--seconds", LIMIT_S, "--pairs", 1)
    command, pipe = [sys.executable, "-m", "benchmarks.studies.real_model", *map(str, run)], subprocess.PIPE
    process = subprocess.Popen(command, cwd=ROOT, stdout=pipe, stderr=subprocess.STDOUT, text=True)
    ends = time.monotonic() + LIMIT_S
    while not (rows.exists() and '"pool"' in rows.read_text()):
        assert process.poll() is None, process.communicate()[0]
        assert time.monotonic() < ends
        time.sleep(0.1)
    process.kill()
    process.communicate()
    before = rows_of(rows)
    assert {(row["recipe"], row["benchmark"]) for row in before} == {
        *(("base", name) for name in ("first", "second", "pool")),
        ("grpo", "training"),  # the pilot
    }
    study(*run)
    after = rows_of(rows)
    assert after[: len(before)] == before
    tested = [row for row in after[len(before) :] if row["benchmark"] != "training"]
    assert {(row["recipe"], row["seed"], row["step"], row["responses"]) for row in tested} == {
        (recipe, 10, 2, 64) for recipe in ("grpo", "ta_rescue")
    }
    assert len({(row["recipe"], row["benchmark"], row["problem"]) for row in tested}) == len(tested) == 48
    assert all(row["drawn"] == 8 >= row["correct"] >= row["boxed"] for row in tested)
    assert sum(row["correct"] for row in tested) > 0
    assert (out / "set.tar").exists()

    study("prepare", travel, "--tiny", "--rows", rows, "--set", out / "set.tar")
    other = tmp_path / "other"
    late = study("run", travel, other, "--out", other / "out", "--seconds", 5)
    assert "out of time: pair takes 60 s or more" in late
    assert rows_of(other / "out" / "rows.jsonl") == after
    printed = study("report", rows)
    assert "## all: 24 problems" in printed
    assert "| ta_rescue | 64 | 1 |" in printed
