"""Exports hold everything, appear at one stroke, and read back to the same hash, without a database too."""

import json
import re
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import pyarrow.parquet as pq
import pytest
from forked import Forked
from hub_folder import COMMIT, HubSet, in_own_process, serve_hub
from pictures import picture
from runs import Asked, Proposed, add_review, add_run, make_spec, open_empty
from sqlalchemy import text

from rephraser.sets.export import export_set
from rephraser.sets.publish import publish
from rephraser.sets.reimport import import_set, read_published, read_set
from rephraser.sets.store import list_sets, load_set, verify
from service.database import Database
from service.errors import InputError
from service.questions.images import load_images, read_image, store_images
from service.questions.question import make_question

RED, BLUE = read_image(picture("red")), read_image(picture("blue", kind="JPEG"))
ODD = '<image>Let $f(x)=\\frac{x}{2}$,\nso "f(8)", not <image>, is\u2028what? שלום, 你好, 𝔽'
ASKED: list[Asked] = [
    (
        ODD,
        "4",
        [
            Proposed("<image>With $f(x)=x/2$,\tfind $f(8)$.<image>\u0007"),
            Proposed("<image><image>f of 8?", right=(16, 12)),
        ],
    ),
    ("What is 2+3?", "5", [Proposed("Add 2 and 3.", ("unverified",)), Proposed("2 plus 3?")]),
    ("Double 8.", "", []),
]
Form = Literal["hf", "parquet", "jsonl"]
FORMS: dict[Form, str] = {"hf": "out", "parquet": "out.parquet", "jsonl": "out.jsonl"}


@pytest.fixture(autouse=True)
def _run(db):
    images = [RED.id, BLUE.id]
    with db.write() as session:
        store_images(session, [RED, BLUE])
    add_run(db, "run", ASKED[:2], images=images)
    add_run(db, "unlabelled", ASKED, level=None, subject=None, images=images)


@pytest.fixture
def header(db):
    add_review(db, make_question("What is 2+3?", "5"), "2 plus 3?", "accepted")
    return publish(db, "math", run="unlabelled", include=("accepted", "unverified")).header


def read_rows(path: Path) -> list[dict[str, Any]]:
    if path.is_dir():
        path = path / "data" / "train-00000-of-00001.parquet"
    if path.suffix == ".parquet":
        return pq.read_table(path).to_pylist()
    return [json.loads(line) for line in path.read_bytes().split(b"\n")[:-1]]


@pytest.mark.parametrize("form", FORMS)
def test_an_export_holds_everything_and_reads_back_to_the_same_hash(db, header, tmp_path, form):
    name = FORMS[form]
    path = tmp_path / name
    assert export_set(db, "math@1", path, form) == header
    rows = read_rows(path)
    assert [row["question"] for row in rows] == [ODD, "What is 2+3?", "Double 8."]
    double = {"id": make_question("Double 8.", "").id, "question": "Double 8.", "answer": "", "kind": "latex"}
    assert rows[2] == double | {"level": None, "subject": None, "images": [], "neighbors": []}
    accepted, unverified = rows[1]["neighbors"]
    assert accepted == {
        "id": accepted["id"],
        "text": "2 plus 3?",
        "proposer": "llm",
        "strategy": "perspectives",
        "strategy_hash": make_spec().strategies[0].hash,
        "model": "test/proposer",
        "verdict": "accepted",
        "reviewed": True,
        "likeness": 0.5714,
        **dict.fromkeys(("posterior", "solver", "question_right", "question_drawn")),
        **dict.fromkeys(("neighbor_right", "neighbor_drawn")),
    }
    assert (unverified["verdict"], unverified["posterior"]) == ("unverified", None)
    with open_empty(tmp_path / "other.db") as other:
        imported = import_set(other, read_set(tmp_path / name), "copy")
        with other.read() as session:
            assert not verify(session, "copy@1").problems
            assert load_images(session, [RED.id, BLUE.id]) == {RED.id: RED, BLUE.id: BLUE}
            copied = load_set(session, "copy").entries
    with db.read() as session:
        assert copied == load_set(session, "math").entries == tuple(read_published(str(tmp_path / name)))
    assert imported.created
    assert imported.header.content_hash == header.content_hash
    assert imported.header.counts == header.counts
    assert imported.header.runs == header.runs
    origin = {"name": "math", "version": 1, "id": header.id, "content_hash": header.content_hash}
    assert imported.header.spec["import"] == {"file": name, "edited": False, **origin}


def edit(path: Path, change: Callable[[list[dict[str, Any]]], None]) -> None:
    rows = read_rows(path)
    change(rows)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def test_edited_rows_are_refused_unless_accepted(db, header, tmp_path):
    path = tmp_path / "a.jsonl"
    export_set(db, "math", path, "jsonl")
    edit(path, lambda rows: rows[0]["neighbors"].pop())
    with pytest.raises(InputError, match="changed after the export"):
        import_set(db, read_set(path), "copy")
    with pytest.raises(InputError, match=r"The rows changed after the export\. Export again"):
        read_published(str(path))
    imported = import_set(db, read_set(path, accept_changes=True), "copy").header
    assert imported.content_hash != header.content_hash
    assert imported.counts["neighbors"] == 3
    assert imported.counts["proposals"] == []
    assert imported.spec["import"]["edited"] is True


COUNTS = {"question_right": 3, "question_drawn": 2, "neighbor_right": 0, "neighbor_drawn": 1}
BAD_ROWS: list[tuple[Callable[[list[dict[str, Any]]], object], str]] = [
    (lambda rows: rows[1].pop("question"), 'row 2: "question" is {'),
    (
        lambda rows: rows[0]["neighbors"][1].update(text=" "),
        "row 1, neighbor 2: \"text\" is ' ': Value should have at least 1 item",
    ),
    (lambda rows: rows[0]["neighbors"][1].update(verdict="ok"), "row 1, neighbor 2: \"verdict\" is 'ok'"),
    (
        lambda rows: rows[0]["neighbors"][1].update(solver="x", question_right=3),
        'row 1, neighbor 2: "question_drawn" is None',
    ),
    (
        lambda rows: rows[0]["neighbors"][1].update(solver="x", **COUNTS),
        "3 correct answers out of 2 to the question are impossible",
    ),
    (lambda rows: rows.append(rows[1]), "row 4: repeats the question of row 2"),
    (
        lambda rows: rows[1]["neighbors"].append(rows[1]["neighbors"][0]),
        "row 2: two neighbors have the same text",
    ),
    (lambda rows: rows.clear(), "contains no rows"),
]


def test_bad_rows_are_named_and_nothing_is_imported(db, header, tmp_path):
    path = tmp_path / "a.jsonl"
    export_set(db, "math", path, "jsonl")
    whole = path.read_bytes()
    with open_empty(tmp_path / "other.db") as other:
        for spoil, message in BAD_ROWS:
            path.write_bytes(whole)
            edit(path, spoil)  # type: ignore[arg-type]
            with pytest.raises(InputError, match=re.escape(message)):
                import_set(other, read_set(path, accept_changes=True), "copy")
        with other.read() as session:
            assert list_sets(session) == []


def test_cut_off_and_foreign_files(db, header, tmp_path):
    path = tmp_path / "a.jsonl"
    export_set(db, "math", path, "jsonl")
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(InputError, match=r"a\.jsonl:3: not valid JSON .*cut off"):
        import_set(db, read_set(path), "copy")
    cut = tmp_path / "b.parquet"
    export_set(db, "math", cut, "parquet")
    cut.write_bytes(cut.read_bytes()[:-40])
    with pytest.raises(InputError, match=r"b\.parquet: not a readable parquet file"):
        import_set(db, read_set(cut), "copy")
    (tmp_path / "folder").mkdir()
    for foreign, message in (
        ("folder", r"no tagrpo\.json, so it is not an export"),
        ("absent", "no such file"),
        ("t.db", r"\.jsonl file"),
    ):
        with pytest.raises(InputError, match=message):
            import_set(db, read_set(tmp_path / foreign), "copy")
    with pytest.raises(InputError, match="a revision applies to Hub"):
        read_published(str(path), "v1")
    with pytest.raises(InputError, match="no such file or folder"):
        read_published("nowhere.jsonl")


def test_a_folder_that_is_no_export_is_never_replaced(db, header, tmp_path):
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "thesis.tex").write_text("years of work", encoding="utf-8")
    with pytest.raises(InputError, match="is not overwritten"):
        export_set(db, "math", mine, "hf", overwrite=True)
    assert (mine / "thesis.tex").read_text(encoding="utf-8") == "years of work"


@pytest.mark.parametrize("form", FORMS)
def test_an_export_that_fails_leaves_the_old_one(db, header, tmp_path, monkeypatch, form):
    name = FORMS[form]
    export_set(db, "math", tmp_path / name, form)

    def fail(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("rephraser.sets.export.likeness", fail)
        with pytest.raises(InputError, match=r"No space left on device.*No partial file was left"):
            export_set(db, "math", tmp_path / "new" / name, form)
        assert not (tmp_path / "new" / name).exists()
        with pytest.raises(InputError, match="No space left"):
            export_set(db, "math", tmp_path / name, form, overwrite=True)
    back = import_set(db, read_set(tmp_path / name), "copy").header
    assert back.content_hash == header.content_hash
    assert list(tmp_path.glob(".*")) == []


def test_the_data_set_loads_offline_with_typed_columns(db, header, tmp_path, monkeypatch):
    from datasets import List, Value, load_dataset

    export_set(db, "math", tmp_path / "out", "hf")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    loaded = load_dataset(str(tmp_path / "out"), split="train", cache_dir=str(tmp_path / "cache"))
    assert loaded.num_rows == 3
    assert loaded.features["answer"] == Value("string")
    assert isinstance(loaded.features["neighbors"], List)
    assert loaded.features["neighbors"].feature["posterior"] == Value("float64")
    assert loaded.features["neighbors"].feature["reviewed"] == Value("bool")
    assert loaded.features["neighbors"].feature["neighbor_right"] == Value("int64")
    assert loaded[0]["question"] == ODD
    assert [neighbor["posterior"] for neighbor in loaded[0]["neighbors"]] == [None, None]
    assert [image.size for image in loaded[0]["images"]] == [(8, 6), (8, 6)]
    assert loaded[0]["images"][0].convert("RGB").getpixel((4, 3)) == (255, 0, 0)
    assert loaded[1]["images"] == []


def test_the_card(db, header, tmp_path):
    from huggingface_hub import DatasetCard

    export_set(db, "math", tmp_path / "out", "hf", license_name="cc-by-4.0")
    card = DatasetCard.load(tmp_path / "out" / "README.md")
    assert card.data.license == "cc-by-4.0"
    assert card.data.size_categories == ["n<1K"]
    assert card.data.configs[0]["data_files"][0]["path"] == "data/train-00000-of-00001.parquet"
    assert header.content_hash in card.text
    assert "Only 3 of 4 neighbors were accepted; the others: 1 unverified." in card.text
    assert "| unverified | 1 |" in card.text
    # Of four proposals three are judged and accepted: Clopper-Pearson gives (.025^(1/3), 1).
    assert "| all | 3 | 3 | 1 | 100.0% (95% interval 29.2% to 100.0%) |" in card.text
    assert "test/solver" in card.text
    assert "Success rates of test/solver: 100.0% on 1 neighbors, 50.0% on their questions." in card.text
    assert "1 easier, 0 level, 0 harder" in card.text
    assert make_spec().strategies[0].hash in card.text
    assert '"accept_overlap": 9' in card.text
    assert "load_dataset(" in card.text
    assert "- `images` of the question and its neighbors" in card.text


def test_a_tag_and_the_cells_of_tables_cannot_break_the_card(db, tmp_path):
    asked: list[Asked] = [("Halve 8.", "4", [Proposed("Half of 8?", strategy="a|b\nc")])]
    add_run(db, "odd", asked)
    publish(db, "odd", run="odd")
    export_set(db, "odd", tmp_path / "out", "hf")
    assert "| a\\|b c | 1 |" in (tmp_path / "out" / "README.md").read_text(encoding="utf-8")


SCRIPT = """
from rephraser.sets.reimport import read_published

def read(*arguments):
    return [entry.question.id for entry in read_published(*arguments)]
"""


@pytest.mark.slow
def test_a_pushed_set_is_read_from_the_hub_then_from_the_cache(db, header, tmp_path):
    export_set(db, "math", tmp_path / "set", "hf")
    ids = [entry.question.id for entry in read_published(str(tmp_path / "set"))]
    apples, pears = "me/apples", "me/pears"
    with serve_hub({apples: HubSet.of(tmp_path / "set")}) as hub:
        newest, tagged, old, other = in_own_process(
            SCRIPT, hub.address, tmp_path, [apples], [apples, "v1"], [apples, "v9"], [pears]
        )
    assert (newest, tagged) == (ids, ids)
    assert 'the Hub has no revision "v9"' in old["message"]
    assert "no such dataset on the Hub" in other["message"]
    assert list(tmp_path.glob(f"hub/datasets--me--apples/snapshots/{COMMIT}/data/*.parquet"))
    assert not list(tmp_path.glob("hub/**/README.md"))  # nothing but what is read
    cached, other = in_own_process(SCRIPT, hub.address, tmp_path, [apples, COMMIT], [pears])
    assert cached == ids
    assert other["error"] == "PrerequisiteError"
    assert other["message"].startswith("me/pears: there is no such file, and no dataset of this name")


KILLED_AT = """
import os, signal, sys
from pathlib import Path
from typing import Literal
from service import writing
from service.database import Database
from rephraser.sets.export import export_set
from rephraser.sets.reimport import import_set
from rephraser.sets.store import list_sets
from rephraser.sets.store import load_set
from rephraser.sets.publish import publish
from rephraser.sets.reimport import read_set
from rephraser.sets.store import verify
from rephraser.sets import store

def killed_after(module, name):
    original = getattr(module, name)
    def call(*arguments):
        original(*arguments)
        os.kill(os.getpid(), signal.SIGKILL)
    setattr(module, name, call)

db = Database.open(sys.argv[1])
"""


def run_until_killed(db: Database, code: str, *arguments: str) -> None:
    ended, _, errors = Forked(db.place, *arguments, code=KILLED_AT + code).end()
    assert ended == -signal.SIGKILL, errors


@pytest.mark.slow
def test_a_killed_publication_leaves_no_member(db):
    run_until_killed(db, "killed_after(store, '_insert_members'); publish(db, 'math', run='run')")
    with db.read() as session:
        assert list_sets(session) == []
        for table in ("neighbor_set_questions", "neighbor_set_members"):
            assert session.execute(text(f"SELECT count(*) FROM {table}")).scalar() == 0
    assert db.integrity_report() == []
    assert publish(db, "math", run="run").header.ref == "math@1"


@pytest.mark.slow
@pytest.mark.parametrize(("form", "name"), [("hf", "out"), ("parquet", "out.parquet")])
def test_a_killed_export_is_not_there(db, tmp_path, form, name):
    header = publish(db, "math", run="run").header
    target = tmp_path / name
    code = f"killed_after(writing, '_sync'); export_set(db, 'math', Path(sys.argv[2]), {form!r})"
    run_until_killed(db, code, str(target))
    assert not target.exists()
    export_set(db, "math", target, form)
    assert import_set(db, read_set(target), "copy").header.content_hash == header.content_hash
