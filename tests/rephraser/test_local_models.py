"""Rephrasing with checkpoints on this machine: verdicts, seeds, resuming, refusals."""

import json
import shutil
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from command_line import Done, run_here, words
from forked import Forked
from pydantic import TypeAdapter
from scripted import CHANGED, GOOD, OTHER, QUESTION
from tiny_model import save_tiny_model
from world_runs import final_state, rows

from rephraser.run.spec import BOXED_INSTRUCTION, SolverSpec
from service.asks.attempts import unpack
from service.asks.request import read_reply
from service.hashing import content_id
from service.models.settings import PromptSpec

ANSWERS = {QUESTION.text: "12", GOOD[0]: "12", GOOD[1]: "12", OTHER.text: "17", CHANGED: "7"}
RIGHT = {GOOD[0]: "accepted", GOOD[1]: "accepted", CHANGED: "rejected"}
REPLIES = "SELECT reply FROM ask_bodies JOIN asks ON id = ask_id WHERE state = 'answered'"
KILLED = """
import os, signal
from service.asks import attempts
end, stores = attempts.end, iter(range(99))
def end_or_die(session, ended):
    if next(stores) == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    return end(session, ended)
attempts.end = end_or_die
from ui.cli.app import main
main()
"""


def train(folder: Path, replies: Mapping[str, str], context: int = 512) -> Path:
    """Save a model that nearly always gives these replies to these chat messages."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    torch.set_num_threads(1)
    save_tiny_model(folder, context=context)
    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModelForCausalLM.from_pretrained(folder)
    inputs, labels = [], []
    for asked, reply in replies.items():
        chat = [{"role": "user", "content": asked}]
        prompt = tokenizer.apply_chat_template(chat, add_generation_prompt=True, tokenize=False)
        start, end = (tokenizer(part)["input_ids"] for part in (prompt, f"{reply}<|im_end|>"))
        inputs.append(torch.tensor(start + end))
        labels.append(torch.tensor([-100] * len(start) + end))
    ids = torch.nn.utils.rnn.pad_sequence(inputs, batch_first=True)
    targets = torch.nn.utils.rnn.pad_sequence(labels, batch_first=True, padding_value=-100)
    optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3)
    for _ in range(400):
        loss = model(input_ids=ids, labels=targets).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if loss.item() < 0.005:
            break
    assert loss.item() < 0.02
    model.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def solver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train(
        tmp_path_factory.mktemp("solver"),
        {question: f"\\boxed{{{answer}}}" for question, answer in ANSWERS.items()},
    )


def import_questions(folder: Path) -> Path:
    """Return a database of two questions; candidates for them are in `c.jsonl` next to it."""
    db = folder / "t.db"
    questions = [{"problem": question.text, "answer": question.answer} for question in (QUESTION, OTHER)]
    pairs = [(QUESTION, GOOD[0]), (QUESTION, GOOD[1]), (OTHER, CHANGED)]
    candidates = [{"question": question.text, "candidate": candidate} for question, candidate in pairs]
    for name, content in (("q.jsonl", questions), ("c.jsonl", candidates)):
        (folder / name).write_text("\n".join(json.dumps(row) for row in content))
    done = run_here("questions", "import", folder / "q.jsonl", "--name", "q", "--db", db)
    assert done.code == 0, done.err
    return db


def propose_words(db: Path, solver: Path | str, *more: str) -> list[str]:
    """Return the command that judges the candidates of the file by this solver."""
    return [
        *("rephrase", "run", "q", "--name", "run", "--db", str(db), "--n", "2"),
        *("proposer=file", f"proposer.candidates={db.parent / 'c.jsonl'}"),
        *("proposer.question_column=question", "proposer.candidate_column=candidate"),
        *("--solver", str(solver), "solver.preset=plain", "solver.max_tokens=16", *more),
    ]


def propose(db: Path, solver: Path | str, *more: str) -> Done:
    return run_here(*propose_words(db, solver, "solver.device=cpu", *more))


def verdicts(db: Path) -> dict[str, str]:
    query = "SELECT text, status FROM verdicts v JOIN candidates c ON c.id = candidate_id WHERE final"
    return dict(rows(db, query))


def replies(db: Path) -> list[tuple[str, ...]]:
    """Return the texts of each stored reply."""
    return sorted(
        tuple(choice.text for choice in read_reply(unpack(reply))[0]) for (reply,) in rows(db, REPLIES)
    )


def state(db: Path) -> dict[str, Any]:
    """Return the final state of a run with the texts of all answers."""
    return {**final_state(db), "replies": replies(db)}


@pytest.fixture(scope="module")
def calm(solver: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the database of an undisturbed run."""
    db = import_questions(tmp_path_factory.mktemp("calm"))
    done = propose(db, solver)
    assert done.code == 0, done.err
    return db


@pytest.mark.slow
def test_answers_of_a_checkpoint_decide_and_cost_nothing(calm: Path, solver: Path) -> None:
    assert verdicts(calm) == RIGHT
    ((stored,),) = rows(calm, "SELECT CAST(spec AS TEXT) FROM runs")
    (described,) = json.loads(stored)["solvers"]
    assert described["model"] == str(solver)
    assert described["engine"]["weights"].startswith("weights_")
    asked, cost = rows(calm, "SELECT count(*), sum(cost_pico) FROM asks")[0]
    assert (asked, cost) == (2 * 32 // 4 + 3 * 12 // 4, 0)  # four answers per request
    (line,) = json.loads(run_here("runs", "show", "run", "--db", calm, "--json").out)["ledger"]
    assert (line["kind"], line["requests"], line["usd"]) == ("answer", asked, 0.0)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_killed_run_goes_on_with_the_same_answers(calm: Path, solver: Path, tmp_path: Path) -> None:
    db = import_questions(tmp_path)
    arguments = propose_words(db, solver, "solver.device=cpu", "solver.batch_size=8")
    code, _, errors = Forked(*arguments, code=KILLED).end()
    assert code == -signal.SIGKILL, errors
    stored = rows(db, "SELECT id, ended_at FROM asks WHERE state = 'answered' ORDER BY id")
    assert 0 < len(stored) < 25
    done = run_here("resume", "run", "--db", db)
    assert done.code == 0, done.err
    assert state(db) == state(calm)
    again = rows(db, "SELECT id, ended_at FROM asks WHERE state = 'answered' ORDER BY id")
    assert set(stored) <= set(again), "stored answers are not drawn again"


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_another_checkpoint_in_the_folder_is_refused(solver: Path, tmp_path: Path) -> None:
    folder = tmp_path / "solver"
    shutil.copytree(solver, folder)
    db = import_questions(tmp_path)
    assert propose(db, folder).code == 0
    before = state(db)
    save_tiny_model(folder, seed=1)
    again = propose(db, folder)
    assert again.code == 2
    assert "run 'run' exists with other settings: solvers.1.engine." in words(again.err)
    resumed = run_here("resume", "run", "--db", db)
    assert resumed.code == 2
    assert "run 'run' exists with other settings: solvers.1.engine." in words(resumed.err)
    shutil.rmtree(folder)
    gone = run_here("resume", "run", "--db", db)
    assert gone.code == 2
    assert str(folder) in gone.err
    assert state(db) == before


def test_settings_of_solvers_survive_the_database_and_differ() -> None:
    prompt = PromptSpec(template="{question}")
    solvers = (SolverSpec("m"), SolverSpec("m", prompt=prompt), SolverSpec("m", engine={"weights": "w"}))
    assert len({solver.id for solver in solvers}) == 3
    for solver in solvers:
        assert TypeAdapter(SolverSpec).validate_json(json.dumps({"id": "x", **solver.to_json()})) == solver
    stored = {
        "model": "m",
        "sampling": {"temperature": 0.7, "top_p": 0.95, "max_tokens": 3072},
        "samples_per_request": 4,
        "instruction": BOXED_INSTRUCTION,
        "seed": 0,
    }
    assert SolverSpec("m").id == content_id("solver", stored), "stored answers keep their solver"
