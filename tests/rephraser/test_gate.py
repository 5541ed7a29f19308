"""The studies of the gate in small: real pairs, simulated answers, error rates that hold at any seed."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
ORIGINAL = "A crate holds 12 jars and a box holds 5 jars. How many jars do a crate and a box hold together?"
REPHRASED = "How many jars fit into one crate and one box together, if a crate takes 12 jars and a box 5?"
OTHER = "A crate holds 12 jars and a box holds 7 jars. How many jars do a crate and a box hold together?"


def run(study: str, *arguments: str) -> tuple[dict[str, Any], str]:
    command = [sys.executable, "-m", f"benchmarks.studies.{study}", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found, done.stderr


def write(path: Path, question: str, count: int, **fields: Any) -> None:
    row = {"original_question": ORIGINAL, "question": question, "original_answer": "17", **fields}
    path.write_text("\n".join([json.dumps(row)] * count))


@pytest.mark.slow
def test_a_gate_lets_honest_ones_through_and_names_missing_files(tmp_path):
    write(tmp_path / "honest.jsonl", REPHRASED, 20, same_answer=True, style="order")
    write(tmp_path / "copied.jsonl", ORIGINAL, 20, same_answer=True, style="copy")
    write(tmp_path / "broken.jsonl", OTHER, 20, same_answer=False, fault="number")
    (tmp_path / "other.jsonl").write_text('{"question": "no pair"}')
    found, said = run("gate", "--cases", "450", str(tmp_path), str(tmp_path / "absent.jsonl"))
    assert "absent.jsonl is not there and was left out" in said
    assert set(found["files"]) == {"honest", "copied", "broken"}
    honest = found["files"]["honest"]["honest"]
    assert (honest["fatal"], honest["numbers"]) == (0, 0)
    assert honest["accepted_independent"] > 0.6
    copied = found["files"]["copied"]["honest"]
    assert (copied["accepted_memorising"], copied["answers_memorising"]) == (0, 0)
    broken = found["files"]["broken"]["changed"]
    assert (broken["fatal"], broken["numbers"]) == (0, 1)
    assert broken["accepted_independent"] < 0.03
    assert set(found["findings"]) == {"same_as_original", "number_missing", "number_added"}
    mixed = found["mixtures"]["honest"]["independent"]
    assert mixed["broken_among_accepted"] < 0.01
    assert 12 < mixed["answers_per_accepted"] < 30


@pytest.mark.slow
@pytest.mark.shared
def test_simulated_and_real_responses_are_judged_within_the_bounds(data_folder):
    report, _ = run("verdict", "--cases", "300", "--data", str(data_folder))
    assert report["overlap"]["broken_among_accepted_at_10pct"] < 0.03
    assert report["overlap"]["good_accepted_from_35"] > 0.6
    real = report["real"]
    assert real["same_problem"]["accepted"] > 0.9
    assert real["same_problem"]["rejected"] < 0.005
    assert real["different_problems_another_gold"]["accepted"] < 0.002
    assert real["different_problems_another_gold"]["rejected"] > 0.9
