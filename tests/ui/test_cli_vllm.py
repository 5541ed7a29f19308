"""The real vLLM, in its build for CPUs, through the command line: its offline engine, and `vllm serve`."""

import json
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from command_line import CommandLine
from sqlalchemy import select, text
from tiny_model import save_tiny_model
from vllm_runs import DTYPE, engine_processes, use_cpu_build
from vllm_server import vllm_server
from world_runs import command

from service.database import Database
from service.runs.tables import CellBodyRow

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(1500)]

PROBLEMS, N = 16, 16
EXIT_S = 30.0
SAMPLING = ("--n", str(N), "--max-tokens", "60", "--samples-per-request", "4")
CONTEXT = 8192
"""Room for the instructions to rephrase, at a token a letter."""
SERVED = "hosted_vllm/tiny"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    use_cpu_build()
    return save_tiny_model(tmp_path_factory.mktemp("model") / "tiny", heads=2, context=CONTEXT)


@pytest.fixture(scope="module")
def server(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with vllm_server(model, tmp_path_factory.mktemp("server") / "log") as url:
        yield url


@pytest.fixture
def cli(cli: CommandLine) -> CommandLine:
    write_problems("sums.jsonl", *(f"What is {place} + 1?" for place in range(PROBLEMS)))
    return cli


def write_problems(path: str, *questions: str) -> None:
    rows = [{"question": question, "answer": str(place)} for place, question in enumerate(questions, 1)]
    Path(path).write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def rows(db: str, query: str) -> list[Any]:
    with Database.open(db, read_only=True) as database, database.read() as session:
        return [tuple(row) for row in session.execute(text(query))]


def count(db: str) -> int:
    return int(rows(db, "SELECT count(*) FROM samples")[0][0])


def texts(db: str) -> list[tuple[int, int, str]]:
    return rows(
        db,
        "SELECT r.position, s.ordinal, t.text FROM samples s JOIN run_problems r ON r.id = s.run_problem_id "
        "JOIN sample_texts t ON t.sample_id = s.id ORDER BY 1, 2",
    )


def bodies(db: str) -> list[str]:
    with Database.open(db, read_only=True) as database, database.read() as session:
        return list(session.scalars(select(CellBodyRow.body)))


def import_question(cli: CommandLine) -> None:
    write_problems("few.jsonl", "Ada has 12 apples and buys 5 more. How many apples does Ada have now?")
    assert cli("questions", "import", "few.jsonl", "--name", "few").code == 0


def offline(model: Path, db: str) -> tuple[str, ...]:
    return (
        *("eval", "run", "sums.jsonl", "--db", db, "--model", str(model), "--sampler", "vllm"),
        *(*SAMPLING, *DTYPE, "--grace", "20"),
    )


def begin(model: Path, db: str) -> subprocess.Popen[str]:
    """Start a run, and return at its first sample; its engine was seen before, as looking takes a while."""
    Database.open(db).close()
    before = engine_processes()
    process = subprocess.Popen(command(*offline(model, db)), stdout=subprocess.PIPE, text=True)
    wait(lambda: engine_processes() > before or process.poll() is not None)
    wait(lambda: count(db) > 0 or process.poll() is not None)
    assert process.poll() is None, f"it ended with exit code {process.returncode}"
    return process


def wait(until: Callable[[], bool], limit_s: float = 600.0) -> None:
    deadline = time.monotonic() + limit_s
    while not until():
        assert time.monotonic() < deadline, "it did not come so far"
        time.sleep(0.05)


def test_sigterm_ends_an_offline_run_and_its_engine(cli: CommandLine, model: Path) -> None:
    before = engine_processes()
    process = begin(model, "offline.db")
    began = time.monotonic()
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)
    assert process.returncode == 143
    assert time.monotonic() - began < 20 + EXIT_S
    assert engine_processes() <= before
    assert 0 < count("offline.db") < PROBLEMS * N


def test_a_killed_run_takes_its_engine_along_and_comes_to_the_texts_that_a_server_draws(
    cli: CommandLine, model: Path, server: str
) -> None:
    before = engine_processes()
    process = begin(model, "offline.db")
    process.kill()
    process.communicate()
    wait(lambda: engine_processes() <= before, EXIT_S)
    assert 0 < count("offline.db") < PROBLEMS * N
    done = cli(*offline(model, "offline.db"))
    assert done.code == 0, done.err
    assert engine_processes() <= before
    for db in ("served.db", "again.db"):
        served = cli(
            "eval", "run", "sums.jsonl", "--db", db, "--model", SERVED, "--api-base", server, *SAMPLING
        )
        assert served.code == 0, served.err
    drawn = texts("offline.db")
    assert len({sample[2] for sample in drawn}) > 0.9 * PROBLEMS * N
    assert drawn == texts("served.db") == texts("again.db")


def test_the_engine_answers_as_solver_and_ends_with_the_command(cli: CommandLine, model: Path) -> None:
    before = engine_processes()
    import_question(cli)
    done = cli(
        *("neighbors", "propose", "few", "--name", "rules", "--proposer", "rules", "--n", 1, "--rounds", 1),
        *("--solver", str(model), "--solver-sampler", "vllm", "--solver-dtype", "float32"),
        *("--solver-max-tokens", 60),
    )
    assert done.code in (0, 3), done.err
    assert engine_processes() <= before
    assert rows("tagrpo.db", "SELECT count(DISTINCT subject_id), count(*) >= 32 FROM answers") == [(2, 1)]
    assert rows("tagrpo.db", "SELECT count(*) FROM verdicts")[0][0] >= 1


def test_a_server_draws_candidates_by_a_schema(cli: CommandLine, server: str) -> None:
    import_question(cli)
    done = cli(
        *("neighbors", "propose", "few", "--name", "model", "--n", 1, "--rounds", 1),
        *("--model", SERVED, "--api-base", server, "--reply", "json", "--max-tokens", 3000),
    )
    assert done.code in (0, 3), done.err
    choices = [json.loads(body)["choices"][0] for body in bodies("tagrpo.db")]
    whole = [
        json.loads(choice["message"]["content"]) for choice in choices if choice["finish_reason"] == "stop"
    ]
    assert whole, "random weights write no JSON of themselves"
    for candidates in whole:
        assert candidates.keys() == {"rephrasings"}
        assert candidates["rephrasings"]
        assert all(isinstance(candidate, str) for candidate in candidates["rephrasings"])


def test_a_server_answers_as_solver(cli: CommandLine, server: str) -> None:
    import_question(cli)
    done = cli(
        *("neighbors", "propose", "few", "--name", "rules", "--proposer", "rules", "--n", 1, "--rounds", 1),
        *("--solver", SERVED, "--solver-api-base", server, "--solver-max-tokens", 60),
    )
    assert done.code in (0, 3), done.err
    asked = rows("tagrpo.db", "SELECT subject_id, finish_reason, count(*) FROM answers GROUP BY 1, 2")
    assert len({subject for subject, _, _ in asked}) == 2, "the question and its candidate"
    assert {reason for _, reason, _ in asked} <= {"stop", "length"}
    assert sum(answers for _, _, answers in asked) >= 32
    assert rows("tagrpo.db", "SELECT count(*) FROM verdicts")[0][0] >= 1


def test_what_a_server_refuses_is_final_or_stops_the_run(cli: CommandLine, server: str) -> None:
    write_problems("long.jsonl", "What is 1 + 1?", f"What is {'1 + ' * CONTEXT}1?")
    asked = ("eval", "run", "long.jsonl", "--model", SERVED, "--api-base", server, "--n", 4)
    done = cli(*asked, "--max-tokens", 60)
    assert done.code == 3
    assert "4 samples missing for good" in done.err
    assert count("tagrpo.db") == 4
    for most in (CONTEXT, CONTEXT + 1):
        done = cli(*asked, "--name", f"most-{most}", "--max-tokens", most)
        assert done.code == 1
        assert f"answers of up to {most:,} tokens are more than the model takes" in done.err
        assert f"context length is {CONTEXT}" in done.err or f"max_model_len={CONTEXT}" in done.err
