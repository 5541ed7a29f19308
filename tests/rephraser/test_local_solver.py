"""A checkpoint on this machine as the solver: verdicts, seeds, resuming, refusals."""

import json
import shutil
import signal
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from command_line import CommandLine, Done, words
from forked import Forked
from hand_filled import BAD_NUMBER, CHANGED, GOOD, OTHER, QUESTION, World, make_spec, proposals
from sqlalchemy import text
from tiny_model import CHAT_TEMPLATE, save_tiny_model
from world_runs import final_state

from rephraser.run.ask import solving_requests
from rephraser.run.local.drawing import ModelCells, draw_cells, solver_cells
from rephraser.run.local.engines import check_engine, open_stored
from rephraser.run.read import read_choices
from rephraser.run.spec import BOXED_INSTRUCTION, SolverSpec
from rephraser.views.runs import summarize
from service.database import Database
from service.errors import InputError
from service.hashing import content_id
from service.models.local import LocalSampler
from service.models.settings import PromptSpec, Sampling
from service.questions import make_question

LEARNT = {QUESTION.text: "12", GOOD[0]: "12", GOOD[1]: "12", OTHER.text: "17", CHANGED: "7"}
PLAIN = PromptSpec("{question}")


def train(folder: Path, answers: dict[str, str], seed: int) -> None:
    """Save a policy that answers these bare questions in a box, nearly always."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    save_tiny_model(folder, seed=seed)
    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModelForCausalLM.from_pretrained(folder)
    assert tokenizer.chat_template == CHAT_TEMPLATE
    rows, labels = [], []
    for question, answer in answers.items():
        asked = [{"role": "user", "content": question}]
        prompt = tokenizer.apply_chat_template(asked, add_generation_prompt=True, tokenize=False)
        start = tokenizer(prompt)["input_ids"]
        end = tokenizer(f"\\boxed{{{answer}}}<|im_end|>")["input_ids"]
        rows.append(torch.tensor(start + end))
        labels.append(torch.tensor([-100] * len(start) + end))
    ids = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)
    wanted = torch.nn.utils.rnn.pad_sequence(labels, batch_first=True, padding_value=-100)
    optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3)
    for _ in range(400):
        loss = model(input_ids=ids, labels=wanted).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if loss.item() < 0.005:
            break
    assert loss.item() < 0.02
    model.save_pretrained(folder)


@pytest.fixture(scope="module")
def policy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("policy")
    train(folder, LEARNT, 0)
    return folder


@pytest.fixture
def cli(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    return CommandLine(monkeypatch, capsys)


def files(folder: Path) -> tuple[Path, Path]:
    """Write two questions, and two good candidates of the first and a changed one of the second."""
    questions, candidates = folder / "q.jsonl", folder / "c.jsonl"
    rows = [{"problem": question.text, "answer": question.answer} for question in (QUESTION, OTHER)]
    pairs = [(QUESTION, GOOD[0]), (QUESTION, GOOD[1]), (OTHER, CHANGED)]
    proposed = [{"question": question.text, "candidate": candidate} for question, candidate in pairs]
    for file, content in ((questions, rows), (candidates, proposed)):
        file.write_text("\n".join(json.dumps(row) for row in content))
    return questions, candidates


def propose_words(folder: Path, db: Path, solver: Path | str, *more: str) -> list[str]:
    return [
        *("neighbors", "propose", "q", "--name", "run", "--db", str(db), "--n", "2"),
        *("--proposer", "file", "--candidates", str(folder / "c.jsonl")),
        *("--question-column", "question", "--candidate-column", "candidate"),
        *("--solver", str(solver), "--solver-preset", "plain", "--solver-max-tokens", "16"),
        *("--solver-device", "cpu", *more),
    ]


def propose(cli: CommandLine, folder: Path, db: Path, solver: Path | str, *more: str) -> Done:
    if not db.exists():
        done = cli("questions", "import", files(folder)[0], "--name", "q", "--db", db)
        assert done.code == 0, done.err
    return cli(*propose_words(folder, db, solver, *more))


def resume_words(folder: Path, db: Path) -> list[str]:
    return [
        *("resume", "run", "--db", str(db), "--candidates", str(folder / "c.jsonl")),
        *("--question-column", "question", "--candidate-column", "candidate"),
    ]


@pytest.fixture(scope="module")
def calm(policy: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the database of an undisturbed run."""
    folder = tmp_path_factory.mktemp("calm")
    db = folder / "calm.db"
    files(folder)
    with pytest.MonkeyPatch.context() as patch:
        for arguments in (
            ["questions", "import", str(folder / "q.jsonl"), "--name", "q", "--db", str(db)],
            propose_words(folder, db, policy),
        ):
            from ui.cli.app import main

            patch.setattr(sys, "argv", ["tagrpo", *arguments])
            with pytest.raises(SystemExit) as leaving:
                main()
            assert not leaving.value.code
    return db


def rows(db: Path, query: str) -> list[Any]:
    with Database.open(db, read_only=True) as database, database.read() as session:
        return [tuple(row) for row in session.execute(text(query))]


@pytest.mark.slow
def test_answers_of_a_local_policy_decide_and_cost_nothing(calm: Path, policy: Path) -> None:
    statuses = rows(
        calm,
        "SELECT c.text, v.status FROM verdicts v JOIN candidates c ON c.id = v.candidate_id WHERE v.final",
    )
    assert dict(statuses) == {GOOD[0]: "accepted", GOOD[1]: "accepted", CHANGED: "rejected"}
    with Database.open(calm, read_only=True) as database, database.read() as session:
        from service.runs.store import find_run

        summary = summarize(session, find_run(session, "run"))
    (line,) = summary.ledger
    assert (line.kind, line.model, line.usd, line.unpriced) == ("answer", str(policy), 0.0, 0)
    answers = rows(calm, "SELECT count(*) FROM answers")[0][0]
    assert answers >= 2 * 32 + 3 * 12
    assert line.requests == answers / 4  # four answers a cell


@pytest.mark.slow
def test_every_answer_is_kept_with_its_own_seed(calm: Path) -> None:
    with Database.open(calm, read_only=True) as database, database.read() as session:
        from service.runs.cells import read_bodies

        ids = list(session.scalars(text("SELECT id FROM cells")))
        bodies = [json.loads(body) for body in read_bodies(session, ids).values()]
    choices = [choice for body in bodies for choice in body["choices"]]
    assert len({choice["seed"] for choice in choices}) == len(choices)
    assert {body["engine"]["max_tokens"] for body in bodies} == {16}
    said = [choice["message"]["content"] for choice in choices]
    assert set(said) >= {"\\boxed{12}", "\\boxed{17}", "\\boxed{7}"}
    stopped = [choice for choice in choices if choice["message"]["content"] == "\\boxed{12}"]
    assert {choice["completion_tokens"] for choice in stopped} == {len("\\boxed{12}") + 1}


@pytest.mark.slow
def test_the_checkpoint_stands_in_the_run_and_the_evidence(calm: Path, policy: Path) -> None:
    ((stored,),) = rows(calm, "SELECT CAST(spec AS text) FROM runs")
    (solver,) = json.loads(stored)["solvers"]
    assert solver["model"] == str(policy)
    assert solver["prompt"]["template"] == "{question}"
    assert "instruction" not in solver
    engine = solver["engine"]
    assert engine["sampler"] == "local"
    assert engine["weights"].startswith("weights_")
    assert {"torch", "transformers", "dtype", "device"} <= set(engine)
    for (evidence,) in rows(calm, "SELECT CAST(evidence AS text) FROM verdicts WHERE final"):
        assert json.loads(evidence)["solvers"] == [solver["id"]]


@pytest.mark.slow
def test_an_interrupted_run_goes_on_with_the_same_answers(
    cli: CommandLine, calm: Path, policy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    db, store, stores = tmp_path / "t.db", ModelCells.store, iter(range(99))

    def press(work: ModelCells, drawn: Any) -> None:
        store(work, drawn)
        if next(stores) == 2:
            signal.raise_signal(signal.SIGINT)

    with monkeypatch.context() as patch:
        patch.setattr(ModelCells, "store", press)
        stopped = propose(cli, tmp_path, db, policy, "--solver-batch-size", "8")
    assert stopped.code == 130, stopped.err
    filled = rows(db, "SELECT count(*) FROM cells WHERE state = 'filled'")[0][0]
    assert 0 < filled < 25
    assert rows(db, "SELECT count(*) FROM cells WHERE lease_owner IS NOT NULL") == [(0,)]
    done = cli(*resume_words(tmp_path, db))
    assert done.code == 0, done.err
    assert final_state(db) == final_state(calm)


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_a_killed_run_goes_on_with_the_same_answers(
    cli: CommandLine, calm: Path, policy: Path, tmp_path: Path
) -> None:
    db = tmp_path / "t.db"
    assert cli("questions", "import", files(tmp_path)[0], "--name", "q", "--db", db).code == 0
    code = """
import os, signal, sys
from rephraser.run.local.drawing import ModelCells
store, stores = ModelCells.store, iter(range(99))
def killed(work, drawn):
    store(work, drawn)
    if next(stores) == 2:
        os.kill(os.getpid(), signal.SIGKILL)
ModelCells.store = killed
from ui.cli.app import main
main()
"""
    arguments = propose_words(tmp_path, db, policy, "--solver-batch-size", "8")
    ended, _, errors = Forked(*arguments, code=code).end()
    assert ended == -signal.SIGKILL, errors
    stored = rows(db, "SELECT id FROM cells WHERE state = 'filled'")
    assert 0 < len(stored) < 25
    done = cli(*resume_words(tmp_path, db))
    assert done.code == 0, done.err
    assert final_state(db) == final_state(calm)


def test_another_checkpoint_in_the_folder_is_refused(
    cli: CommandLine, calm: Path, policy: Path, tmp_path: Path
) -> None:
    folder, db = tmp_path / "policy", tmp_path / "t.db"
    shutil.copytree(policy, folder)
    assert propose(cli, tmp_path, db, folder).code == 0
    before = final_state(db)
    save_tiny_model(folder, seed=1)
    again = propose(cli, tmp_path, db, folder)
    assert again.code == 2
    assert "run 'run' exists with other settings: solvers.1.engine.weights ('weights_" in words(again.err)
    going_on = cli(*resume_words(tmp_path, db))
    assert going_on.code == 2
    assert f"the model {folder} is not what this run was made with: weights (weights_" in words(going_on.err)
    shutil.rmtree(folder)
    gone = cli(*resume_words(tmp_path, db))
    assert (gone.code, "the folder of the model" in words(gone.err)) == (2, True)
    assert final_state(db) == before


@pytest.mark.parametrize(
    ("solver", "more", "message"),
    [
        ("hosted_vllm/m", ["--solver-batch-size", "2"], "does not belong to --solver-sampler remote"),
        (None, ["--solver-api-base", "http://localhost:1/v1"], "this run's draw on this machine"),
        (None, ["--solver-preset", "none"], "only: default, paper, paper-eval, plain"),
        (None, ["--solver-sampler", "local", "--solver-dtype", "int3"], "dtype is 'int3'"),
    ],
)
def test_what_does_not_fit_is_refused_before_the_run_is_made(
    cli: CommandLine, policy: Path, tmp_path: Path, solver: str | None, more: list[str], message: str
) -> None:
    device = [] if solver is None else ["--solver-device", "cpu"]
    db = tmp_path / "t.db"
    assert cli("questions", "import", files(tmp_path)[0], "--name", "q", "--db", db).code == 0
    arguments = propose_words(tmp_path, db, solver or policy)[:-2]
    done = cli(*arguments, *(device if "local" in more else []), *more)
    assert (done.code, done.out) == (2, "")
    assert message in words(done.err)
    assert rows(db, "SELECT count(*) FROM runs") == [(0,)]


def local_spec(policy: Path, **changes: Any) -> SolverSpec:
    sampler = LocalSampler(str(policy), device="cpu")
    settings = {"sampling": Sampling(0.7, 0.95, 16), "prompt": PLAIN, **changes}
    return SolverSpec(str(policy), engine=dict(sampler.describe()), **settings)


def test_a_text_without_room_fails_alone(policy: Path, tmp_path: Path) -> None:
    lengthy = "Take your time. " * 40  # the model's context is 512 tokens, a letter each
    long = make_question(f"{QUESTION.text} {lengthy}", "12")
    solver = local_spec(policy)
    world = World(tmp_path, make_spec(solvers=(solver,)), (long, OTHER))
    world.plan()
    for cell in world.claim():
        texts = tuple(f"{text} {lengthy}" for text in GOOD)
        world.fill(cell, proposals(texts if cell.subject_id == long.id else (CHANGED,)))
    world.read()
    planned = world.plan()
    sampler = open_stored(solver.model, solver.engine or {}, {}, grace_s=1.0)
    check_engine(solver.model, solver.engine or {}, sampler)
    told: list[tuple[str, int, int]] = []
    filled = draw_cells(
        partial(solver_cells, world.db, world.run.id, solver),
        sampler,
        lambda stage, done, total, _: told.append((stage, done, total)),
        "drawing answers",
    )
    assert (filled.failed, filled.failures, filled.stopped) == (14, {"prompt": 14}, None)
    assert filled.answered == planned - 14 == 11
    assert told[-1] == ("drawing answers", 4 * filled.answered, 4 * filled.answered)
    with world.db.read() as session:
        errors = set(session.scalars(text("SELECT error FROM cells WHERE state = 'final'")))
    assert len(errors) == 3
    assert all(error.startswith("prompt: its prompt has ") for error in errors)
    assert any(long.id in error for error in errors)


def test_a_pass_leaves_texts_that_it_does_not_know(policy: Path, tmp_path: Path) -> None:
    solver = local_spec(policy)
    world = World(tmp_path, make_spec(solvers=(solver,)), (QUESTION,))
    world.plan()
    (cell,) = world.claim()
    world.fill(cell, proposals(GOOD))
    world.read()
    world.plan()
    work = ModelCells(world.db, world.run.id, solver.drawing, {}, asked_in=solver.id, by_cell={})
    with work.keep_leases():
        assert work.lease(99) == []
    assert len(world.claim(solver.id)) == 8 + 2 * 3  # given back


def test_a_changed_engine_is_named(policy: Path) -> None:
    solver = local_spec(policy)
    other = {**(solver.engine or {}), "torch": "1.0"}
    with pytest.raises(InputError, match=r"torch \(1\.0 there, .* now\)\. Restore it"):
        check_engine(solver.model, other, LocalSampler(str(policy), device="cpu"))


def test_specs_with_prompt_and_engine_survive_the_database_and_differ(policy: Path) -> None:
    solvers = (SolverSpec("m"), SolverSpec("m", prompt=PLAIN), SolverSpec("m", engine={"weights": "w"}))
    assert len({solver.id for solver in solvers}) == 3
    for solver in solvers:
        assert SolverSpec.from_json(json.loads(json.dumps({"id": "x", **solver.to_json()}))) == solver


def test_ids_of_solvers_without_them_are_as_ever() -> None:
    stored = {
        "model": "m",
        "sampling": {"temperature": 0.7, "top_p": 0.95, "max_tokens": 3072},
        "samples_per_request": 4,
        "instruction": BOXED_INSTRUCTION,
        "seed": 0,
    }
    assert SolverSpec("m").id == content_id("solver", stored)


def test_a_remote_solver_is_sent_the_prompt_of_its_preset(tmp_path: Path) -> None:
    raw = PromptSpec("Q: {question}\nA:", "raw")
    solvers = (SolverSpec("a"), SolverSpec("b", prompt=PLAIN), SolverSpec("c", prompt=raw))
    world = World(tmp_path, make_spec(solvers=solvers))
    world.plan()
    (cell,) = world.claim()
    world.fill(cell, proposals((GOOD[0], BAD_NUMBER)))
    world.read()
    world.plan()
    asked = []
    for solver in solvers:
        (request, *_) = solving_requests(world.db, solver, world.claim(solver.id))
        asked.append((tuple((one.role, one.content) for one in request.messages), request.prompt))
    assert asked == [
        ((("user", f"{QUESTION.text}\n\n{BOXED_INSTRUCTION}"),), None),
        ((("user", QUESTION.text),), None),
        ((), f"Q: {QUESTION.text}\nA:"),
    ]


def test_continued_raw_text_is_read_like_a_chat() -> None:
    body = json.dumps({"choices": [{"text": "so 12", "finish_reason": "stop"}]})
    assert read_choices(body) == [("so 12", "stop")]
