"""Sets of questions with images: exported in every form, read back with the same ids and hash."""

import json
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pictures import picture
from runs import Proposed, add_run, open_empty

from rephraser import sets
from rephraser.sets.export import SPLIT_FILE
from rephraser.sets.types import SetEntry, set_hash
from service.database import Database
from service.questions import make_question
from service.questions.images import image_loader, load_images, read_image, store_images
from trainer_adapter.verl.export import export_verl
from trainer_adapter.verl.prompts import PromptTemplate

RED, BLUE = read_image(picture("red")), read_image(picture("blue", kind="JPEG"))
ASKED = [
    (
        "<image>Find x, not <image>.",
        "4",
        [Proposed("<image>What is x? Not <image>."), Proposed("<image><image>x=?")],
    ),
    ("What is 2+3?", "5", [Proposed("Add 2 and 3.")]),
]


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with open_empty(tmp_path_factory.mktemp("source") / "t.db") as db:
        with db.write() as session:
            store_images(session, [RED, BLUE])
        add_run(db, "run", ASKED, images=[RED.id, BLUE.id])
        sets.publish(db, "geo", run="run")
        yield db


def rows_of(path: Path) -> list[dict[str, Any]]:
    if path.suffix == ".jsonl":
        return [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    return pq.read_table(path / SPLIT_FILE if path.is_dir() else path).to_pylist()


@pytest.mark.parametrize(
    ("form", "name"), [("hf", "out"), ("parquet", "out.parquet"), ("jsonl", "out.jsonl")]
)
def test_an_export_holds_the_images_and_reads_back_to_the_same(
    source: Database, tmp_path: Path, form: str, name: str
) -> None:
    write = sets.export_hf if form == "hf" else partial(sets.export_file, form=form)
    report = write(source, "geo@1", tmp_path / name)
    with open_empty(tmp_path / "other.db") as other:
        imported = sets.import_set(other, sets.read_set(tmp_path / name), "again")
        with other.read() as session, source.read() as original:
            again, first = sets.load_set(session, "again@1"), sets.load_set(original, "geo@1")
            images = load_images(session, [RED.id, BLUE.id])
            problems = sets.verify(session, again.header.id).problems
        assert not problems
    assert imported.header.content_hash == report.header.content_hash
    assert again.entries == first.entries
    assert images == {RED.id: RED, BLUE.id: BLUE}


def test_datasets_reads_pictures_out_of_the_folder(source: Database, tmp_path: Path) -> None:
    import datasets

    sets.export_hf(source, "geo@1", tmp_path / "out")
    rows = datasets.load_dataset(str(tmp_path / "out"), split="train", cache_dir=str(tmp_path / "cache"))
    assert [image.size for image in rows[0]["images"]] == [(8, 6), (8, 6)]
    assert rows[0]["images"][0].convert("RGB").getpixel((4, 3)) == (255, 0, 0)
    assert rows[1]["images"] == []
    card = (tmp_path / "out" / "README.md").read_text("utf-8")
    assert "- `images` of the question and its neighbors" in card


def test_a_set_without_images_is_written_as_before(tmp_path: Path) -> None:
    with open_empty(tmp_path / "t.db") as db:
        add_run(db, "run", ASKED[1:])
        sets.publish(db, "sums", run="run")
        sets.export_hf(db, "sums@1", tmp_path / "out")
    assert "images" not in rows_of(tmp_path / "out")[0]
    assert "images" not in (tmp_path / "out" / "README.md").read_text("utf-8")


@pytest.mark.parametrize("layout", ["grouped", "flat"])
def test_verl_reads_the_images_of_each_row_at_their_places(
    source: Database, tmp_path: Path, layout: Any
) -> None:
    with source.read() as session:
        whole = sets.load_set(session, "geo@1")
    export_verl(
        whole.entries,
        tmp_path / "verl",
        layout=layout,
        template=PromptTemplate(),
        data_source="geo",
        set_ref="geo@1",
        content_hash="0",
        load_images=image_loader(source),
    )
    rows = rows_of(tmp_path / "verl" / "train.parquet")
    pictured = [row for row in rows if row["images"]]
    assert len(pictured) == {"grouped": 1, "flat": 3}[layout]
    for row in pictured:
        assert [image["bytes"] for image in row["images"]] == [RED.data, BLUE.data]
        assert row["prompt"][0]["content"].count("<image>") == 2
    assert next(row["images"] for row in rows if not row["images"]) == []
    if layout == "grouped":
        assert [messages[0]["content"].count("<image>") for messages in pictured[0]["neighbors"]] == [2, 2]


def test_questions_with_images_are_not_exported_without_them(source: Database, tmp_path: Path) -> None:
    with source.read() as session:
        whole = sets.load_set(session, "geo@1")
    with pytest.raises(ValueError, match="need load_images"):
        export_verl(
            whole.entries,
            tmp_path / "verl",
            template=PromptTemplate(),
            data_source="geo",
            set_ref="geo@1",
            content_hash="0",
        )
    assert not (tmp_path / "verl").exists()


def test_sets_of_the_same_texts_with_other_pictures_differ() -> None:
    def hash_with(*images: str) -> str:
        question = make_question("Find <image>x.", "4", images=images)
        return set_hash([SetEntry(question, ())])

    assert hash_with(RED.id) == hash_with(RED.id)
    assert hash_with(RED.id) != hash_with(BLUE.id)
