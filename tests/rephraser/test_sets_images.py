"""Sets of questions with images: exported in every form, read back with the same ids and hash."""

from pathlib import Path
from typing import Any, Literal

import pytest
from pictures import picture
from runs import Proposed, add_run, open_empty

from rephraser import sets
from service.database import Database
from service.questions.images import load_images, read_image, store_images

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


@pytest.mark.parametrize(
    ("form", "name"), [("hf", "out"), ("parquet", "out.parquet"), ("jsonl", "out.jsonl")]
)
def test_an_export_holds_the_images_and_reads_back_to_the_same(
    source: Database, tmp_path: Path, form: Literal["hf", "parquet", "jsonl"], name: str
) -> None:
    header = sets.export_set(source, "geo@1", tmp_path / name, form)
    with open_empty(tmp_path / "other.db") as other:
        imported = sets.import_set(other, sets.read_set(tmp_path / name), "again")
        with other.read() as session, source.read() as original:
            again, first = sets.load_set(session, "again@1"), sets.load_set(original, "geo@1")
            images = load_images(session, [RED.id, BLUE.id])
            problems = sets.verify(session, again.header.id).problems
        assert not problems
    assert imported.header.content_hash == header.content_hash
    assert again.entries == first.entries
    assert images == {RED.id: RED, BLUE.id: BLUE}


def test_datasets_reads_pictures_out_of_the_folder(source: Database, tmp_path: Path) -> None:
    import datasets

    sets.export_set(source, "geo@1", tmp_path / "out", "hf")
    rows = datasets.load_dataset(str(tmp_path / "out"), split="train", cache_dir=str(tmp_path / "cache"))
    assert [image.size for image in rows[0]["images"]] == [(8, 6), (8, 6)]
    assert rows[0]["images"][0].convert("RGB").getpixel((4, 3)) == (255, 0, 0)
    assert rows[1]["images"] == []
    card = (tmp_path / "out" / "README.md").read_text("utf-8")
    assert "- `images` of the question and its neighbors" in card
