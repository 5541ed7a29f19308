"""The page "Questions" as a script: filtered by address, a question with its evidence and images."""

from functools import partial

import pytest
from pages import open_page, said, tables
from pictures import picture
from runs import Proposed, add_run, open_empty
from scripted import BAD_NUMBER, CHANGED, GOOD, OTHER, QUESTION, World, make_spec, proposals

from rephraser.sets.publish import publish
from service.database import Database
from service.questions.images import read_image, store_images
from service.questions.question import question_id
from service.runs.store import list_runs
from ui.pages.text import answers
from ui.pages.text.markup import safe_md
from ui.pages.widgets import pictures


def list_questions(folder):
    """45 questions; each third one has a rejected neighbor."""
    db = open_empty(folder / "t.db")
    verdicts = ["rejected" if n % 3 == 0 else "accepted" for n in range(45)]
    asked = [
        (f"What is ${n} + 1$?", str(n + 1), [Proposed(f"Add one to {n}.", (verdict,))])
        for n, verdict in enumerate(verdicts)
    ]
    add_run(db, "first", asked[:30], subject="Algebra", level="Level 1")
    add_run(db, "second", asked[30:], subject="Geometry", level="Level 2")
    db.close()


@pytest.fixture
def listed(copied):
    return copied(list_questions)


def fill(folder):
    """Two questions with neighbors of a model, answered by a solver: accepted, rejected, undecided ones."""
    world = World(
        folder,
        make_spec(n=3, rounds=1, content_attempts=1),
        (QUESTION, OTHER),
        proposed={QUESTION.id: [proposals(*GOOD, BAD_NUMBER)], OTHER.id: [proposals(CHANGED)]},
        answers={"the pen cost": "7", "A pen costs": "17", "x + 8": "11", "19": "12"},
    )
    world.work()
    world.db.close()


@pytest.fixture
def filled(copied):
    return copied(fill)


opened = partial(open_page, "questions")


def opens(app):
    return [button.key for button in app.button if button.label == "Open"]


@pytest.mark.parametrize(
    ("address", "number"),
    [
        ({"verdict": "rejected"}, "15 of 15"),
        ({"subject": "Geometry"}, "15 of 15"),
        ({"subject": "Geometry", "verdict": "rejected"}, "5 of 5"),
        ({"run": "first", "level": "Level 1"}, "15 of 30"),
        ({"q": "one to 44"}, "1 of 1"),
        ({"strategy": "nonsense"}, "15 of 45"),
    ],
)
def test_filters_stand_in_the_address(listed, address, number):
    assert number in said(opened(**address))


def test_a_question_shows_its_neighbors_with_what_speaks_for_and_against_them(filled):
    app = opened(id=QUESTION.id)
    assert "**Answer** 12" in said(app)
    chips = said(app)
    assert chips.count("accepted]") == 2
    assert chips.count("rejected]") == 1
    assert "number added" in chips
    assert "question, 32 responses" in "".join(one.proto.body for one in app.get("html"))
    assert sum("Responses" in str(group.options) for group in app.button_group) == 3
    only = opened(id=QUESTION.id, show="rejected")
    assert "accepted]" not in said(only)


def test_filters_that_narrow_a_questions_neighbors_are_named_and_members_of_a_set_marked(filled):
    with Database.open(filled) as db, db.read() as session:
        (run,) = [run.name for run in list_runs(session)]
    with Database.open(filled) as db:
        publish(db, "kept", run=run, n=1)
    app = opened(id=QUESTION.id, neighbors="kept@1")
    assert said(app).count("in kept@1") == 1
    assert said(app).count("accepted]") == 2
    assert "clear-neighbors" in [button.key for button in app.button]
    assert "in kept@1" not in said(opened(id=QUESTION.id))
    assert "run gone" in opened(id=QUESTION.id, run="gone").warning[0].value
    app = opened(id=QUESTION.id, run=run, nafter="1")
    (clear,) = [button for button in app.button if button.key == "clear-run"]
    clear.click().run()
    assert not {"run", "nafter"} & set(app.query_params)


def test_a_part_of_the_evidence_is_read_when_it_is_asked_for(filled):
    app = opened(id=OTHER.id)
    assert "answers in common" not in str(tables(app))
    app.button_group[-1].set_value("exchange").run()
    assert not app.exception
    codes = [one.value for one in app.code]
    assert any("A pen costs" in code for code in codes)  # the prompt
    assert proposals(CHANGED) in codes
    app.button_group[-1].set_value("responses").run()
    assert [next(iter(table["answer"])) for table in tables(app)] == ["17", "7"]
    assert all(len(table) > 6 for table in tables(app))
    app.query_params["read1"] = "2"
    app.run()
    assert safe_md("So it is $\\boxed{7}$.") in [one.value for one in app.markdown]
    app.button_group[-1].set_value("numbers").run()
    rows = dict(zip(*(tables(app)[0][name] for name in ("what", "value")), strict=True))
    assert rows["responses with a shared answer"] == "0"
    assert rows["cost of the request"] == "0.0050 USD"


def test_a_question_whose_gold_the_solvers_contradict_says_so_and_can_be_filtered(tmp_path):
    proposed = {QUESTION.id: [proposals(*GOOD)], OTHER.id: [proposals(CHANGED)]}
    spec, answers = make_spec(rounds=1, content_attempts=1), {"pen": "17", "19": "26"}
    world = World(tmp_path, spec, (QUESTION, OTHER), proposed=proposed, answers=answers)
    world.work()
    world.db.close()
    (note,) = [one.value for one in opened(tmp_path / "t.db", id=QUESTION.id).warning]
    assert "32 of 32 answers to the question and 24 of 24 to its accepted neighbors" in note
    assert "are 26" in note
    assert not opened(id=OTHER.id).warning
    assert opens(opened(gold="suspect")) == [f"open-{QUESTION.id}"]
    assert len(opens(opened())) == 2


def test_an_unknown_question_is_an_error_that_names_it(listed):
    app = opened(id="q_ffff")
    assert "q\\_ffff" in app.error[0].value


def test_answers_are_text_whatever_they_hold_and_the_rest_is_summed():
    counts = {"original_unparsed": 2, "candidate_unsettled": 3, "gold": 0}
    counts |= {"original": [30, *[1] * 9], "candidate": [2, *[0] * 9]}
    evidence = {"counts": {**counts, "classes": ["<img src=x>", *map(str, range(9))]}}
    html = answers.answers_html(evidence)
    assert "<img" not in html
    assert "&lt;img src=x&gt;" in html
    assert "4 other answers" in html
    assert "question, 41 responses" in html
    assert "neighbor, 5 responses" in html
    assert answers.answer_rows(evidence)[-2:] == [
        {"answer": "(no answer found)", "gold": False, "original": 2, "neighbor": 0},
        {"answer": "(comparison timed out)", "gold": False, "original": 0, "neighbor": 3},
    ]
    assert not answers.answer_rows({})


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


RED_KB, BLUE_KB = (f"{len(image.data) / 1e3:.1f} kB" for image in (RED, BLUE))
BOTH = [f"image 1: PNG 20x10, {RED_KB}", f"image 2: JPEG 8x6, {BLUE_KB}"]


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
