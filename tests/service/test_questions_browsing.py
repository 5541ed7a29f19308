"""Looking at sets and questions: pages by key, filters, prefixes of ids."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy.orm import Session

from service.database import Database
from service.errors import InputError, NotFoundError
from service.questions import Member, make_question
from service.questions.browsing import Filters, find_question, page, places
from service.questions.store import store_set

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


def test_pages_follow_each_other_without_gap(session: Session) -> None:
    seen: list[int] = []
    after: int | None = -1
    while after is not None:
        found = page(session, "one", Filters(), limit=4, after=after)
        assert found.total == 10
        seen += [member.position for member in found.members]
        after = found.after
    assert seen == list(range(10))


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
