"""Questions with images, and such that ask for programs, from their rows to evaluations and rewards."""

import asyncio
import base64
import json
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import program_world
import pyarrow.parquet as pq
import pytest
from command_line import run_here, squeezed
from eval_sampling import running_server
from json_rows import write_rows
from openai_faults import Fault
from openai_server import server_process
from pictures import picture, pixels
from sqlalchemy import select, text
from world_runs import rows

from service.asks.tables import AskBodyRow
from service.database import Database
from trainer_adapter.verl.reward import compute_score

COLORS = {"red": (255, 0, 0), "blue": (0, 0, 255), "lime": (0, 255, 0)}
NUMBERS = {"red": 12, "blue": 30, "lime": 45}
_PROBLEM = re.compile(r"<problem>\n(.*?)\n</problem>", re.S)


def seen(messages: Sequence[dict[str, Any]]) -> str:
    """Return the last message as one text, each picture as the colour that its decoded pixels have."""
    content = messages[-1]["content"]
    if isinstance(content, str):
        return content
    texts = []
    for part in content:
        if part["type"] == "text":
            assert part["text"]
            texts.append(part["text"])
            continue
        head, _, encoded = part["image_url"]["url"].partition(",")
        assert head in ("data:image/png;base64", "data:image/jpeg;base64")
        _, color = pixels(base64.b64decode(encoded, validate=True))
        near = min(COLORS, key=lambda name: sum(abs(a - b) for a, b in zip(COLORS[name], color, strict=True)))
        texts.append(f"[{near}]")
    return "".join(texts)


def answer(messages: Sequence[dict[str, Any]], n: int, seed: int | None) -> list[str]:
    """Propose in the tags of a proposer; as a solver add the numbers that stand for the colours."""
    asked = seen(messages)
    problem = _PROBLEM.search(asked)
    if problem:
        places = len(re.findall(r"\[\w+\]", problem[1]))
        assert places == 0 or f"exactly {places} times" in asked
        rewrites = [
            "Which number do these stand for together: " + "<image>" * places + "? Look at the figure.",
            "<image>" * max(0, places - 1) + "Tell what number the figure stands for in all, please.",
        ]
        return [json.dumps({"rephrasings": rewrites})] * n
    total = sum(NUMBERS[color] for color in re.findall(r"\[(\w+)\]", asked))
    return [f"It is \\boxed{{{total}}}."] * n


@pytest.fixture(scope="module")
def server():
    with running_server(answer=answer) as started:
        yield started


@pytest.fixture(scope="module")
def place(server, tmp_path_factory):
    """Return a folder in which questions with images were rephrased, judged and published as `shapes@1`."""
    folder = tmp_path_factory.mktemp("images")
    for color in COLORS:
        (folder / f"{color}.img").write_bytes(picture(color, (40, 30), "JPEG" if color == "blue" else "PNG"))
    figure = "What number does the figure stand for? <image>"
    figures = "<image>The figures stand for two numbers, this one too: <image> What is their sum?"
    rows = []
    for question, *colors in ((figure, "red"), (figure, "blue"), (figures, "red", "lime")):
        images = [f"{color}.img" for color in colors]
        answer = str(sum(NUMBERS[color] for color in colors))
        rows.append({"question": question, "answer": answer, "images": images})
    write_rows(folder / "shapes.jsonl", *rows)
    before = Path.cwd()
    os.chdir(folder)
    with pytest.MonkeyPatch.context() as patched:
        patched.delenv("TAGRPO_DB", raising=False)
        done = run_here.ok("questions", "import", "shapes.jsonl")
        asking = ["--model", "hosted_vllm/test-model", "--base-url", server.url]
        solver = ["--solver", "hosted_vllm/test-model", f"solver.base_url={server.url}"]
        few = ["--n", 2, "rounds=1", "proposer.min_distance=0"]
        done = run_here("rephrase", "run", "shapes", "--name", "r", *asking, *solver, *few)
        assert done.code in (0, 3), done.err
        done = run_here.ok("sets", "publish", "shapes", "--run", "r")
        yield folder
    os.chdir(before)


@pytest.mark.slow
def test_proposer_and_solver_see_the_pictures_and_answers_decide(place, server):
    listed = run_here.json("rephrase", "list", "--run", "r")["candidates"]
    verdicts = {(row["text"].count("<image>"), row["status"]) for row in listed}
    assert {(1, "accepted"), (2, "accepted"), (0, "rejected"), (1, "rejected")} == verdicts
    asked = "\n".join(seen(request.body["messages"]) for request in server.requests)
    assert "<problem>\n[red]The figures stand for two numbers, this one too: [lime] What" in asked
    assert "Which number do these stand for together: [red][lime]? Look at" in asked


def test_a_set_is_evaluated_with_its_pictures(place, server):
    asking = ["--model", "hosted_vllm/test-model", "--base-url", server.url]
    (run,) = run_here.json("eval", "run", "neighbors=shapes@1", *asking, "--n", 2)["runs"]
    assert run["samples"] == 12
    with Database.open(place / "tagrpo.db") as db, db.read() as session:
        grades = session.execute(text("SELECT value, count(*) FROM grades GROUP BY value")).all()
    assert [tuple(row) for row in grades] == [("correct", 12)]
    assert "raw text cannot contain images" in run_here.refused(
        "eval", "run", "neighbors=shapes@1", *asking, "--preset", "paper-eval"
    )


def test_requests_are_stored_without_the_pictures(place):
    with Database.open(place / "tagrpo.db") as db, db.read() as session:
        pictures = [bytes(row.data) for row in session.execute(text("SELECT data FROM images"))]
        bodies = session.scalars(select(AskBodyRow)).all()
    assert len(pictures) == 3
    asked = [row.request for row in bodies]
    stored = asked + [row.reply for row in bodies if row.reply is not None]
    assert any("What number does the figure stand for?" in body for body in asked)
    for data in pictures:
        assert not any(base64.b64encode(data)[:40].decode() in body for body in stored)


def test_an_estimate_says_that_images_cost_what_the_model_makes_of_them(place):
    asking = ["--model", "hosted_vllm/other", "price=[1,1]", "--n", 2]
    done = run_here.ok("eval", "run", "neighbors=shapes@1", *asking, "--dry-run")
    assert "images 8" in squeezed(done.out)
    assert "Images are assumed to take 64 to 16,384 tokens each" in done.out


def test_a_model_without_eyes_says_so(place):
    with running_server(answer=answer, faults=lambda _: Fault("no_images")) as started:
        asking = ["--model", "hosted_vllm/test-model", "--base-url", started.url]
        done = run_here("eval", "run", "neighbors=shapes@1", *asking, "--n", 1, "--name", "blind")
    assert done.code == 3
    assert "test-model is not a multimodal model" in done.err


def test_a_benchmark_brings_its_pictures(place, server):
    rows = [{"question": "<image>Double?", "answer": "45", "images": ["lime.img"]}]
    write_rows(place / "own.jsonl", *rows)
    asking = ["--model", "hosted_vllm/test-model", "--base-url", server.url, "--db", "own.db"]
    assert run_here.json("eval", "run", "own.jsonl", *asking, "--n", 2)["runs"][0]["correct"] == 2


MODEL = "hosted_vllm/test-model"


@pytest.fixture(scope="module")
def programmer():
    with server_process("--answer", f"{program_world.__file__}:answer") as url:
        yield url


@pytest.mark.slow
@pytest.mark.bubblewrap
def test_programs_from_questions_to_rewards(cli, programmer, tmp_path, monkeypatch):
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
    texts = (right, right.replace("upper", "lower"), "\\boxed{NO!}")
    rewards = [asyncio.run(compute_score("x", response, truth, about)) for response in texts]
    assert [reward["score"] for reward in rewards] == [1.0, 0.0, 0.0]
    assert [reward["reason"] for reward in rewards] == ["tests passed", "tests failed", "tests failed"]
