"""A published set without a database: from each form of export, and from the Hub by commit or cache."""

import json
from pathlib import Path

import pytest
from apple_sets import publish_apples
from hub_folder import COMMIT, HubSet, in_own_process, serve_hub

from rephraser import sets
from rephraser.sets import SetEntry, read_published
from service.errors import InputError

SCRIPT = """
from rephraser.sets import read_published

def read(*arguments):
    return [entry.question.id for entry in read_published(*arguments)]
"""


@pytest.fixture(scope="module")
def exports(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("exports")
    with publish_apples(folder / "t.db", 3) as db:
        sets.export_file(db, "ta", folder / "set.jsonl", "jsonl")
        sets.export_file(db, "ta", folder / "set.parquet", "parquet")
        sets.export_hf(db, "ta", folder / "set")
        with db.read() as session:
            published = sets.load_set(session, "ta").entries
    (folder / "published.txt").write_text(repr(published), encoding="utf-8")
    return folder


@pytest.mark.parametrize("name", ["set.jsonl", "set.parquet", "set"])
def test_every_export_gives_what_was_published(name: str, exports: Path) -> None:
    entries: list[SetEntry] = read_published(str(exports / name))
    assert repr(tuple(entries)) == (exports / "published.txt").read_text(encoding="utf-8")


def test_rows_that_were_changed_and_files_with_a_revision_are_refused(exports: Path, tmp_path: Path) -> None:
    changed = tmp_path / "set.jsonl"
    rows = [json.loads(line) for line in (exports / "set.jsonl").read_text(encoding="utf-8").splitlines()]
    rows[1]["answer"] = "7"
    changed.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    beside = "set.jsonl.tagrpo.json"
    (tmp_path / beside).write_bytes((exports / beside).read_bytes())
    with pytest.raises(InputError, match=r"The rows changed after the export\. Export again"):
        read_published(str(changed))
    with pytest.raises(InputError, match="a revision applies to Hub"):
        read_published(str(exports / "set"), "v1")
    with pytest.raises(InputError, match="no such file or folder"):
        read_published("nowhere.jsonl")


@pytest.mark.slow
def test_a_pushed_set_is_read_from_the_hub_then_from_the_cache(exports: Path, tmp_path: Path) -> None:
    ids = [entry.question.id for entry in read_published(str(exports / "set"))]
    apples, pears = "me/apples", "me/pears"
    with serve_hub({apples: HubSet.of(exports / "set")}) as hub:
        newest, tagged, old, other = in_own_process(
            SCRIPT, hub.address, tmp_path, [apples], [apples, "v1"], [apples, "v9"], [pears]
        )
    assert (newest, tagged) == (ids, ids)
    assert 'the Hub has no revision "v9"' in old["message"]
    assert "no such dataset on the Hub" in other["message"]
    assert list(tmp_path.glob(f"hub/datasets--me--apples/snapshots/{COMMIT}/data/*.parquet"))
    assert not list(tmp_path.rglob("README.md"))  # nothing but what is read
    cached, other = in_own_process(SCRIPT, hub.address, tmp_path, [apples, COMMIT], [pears])
    assert cached == ids
    assert other["error"] == "PrerequisiteError"
    assert other["message"].startswith("me/pears: there is no such file, and the Hub dataset cannot")
