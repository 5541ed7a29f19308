"""Questions with images imported from rows: from files beside them, from bytes, and what is refused."""

import base64
import os
from pathlib import Path
from typing import Any

import pytest
from importing import import_questions
from json_rows import write_rows
from pictures import picture, png
from sqlalchemy import text

from service.database import Database
from service.questions.images import ImageProblem, RowImages, load_images, order_numbered, read_image
from service.questions.store import load_question_set

RED, BLUE = picture("red"), picture("blue", kind="JPEG")
RED_ID, BLUE_ID = read_image(RED).id, read_image(BLUE).id
ASKED = {"question": "Find x in <image>.", "answer": "2"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder of images; beside it one that no row may reach."""
    top = tmp_path_factory.mktemp("rows")
    (top / "in" / "pictures").mkdir(parents=True)
    (top / "in" / "pictures" / "red.png").write_bytes(RED)
    (top / "in" / "blue.wrong").write_bytes(BLUE)  # the name says nothing
    (top / "in" / "bomb.png").write_bytes(png(50_000, 50_000))
    (top / "in" / "drawn.svg").write_bytes(b"<svg><script>1</script></svg>")
    (top / "secret.png").write_bytes(RED)
    (top / "in" / "link.png").symlink_to(top / "secret.png")
    (top / "in" / "loop.png").symlink_to("loop.png")
    with (top / "in" / "huge.png").open("wb") as file:
        file.truncate(100_000_000)
    os.mkfifo(top / "in" / "pipe.png")
    return top / "in"


def test_rows_of_a_file_name_images_beside_it(folder: Path, tmp_path: Path) -> None:
    source = write_rows(
        folder / "rows.jsonl",
        {**ASKED, "images": "pictures/red.png"},
        {"question": "Find x.", "answer": "3", "images": ["pictures/red.png", "blue.wrong"]},
        {
            "question": "In <image 2>, not <image 1>.",
            "answer": "4",
            "images": ["blue.wrong", "pictures/red.png"],
        },
        {"question": "What is 1+1?", "answer": "2", "images": []},
        {**ASKED, "images": [{"bytes": None, "path": "blue.wrong"}]},
        {**ASKED, "images": "data:image/png;base64," + base64.b64encode(RED).decode()},
    )
    with Database.open(tmp_path / "t.db") as db:
        report = import_questions(db, source)
        again = import_questions(db, source)
        with db.read() as session:
            questions = load_question_set(session, "rows")
            images = load_images(session, [RED_ID, BLUE_ID])
            whole = session.execute(text("SELECT count(*), sum(size) FROM images")).one()
    assert [question.images for question in questions] == [
        (RED_ID,),
        (RED_ID, BLUE_ID),
        (RED_ID, BLUE_ID),
        (),
        (BLUE_ID,),
    ]
    assert [question.text for question in questions[1:3]] == [
        "<image><image>Find x.",
        "In <image>, not <image>.",
    ]
    assert report.duplicates == ((5, 0),)  # the same question with the same picture
    assert not report.likeness.conflicts
    assert not report.likeness.near_duplicates
    assert (report.images, report.new_images, report.spec["images"]) == (2, 2, 2)
    assert (again.created, again.new_images) == (False, 0)
    assert [images[RED_ID].data, images[BLUE_ID].data] == [RED, BLUE]
    assert tuple(whole) == (2, len(RED) + len(BLUE))


@pytest.mark.parametrize(
    ("images", "reason"),
    [
        (
            "https://example.org/a.png",
            "is an address (https://example.org/a.png), which tagrpo does not fetch",
        ),
        ("file:///etc/passwd", "is an address"),
        ("//host/share.png", "is an address"),
        ("../secret.png", "Give a path below the folder"),
        ("pictures/../../secret.png", "Give a path below the folder"),
        ("..\\secret.png", "Give a path below the folder"),
        ("/etc/hostname", "Give a path below the folder"),
        ("red.png\0.txt", "Give a path below the folder"),
        ("link.png", "a link to a place outside"),
        ("missing.png", "there is no such file"),
        ("loop.png", "which is not a file path"),
        ("p" * 5_000, "which is not a file path"),
        ("pictures", "there is no such file"),
        ("pipe.png", "there is no such file"),
        ("huge.png", "has more than 20 MB"),
        ("bomb.png", "50000x50000 pixels"),
        ("drawn.svg", "is an SVG"),
        ("data:image/png;base64,????", "damaged base64"),
        ("data:image/png;base64,é", "damaged base64"),
        ("data:text/html,<b>", "address without base64"),
        (["pictures/red.png", "missing.png"], "image 2 names"),
        (["pictures/red.png"] * 65, "contains 65 images, more than the limit of 64"),
        ([["pictures/red.png"]], "is a nested list"),
        (7, "not an image. Name another column with --images-column"),
        ({"url": "https://example.org"}, "is an object, not an image"),
    ],
)
def test_what_is_no_image_is_refused(folder: Path, images: Any, reason: str) -> None:
    with pytest.raises(ImageProblem) as problem:
        RowImages(folder).take(images)
    assert reason in str(problem.value)


def test_numbers_in_a_text_name_images() -> None:
    assert order_numbered("A <image1> B <image2>", ["a", "b"]) == ("A <image> B <image>", ("a", "b"))
    assert order_numbered("A <image_2> B <image 2>", ["a", "b"]) == ("A <image> B <image>", ("b", "b"))
    assert order_numbered("The tag <image1>", []) == ("The tag <image1>", ())
    # One picture that shows what all numbers name: 335 of MathVision's 3,040 questions.
    assert order_numbered("The ant <image1> goes home <image2>", ["a"]) == (
        "The ant <image1> goes home <image2>",
        ("a",),
    )
    with pytest.raises(ImageProblem, match="contains 2 for a text that refers to image 3"):
        order_numbered("<image1> <image3>", ["a", "b"])
