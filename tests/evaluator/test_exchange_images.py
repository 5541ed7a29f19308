"""Responses of other tools to questions with images: which picture makes which problem, there and back."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from eval_runs import add_eval_run
from json_rows import write_rows
from outside_runs import bring, nothing, stored
from pictures import picture
from runs import open_empty

from evaluator.evals.problems import make_problem
from evaluator.exchange.exporting import DATA_FILE, SamplesFormat, export_samples
from evaluator.exchange.files import open_responses
from evaluator.exchange.matching import FromFile, InBenchmark, survey
from evaluator.grading import AnswerKind
from service.database import Database
from service.errors import InputError
from service.questions.images import RowImages, data_address, load_headers, read_image, rows, store_images

RED, BLUE = read_image(picture("red")), read_image(picture("blue", kind="JPEG"))
BOTH = [make_problem("<image>Find x.", "2", images=[image.id]) for image in (RED, BLUE)]


@pytest.fixture
def other_db(tmp_path: Path) -> Iterator[Database]:
    with open_empty(tmp_path / "other.db") as database:
        yield database


def asked(**others: Any) -> dict[str, Any]:
    return {"question": "Find x.", "answer": "2", "response": "\\boxed{2}", **others}


def from_file(folder: Path) -> FromFile:
    return FromFile("own", AnswerKind.LATEX, RowImages(folder, "--column images=NAME", "--column images="))


@pytest.mark.parametrize("form", ["jsonl", "parquet", "hf"])
def test_what_is_exported_comes_back_in_another_database(
    form: SamplesFormat, db: Database, other_db: Database, tmp_path: Path
) -> None:
    with db.write() as session:
        store_images(session, [RED, BLUE])
    run = add_eval_run(db, "r", [(2, 1, 0)] * 3, problems=[*BOTH, make_problem("2+2?", "4")])
    target = tmp_path / "out"
    assert export_samples(db, run, target, form, overwrite=False, report=nothing) == 6
    path = target / DATA_FILE if form == "hf" else target.rename(target.with_suffix(f".{form}"))
    back = bring(other_db, open_responses([path]), matcher=from_file(tmp_path)).run
    assert stored(other_db, back) == stored(db, run)
    assert back.spec["problems_hash"] == run.spec["problems_hash"]
    with other_db.read() as session:
        assert load_headers(session, [RED.id, BLUE.id])
    if form != "jsonl":
        from datasets import load_dataset

        read = load_dataset("parquet", data_files=str(path), split="train", cache_dir=str(tmp_path / "cache"))
        assert [[image.size for image in row["images"]] for row in read][::2] == [[(8, 6)], [(8, 6)], []]


def test_the_same_words_below_another_picture_are_another_problem(
    tmp_path: Path, db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    decoded = []
    monkeypatch.setattr(rows, "read_image", lambda data: decoded.append(data) or read_image(data))
    path = write_rows(
        tmp_path / "r.jsonl",
        asked(image=data_address(RED), response=["\\boxed{2}", "\\boxed{3}"]),
        asked(image=data_address(BLUE)),
        asked(image=[data_address(RED)]),
        asked(),
    )
    matcher = from_file(tmp_path)
    run = bring(db, open_responses([path]), matcher=matcher).run
    assert [place.problem.images for place in matcher.placed()] == [(RED.id,), (BLUE.id,), ()]
    assert [row[0] for row in stored(db, run)] == [0, 0, 0, 1, 2]
    assert len(decoded) == 2  # in two passes over five responses


def test_images_are_left_out_where_that_is_said(tmp_path: Path) -> None:
    path = write_rows(
        tmp_path / "r.jsonl", asked(image="nowhere.png"), asked(image="https://example.org/a.png")
    )
    read = survey(open_responses([path], columns={"images": ""}).read(), from_file(tmp_path))
    assert dict(read.samples) == {0: 2}


@pytest.mark.parametrize(
    ("cell", "message"),
    [
        ("gone.png", r'r\.jsonl:1: its images cell names "gone\.png", but there is no such file'),
        ("https://example.org/a.png", "or pass --column images= to import only the texts; a benchmark"),
        (7, r"is a number, not an image\. Choose another column with --column images=NAME"),
        ([data_address(RED)] * 2, r"r\.jsonl:1: there are 2 images for a text with 1 <image>"),
    ],
)
def test_an_image_that_cannot_be_used_says_where_and_the_way_out(
    cell: Any, message: str, tmp_path: Path
) -> None:
    path = write_rows(tmp_path / "r.jsonl", {**asked(images=cell), "question": "Find x: <image>."})
    with pytest.raises(InputError, match=message):
        survey(open_responses([path]).read(), from_file(tmp_path))


def test_a_picture_alone_stands_inside_no_prompt(tmp_path: Path) -> None:
    alone = make_problem("<image>", "2", images=[RED.id])
    path = write_rows(
        tmp_path / "r.jsonl", {"question": "2+2?", "response": "4"}, {"id": alone.id, "response": "2"}
    )
    read = survey(open_responses([path]).read(), InBenchmark("b", [alone], "inside"))
    assert (dict(read.samples), read.unmatched.total()) == ({0: 1}, 1)


def test_images_of_a_benchmark_are_there_after_an_import(tmp_path: Path, db: Database) -> None:
    images = RowImages()
    images.take([RED.data, BLUE.data])
    other = make_problem("Is <image> red?", "no", images=[BLUE.id])
    path = write_rows(
        tmp_path / "r.jsonl", {"id": BOTH[0].id, "response": "2"}, {"question": "Is red?", "response": "no"}
    )
    run = bring(db, open_responses([path]), matcher=InBenchmark("b", [*BOTH, other], "text", images)).run
    assert [row[5] for row in stored(db, run)] == [BOTH[0].id, other.id]
    with db.read() as session:
        assert load_headers(session, [BLUE.id])
