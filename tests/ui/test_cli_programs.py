"""Questions that ask for programs, on the command line: from their import to rewards."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import program_world
import pyarrow.parquet as pq
import pytest
from command_line import CommandLine
from json_rows import write_rows
from openai_server import server_process
from world_runs import rows

from trainer_adapter.verl.reward import compute_score

pytestmark = pytest.mark.bubblewrap
MODEL = "hosted_vllm/test-model"


@pytest.fixture(scope="module")
def programmer() -> Iterator[str]:
    with server_process("--answer", f"{program_world.__file__}:answer") as url:
        yield url


@pytest.mark.slow
def test_from_questions_to_rewards(
    cli: CommandLine, programmer: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_rows(tmp_path / "programs.jsonl", *program_world.ROWS)
    cli.ok("questions", "import", "programs.jsonl", "--kind", "code")
    listed = cli.json("questions", "list", "programs")
    assert "code" in str(listed)

    models = ("--model", MODEL, "--base-url", programmer, "--solver", MODEL, f"solver.base_url={programmer}")
    done = cli("rephrase", "run", "programs", "--name", "run", "--n", 3, "rounds=1", *models)
    assert done.code in (0, 3), done.err
    of_candidates = "FROM {} s JOIN candidates c ON c.id = s.candidate_id"
    verdicts = dict(rows("tagrpo.db", "SELECT c.text, s.status " + of_candidates.format("standings")))
    shout, digits = program_world.REWRITES["shout"], program_world.REWRITES["digits"]
    assert [verdicts[text] for text in shout] == ["accepted", "rejected", "rejected"]
    assert [verdicts[text] for text in digits[:2]] == ["accepted", "rejected"]
    reasons = dict(rows("tagrpo.db", "SELECT c.text, s.reason " + of_candidates.format("verdicts")))
    assert "does not have `def shout(text):`" in reasons[shout[2]]

    cli.ok("sets", "publish", "code", "--run", "run", "--n", 1)
    cli.ok("sets", "show", "code", "--verify")
    cli.ok("eval", "run", "programs.jsonl", "--n", 8, "--model", MODEL, "--base-url", programmer)
    grades = rows("tagrpo.db", "SELECT value, reason, extracted FROM grades")
    wrong = {("wrong", "tests failed"), ("wrong", "no answer found")}
    assert {grade[:2] for grade in grades} <= {("correct", "tests passed")} | wrong
    assert sum(grade[0] == "correct" for grade in grades) > 10
    cli.ok("eval", "run", "neighbors=code", "--n", 2, "--model", MODEL, "--base-url", programmer)
    assert "one block of code" in str(rows("tagrpo.db", "SELECT spec FROM runs WHERE kind = 'eval'"))
    cli.refused("eval", "report", "test-model.programs", "--k", "1", "--metric", "maj@k")

    cli.ok("sets", "export", "code", "--format", "verl", "--out", "verl")
    exported = pq.read_table("verl/train.parquet").to_pylist()
    assert exported[0]["extra_info"]["answer_kind"] == "code"
    assert "one block of code" in exported[0]["prompt"][-1]["content"]
    right = "```python\ndef shout(text): return text.upper() + '!'\n```"
    row = next(row for row in exported if "shout" in str(row["prompt"]))
    truth, about = row["reward_model"]["ground_truth"], row["extra_info"]
    rewards = [
        asyncio.run(compute_score("x", response, truth, about))
        for response in (right, right.replace("upper", "lower"), "\\boxed{NO!}")
    ]
    assert [reward["score"] for reward in rewards] == [1.0, 0.0, 0.0]
    assert [reward["reason"] for reward in rewards] == ["tests passed", "tests failed", "tests failed"]
