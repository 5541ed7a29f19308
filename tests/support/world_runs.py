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
from openai_server import server_process
from sqlalchemy import text

from service.database import Database

WORLD = Path(world.__file__)


@contextmanager
def world_server(*arguments: str) -> Iterator[str]:
    """Run the small world's server in a process of its own; give its URL."""
    with server_process("--answer", f"{WORLD}:answer", *arguments) as url:
        yield url


def stats(url: str) -> dict[str, Any]:
    """Return what the server saw."""
    with urllib.request.urlopen(url.removesuffix("/v1") + "/stats", timeout=10) as response:
        found: dict[str, Any] = json.load(response)
        return found


def set_faults(url: str, shares: dict[str, float]) -> None:
    """Have the server go on with these faults."""
    body = json.dumps({"shares": shares}).encode()
    address = url.removesuffix("/v1") + "/faults"
    with urllib.request.urlopen(urllib.request.Request(address, body), timeout=10):
        pass


def command(*arguments: str) -> list[str]:
    """Return the argument vector of a `tagrpo` command."""
    return [sys.executable, "-c", "from ui.cli.app import main; main()", *arguments]


def import_world(db: Path, count: int) -> None:
    """Import `count` questions of the small world as the set `world`."""
    source = db.with_suffix(".jsonl")
    source.write_text("\n".join(json.dumps(row) for row in world.questions(count)))
    done = run_here("questions", "import", source, "--name", "world", "--db", db)
    assert done.code == 0, done.err


def propose_arguments(db: Path, url: str, *more: str) -> list[str]:
    """Return the command that proposes and judges neighbors of the small world's questions."""
    return [
        *("neighbors", "propose", "world", "--name", "run", "--db", str(db)),
        *("--model", "openai/test-model", "--api-base", url),
        *("--solver", "hosted_vllm/test-model", "--solver-api-base", url),
        *more,
    ]


def final_state(db: Path) -> dict[str, Sequence[Any]]:
    """Return all that a run has produced, without row ids and times."""
    queries = {
        "proposals": (
            "SELECT p.question_id, p.ordinal, p.strategy, p.model, c.text FROM proposals p "
            "JOIN candidates c ON c.id = p.candidate_id ORDER BY 1, 2"
        ),
        "answers": (
            "SELECT solver_id, subject_id, ordinal, extracted, finish_reason FROM answers ORDER BY 1, 2, 3"
        ),
        "verdicts": (
            "SELECT candidate_id, status, posterior, reason, final, evidence FROM verdicts "
            "ORDER BY candidate_id, id"
        ),
        "cells": (
            "SELECT scope, kind, subject_id, round, ordinal, attempt, state, outcome FROM cells "
            "ORDER BY 1, 2, 3, 4, 5, 6"
        ),
        "bodies": "SELECT count(*), count(DISTINCT cell_id) FROM cell_bodies",
    }
    with Database.open(db, read_only=True) as database, database.read() as session:
        return {name: [tuple(row) for row in session.execute(text(query))] for name, query in queries.items()}
