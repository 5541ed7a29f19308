"""Mixes: no overlaps, what is refused, what cannot be removed."""

import pytest

from rephraser.questions.mixing import mix_sets
from rephraser.questions.store import (
    Member,
    list_sets,
    load_question_set,
    members_hash,
    remove_set,
    store_set,
)
from service.database import Database
from service.errors import InputError, NotFoundError
from service.questions.question import make_question

NOUNS = ["lions", "tigers", "zebras", "otters", "badgers", "rabbits", "foxes", "wolves", "lizards", "parrots"]
VERBS = ["count", "weigh", "follow", "paint", "describe", "measure", "photograph"]


def text(number: int) -> str:
    noun, verb = NOUNS[number % 10], VERBS[number // 10 % 7]
    return f"{verb} the {noun}: {'abcdefghijklmnopqrstuvwxyz'[number % 26] * 30} and {number} more; how many?"


def store(db: Database, name: str, texts: list[str]) -> None:
    members = [Member(place, make_question(line, str(place))) for place, line in enumerate(texts)]
    digest = members_hash((member.position, member.question.id) for member in members)
    with db.write() as session:
        store_set(session, name, members, {"kind": "import", "content_hash": digest, "source": name})


@pytest.fixture
def db(tmp_path):
    with Database.open(tmp_path / "t.db") as database:
        store(database, "base", [text(number) for number in range(20)])
        store(database, "extra", [text(number) for number in range(100, 160)])
        yield database


def test_overlaps_with_the_base_and_inside_the_extra_set_are_passed_over(db):
    overlapping = [
        text(0),  # the same text, with another answer
        text(1).upper().replace(" ", "  "),  # but for blanks and case
        text(2).replace("how many?", "how many then?"),  # nearly the same
        text(500),
        text(500).replace("how many?", "how many now?"),
        text(600),
    ]
    store(db, "dirty", overlapping)
    report = mix_sets(db, "m", base="base", extra="dirty", chunk=2, chunks=1, seed=1)
    with db.read() as session:
        taken = {question.id for question in load_question_set(session, "m")[20:]}
    allowed = [make_question(line, str(position)).id for position, line in enumerate(overlapping)]
    assert len(taken & {allowed[3], allowed[4]}) == 1
    assert allowed[5] in taken
    with pytest.raises(
        InputError, match=r'"dirty" has only 2 questions that do not overlap .*2 identical, 2 near'
    ):
        mix_sets(db, "m3", base="base", extra="dirty", chunk=3, chunks=1, seed=1)
    assert report["spec"]["overlaps"]["same_text"] <= 2


def test_a_mix_of_equal_questions_returns_the_spec_that_is_stored(db):
    stored = mix_sets(db, "m", base="base", extra="extra", chunk=2, chunks=3, seed=1)
    again = mix_sets(db, "m", base="base", extra="extra", chunk=3, chunks=2, seed=1)
    assert (stored["created"], again["created"]) == (True, False)
    assert again["spec"] == stored["spec"]


def test_wrong_use_is_refused(db):
    with pytest.raises(NotFoundError, match='no question set "nothing"'):
        mix_sets(db, "m", base="base", extra="nothing", chunks=1, seed=0)
    with pytest.raises(InputError, match="cannot be mixed with itself"):
        mix_sets(db, "m", base="base", extra="base", chunks=1, seed=0)
    with pytest.raises(InputError, match="1 chunks of 0 questions"):
        mix_sets(db, "m", base="base", extra="extra", chunk=0, chunks=1, seed=0)


def test_what_a_set_was_mixed_from_stays(db):
    mix_sets(db, "mix", base="base", extra="extra", chunks=1, seed=0)
    for name in ("base", "extra"):
        with pytest.raises(InputError, match="sets were mixed from it: mix"), db.write() as session:
            remove_set(session, name)
    with db.write() as session:
        remove_set(session, "mix")
        remove_set(session, "base")
        assert [stored.name for stored, _, _ in list_sets(session)] == ["extra"]
