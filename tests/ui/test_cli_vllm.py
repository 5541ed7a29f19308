"""`tagrpo eval run` with the real vLLM, in its build for CPUs."""

import json
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from command_line import CommandLine
from sqlalchemy import text
from tiny_model import save_tiny_model
from vllm_runs import DTYPE, engine_processes, use_cpu_build
from world_runs import command

from service.database import Database

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(900)]

PROBLEMS, N = 20, 16
EXIT_S = 30.0
SAMPLING = ("--n", str(N), "--max-tokens", "60", "--samples-per-request", "4")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    use_cpu_build()
    return save_tiny_model(tmp_path_factory.mktemp("model") / "tiny", heads=2)


@pytest.fixture
def cli(cli: CommandLine) -> CommandLine:
    rows = [{"question": f"What is {place} + 1?", "answer": str(place + 1)} for place in range(PROBLEMS)]
    Path("sums.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return cli


def count(db: str) -> int:
    with Database.open(db, read_only=True) as database, database.read() as session:
        return int(session.execute(text("SELECT count(*) FROM samples")).scalar_one())


def begin(model: Path, db: str) -> subprocess.Popen[str]:
    arguments = ("eval", "run", "sums.jsonl", "--db", db, "--model", str(model), "--sampler", "vllm")
    return subprocess.Popen(
        command(*arguments, *SAMPLING, *DTYPE, "--grace", "20"), stdout=subprocess.PIPE, text=True
    )


def wait(process: "subprocess.Popen[str]", until: Callable[[], bool]) -> None:
    while not until():
        assert process.poll() is None, f"it ended with exit code {process.returncode}"
        time.sleep(0.05)


def test_sigterm_ends_an_offline_run_and_its_engine(cli: CommandLine, model: Path) -> None:
    before = engine_processes()
    Database.open("offline.db").close()

    process = begin(model, "offline.db")
    wait(process, lambda: count("offline.db") > 0)
    began = time.monotonic()
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)
    assert process.returncode == 143
    assert time.monotonic() - began < 20 + EXIT_S
    assert engine_processes() <= before
    assert 0 < count("offline.db") < PROBLEMS * N
