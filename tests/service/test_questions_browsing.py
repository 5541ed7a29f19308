"""Looking at sets and questions: pages by key, filters, prefixes of ids; removing a set."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy.orm import Session

from service.database import Database
from service.errors import InputError, NotFoundError
from service.questions import Member, load_members, make_question, mix_sets
from service.questions.browsing import Filters, find_question, list_sets, page, places
from service.questions.store import members_hash, remove_set, store_set

SPEC = {"kind": "import", "content_hash": "0", "source": "x"}


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    with Database.open(tmp_path / "t.db") as database:
        with database.write() as session:
            members = [
                Member(
                    number,
                    make_question(
                        f"Question {number} of 100%", str(number), f"Level {number % 3}", "Algebra"
                    ),
                    "no answer" if number == 4 else None,
                )
                for number in range(10)
            ]
            store_set(session, "one", members, SPEC)
            store_set(session, "two", members[3:6], SPEC)
        with database.read() as session:
            yield session


def positions(session: Session, filters: Filters, **paging: int) -> list[int]:
    found = page(session, "one", filters, **{"limit": 100, **paging})
    return [member.position for member in found.members]


def test_filters(session: Session) -> None:
    assert positions(session, Filters(level="Level 1")) == [1, 4, 7]
    assert positions(session, Filters(level="1")) == [1, 4, 7]
    assert positions(session, Filters(held=True)) == [4]
    assert positions(session, Filters(subject="algebra"), limit=2) == [0, 1]
    assert positions(session, Filters(search="QUESTION 7")) == [7]
    assert positions(session, Filters(search="100%")) == list(range(10))
    assert positions(session, Filters(search="1%0")) == []


def test_a_question_is_found_by_the_beginning_of_its_id(session: Session) -> None:
    question = make_question("Question 4 of 100%", "4")
    assert find_question(session, question.id).text == "Question 4 of 100%"
    assert find_question(session, question.id[2:14]).id == question.id
    assert [(place.set_name, place.position, place.held) for place in places(session, question.id)] == [
        ("one", 4, "no answer"),
        ("two", 4, "no answer"),
    ]
    with pytest.raises(InputError, match=r'several ids start with "q_": q_.*, \.\.\.\. Give more characters'):
        find_question(session, "q_")
    with pytest.raises(NotFoundError, match="no question has an id"):
        find_question(session, "q_zz")
    with pytest.raises(NotFoundError):
        find_question(session, "%")


def store(db: Database, name: str, *texts: str) -> int:
    """Store a set; return how many of its questions are new."""
    members = [Member(place, make_question(text, "1")) for place, text in enumerate(texts)]
    digest = members_hash((member.position, member.question.id) for member in members)
    with db.write() as session:
        spec = {"kind": "import", "content_hash": digest, "source": name}
        return store_set(session, name, members, spec)


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
