"""Searching texts: a search finds what reading every text would find."""

from pathlib import Path

import pytest
from runs import Proposed, add_run, open_empty

from rephraser.views.questions import QuestionFilters, count_questions, page_questions, search_terms
from service.database import Database

TEXTS = [
    (r"Let $x = \frac{12}{7}$. What is $7x$?", "12", r"Given $\tfrac{12}{7} = x$, find $7 \cdot x$."),
    (r"[asy] draw((0,0)--(1,2)); [/asy] How long is it?", r"\sqrt{5}", "The segment's length, please"),
    ('He said "one_two" and 100% went.', "3", "Großer Preis, naïve café, 数学の問題"),
    ("a\nb\tc   d", "", "-- DROP TABLE questions; '\"' OR 1=1"),
    ("AND OR NOT NEAR(x y) *:^ text:", "ab", "  "),
    ("x" * 5000 + "needle", "1", "short"),
]


@pytest.fixture(scope="module")
def db(tmp_path_factory: pytest.TempPathFactory) -> Database:
    database = open_empty(tmp_path_factory.mktemp("search") / "t.db")
    add_run(database, "first", [(question, answer, [Proposed(other)]) for question, answer, other in TEXTS])
    return database


def found(db: Database, words: str) -> set[str]:
    with db.read() as session:
        page = page_questions(session, QuestionFilters(text=words))
        assert count_questions(session, QuestionFilters(text=words)) == (len(page.questions), True)
        return {one.question.text for one in page.questions}


def folded(words: str) -> str:
    """Fold ASCII letters only, as SQLite's LIKE does."""
    return "".join(one.lower() if one.isascii() else one for one in words)


def read_through(words: str) -> set[str]:
    terms = search_terms(words)
    return {row[0] for row in TEXTS if any(all(folded(term) in folded(one) for term in terms) for one in row)}


SEARCHES = r"""\frac{12}{7} \TFRAC 7x$ \cdot [asy] (0,0)-- "one_two" one_two oneXtwo 100% 100_ '"' text: NEAR(
*:^ -- GROßER café CAFÉ 数学の の問 題 ab x % _ needle xneedle yneedle \ '' "" " /"""


@pytest.mark.parametrize(
    "words",
    [*SEARCHES.split(), "b\tc", "a\nb", "   d", "OR 1=1", "AND OR NOT", "x" * 500, "x" * 500 + "needle"],
)
def test_any_part_of_a_text_is_found(db: Database, words: str) -> None:
    assert found(db, words) == read_through(words)


def test_words_must_all_stand_in_one_text(tmp_path: Path) -> None:
    db = open_empty(tmp_path / "t.db")
    add_run(db, "r", [("Parking costs 3. Ben has tickets.", "3", [Proposed("Cars are dear.")])])
    assert found(db, "tickets parking") == {"Parking costs 3. Ben has tickets."}
    assert found(db, '"tickets parking"') == set()
    assert found(db, "cars dear") == {"Parking costs 3. Ben has tickets."}
    assert found(db, "cars tickets") == set()
