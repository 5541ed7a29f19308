"""vLLM's offline engine as solver and proposer: verdicts, seeds, going on, refusals. vLLM is a fake."""

import json
from pathlib import Path
from typing import Any

import fake_vllm
import pytest
from command_line import CommandLine, Done, words
from fake_vllm import Behaviour
from hand_filled import CHANGED, GOOD, OTHER, QUESTION
from sqlalchemy import text
from tiny_model import save_tiny_model

from service.database import Database

ANSWERS = {QUESTION.text: "12", GOOD[0]: "12", GOOD[1]: "12", OTHER.text: "17", CHANGED: "7"}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny_model(tmp_path_factory.mktemp("model"))


@pytest.fixture
def behaviour(monkeypatch: pytest.MonkeyPatch, model: Path) -> Behaviour:
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(model)

    def answer(prompt: list[int], _seed: int | None) -> str:
        asked = tokenizer.decode(prompt)
        if "<problem>" in asked:
            wanted = GOOD if QUESTION.text in asked else (CHANGED,)
            return "\n".join(f"<rephrasing>{text}</rephrasing>" for text in wanted)
        return next(f"\\boxed{{{number}}}" for question, number in ANSWERS.items() if question in asked)

    made = Behaviour()
    fake_vllm.install(monkeypatch, made)
    monkeypatch.setattr(fake_vllm, "text_of", answer)
    return made


@pytest.fixture
def cli(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> CommandLine:
    monkeypatch.chdir(tmp_path)
    return CommandLine(monkeypatch, capsys)


def import_questions(cli: CommandLine) -> None:
    questions = [{"problem": question.text, "answer": question.answer} for question in (QUESTION, OTHER)]
    Path("q.jsonl").write_text("\n".join(json.dumps(row) for row in questions))
    assert cli("questions", "import", "q.jsonl", "--name", "q", "--db", "t.db").code == 0


CANDIDATES = ("--candidates", "c.jsonl", "--question-column", "question", "--candidate-column", "candidate")


def propose(cli: CommandLine, *more: str) -> Done:
    import_questions(cli)
    pairs = [(QUESTION, GOOD[0]), (QUESTION, GOOD[1]), (OTHER, CHANGED)]
    proposed = [{"question": question.text, "candidate": candidate} for question, candidate in pairs]
    Path("c.jsonl").write_text("\n".join(json.dumps(row) for row in proposed))
    return cli(
        *("neighbors", "propose", "q", "--name", "run", "--db", "t.db", "--n", "2", "--proposer", "file"),
        *(*CANDIDATES, "--solver-sampler", "vllm", "--solver-preset", "plain", "--solver-max-tokens", "16"),
        *more,
    )


def rows(query: str) -> list[Any]:
    with Database.open("t.db", read_only=True) as database, database.read() as session:
        return [tuple(row) for row in session.execute(text(query))]


def verdicts() -> dict[str, str]:
    return dict(
        rows("SELECT c.text, v.status FROM verdicts v JOIN candidates c ON c.id = v.candidate_id WHERE final")
    )


RIGHT = {GOOD[0]: "accepted", GOOD[1]: "accepted", CHANGED: "rejected"}


def test_its_answers_decide_and_the_engine_ends_with_the_command(
    cli: CommandLine, model: Path, behaviour: Behaviour
) -> None:
    done = propose(cli, "--solver", str(model), "--solver-max-model-len", "400")
    assert done.code == 0, done.err
    assert verdicts() == RIGHT
    assert (len(behaviour.llms), behaviour.ended) == (1, 1)
    ((stored,),) = rows("SELECT CAST(spec AS TEXT) FROM runs")
    (solver,) = json.loads(stored)["solvers"]
    assert {**solver["engine"], "sampler": "vllm", "max_model_len": 400, "tensor_parallel": 1} == (
        solver["engine"]
    )
    (line,) = rows("SELECT kind, sum(cost_usd), count(*) FROM cells GROUP BY kind")
    assert line[:2] == ("answer", 0.0)
    assert len(behaviour.asked) == line[2]
    with Database.open("t.db", read_only=True) as database, database.read() as session:
        from service.runs.cells import read_bodies

        bodies = read_bodies(session, list(session.scalars(text("SELECT id FROM cells")))).values()
    for body in map(json.loads, bodies):
        seeds = [choice["seed"] for choice in body["choices"]]
        assert seeds == [*range(body["engine"]["seed"], body["engine"]["seed"] + 4)]


def test_a_run_whose_engine_died_goes_on_with_the_stored_settings(
    cli: CommandLine, model: Path, behaviour: Behaviour
) -> None:
    behaviour.dies_at_step = 2
    stopped = propose(cli, "--solver", str(model), "--solver-max-model-len", "400")
    assert stopped.code == 1
    assert "vLLM's engine died (EngineDeadError" in words(stopped.err)
    ((filled,),) = rows("SELECT count(*) FROM cells WHERE state = 'filled'")
    assert filled == behaviour.per_step
    behaviour.dies_at_step, asked = None, len(behaviour.asked)
    done = cli("resume", "run", "--db", "t.db", *CANDIDATES, "--solver-gpu-memory-utilization", "0.5")
    assert done.code == 0, done.err
    assert verdicts() == RIGHT
    assert len(behaviour.asked) == asked + 25 - filled  # what came back is not drawn again
    options = behaviour.llms[-1]
    assert (options["gpu_memory_utilization"], options["kwargs"]["max_model_len"]) == (0.5, 400)


def test_two_solvers_take_turns_on_the_gpu(cli: CommandLine, behaviour: Behaviour, tmp_path: Path) -> None:
    models = [save_tiny_model(tmp_path / name, seed=seed) for seed, name in enumerate(("a", "b"))]
    ended: list[int] = []
    behaviour.before_request = lambda _: ended.append(behaviour.ended - len(behaviour.llms))
    done = propose(cli, *(word for model in models for word in ("--solver", str(model))))
    assert done.code == 0, done.err
    assert verdicts() == RIGHT
    assert len(behaviour.llms) >= 2
    assert set(ended) == {-1}  # one engine at a time


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--solver-batch-size", "8"], "--solver-batch-size does not belong to --solver-sampler vllm"),
        (["--solver-device", "cpu"], "--solver-device does not belong to --solver-sampler vllm"),
        (["--solver-gpus", "3", "--solver-tensor-parallel", "2"], "give a multiple of the 2"),
    ],
)
def test_options_of_others_are_refused(
    cli: CommandLine, model: Path, behaviour: Behaviour, more: list[str], message: str
) -> None:
    done = propose(cli, "--solver", str(model), *more)
    assert (done.code, done.out) == (2, "")
    assert message in words(done.err)
    assert rows("SELECT count(*) FROM runs") == [(0,)]


def test_a_run_without_an_engine_takes_none_of_its_options(cli: CommandLine) -> None:
    assert propose(cli).code == 0  # of candidates, without a solver
    done = cli("resume", "run", "--db", "t.db", *CANDIDATES, "--solver-gpus", "2")
    assert (done.code, done.out) == (2, "")
    assert "--solver-gpus does not belong to --solver-sampler remote" in words(done.err)


def propose_offline(cli: CommandLine, proposer: Path, solver: Path, *more: str) -> Done:
    import_questions(cli)
    return cli(
        *("neighbors", "propose", "q", "--name", "run", "--db", "t.db", "--n", "2", "--rounds", "1"),
        *("--model", str(proposer), "--sampler", "vllm", "--max-tokens", "100", "--max-model-len", "3000"),
        *("--content-attempts", "1"),
        *("--solver", str(solver), "--solver-sampler", "vllm", "--solver-preset", "plain"),
        *("--solver-max-tokens", "16", "--solver-max-model-len", "3000", *more),
    )


@pytest.fixture(scope="module")
def roomy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model with room for what a proposer is asked, a token a letter."""
    return save_tiny_model(tmp_path_factory.mktemp("roomy"), context=4000)


def test_one_model_proposes_and_solves_in_one_engine(
    cli: CommandLine, roomy: Path, behaviour: Behaviour
) -> None:
    done = propose_offline(cli, roomy, roomy)
    assert done.code == 0, done.err
    assert verdicts() == RIGHT
    assert (len(behaviour.llms), behaviour.ended) == (1, 1)
    ((stored,),) = rows("SELECT CAST(spec AS TEXT) FROM runs")
    assert json.loads(stored)["engine"] == json.loads(stored)["solvers"][0]["engine"]
    assert json.loads(stored)["output"] == "tags"
    asked = rows("SELECT count(*), sum(cost_usd), max(attempts) FROM cells WHERE kind = 'propose'")
    assert asked == [(2, 0.0, 1)]
    assert rows("SELECT DISTINCT model FROM proposals") == [(str(roomy),)]
    refused = cli("resume", "run", "--db", "t.db", "--api-base", "http://127.0.0.1:1/v1")
    assert (refused.code, refused.out) == (2, "")
    assert "--api-base is for a remote proposer" in words(refused.err)


def test_proposer_and_solver_take_turns_and_a_dead_engine_costs_no_candidate(
    cli: CommandLine, model: Path, roomy: Path, behaviour: Behaviour
) -> None:
    ended: list[int] = []
    behaviour.before_request = lambda _: ended.append(behaviour.ended - len(behaviour.llms))
    behaviour.dies_at_step = 1
    stopped = propose_offline(cli, roomy, model, "--solver-max-model-len", "400")
    assert stopped.code == 1
    assert rows("SELECT count(*) FROM cells") == [(2,)]
    behaviour.dies_at_step = None
    assert cli("resume", "run", "--db", "t.db", "--gpu-memory-utilization", "0.5").code == 0
    assert verdicts() == RIGHT
    assert set(ended) == {-1}  # one engine at a time
    assert [call["gpu_memory_utilization"] for call in behaviour.llms[1:]] == [0.5, 0.9]


def test_a_question_without_room_for_its_request_fails_alone(
    cli: CommandLine, model: Path, behaviour: Behaviour
) -> None:
    done = propose_offline(cli, model, model, "--max-model-len", "400", "--solver-max-model-len", "400")
    assert done.code == 3
    assert not behaviour.asked
    (error,) = {
        error.partition(":")[0] for (error,) in rows("SELECT error FROM cells WHERE kind = 'propose'")
    }
    assert error == "prompt"
