"""The page "Rollouts": steps and their groups, one group with its responses, two steps, over training."""

import re
from functools import partial

import pytest
from pages import numbers, open_page, said, tables
from rescues import write_rescues
from rollout_shards import add_training, make_record
from sqlalchemy import text
from training_pages import QUESTIONS, STEPS, trainings

from service.database import Database
from trainer_adapter.record import RolloutWriter
from trainer_adapter.record.listing import RolloutFilters, list_rollouts
from trainer_adapter.record.reading import Record
from trainer_adapter.record.rollout import TokenRatios
from ui.pages.rollouts.token_shading import tokens_html

QUESTION = f"q_{0:024x}"


@pytest.fixture
def filled(built):
    return built(trainings)


opened = partial(open_page, "rollouts")


def test_a_run_opens_with_its_steps_and_the_first_groups(filled):
    app = opened(filled)
    assert app.selectbox[0].value == "joint"  # the newest
    assert numbers(app)["groups"] == f"{QUESTIONS * STEPS}"
    assert numbers(app)["mixed"] == "100.0%"
    assert len(tables(app)[0]) == 25
    assert "25 of 48 groups" in said(app)


def test_a_link_to_what_is_not_there_says_what_is_shown_instead(filled):
    assert "no training run with rollouts gone here" in opened(filled, run="gone").warning[0].value
    assert "at step 77 here" in opened(filled, run="plain", q=QUESTION, at="77").warning[0].value
    notes = [warning.value for warning in opened(filled, step=999, kind="gone").warning]
    assert ["step 999" in notes[0], "all steps" in notes[0], "gone" in notes[1]] == [True] * 3
    assert "step 999" in opened(filled, step=999, text="a").warning[0].value
    assert not opened(filled, run="plain", step=2, kind="mixed").warning


@pytest.fixture
def own(tmp_path):
    """A copy that a test may change: the database names its folders."""
    return trainings(tmp_path)


def test_damaged_files_are_named_and_the_rest_is_shown(own):
    step, texts = (own.parent / "plain" / f"{kind}-00000002.parquet" for kind in ("step", "texts"))
    whole = texts.read_bytes()
    texts.write_bytes(whole[: len(whole) // 2])
    app = opened(own, run="plain", q=QUESTION, at="2", r0="1")
    assert str(texts) in "".join(error.value for error in app.error).replace("\\", "")
    assert len(tables(app)) == 2  # headers
    texts.unlink()
    step.write_bytes(b"")
    app = opened(own, run="plain")
    assert str(step) in "".join(error.value for error in app.error).replace("\\", "")
    assert len(tables(app)[0]) == 25
    app = opened(own, run="plain", text="boxed")
    assert "No matching responses" not in said(app)


def test_a_folder_that_was_moved_is_named_with_the_way_out(own):
    (own.parent / "joint").rename(own.parent / "elsewhere")
    app = opened(own, run="joint")
    words = "".join(error.value for error in app.error).replace("\\", "").replace("\u2060", "")
    assert str(own.parent / "joint") in words
    assert "tagrpo train rollouts joint=FOLDER --add" in words
    assert numbers(opened(own, run="plain"))["groups"] == f"{QUESTIONS * STEPS}"
    with Database.open(own) as db:
        add_training(db, own.parent / "elsewhere")
    assert numbers(opened(own, run="joint"))["groups"] == f"{QUESTIONS * STEPS}"


def test_the_address_filters_by_step_and_kind(filled):
    app = opened(filled, run="plain", step="2", kind="mixed")
    assert set(tables(app)[0]["step"]) == {"2"}
    app = opened(filled, run="plain", step="2", kind="all wrong")
    assert "No group matches\\." in "".join(text.value for text in app.markdown)
    for step in ("nonsense", "9" * 5000):
        app = opened(filled, run="plain", step=step, kind="<b>", after="x:y")
        assert len(tables(app)[0]) == 25
    assert "No matching responses" in said(opened(filled, run="plain", text="x" * 2000))
    assert len(tables(opened(filled, run="plain", q=QUESTION, at="9" * 5000))) == 2  # the newest step


def test_a_group_shows_its_prompts_as_columns_and_a_response(filled):
    app = opened(filled, run="plain", q=QUESTION, at="2", r0="1")
    original, neighbor = tables(app)
    assert list(original) == ["response", "answer", "reward", "advantage", "tokens", "log-ratio"]
    assert list(original["response"]) == ["✓ 1", "✗ 2", "✗ 3", "✓ 4"]
    assert list(neighbor["response"]) == ["✗ 1", "✗ 2", "✓ 3", "✗ 4, cut"]
    assert list(original["advantage"]) == ["1.500", "−0.500", "−0.500", "1.500"]
    assert original["log-ratio"][0] == "0.100"
    assert "Step 2" in "".join(text.value for text in app.markdown)
    assert not app.code
    app.toggle(key="bound:prompts").set_value(True).run()
    assert len(app.code) == 2
    assert "3 of 8 correct" in said(app)


def test_tokens_are_shaded_where_they_were_recorded(filled):
    app = opened(filled, run="plain", q=QUESTION, at="2", r1="1")
    assert "Shade tokens by log-ratio" not in [toggle.label.replace("\\", "") for toggle in app.toggle]
    app = opened(filled, run="joint", q=QUESTION, at="2", r1="1")
    assert not shaded(app)
    (toggle,) = [toggle for toggle in app.toggle if "Shade tokens" in toggle.label]
    toggle.set_value(True).run()
    assert app.query_params["shade"] == "1"
    first, middle, last = shaded(app)
    assert first[:2] == ("n5", "\u22122.500")
    assert first[2].startswith("Step 2: it is \\boxed")
    assert middle[:2] == ("", "+0.000")
    assert last == ("p1 empty", "+0.400", "∎")
    assert "3 tokens; log-ratio −3.000 nats in total, −2.500 to +0.400 per token" in said(app)


def shaded(app):
    """Return class, hint and text of each shaded token of the responses that are read."""
    bodies = "".join(one.proto.body for one in app.get("html"))
    return re.findall("<span class='([^']*)' title='([^']*)'>([^<]*)</span>", bodies)


def test_tokens_are_text_whatever_they_hold():
    hostile = "<b onload=a()>\u202e'\"</span><img src=x>"
    body = tokens_html(hostile, TokenRatios((3, 30, len(hostile) - 33), (-9.0, None, 0.1)), 1000)
    assert re.findall("<[^>]*>", body) == [
        "<div class='tokens'>",
        *("<span class='n6' title='\u22129.000'>", "</span>"),
        *("<span>", "</span>"),
        *("<span class='' title='+0.100'>", "</span>"),
        "</div>",
    ]
    assert "\u202e" not in body
    assert "&lt;img" in body


def test_two_steps_stand_beside_each_other(filled):
    app = opened(filled, run="plain", q=QUESTION, at="2", to="5")
    assert len(tables(app)) == 4
    heads = [text.value.split("**")[1] for text in app.markdown if text.value.startswith("**")]
    assert heads == [f"{name}\\, step {step}" for name in ("Original", "Neighbor 1") for step in (2, 5)]


def test_a_link_from_a_question_opens_a_run_that_has_it(own, tmp_path):
    """The newest run may have been trained on other questions."""
    with RolloutWriter(tmp_path / "newest", "newest") as writer:
        writer.write(1, [make_record(1, 99)])
    with Database.open(own) as db:
        add_training(db, tmp_path / "newest")
        with db.write() as session:
            session.execute(text("UPDATE runs SET created_at = '2099' WHERE name = 'newest'"))
    assert opened(own).selectbox[0].value == "newest"
    assert opened(own, q=QUESTION).selectbox[0].value == "joint"
    app = opened(own, q=QUESTION, run="newest")
    assert "This question has no rollouts in this run" in said(app)
    assert "these runs have some" in said(app)


def test_responses_are_searched_and_a_click_opens_the_group_with_the_response(filled):
    record = Record(filled.parent / "plain")
    last = list_rollouts(record, RolloutFilters(step=STEPS), limit=1).rollouts[0]
    text = record.rollout(last.id).response
    app = opened(filled, run="plain", text=text.upper(), step=str(STEPS))
    (table,) = tables(app)
    assert last.id in list(table["rollout"])
    assert set(table["step"]) == {str(STEPS)}
    assert not opened(filled, run="plain", text=text, grade="unknown").exception
    assert "No matching responses" in said(opened(filled, run="plain", text="nowhere to be read"))


def test_a_training_in_stages_shows_whom_neighbors_rescued(tmp_path):
    path = tmp_path / "t.db"
    with Database.open(path) as db:
        add_training(db, write_rescues(tmp_path / "rescue"))
    app = opened(path)
    shown = numbers(app)
    assert (shown["all wrong"], shown["rescued"]) == ("66.7%", "50.0%")
    assert (shown["first stage"], shown["more to questions"], shown["to neighbors"]) == ("24", "8", "16")
    assert shown["weight"] == "0.395"
    rescued, never = tables(app)[1]["correct responses to neighbors"]
    assert rescued == "format 2/2, paraphrase 0/4, rename 0/2"
    assert list(tables(opened(path, outcome="never rescued"))[1]["correct responses to neighbors"]) == [never]
    app = opened(path, outcome="x", following="y", before="9:z")
    assert len(tables(app)[1]) == 2
    next(button for button in app.button if button.key == "following-back").click().run()
    assert [name for name in ("before", "following") if name in app.query_params] == ["before"]
