"""Questions with images imported from rows: from files beside them, from bytes, and what is refused."""

import base64
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from command_line import run_here
from importing import import_questions
from json_rows import write_rows
from pictures import picture, png
from sqlalchemy import text

from service.database import Database
from service.errors import InputError
from service.questions import Columns, ImportReport, hub
from service.questions.images import ImageProblem, RowImages, load_images, order_numbered, read_image
from service.questions.store import load_question_set

RED, BLUE = picture("red"), picture("blue", kind="JPEG")
RED_ID, BLUE_ID = read_image(RED).id, read_image(BLUE).id
ASKED = {"question": "Find x in <image>.", "answer": "2"}

Read = Callable[..., ImportReport]


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
        (7, "not an image. Choose another column with --images-column"),
        ({"url": "https://example.org"}, "is an object, not an image"),
    ],
)
def test_what_is_no_image_is_refused(folder: Path, images: Any, reason: str) -> None:
    with pytest.raises(ImageProblem) as problem:
        RowImages(folder).take(images)
    assert reason in str(problem.value)


def test_a_row_that_is_refused_leaves_nothing_behind(folder: Path, tmp_path: Path) -> None:
    good = {"question": "See <image>.", "answer": "1", "images": "pictures/red.png"}
    source = write_rows(
        folder / "rows.jsonl",
        good,
        {**ASKED, "images": "bomb.png"},
        {**ASKED, "images": ["pictures/red.png"] * 2},
        {**ASKED, "images": 7},
    )
    with Database.open(tmp_path / "t.db") as db:
        with pytest.raises(InputError) as error:
            import_questions(db, source)
        with db.read() as session:
            assert session.scalar(text("SELECT count(*) FROM images")) == 0
    assert 'rows.jsonl:2: "images": "bomb.png" is 50000x50000 pixels' in str(error.value)
    assert 'rows.jsonl:3: "images" contains 2 images for a text with 1 <image>' in str(error.value)
    assert 'rows.jsonl:4: "images": is a number, not an image' in str(error.value)


def test_a_column_is_named_or_looked_for(folder: Path, tmp_path: Path) -> None:
    source = write_rows(
        folder / "rows.jsonl",
        {**ASKED, "image": "not the one", "decoded_image": "blue.wrong", "figure": "pictures/red.png"},
    )
    with Database.open(tmp_path / "t.db") as db:
        usual = import_questions(db, source, name="usual")
        named = import_questions(db, source, name="named", columns=Columns(images="figure"))
        assert (usual.columns.images, named.columns.images) == ("decoded_image", "figure")
        none = import_questions(db, source, name="none", columns=Columns(images=""))
        assert (none.columns.images, none.images) == (None, 0)
        with db.read() as session:
            assert load_question_set(session, "named")[0].images == (RED_ID,)
    with (
        pytest.raises(InputError, match=r'no column "shape" \(--images-column\)'),
        Database.open(tmp_path / "u.db") as db,
    ):
        import_questions(db, source, columns=Columns(images="shape"))


def test_a_text_that_speaks_of_images_it_has_not_is_named(folder: Path, tmp_path: Path) -> None:
    source = write_rows(
        folder / "rows.jsonl", {**ASKED, "picture": "blue.wrong"}, {"question": "1+1?", "answer": "2"}
    )
    with Database.open(tmp_path / "t.db") as db:
        assert import_questions(db, source).unpictured == (0,)
        assert import_questions(db, source, name="n", columns=Columns(images="picture")).unpictured == ()


def test_a_csv_cell_holds_a_path_or_a_list(folder: Path) -> None:
    images = RowImages(folder)
    assert images.take("pictures/red.png") == (RED_ID,)
    assert images.take('["pictures/red.png", "blue.wrong"]') == (RED_ID, BLUE_ID)
    assert images.take("") == images.take(float("nan")) == images.take(None) == ()
    with pytest.raises(ImageProblem, match="is not a list in JSON"):
        images.take("[pictures/red.png")


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


def data_set() -> Any:
    """Return rows as data sets with pictures have them, one of which does not decode."""
    import datasets

    features = datasets.Features(
        {
            "images": datasets.List(datasets.Image()),
            "problem": datasets.Value("string"),
            "answer": datasets.Value("string"),
        }
    )
    rows = [
        {"images": [{"bytes": RED, "path": None}], "problem": "<image>Find x.", "answer": "2"},
        {"images": [{"bytes": b"no image", "path": "a.png"}], "problem": "<image>Find y.", "answer": "3"},
        {"images": [{"bytes": None, "path": "/etc/hostname"}], "problem": "<image>Find z.", "answer": "3"},
        {"images": [], "problem": "What is 1+1?", "answer": "2"},
    ]
    return datasets.Dataset.from_list(rows, features=features)


def test_rows_of_the_hub_are_read_without_decoding_them() -> None:
    rows = list(hub._rows("org/name[train]", [data_set()], None))
    images = RowImages(None)
    assert images.take(rows[0].values["images"]) == (RED_ID,)
    assert next(images.read([RED_ID])).data == RED
    with pytest.raises(ImageProblem, match="is not a PNG"):
        images.take(rows[1].values["images"])
    with pytest.raises(ImageProblem, match="rows of the Hub must contain their images"):
        images.take(rows[2].values["images"])
    assert images.take(rows[3].values["images"]) == ()


def test_a_parquet_file_of_datasets_is_imported_with_its_bad_rows_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data_set().to_parquet(tmp_path / "geo.parquet")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TAGRPO_DB", str(tmp_path / "t.db"))
    refused = run_here("questions", "import", "geo.parquet")
    assert refused.code == 2
    assert 'geo.parquet: row 1: "images": is not a PNG, JPEG, WebP or GIF' in refused.err
    assert 'geo.parquet: row 2: "images": names "/etc/hostname". Give a path below' in refused.err
    done = run_here("questions", "import", "geo.parquet", "--skip-bad-rows")
    assert done.code == 3
    assert "1 image, 1 new in the database" in done.out
    assert "images from images" in done.out
    listed = json.loads(run_here("questions", "list", "geo", "--json").out)["questions"]
    assert [question["images"] for question in listed] == [[RED_ID], []]
    shown = run_here("questions", "show", listed[0]["id"]).out
    assert f"<image 1: PNG 8x6, {len(RED)} bytes>Find x." in shown
    assert run_here("db", "check").code == 0
    assert run_here("db", "copy", "t.db", "copied.db").code == 0
    assert run_here("db", "check", "--db", "copied.db").code == 0
    with Database.open(tmp_path / "copied.db") as db, db.read() as session:
        assert load_images(session, [RED_ID])[RED_ID].data == RED
