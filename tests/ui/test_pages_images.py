"""Images of questions on pages: from the database, of a bounded size, where their question stands."""

import pytest
from pages import open_page, said
from pictures import picture
from runs import Proposed, add_run, open_empty

from service.questions import question_id
from service.questions.images import read_image, store_images
from ui.pages.widgets import pictures

RED, BLUE = read_image(picture("red", (20, 10))), read_image(picture("blue", kind="JPEG"))
TEXT = "<image>Find $x$, not <image>."


def make(folder):
    db = open_empty(folder / "t.db")
    with db.write() as session:
        store_images(session, [RED, BLUE])
    asked = [(TEXT, "4", [Proposed("What is $x$ in <image>, not <image>?")]), ("What is 1+1?", "2", [])]
    add_run(db, "run", asked, images=[RED.id, BLUE.id])
    db.close()


@pytest.fixture
def database(copied):
    return copied(make)


def captions(app):
    return [caption.value for caption in app.caption if caption.value.startswith("image ")]


BOTH = [f"image 1: PNG 20x10, {len(RED.data)} bytes", f"image 2: JPEG 8x6, {len(BLUE.data)} bytes"]


def plain(texts):
    return [text.replace("\\", "").replace("\u2060", "") for text in texts]


def test_a_question_shows_its_images_in_order_and_a_reviewer_sees_them(database):
    app = open_page("questions", id=question_id(TEXT, "4", images=[RED.id, BLUE.id]))
    assert plain(captions(app)) == BOTH
    assert "<image>Find" in said(app)
    assert not captions(open_page("questions", id=question_id("What is 1+1?", "2")))
    app = open_page("review", database, review=True, run="run", reviewer="ada")
    assert plain(captions(app))[:2] == BOTH


def test_what_is_large_is_named_and_many_are_counted(database, monkeypatch):
    monkeypatch.setattr(pictures, "MOST_PIXELS", 100)
    monkeypatch.setattr(pictures, "MOST_PICTURES", 1)
    app = open_page("questions", id=question_id(TEXT, "4", images=[RED.id, BLUE.id]))
    assert not app.get("image")
    assert f"{BOTH[0]}, too large to show here" in said(app)
    assert "and 1 more images" in said(app)
