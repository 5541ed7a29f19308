"""Removing a question set: its name is free again, its questions stay, what builds on it too."""

import pytest

from service.database import Database
from service.errors import InputError
from service.questions import Member, load_members, make_question, mix_sets
from service.questions.browsing import list_sets
from service.questions.store import members_hash, remove_set, store_set


def store(db: Database, name: str, *texts: str) -> int:
    """Store a set; return how many of its questions are new."""
    members = [Member(place, make_question(text, "1")) for place, text in enumerate(texts)]
    digest = members_hash((member.position, member.question.id) for member in members)
    with db.write() as session:
        spec = {"kind": "import", "content_hash": digest, "source": name}
        return store_set(session, name, members, spec).new


def remove(db: Database, name: str) -> None:
    with db.write() as session:
        remove_set(session, name)


def sizes(db: Database) -> dict[str, int]:
    with db.read() as session:
        return {stored.name: members for stored, members, _ in list_sets(session)}


def test_a_removed_set_leaves_its_name_and_its_questions(db: Database) -> None:
    store(db, "kept", "What is 1?", "What is 2?")
    store(db, "wrong", "What is 2?", "What is 3?")
    remove(db, "wrong")
    assert sizes(db) == {"kept": 2}
    assert store(db, "wrong", "What is 3?", "What is 4?", "What is 5?") == 2  # 3 is there still
    assert sizes(db) == {"kept": 2, "wrong": 3}
    with db.read() as session:
        assert [member.question.text for member in load_members(session, "kept")] == [
            "What is 1?",
            "What is 2?",
        ]


def test_what_a_set_was_mixed_from_stays(db: Database) -> None:
    store(db, "base", "What is 1?", "What is 2?")
    store(db, "extra", "Count the lions of the zoo.")
    mix_sets(db, "mix", base="base", extra="extra", chunk=1, chunks=1, seed=0)
    for name in ("base", "extra"):
        with pytest.raises(InputError, match="sets were mixed from it: mix"):
            remove(db, name)
    remove(db, "mix")
    remove(db, "base")
    assert sizes(db) == {"extra": 1}
