"""Runs against the small world: the server, the command line, and a run's final state to compare."""

import json
import sys
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import world
from command_line import run_here
from json_rows import write_rows
from openai_server import server_process
from sqlalchemy import text

from service.database import Database

WORLD = Path(world.__file__)
CONCURRENCY = 8
PREMISES = ("premises=openai/test-model",)  # asked at the proposer's server
Calm = tuple[dict[str, Sequence[Any]], int]
"""The final state of an undisturbed run and the number of its requests."""

MODEL = "hosted_vllm/test-model"
SAMPLES = """
    SELECT r.position, s.ordinal, s.seed, s.stop_reason, g.value, g.extracted
    FROM samples s JOIN run_problems r ON r.id = s.run_problem_id
    LEFT JOIN grades g ON g.sample_id = s.id ORDER BY 1, 2
"""
"""The final state of an evaluation."""


@contextmanager
def world_server(*arguments: str) -> Iterator[str]:
    """Run the small world's server in a process of its own; give its URL."""
    with server_process("--answer", f"{WORLD}:answer", *arguments) as url:
        yield url


def stats(url: str) -> dict[str, Any]:
    """Return what the server saw."""
    with urllib.request.urlopen(url.removesuffix("/v1") + "/stats", timeout=10) as response:
        return json.load(response)


def set_faults(url: str, shares: dict[str, float]) -> None:
    """Have the server go on with these faults."""
    body = json.dumps({"shares": shares}).encode()
    address = url.removesuffix("/v1") + "/faults"
    with urllib.request.urlopen(urllib.request.Request(address, body), timeout=10):
        pass


def command(*arguments: str) -> list[str]:
    """Return the argument vector of a `tagrpo` command."""
    return [sys.executable, "-m", "tagrpo", *arguments]


def import_world(db: Path | str, count: int, source: Path | None = None) -> None:
    """Import `count` questions of the small world as the set `world`, by default from a file next to `db`."""
    source = write_sums(source or Path(db).with_suffix(".jsonl"), count)
    run_here.ok("questions", "import", source, "--name", "world", "--db", db)


def propose_arguments(db: Path | str, url: str, *more: str) -> list[str]:
    """Return the command that proposes and judges neighbors of the small world's questions."""
    return [
        *("rephrase", "run", "world", "--name", "run", "--db", str(db)),
        *("--model", "openai/test-model", "--base-url", url),
        *("--solver", "hosted_vllm/test-model", f"solver.base_url={url}"),
        *more,
    ]


def rows(db: Path | str, query: str) -> list[tuple[Any, ...]]:
    """Return what a query finds."""
    with Database.open(db, read_only=True) as database, database.read() as session:
        return [tuple(row) for row in session.execute(text(query))]


def write_sums(path: Path, count: int) -> Path:
    """Write `count` questions of the small world, which its server can answer."""
    return write_rows(path, *world.questions(count))


def evaluate(url: str, *more: object, benchmark: str = "sums.jsonl", n: int = 8) -> list[object]:
    """Return the command that evaluates the server's model."""
    return ["eval", "run", benchmark, "--model", MODEL, "--base-url", url, "--n", n, *more]


def final_state(db: Path | str) -> dict[str, Sequence[Any]]:
    """Return all that a run has produced, without row ids and times."""
    queries = {
        "proposals": (
            "SELECT p.question_id, p.ordinal, p.strategy, p.model, c.text FROM proposals p "
            "JOIN candidates c ON c.id = p.candidate_id ORDER BY 1, 2"
        ),
        "verdicts": (
            "SELECT candidate_id, status, reason, final, evidence FROM verdicts ORDER BY candidate_id, id"
        ),
        "asks": (
            "SELECT scope, kind, about, place, state, outcome FROM asks WHERE state = 'answered' "
            "ORDER BY 1, 2, 3, 4"
        ),
        "bodies": (
            "SELECT count(*) FROM ask_bodies JOIN asks ON id = ask_id WHERE state = 'answered' "
            "AND reply IS NOT NULL"
        ),
    }
    state: dict[str, Sequence[Any]] = {name: rows(db, query) for name, query in queries.items()}
    # SQLite gives a text for JSON and a number for truth.
    state["verdicts"] = [
        (*row[:-2], bool(row[-2]), json.loads(row[-1]) if isinstance(row[-1], str) else row[-1])
        for row in state["verdicts"]
    ]
    return state


def run_undisturbed(folder: Path, questions: int) -> Calm:
    """Return how a run ends that nothing disturbs."""
    db = folder / "calm.db"
    import_world(db, questions)
    with world_server("--model", "test-model") as url:
        done = run_here(*propose_arguments(db, url, *PREMISES))
        assert done.code == 0, done.err
        seen = stats(url)
    assert seen["overlaps"] == 0
    return final_state(db), seen["paid"]


def answered_asks(db: Path | str) -> int:
    """Return how many requests have their answer."""
    ((count,),) = rows(db, "SELECT count(*) FROM asks WHERE state = 'answered'")
    return int(count)


def check_loss(
    undisturbed: dict[str, Sequence[Any]],
    state: dict[str, Sequence[Any]],
    lost: list[int],
    seen: dict[str, Any],
) -> None:
    """Paid and lost at each kill: at most what was in flight at proposer, solver and model of premises."""
    assert state == undisturbed
    assert max(lost) <= 3 * CONCURRENCY
    assert seen["paid"] <= len(undisturbed["asks"]) + sum(lost)
    assert seen["paid_distinct"] == len(undisturbed["asks"])
