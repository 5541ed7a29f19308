"""`tagrpo diagnose`: on eval runs over a neighbor set, on rollouts, and what it refuses."""

import csv
import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from command_line import CommandLine, run_here, words
from eval_runs import add_eval_run, regrade
from rollout_shards import write_run
from runs import Proposed, add_run, open_empty
from sqlalchemy import select

from evaluator.evals.problems import PlacedProblem, make_problem
from rephraser.tables import CandidateRow
from service.database import Database

QUESTIONS, N, SAMPLES = 20, 2, 8


@pytest.fixture(autouse=True)
def few_replicates(monkeypatch: pytest.MonkeyPatch) -> None:
    """Intervals of forecasts need not be exact here."""
    monkeypatch.setattr("evaluator.signal.forecast.REPLICATES", 4)


@pytest.fixture
def tagrpo(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    return CommandLine(monkeypatch, capsys)


@pytest.fixture
def db(built: Callable[[Any], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a copy of the database that commands take."""
    path = Path(shutil.copy(built(make_database), tmp_path / "t.db"))
    monkeypatch.setenv("TAGRPO_DB", str(path))
    return path


def make_database(folder: Path) -> None:
    """Make a database with questions, their candidates, and two eval runs over them: base and end.

    Neighbor 2 of each of the last four questions, which are always solved, is never solved.
    """
    rng = random.Random(0)
    asked = [
        (f"What is {q}+1?", str(q + 1), [Proposed(f"{q}+1=?"), Proposed(f"Add 1 to {q}.", strategy="format")])
        for q in range(QUESTIONS)
    ]
    with open_empty(folder / "t.db") as database:
        add_run(database, "proposals", asked)
        with database.read() as session:
            candidates = {row.text: row for row in session.scalars(select(CandidateRow))}
        placed, base, end = [], [], []
        for q, (question, answer, proposed) in enumerate(asked):
            group = candidates[proposed[0].text].question_id
            placed.append(PlacedProblem(make_problem(question, answer), group, 0, group))
            for variant, one in enumerate(proposed, start=1):
                source = candidates[one.text].id
                problem = make_problem(one.text, answer)
                placed.append(PlacedProblem(problem, group, variant, source, one.strategy))
            for counts, gain in ((base, 0), (end, 2)):
                for variant in range(1 + N):
                    correct = min(SAMPLES, max(0, round(rng.gauss(q / 3, 1)) + gain))
                    if q >= QUESTIONS - 4:
                        correct = 0 if variant == 2 else SAMPLES
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
    rng = random.Random(1)
    with path.open("w", encoding="utf-8") as file:
        for step in (1, 2):
            for q in range(12):
                for variant in range(2):
                    for _ in range(4):
                        row: dict[str, Any] = {"question_id": f"q{q}", "step": step, "tokens": 50}
                        row["reward"] = int(rng.random() < (q + variant) / 13)
                        row["neighbor_id"] = f"c{q}" if variant else None
                        if responses:
                            row["response"] = f"add {rng.randint(0, 3)} to {q}"
                        file.write(json.dumps(row) + "\n")
    return path


def test_zero_gradient_by_checkpoint(tagrpo: CommandLine, db: Path) -> None:
    done = tagrpo("diagnose", "zero-gradient", "base", "end", "--published")
    assert done.code == 0
    text = words(done.out)
    assert "Which share of questions gives no gradient" in text
    assert "G=8, N=2" in text
    assert "How much lower is the share with neighbors?" in text
    assert "Qwen3-1.7B base 77.0% 58.4% -18.6 points" in text
    assert "needs 24 responses to an original" in words(done.out)


def test_zero_gradient_as_json_and_csv(tagrpo: CommandLine, db: Path, tmp_path: Path) -> None:
    done = tagrpo("diagnose", "zero-gradient", "base", "--g", 4, "--json", "--out", tmp_path / "figures")
    result = json.loads(done.out)
    rows = {row["group"]: row for row in result["zero_gradient"]}
    assert rows["original, G"]["questions"] == QUESTIONS
    assert rows["joint, (N+1)*G"]["responses"] == 12
    assert rows["joint, (N+1)*G"]["share"] < rows["original, G"]["share"]
    assert rows["original, G"]["low"] < rows["original, G"]["share"] < rows["original, G"]["high"]
    with (tmp_path / "figures" / "zero_gradient.csv").open(encoding="utf-8", newline="") as file:
        written = list(csv.DictReader(file))
    assert [float(row["share"]) for row in written] == [row["share"] for row in result["zero_gradient"]]
    again = tagrpo("diagnose", "zero-gradient", "base", "--out", tmp_path / "figures")
    assert again.code == 2
    assert "--overwrite" in again.err
    assert tagrpo("diagnose", "zero-gradient", "base", "--out", tmp_path / "figures", "--overwrite").code == 0


def test_a_plain_run_shows_originals_only(tagrpo: CommandLine, db: Path) -> None:
    done = tagrpo("diagnose", "zero-gradient", "plain", "--json")
    assert [row["group"] for row in json.loads(done.out)["zero_gradient"]] == ["original, G"]
    audit = tagrpo("diagnose", "difficulty", "plain")
    assert audit.code == 2
    assert "0 questions have graded responses to their original and to a neighbor" in audit.err
    report = tagrpo("diagnose", "report", "plain", "--json")
    assert report.code == 0
    assert list(json.loads(report.out)["left_out"]) == ["difficulty"]


def test_runs_without_common_questions_make_no_series(tagrpo: CommandLine, db: Path) -> None:
    done = tagrpo("diagnose", "zero-gradient", "base", "plain")
    assert done.code == 2
    assert "no question in common" in done.err


def test_unknown_grades_are_bounded(tagrpo: CommandLine, db: Path) -> None:
    with Database.open(db) as database:
        problems = [make_problem(f"Is {q} even?", str(q)) for q in range(4)]
        add_eval_run(database, "unsure", [(9, 8, 1), (9, 9, 0), (9, 0, 9), (9, 4, 0)], problems=problems)
    done = tagrpo("diagnose", "zero-gradient", "unsure", "--json")
    (row,) = json.loads(done.out)["zero_gradient"]
    assert (row["questions"], row["left_out"], row["unknown"]) == (3, 1, 10)
    assert row["share"] == pytest.approx(2 / 3)
    assert row["bound_low"] == pytest.approx((1 / 9 + 1 + 0 + 0) / 4)
    assert row["bound_high"] == pytest.approx((1 + 1 + 1 + 0) / 4)
    assert "share if all grades are known" in tagrpo("diagnose", "zero-gradient", "unsure").out


@pytest.mark.slow
def test_forecast_of_a_run(tagrpo: CommandLine, db: Path) -> None:
    done = tagrpo("diagnose", "forecast", "base", "--n", 3, "--json")
    result = json.loads(done.out)
    rows = {row["group"]: row for row in result["forecast"]}
    assert rows["joint, (N+1)*G"]["n"] == 3
    assert rows["neighbors, N*G"]["share"] < rows["one neighbor, G"]["share"]
    assert result["forecast_models"][0]["shift_assumed"] is False
    text = tagrpo("diagnose", "forecast", "base")
    assert "Other values of N and G" in text.out
    assert "G=24 exceeds the 8 responses of the pilot" in words(text.out)


def test_forecast_of_a_pilot_without_neighbors(tagrpo: CommandLine, db: Path) -> None:
    refused = tagrpo("diagnose", "forecast", "plain", "--n", 3)
    assert refused.code == 2
    assert "--assume-shift-sd" in refused.err
    done = tagrpo("diagnose", "forecast", "plain", "--n", 3, "--assume-shift-sd", 0.7)
    assert "neighbors (assumed)" in done.out
    assert tagrpo("diagnose", "forecast", "plain", "--assume-shift-sd", 0.7).code == 2
    some = tagrpo("diagnose", "forecast", "base", "--n", 3, "--assume-shift-sd", 0.7)
    assert "is only for pilots without neighbors" in words(some.err)


@pytest.mark.slow
def test_the_forecast_is_validated_on_visits(tagrpo: CommandLine, tmp_path: Path) -> None:
    rng = random.Random(2)
    path = tmp_path / "visits.jsonl"
    with path.open("w", encoding="utf-8") as file:
        for q in range(60):
            rate = rng.betavariate(0.5, 0.5)
            successes = [sum(rng.random() < rate for _ in range(8)) for _ in range(6)]
            file.write(json.dumps({"id": f"p{q}", "group_size": 8, "successes": successes}) + "\n")
    done = tagrpo("diagnose", "forecast", "--rollouts", path, "--validate", "--json")
    rows = json.loads(done.out)["forecast_checks"]
    assert [(row["m"], row["g"]) for row in rows[:3]] == [(8, 8), (4, 8), (2, 8)]
    assert all(abs(row["error_points"]) < 12 for row in rows)
    assert "Is the forecast accurate?" in tagrpo("diagnose", "forecast", "--rollouts", path, "--validate").out
    assert tagrpo("diagnose", "forecast", "base", "--validate").code == 2
    assert tagrpo("diagnose", "forecast", "base", "--g", 0).code == 2


@pytest.mark.slow
def test_odd_neighbors_go_back_to_review(tagrpo: CommandLine, db: Path, tmp_path: Path) -> None:
    sheet = tmp_path / "sheet.jsonl"
    done = tagrpo("diagnose", "difficulty", "base", "--review-sheet", sheet)
    assert done.code == 3
    assert "neighbors with an implausible success rate: " in words(done.err)
    rows = [json.loads(line) for line in sheet.read_text(encoding="utf-8").splitlines()]
    assert len(rows) >= 3
    assert {row["flag"] for row in rows} == {"too hard"}
    assert rows[0]["candidate_text"].startswith("Add 1 to ")
    assert (rows[0]["correct"], rows[0]["original_correct"]) == ("0 of 8", "8 of 8")
    for row in rows:
        row.update(decision="reject", reason="asks for something else")
    sheet.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    assert tagrpo("rephrase", "review", "--sheet", sheet, "--reviewer", "ada").code == 0
    again = tagrpo("diagnose", "difficulty", "base", "--review-sheet", sheet)
    assert again.code == 2
    assert "exists" in again.err


@pytest.mark.slow
def test_difficulty_as_json(tagrpo: CommandLine, db: Path) -> None:
    done = tagrpo("diagnose", "difficulty", "base", "--json")
    result = json.loads(done.out)
    assert done.code == 3
    assert {row["strategy"] for row in result["difficulty_strategies"]} == {
        "all neighbors",
        "perspectives",
        "format",
    }
    assert len(result["difficulty_neighbors"]) == N * QUESTIONS
    assert [row["prompts"] for row in result["difficulty_tests"]] == ["neighbors", "original and neighbors"]
    assert all(row["adjusted"] <= 0.05 for row in result["flagged"])


def test_flagged_ids_of_rollouts_that_are_no_candidates_make_no_sheet(
    tagrpo: CommandLine, db: Path, tmp_path: Path
) -> None:
    path = tmp_path / "r.jsonl"
    with path.open("w", encoding="utf-8") as file:
        for q in range(20):
            for variant in range(3):
                for ordinal in range(16):
                    reward = int(ordinal < (0 if (q, variant) == (19, 2) else min(16, q)))
                    id = f"other{q}_{variant}" if variant else None
                    file.write(json.dumps({"question_id": q, "neighbor_id": id, "reward": reward}) + "\n")
    done = tagrpo("diagnose", "difficulty", "--rollouts", path, "--review-sheet", tmp_path / "s.jsonl")
    assert done.code == 2
    assert "none of the 1 flagged neighbors is a candidate in this database" in words(done.err)
    assert tagrpo("diagnose", "difficulty", "--rollouts", path).code == 3


def test_diversity_of_runs(tagrpo: CommandLine, db: Path, tmp_path: Path) -> None:
    done = tagrpo("diagnose", "diversity", "base", "end", "--g", 4, "--questions", 10, "--json")
    result = json.loads(done.out)
    assert result["embedding"].startswith("TF-IDF")
    assert len(result["diversity"]) == 20
    assert {row["checkpoint"] for row in result["diversity_densities"]} == {"base", "end"}
    means = {(row["series"], row["minus"]): row for row in result["diversity_means"]}
    assert means["neighbors, N*G", "original, G"]["low"] > 0  # other questions' words
    text = tagrpo("diagnose", "diversity", "base", "--g", 4)
    assert "How diverse are responses?" in text.out
    assert "not meaning" in text.out


@pytest.mark.slow
def test_cost_in_tokens_and_money(tagrpo: CommandLine, db: Path) -> None:
    done = tagrpo(
        *("diagnose", "cost", "base", "--usd-per-gpu-hour", 3.6, "--tokens-per-second", 1000, "--json")
    )
    result = json.loads(done.out)
    rows = {row["method"]: row for row in result["cost"]}
    alone, joint = rows["original, G"], rows["joint, (N+1)*G"]
    assert alone["tokens"] == pytest.approx(800 / alone["mixed"])
    assert joint["tokens"] == pytest.approx((800 + 2 * 1600) / joint["mixed"])
    assert joint["usd"] == pytest.approx(joint["tokens"] * 1e-6)
    assert result["assumptions"]
    text = tagrpo("diagnose", "cost", "base")
    assert "Where is the break-even with TA-GRPO?" in text.out
    assert "assumed: the policy does not change after the pilot" in text.out
    assert tagrpo("diagnose", "cost", "base", "--usd-per-gpu-hour", 3.6).code == 2


@pytest.mark.slow
def test_a_training_is_diagnosed_by_name_and_by_folder(tagrpo: CommandLine, tmp_path: Path) -> None:
    folder = write_run(tmp_path / "ta", (1, 2, 3), questions=6)
    assert run_here("train", "rollouts", folder, "--add", "--db", tmp_path / "other.db").code == 0
    by_name = tagrpo(
        "diagnose", "report", "ta", "--g", 4, "--out", tmp_path / "a", "--json", "--db", tmp_path / "other.db"
    )
    by_folder = tagrpo(
        "diagnose", "report", "--rollouts", folder, "--g", 4, "--out", tmp_path / "b", "--json"
    )
    assert (by_name.code, by_folder.code) == (0, 0), (by_name.err, by_folder.err)
    found, same = (json.loads(done.out.replace(str(folder), "ta")) for done in (by_name, by_folder))
    assert found == same
    assert "ta, step 1" in by_name.out
    both = tagrpo("diagnose", "zero-gradient", "ta", "base", "--db", tmp_path / "other.db")
    assert "Give it alone" in words(both.err)


@pytest.mark.slow
def test_a_report_of_rollouts(tagrpo: CommandLine, tmp_path: Path) -> None:
    path = rollouts(tmp_path / "r.jsonl")
    done = tagrpo("diagnose", "report", "--rollouts", path, "--g", 4, "--out", tmp_path / "out")
    assert done.code == 0
    for question in (
        "Which share",
        "forecast from step 1",
        "How many mixed groups does each number of neighbors give",
        "Do rephrasings",
        "How diverse are responses",
        "How much does a group",
    ):
        assert question in done.out
    assert len(list((tmp_path / "out").glob("*.csv"))) == 14
    without = tagrpo(
        "diagnose", "report", "--rollouts", rollouts(tmp_path / "s.jsonl", responses=False), "--g", 4
    )
    assert without.code == 0
    assert "diversity is left out" in without.out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "name eval runs or a training, or give --rollouts PATH"),
        (("base", "--rollouts", "r.jsonl"), "name eval runs or a training, or give --rollouts PATH"),
        (("base", "base"), "a run appears twice"),
        (("nothing",), "no eval run 'nothing'"),
        (("proposals",), "no eval run"),
        (("base", "--g", "1"), "at least 2 responses"),
        (("base", "--g", "9"), "no question has G=9"),
        (("base", "--n", "5"), "5 neighbors"),
        (("base", "--n", "-1"), "0 or more"),
        (("base", "--correct-above", "1"), "requires --rollouts"),
        (("base", "--grader", "older"), "version 'older' of the grader has graded no samples"),
        (("--rollouts", "none.jsonl"), "no such file"),
        (("--rollouts", "none.jsonl", "--grader", "older"), "applies to eval runs only"),
    ],
)
def test_what_cannot_be_used_is_refused(
    tagrpo: CommandLine, db: Path, arguments: tuple[str, ...], message: str
) -> None:
    done = tagrpo("diagnose", "zero-gradient", *arguments)
    assert done.code == 2
    assert message in words(done.err)


def test_grades_of_another_version_count_when_named(tagrpo: CommandLine, db: Path) -> None:
    with Database.open(db) as database:
        problems = [make_problem(f"Is {q} odd?", str(q)) for q in range(3)]
        run = add_eval_run(database, "twice", [(8, 8, 0)] * 3, problems=problems)
        regrade(database, run, [(8, 4, 0)] * 3, "older")
        add_eval_run(database, "half", [(8, 8, 0)] * 3, problems=problems, graded=[4, 8, 8], seed=7)
    shares = [
        json.loads(tagrpo("diagnose", "zero-gradient", "twice", *more, "--json").out)["zero_gradient"][0][
            "share"
        ]
        for more in ((), ("--grader", "older"))
    ]
    assert shares == [1.0, 0.0]
    done = tagrpo("diagnose", "zero-gradient", "half")
    assert done.code == 2
    assert "tagrpo eval score half" in done.err
