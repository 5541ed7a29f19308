"""SIGKILL in the middle of publishing or exporting leaves nothing half-done."""

import signal
from pathlib import Path
from typing import Literal

import pytest
from forked import Forked
from runs import Asked, Proposed, add_run
from sqlalchemy import text

from rephraser import sets
from service.database import Database

pytestmark = pytest.mark.slow
ASKED: list[Asked] = [("Halve 8.", "4", [Proposed("Half of 8?")]), ("Double 8.", "16", [])]
KILLED_AT = """
import os, signal, sys
from pathlib import Path
from typing import Literal
from service import writing
from service.database import Database
from rephraser import sets
from rephraser.sets import store

def killed_after(module, name):
    original = getattr(module, name)
    def call(*arguments):
        original(*arguments)
        os.kill(os.getpid(), signal.SIGKILL)
    setattr(module, name, call)

db = Database.open(sys.argv[1])
"""


@pytest.fixture(autouse=True)
def _run(db: Database) -> None:
    add_run(db, "run", ASKED)


def run_until_killed(db: Database, code: str, *arguments: str) -> None:
    ended, _, errors = Forked(db.place, *arguments, code=KILLED_AT + code).end()
    assert ended == -signal.SIGKILL, errors


def test_a_killed_publication_leaves_no_member(db: Database) -> None:
    run_until_killed(db, "killed_after(store, '_insert_members'); sets.publish(db, 'math', run='run')")
    with db.read() as session:
        assert sets.list_sets(session) == []
        for table in ("neighbor_set_questions", "neighbor_set_members"):
            assert session.execute(text(f"SELECT count(*) FROM {table}")).scalar() == 0
    assert db.integrity_report() == []
    assert sets.publish(db, "math", run="run").header.ref == "math@1"


@pytest.mark.parametrize(("form", "name"), [("hf", "out"), ("parquet", "out.parquet")])
def test_a_killed_export_is_not_there(
    db: Database, tmp_path: Path, form: Literal["hf", "parquet"], name: str
) -> None:
    header = sets.publish(db, "math", run="run").header
    target = tmp_path / name
    code = f"killed_after(writing, '_sync'); sets.export_set(db, 'math', Path(sys.argv[2]), {form!r})"
    run_until_killed(db, code, str(target))
    assert not target.exists()
    sets.export_set(db, "math", target, form)
    assert sets.import_set(db, sets.read_set(target), "copy").header.content_hash == header.content_hash
