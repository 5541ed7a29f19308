"""The study of a real model: what it packs, which rows it keeps, and what its report says."""

from typing import Any

import numpy as np
import pytest

from benchmarks.harness import read_jsonl, write_jsonl
from benchmarks.studies import real_model, real_model_pack
from benchmarks.studies.real_model_plan import REAL, Row, best_rate
from benchmarks.studies.real_model_report import tables
from benchmarks.studies.real_model_stages import Study


def test_folders_travel_in_pieces_and_damage_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(real_model_pack, "PIECE", 4096)
    source, travel, place = (tmp_path / name for name in ("source", "travel", "place"))
    source.mkdir()
    (tmp_path / "weights").write_bytes(np.random.default_rng(0).bytes(10_000))
    (source / "weights.gguf").symlink_to(tmp_path / "weights")
    real_model_pack.pack(travel, "model", source, compress=False)
    real_model_pack.pack(travel, "job", source, compress=True)
    assert max(path.stat().st_size for path in travel.iterdir()) <= 4096
    second = travel / "model.001"
    whole = second.read_bytes()
    second.write_bytes(b"x" + whole[1:])
    with pytest.raises(ValueError, match=r"carry .*again\.\nmodel\.001: FAILED"):
        real_model_pack.unpack(travel, place)
    second.write_bytes(whole)
    (travel / "model.000.part").write_bytes(b"half a piece")
    real_model_pack.unpack(travel, place)
    for name in ("model", "job"):
        assert (place / name / "weights.gguf").read_bytes() == (tmp_path / "weights").read_bytes()


def test_the_pool_has_easy_questions_with_rewrites(tmp_path):
    answers = [("1", "Level 1"), ("2", "Level 5"), ("", "Level 2"), ("3", "Level 3")]
    rows = [
        {"id": f"q{number}", "question": f"What is {number}?", "answer": answer, "level": level}
        for number, (answer, level) in enumerate(answers)
    ]
    for name in ("math_train", "math500"):
        write_jsonl(tmp_path / f"{name}.jsonl", rows)
    write_jsonl(tmp_path / "gsm8k_test.jsonl", rows * 125)
    rewrites = [{"original_question": row["question"] + "\n", "question": "Say it."} for row in rows[:3]]
    write_jsonl(tmp_path / "rewrites.jsonl", rewrites)
    job = tmp_path / "job"
    (job / "benchmarks").mkdir(parents=True)
    real_model.stage_questions(job, tmp_path, tmp_path / "rewrites.jsonl")
    assert read_jsonl(job / "pool.jsonl") == [{"question": "What is 0?", "answer": "1"}]
    (candidate,) = read_jsonl(job / "candidates.jsonl")
    assert candidate == {"question": "What is 0?", "candidates": ["Say it."]}
    assert len((job / "benchmarks" / "gsm8k.jsonl").read_text().splitlines()) == 500


def test_the_pilot_chooses_the_rate_with_most_reward_at_the_end():
    pilot = {1e-6: [9, 2, 2, 2, 2, 2], 1e-5: [0, 3, 3, 3, 3, 3]}
    steps = [(rate, step, correct) for rate, counts in pilot.items() for step, correct in enumerate(counts)]
    rows = [{"rate": rate, "step": step, "correct": correct, "drawn": 10} for rate, step, correct in steps]
    assert best_rate(rows) == 1e-5


@pytest.mark.parametrize(
    ("recipe", "drawn", "point", "step"),
    [
        ("grpo", (128, 128, 128, 128), 2, 2),
        ("grpo", (128, 128, 128), 4, None),
        ("grpo", (128, 128, 128, 128, 128), 5, None),  # step 5 is not saved yet
        ("grpo_ds", (200, 200, 200, 200), 4, 2),
    ],
)
def test_a_point_is_the_last_checkpoint_within_its_responses(tmp_path, recipe, drawn, point, step):
    run = tmp_path / "run"
    (run / "rollouts").mkdir(parents=True)
    metrics = [{"step": n, "metrics": {"tagrpo/batch/responses": count}} for n, count in enumerate(drawn, 1)]
    write_jsonl(run / "rollouts" / "metrics.jsonl", metrics)
    for number in range(1, len(drawn) + 1):
        (run / "checkpoints" / f"global_step_{number}" / "actor" / "huggingface").mkdir(parents=True)
    tracker = run / "checkpoints" / "latest_checkpointed_iteration.txt"
    tracker.write_text("4")
    study = Study(REAL, tmp_path, tmp_path / "out", 0.0)
    found = study.checkpoint(recipe, "run", point)
    assert (found and found[0]) == step


def row(recipe: str, seed: int, problem: int, correct: int, **more: Any) -> Row:
    about = {"recipe": recipe, "rate": 1e-5, "seed": seed, "step": 40, "responses": 5120, "seconds": 60.0}
    counts = {"correct": correct, "boxed": correct // 2, "drawn": 8, "truncated": 1}
    return {**about, "benchmark": "math500", "problem": str(problem), **counts, **more}


def test_the_report_compares_pairs_and_the_control():
    rows = [row("base", 0, problem, 2, responses=0, step=0) for problem in range(4)]
    for seed, other, gain in ((10, "ta_rescue", 3), (20, "ta_rescue", 1), (12, "grpo_random", 0)):
        for problem in range(4):
            rows += [row("grpo", seed, problem, 4), row(other, seed, problem, 4 + gain)]
    rows += [row("grpo", 10, step, 4, benchmark="training", step=step) for step in (1, 2, 3, 4)]
    rows += [row("base", 0, problem, 8 * problem, benchmark="pool", boxed=8 * problem) for problem in (0, 1)]
    text = list(tables(rows))
    assert "of 2 training questions 50.0% had only right responses and 50.0% only wrong ones" in text[0]
    assert any(line.startswith("| grpo | 10 | 1e-05 | 4 | 5,120 | 50%, 50% | 1.0 |") for line in text)
    (rescue, again) = [line.split(" | ") for line in text if line.startswith("| ta_rescue")]
    assert rescue == again  # one benchmark is all
    assert rescue[1:5] == ["5,120", "2", "0.750", "1.000"]
    assert rescue[7].startswith("+50.0 [")
    assert rescue[9].startswith("+25.0 [-133.8, +183.8]")  # two seeds, t with one degree of freedom
    assert rescue[12].startswith("+25.0 [")
    assert rescue[13] == "12.5% |"
