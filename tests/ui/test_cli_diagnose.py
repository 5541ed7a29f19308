"""`tagrpo diagnose`: on eval runs over a neighbor set, on rollouts, and what it refuses."""

import json
import random
import shutil
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from command_line import run_here, words
from eval_runs import add_eval_run
from json_rows import read_rows, write_rows
from rollout_shards import write_run
from runs import Proposed, add_run, open_empty

from evaluator.config import EvalConfig
from evaluator.evals.problems import make_problem
from rephraser.sets.problems import load_neighbors
from rephraser.sets.publish import publish
from service.database import Database

QUESTIONS, N, SAMPLES = 20, 2, 8


@pytest.fixture(autouse=True)
def few_replicates(monkeypatch):
    """Intervals of forecasts need not be exact here."""
    monkeypatch.setattr("evaluator.signal.shapes.REPLICATES", 4)


@pytest.fixture
def db(built, tmp_path, monkeypatch):
    """Return a copy of the database that commands take."""
    path = Path(shutil.copy(built(make_database), tmp_path / "t.db"))
    monkeypatch.setenv("TAGRPO_DB", str(path))
    return path


def make_database(folder: Path) -> None:
    """Make a database with questions, their candidates, and two eval runs over them: base and end.

    The neighbor "Add 1 to ..." of each of the last four questions, which are always solved, is never solved.
    """
    rng = random.Random(0)
    asked = [
        (f"What is {q}+1?", str(q + 1), [Proposed(f"{q}+1=?"), Proposed(f"Add 1 to {q}.", strategy="format")])
        for q in range(QUESTIONS)
    ]
    with open_empty(folder / "t.db") as database:
        add_run(database, "proposals", asked)
        publish(database, "math", run="proposals", min_distance=0)
        placed = load_neighbors(EvalConfig(neighbors="math@1", model="m"), database).placed
        base, end = [], []
        for q in range(QUESTIONS):
            for counts, gain in ((base, 0), (end, 2)):
                for variant in range(1 + N):
                    correct = min(SAMPLES, max(0, round(rng.gauss(q / 3, 1)) + gain))
                    if q >= QUESTIONS - 4:
                        hard = placed[3 * q + variant].problem.text.startswith("Add")
                        correct = 0 if hard else SAMPLES
                    counts.append((SAMPLES, correct, 0))
        for name, counts in (("base", base), ("end", end)):
            add_eval_run(
                database,
                name,
                counts,
                problems=placed,
                texts=lambda place, ordinal, value: f"{place.problem.text} {value} way {ordinal % 3}",
                tokens=lambda position, ordinal: 100 if position % (1 + N) == 0 else 200,
                seed=0 if name == "base" else 1,
            )
        plain = [make_problem(f"What is {q}+1?", str(q + 1)) for q in range(QUESTIONS)]
        add_eval_run(database, "plain", [(SAMPLES, q % 9, 0) for q in range(QUESTIONS)], problems=plain)


def rollouts(path: Path, *, responses: bool = True) -> Path:
    rng, rows = random.Random(1), []
    for step, q, variant, _ in product((1, 2), range(12), range(2), range(4)):
        row: dict[str, Any] = {"question_id": f"q{q}", "step": step, "tokens": 50}
        row["reward"] = int(rng.random() < (q + variant) / 13)
        row["neighbor_id"] = f"c{q}" if variant else None
        rows.append(row | ({"response": f"add {rng.randint(0, 3)} to {q}"} if responses else {}))
    return write_rows(path, *rows)


def test_zero_gradient_by_checkpoint_as_text_and_json(cli, db):
    text = words(cli("diagnose", "base", "end", "--only", "zero-gradient").out)
    assert "What share of questions gives no gradient" in text
    assert "G=8, N=2" in text
    assert "How much lower is the share with neighbors?" in text
    assert "needs 24 responses to an original" in text
    result = cli.json("diagnose", "base", "--only", "zero-gradient", "--g", 4)
    rows = {row["group"]: row for row in result["zero_gradient"]}
    assert rows["original, G"]["questions"] == QUESTIONS
    assert rows["joint, (N+1)*G"]["responses"] == 12
    assert rows["joint, (N+1)*G"]["share"] < rows["original, G"]["share"]
    assert rows["original, G"]["low"] < rows["original, G"]["share"] < rows["original, G"]["high"]


def test_a_run_without_neighbors(cli, db):
    shares = cli.json("diagnose", "plain", "--only", "zero-gradient")["zero_gradient"]
    assert [row["group"] for row in shares] == ["original, G"]
    assert "0 questions have graded responses to their original and to a neighbor" in cli.refused(
        "diagnose", "plain", "--only", "difficulty"
    )
    assert list(cli.json("diagnose", "plain")["left_out"]) == ["difficulty"]
    forecast = ("diagnose", "plain", "--only", "forecast", "--n", 3)
    assert "--assume-shift-sd" in cli.refused(*forecast)
    assert "neighbors (assumed)" in cli(*forecast, "--assume-shift-sd", 0.7, "--g", 1).out


@pytest.mark.slow
def test_several_parts_of_a_run(cli, db):
    price = ("--usd-per-gpu-hour", 3.6, "--tokens-per-second", 1000)
    result = cli.json("diagnose", "base", "--only", "cost,forecast", "--n", 2, *price)
    forecast = {row["group"]: row for row in result["forecast"]}
    assert forecast["joint, (N+1)*G"]["n"] == 2
    assert forecast["neighbors, N*G"]["share"] < forecast["one neighbor, G"]["share"]
    assert result["forecast_models"][0]["shift_assumed"] is False
    cost = {row["method"]: row for row in result["cost"]}
    alone, joint = cost["original, G"], cost["joint, (N+1)*G"]
    assert alone["tokens"] == pytest.approx(800 / alone["mixed"])
    assert joint["tokens"] == pytest.approx((800 + 2 * 1600) / joint["mixed"])
    assert joint["usd"] == pytest.approx(joint["tokens"] * 1e-6)
    assert not {"zero_gradient", "flagged", "diversity"} & set(result)
    text = words(cli("diagnose", "base", "--only", "forecast,cost").out)
    assert "Other values of N and G" in text
    assert "G=24 exceeds the 8 responses of the pilot" in text
    assert "Where is the break-even with TA-GRPO?" in text


@pytest.mark.slow
def test_odd_neighbors_go_back_to_review(cli, db, tmp_path):
    sheet = tmp_path / "sheet.jsonl"
    result = cli.json("diagnose", "base", "--only", "difficulty", "--review-sheet", sheet, code=3)
    strategies = {row["strategy"] for row in result["difficulty_strategies"]}
    assert strategies == {"all neighbors", "perspectives", "format"}
    assert len(result["difficulty_neighbors"]) == N * QUESTIONS
    assert all(row["adjusted"] <= 0.05 for row in result["flagged"])
    rows = read_rows(sheet)
    assert len(rows) == len(result["flagged"]) == result["review_sheet_rows"] >= 3
    assert {row["flag"] for row in rows} == {"too hard"}
    assert rows[0]["candidate_text"].startswith("Add 1 to ")
    assert (rows[0]["correct"], rows[0]["original_correct"]) == ("0 of 8", "8 of 8")
    for row in rows:
        row.update(decision="reject", reason="asks for something else")
    write_rows(sheet, *rows)
    cli.ok("rephrase", "review", "--sheet", sheet, "--reviewer", "ada")
    assert "exists" in cli.refused("diagnose", "base", "--only", "difficulty", "--review-sheet", sheet)


def test_flagged_ids_that_are_no_candidates_make_no_sheet(cli, db, tmp_path):
    rows = []
    for q, variant, ordinal in product(range(20), range(3), range(16)):
        reward = int(ordinal < (0 if (q, variant) == (19, 2) else q))
        neighbor = f"other{q}_{variant}" if variant else None
        rows.append({"question_id": q, "neighbor_id": neighbor, "reward": reward})
    path = write_rows(tmp_path / "r.jsonl", *rows)
    asked = ("diagnose", "--rollouts", path, "--only", "difficulty")
    assert "none of the 1 flagged neighbors is a candidate in this database" in cli.refused(
        *asked, "--review-sheet", tmp_path / "s.jsonl"
    )
    cli.warned(*asked)


def test_diversity_of_runs(cli, db):
    result = cli.json("diagnose", "base", "end", "--only", "diversity", "--g", 4)
    assert result["embedding"].startswith("TF-IDF")
    assert len(result["diversity"]) == 2 * QUESTIONS
    assert {row["checkpoint"] for row in result["diversity_densities"]} == {"base", "end"}
    means = {(row["series"], row["minus"]): row for row in result["diversity_means"]}
    assert means["neighbors, N*G", "original, G"]["low"] > 0  # other questions' words


@pytest.mark.slow
def test_a_training_is_diagnosed_by_name_and_by_folder(cli, tmp_path):
    folder, db = write_run(tmp_path / "ta", (1, 2, 3), questions=6), ("--db", tmp_path / "other.db")
    run_here.ok("train", "rollouts", folder, "--add", *db)
    by_name = cli.json("diagnose", "ta", "--g", 4, *db)
    by_folder = cli.json("diagnose", "--rollouts", folder, "--g", 4)
    assert by_name == json.loads(json.dumps(by_folder).replace(str(folder), "ta"))
    assert "ta, step 1" in json.dumps(by_name)
    assert "Pass it without other runs" in cli.refused("diagnose", "ta", "base", *db)


@pytest.mark.slow
def test_a_report_of_rollouts(cli, tmp_path):
    path = rollouts(tmp_path / "r.jsonl")
    done = cli.ok("diagnose", "--rollouts", path, "--g", 4)
    for question in (
        "What share",
        "Forecast from step 1",
        "How many mixed groups does each number of neighbors give",
        "Do rephrasings",
        "How diverse are responses",
        "How much does a group",
    ):
        assert question in done.out
    without = cli.json("diagnose", "--rollouts", rollouts(tmp_path / "s.jsonl", responses=False), "--g", 4)
    assert list(without["left_out"]) == ["diversity"]


def test_what_cannot_be_used_is_refused(cli, db):
    with Database.open(db) as database:
        problems = [make_problem(f"Is {q} odd?", str(q)) for q in range(3)]
        add_eval_run(database, "half", [(8, 8, 0)] * 3, problems=problems, graded=[4, 8, 8], seed=7)
    cli.within("diagnose", "--only", "zero-gradient").refuses(
        {
            "": "name eval runs or a training run, or give --rollouts PATH",
            "base --rollouts r.jsonl": "name eval runs or a training run, or give --rollouts PATH",
            "base base": "a run appears twice",
            "base plain": "no common question",
            "nothing": "there is no eval run 'nothing'",
            "base --only costs,forecast": "--only costs: no such part. Available: zero-gradient",
            "base --g 1": "at least 2 responses",
            "base --g 9": "no question has G=9",
            "base --n 5": "5 neighbors",
            "base --n -1": "at least 0",
            "base --assume-shift-sd 0.7": "--assume-shift-sd needs --n N",
            "base --correct-above 1": "requires --rollouts",
            "--rollouts none.jsonl": "no such file",
            "half": "tagrpo eval score half",
        }
    )
