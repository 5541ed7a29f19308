"""The shipped demo: a pack holds every row of its database, and unpacks to one that the pages open."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
import zstandard
from eval_runs import add_eval_run
from rollout_shards import read_rollouts
from sqlalchemy import text
from training_pages import trainings

from service.database import Database
from service.errors import InputError
from trainer_adapter.record.reading import Record
from ui.shipped_demo.__main__ import MOST_BYTES, pack
from ui.shipped_demo.unpacking import SHIPPED, unpack


def demo(folder):
    """Trainings, an evaluation, and a question to search for."""
    with Database.open(trainings(folder)) as db:
        add_eval_run(db, "base.aime24", [(8, 4, 0), (8, 0, 1)], benchmark="aime24")
        with db.write() as session:
            asked = "INSERT INTO questions (id, text, answer, created_at) VALUES ('q_1', 'searched', '', '')"
            session.execute(text(asked))


pytestmark = pytest.mark.sqlite


@pytest.fixture
def database(built):
    return built(demo)


def everything(path):
    """Return the schema and all rows of a database, its compressed texts read."""
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
        schema = sorted(connection.execute("SELECT type, name, sql FROM sqlite_master").fetchall(), key=str)
        tables = [name for kind, name, _ in schema if kind == "table"]
        rows = {name: connection.execute(f"SELECT * FROM {name}").fetchall() for name in tables}
    framed, unpacker = b"\x28\xb5\x2f\xfd", zstandard.ZstdDecompressor()

    def read(value):
        return unpacker.decompress(value) if isinstance(value, bytes) and value.startswith(framed) else value

    read_rows = {name: [tuple(map(read, row)) for row in found] for name, found in rows.items()}
    return schema, {name: sorted(found, key=repr) for name, found in read_rows.items()}


def test_every_row_and_all_of_the_schema_come_back(database, tmp_path):
    for name in ("a.xz", "b.xz"):
        pack(database, tmp_path / name)
    assert (tmp_path / "a.xz").read_bytes() == (tmp_path / "b.xz").read_bytes()
    unpacked = unpack(tmp_path / "a.xz", tmp_path / "t")
    before, after = everything(database), everything(unpacked)
    folders = [rows.pop("train_folders") for _, rows in (before, after)]
    assert before[0] == after[0]
    assert before[1] == after[1]
    assert sum(map(len, before[1].values())) > 50
    for (run, folder), (same_run, place) in zip(*folders, strict=True):
        assert run == same_run
        assert Path(place).parent == tmp_path / "t" / "rollouts"
        assert list(read_rollouts(Path(place))) == list(read_rollouts(Path(folder)))
        assert Record(Path(place)).metrics() == Record(Path(folder)).metrics()
    with Database.open(unpacked, read_only=True) as db:
        assert db.integrity_report() == []


def changed(database, tmp_path, *statements):
    path = tmp_path / "demo" / "tagrpo.db"
    path.parent.mkdir()
    with closing(sqlite3.connect(database)) as source, closing(sqlite3.connect(path)) as target:
        source.backup(target)
        for trigger, *_ in target.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            target.execute(f'DROP TRIGGER "{trigger}"')
        for statement in statements:
            target.execute(statement)
        target.commit()
    return path


def test_the_demos_folder_is_cut_to_its_name_and_other_paths_of_the_machine_are_refused(database, tmp_path):
    path = changed(
        database,
        tmp_path,
        f"""UPDATE runs SET spec = '{{"model": "{tmp_path}/demo/policy"}}' WHERE name = 'joint'""",
        f"INSERT INTO run_configs SELECT id, '{tmp_path}', '{{}}' FROM runs WHERE name = 'joint'",
    )
    pack(path, tmp_path / "demo.xz")
    with closing(sqlite3.connect(unpack(tmp_path / "demo.xz", tmp_path / "t"))) as connection:
        found = connection.execute("SELECT spec FROM runs WHERE name = 'joint'").fetchone()
        folder = connection.execute("SELECT folder FROM run_configs").fetchone()
    assert found == ('{"model": "demo/policy"}',)
    assert folder == (".",)
    with closing(sqlite3.connect(path)) as connection:
        elsewhere = "/".join(("", "home", "ada", "models"))
        connection.execute(f"""UPDATE runs SET spec = '{{"m": "{elsewhere}"}}' WHERE name = 'plain'""")
        connection.commit()
    with pytest.raises(InputError, match=rf"runs\.spec: contains the local path '{elsewhere}'"):
        pack(path, tmp_path / "demo.xz")


@pytest.mark.slow
def test_the_one_that_ships_is_small_and_whole(tmp_path):
    assert SHIPPED.stat().st_size <= MOST_BYTES
    with closing(sqlite3.connect(unpack(SHIPPED, tmp_path))) as connection:
        kinds = {kind for (kind,) in connection.execute("SELECT kind FROM runs")}
        folders = [Path(folder) for (folder,) in connection.execute("SELECT folder FROM train_folders")]
    assert kinds == {"eval", "propose", "train"}
    assert sum(int(Record(folder).counts().prompts["responses"].sum()) for folder in folders) == 23_040
