"""Images: what is read of them, what is refused and why, how they are stored and imported with rows."""

import base64
import io
import os

import pytest
from importing import import_questions
from json_rows import write_rows
from pictures import picture, png
from PIL import Image as Pillow
from PIL import ImageChops
from sqlalchemy import text
from sqlalchemy.exc import IntegrityError

from rephraser.questions.store import load_question_set
from service.database import Database
from service.errors import InputError, NotFoundError
from service.questions.images import (
    MOST_BYTES,
    ImageProblem,
    RowImages,
    image_problems,
    load_images,
    order_numbered,
    read_image,
    store_images,
)
from service.questions.question import make_question, question_id


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP"])
def test_an_image_without_metadata_keeps_its_bytes(kind):
    data = picture(size=(8, 6), kind=kind)
    image = read_image(data)
    assert image.data == data
    assert (image.media_type, image.width, image.height) == (f"image/{kind.lower()}", 8, 6)
    assert read_image(image.data).id == image.id
    assert image.id.startswith("img_")


def located(kind: str, orientation: int = 1) -> bytes:
    """Return a picture, upper half red and lower half blue, with EXIF that names a place."""
    exif = Pillow.Exif()
    exif[0x0112] = orientation
    exif[0x010F] = "Camera of Ann"
    exif.get_ifd(0x8825)[1] = "N"
    made = Pillow.new("RGB", (32, 64), "red")
    made.paste("blue", (0, 32, 32, 64))
    target = io.BytesIO()
    made.save(target, format=kind, exif=exif)
    return target.getvalue()


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP"])
def test_what_a_camera_writes_beside_the_picture_is_dropped_and_the_pixels_stay(kind):
    data = located(kind) + b"PK\3\4 something behind the end"
    image = read_image(data)
    assert b"Camera of Ann" in data
    assert b"Camera of Ann" not in image.data
    assert b"behind the end" not in image.data
    with Pillow.open(io.BytesIO(data)) as before, Pillow.open(io.BytesIO(image.data)) as after:
        difference = ImageChops.difference(before.convert("RGB"), after.convert("RGB"))
        assert max(high for _, high in difference.getextrema()) <= (8 if kind == "JPEG" else 0)
        assert not after.getexif()


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP"])
def test_a_picture_that_is_to_be_turned_is_turned(kind):
    image = read_image(located(kind, orientation=6))  # shown turned clockwise: blue is left
    assert (image.width, image.height) == (64, 32)
    with Pillow.open(io.BytesIO(image.data)) as after:
        red, green, blue = after.convert("RGB").getpixel((8, 16))
        assert blue > 200 > red + green
        assert not after.getexif()
    assert read_image(image.data).data == image.data


def animated(kind: str) -> bytes:
    return picture(kind=kind, save_all=True, append_images=[Pillow.new("RGB", (8, 6), "blue")], duration=9)


SVG = b'<?xml version="1.0"?>\n<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>'


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "is not a PNG, JPEG, WebP or GIF"),
        (b"not an image", "is not a PNG, JPEG, WebP or GIF"),
        (b"%PDF-1.7", "is not a PNG"),
        (SVG, "is not a PNG"),
        (png(60_000, 60_000), "exceeds limit"),
        (png(6_000, 6_000), "6000x6000 pixels, more than the limit of 33.6 million"),
        (png(1, 2**31 - 1), "exceeds limit"),
        (png(1, 20_000), "per side"),
        (png(0, 4), "is not a PNG"),
        (png(4, 4), "cannot be decoded"),
        (picture(kind="JPEG")[:-2], "cannot be decoded"),
        (picture(kind="JPEG")[:300], "cannot be decoded"),
        (picture(kind="WEBP")[:-4], "cannot be decoded"),
        (picture(kind="GIF")[:20], "is not a PNG"),
        (b"\x89PNG\r\n\x1a\n" + picture(kind="JPEG"), "is not a PNG"),
        (b"\xff\xd8\xff" + SVG, "is not a PNG"),
        (b"RIFF\x10\0\0\0WEBPVP8X\x0a\0\0\0", "cannot be decoded"),
        (animated("GIF"), "is animated"),
        (animated("PNG"), "is animated"),
        (animated("WEBP"), "is animated"),
        (b"\x89PNG\r\n\x1a\n" + bytes(MOST_BYTES), "is larger than 20 MB, the limit"),
    ],
)
def test_what_cannot_be_used_is_refused_with_the_reason(data, reason):
    with pytest.raises(ImageProblem) as problem:
        read_image(data)
    assert reason in str(problem.value)


def test_hostile_headers_of_every_format_ask_for_no_memory():
    wide = b"\x2f" + ((16_383 | 16_383 << 14).to_bytes(4, "little")) + bytes(8)
    lossless = b"WEBPVP8L" + len(wide).to_bytes(4, "little") + wide + b"\0"
    for data in (
        b"RIFF" + len(lossless).to_bytes(4, "little") + lossless,
        picture(kind="GIF")[:6] + b"\xff\xff\xff\xff" + picture(kind="GIF")[10:],
        picture(kind="JPEG").replace(b"\x08\x00\x06\x00\x08", b"\x08\xff\xff\xff\xff"),
    ):
        with pytest.raises(ImageProblem, match=r"pixels|cannot be decoded"):
            read_image(data)


def test_every_cut_and_many_changed_bytes_end_in_an_image_or_its_problem():
    for kind in ("PNG", "JPEG", "WEBP", "GIF"):
        data = located(kind) if kind != "GIF" else picture(kind=kind)
        for place in range(0, len(data), 7):
            changed = bytearray(data)
            changed[place] ^= 0x5A
            for hostile in (data[:place], bytes(changed)):
                try:
                    image = read_image(hostile)
                except ImageProblem:
                    continue
                assert read_image(image.data).data == image.data


def test_the_text_refers_to_images_in_order_and_the_id_knows_them():
    assert make_question("What is 1+1?", "2").id == question_id("What is 1+1?", "2", images=())
    two = make_question("In <image> and <image>, find x.", "2", images=["img_a", "img_b"])
    assert two.images == ("img_a", "img_b")
    assert two.id == question_id(two.text, "2", images=["img_a", "img_b"])
    assert two.id != question_id(two.text, "2", images=["img_b", "img_a"])
    assert two.id != question_id(two.text, "2")
    assert make_question("Find x.", "2", images=["img_a", "img_b"]).text == "<image><image>Find x."
    assert make_question("The tag <image> of HTML is?", "2").images == ()
    with pytest.raises(InputError, match="contains 2 images, but the text has 1 <image>"):
        make_question("See <image>.", "2", images=["img_a", "img_b"])
    with pytest.raises(InputError, match="contains 1 image, but the text has 2 <image>"):
        make_question("See <image> and <image>.", "2", images=["img_a"])


def test_stored_images_never_change_and_a_missing_one_is_named(tmp_path):
    red = read_image(picture("red"))
    with Database.open(tmp_path / "t.db") as db:
        with db.write() as session:
            assert store_images(session, [red, red]) == 1
        with db.read() as session:
            assert image_problems(session) == []
            with pytest.raises(NotFoundError, match="no image img_0"):
                load_images(session, ["img_0", red.id])
        with pytest.raises(IntegrityError, match="images is append-only"), db.write() as session:
            session.execute(text("UPDATE images SET width = 7"))


RED, BLUE = picture("red"), picture("blue", kind="JPEG")
RED_ID, BLUE_ID = read_image(RED).id, read_image(BLUE).id
ASKED = {"question": "Find x in <image>.", "answer": "2"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
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


def test_rows_of_a_file_name_images_beside_it(folder, tmp_path):
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
    assert report["duplicates"] == [{"row": 5, "earlier": 0}]  # the same question with the same picture
    assert report["conflicts"] == report["near_duplicates"] == []
    assert (report["images"], report["new_images"], report["spec"]["images"]) == (2, 2, 2)
    assert (again["created"], again["new_images"]) == (False, 0)
    assert [images[RED_ID].data, images[BLUE_ID].data] == [RED, BLUE]
    assert str(images[RED_ID]) == f"PNG 8x6, {len(RED) / 1e3:.1f} kB"
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
        ("../secret.png", "which is not a file inside the folder"),
        ("pictures/../../secret.png", "which is not a file inside the folder"),
        ("..\\secret.png", "which is not a file inside the folder"),
        ("/etc/hostname", "which is not a file inside the folder"),
        ("red.png\0.txt", "which is not a file inside the folder"),
        ("link.png", "which is not a file inside the folder"),
        ("missing.png", "which is not a file inside the folder"),
        ("loop.png", "which is not a file inside the folder"),
        ("p" * 5_000, "which is not a file inside the folder"),
        ("pictures", "which is not a file inside the folder"),
        ("pipe.png", "which is not a file inside the folder"),
        ("huge.png", "is larger than 20 MB"),
        ("bomb.png", "exceeds limit"),
        ("drawn.svg", "is not a PNG"),
        ("data:image/png;base64,????", "damaged base64"),
        ("data:image/png;base64,é", "damaged base64"),
        ("data:text/html,<b>", "is an address"),
        (["pictures/red.png", "missing.png"], "image 2 names"),
        (["pictures/red.png"] * 65, "contains 65 images, more than the limit of 64"),
        ([["pictures/red.png"]], "is a nested list"),
        (7, "not an image. Choose another column with --column images=NAME"),
        ({"url": "https://example.org"}, "not an image. Choose another column"),
    ],
)
def test_what_is_no_image_is_refused(folder, images, reason):
    with pytest.raises(ImageProblem) as problem:
        RowImages(folder).take(images)
    assert reason in str(problem.value)


def test_an_address_with_too_much_data_is_not_decoded():
    with pytest.raises(ImageProblem, match="is larger than 20 MB"):
        RowImages().take("data:image/png;base64," + "?" * (MOST_BYTES // 3 * 4 + 9))


def test_numbers_in_a_text_name_images():
    assert order_numbered("A <image1> B <image2>", ["a", "b"]) == ("A <image> B <image>", ("a", "b"))
    assert order_numbered("A <image_2> B <image 2>", ["a", "b"]) == ("A <image> B <image>", ("b", "b"))
    assert order_numbered("The tag <image1>", []) == ("The tag <image1>", ())
    # One picture that shows what all numbers name: 335 of MathVision's 3,040 questions.
    assert order_numbered("The ant <image1> goes home <image2>", ["a"]) == (
        "The ant <image1> goes home <image2>",
        ("a",),
    )
    with pytest.raises(ImageProblem, match="contains 2 images, but the text refers to image 3"):
        order_numbered("<image1> <image3>", ["a", "b"])


def test_a_cell_holds_a_path_a_list_or_nothing(folder):
    images = RowImages(folder)
    assert images.take("pictures/red.png") == (RED_ID,)
    assert images.take(["pictures/red.png", "blue.wrong"]) == (RED_ID, BLUE_ID)
    assert images.take("") == images.take(float("nan")) == images.take(None) == ()
    with pytest.raises(ImageProblem, match=r"names '\[\"pictures/red.png\"\]', which is not a file"):
        images.take('["pictures/red.png"]')
