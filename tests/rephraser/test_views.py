"""Questions and candidates over all runs: filters, pages, suspects, and searches in their texts."""

import json
from typing import Any

import pytest
from runs import Proposed, add_run, open_empty
from sqlalchemy import text

from rephraser.candidates import update_standings
from rephraser.questions.store import Member, store_set
from rephraser.sets.publish import publish
from rephraser.views.questions import (
    QuestionFilters,
    count_questions,
    find_suspects,
    page_questions,
    search_terms,
)
from rephraser.views.runs import finding_counts
from service.database import Database
from service.errors import NotFoundError
from service.questions.question import make_question

EVIDENCE = {"findings": [{"name": "unit_lost", "severity": "evidence", "detail": "km became m"}]}


@pytest.fixture
def db(tmp_path):
    """Nine questions with a candidate of each strategy, of which every third question's first is rejected."""
    database = open_empty(tmp_path / "t.db")
    asked = [
        (
            f"What is {n} + 1?",
            str(n + 1),
            [
                Proposed(f"Add one to {n}.", ("rejected" if n % 3 == 0 else "accepted",)),
                Proposed(f"{n} plus one?", ("undecided",), strategy="format", model="other/model"),
            ],
        )
        for n in range(9)
    ]
    add_run(database, "first", asked[:5], subject="Algebra", level="Level 1")
    add_run(database, "second", asked[5:], subject="Geometry", level="Level 2")
    return database


def matching(db: Database, **filters: Any) -> set[str]:
    """Return the texts of the questions that pass, read page by page; each must be there once."""
    with db.read() as session:
        found: list[str] = []
        after = None
        while True:
            page = page_questions(session, QuestionFilters(**filters), after=after, limit=2)
            found += [one.question.text for one in page.questions]
            after = page.after
            if after is None:
                break
        assert len(found) == len(set(found))
        assert count_questions(session, QuestionFilters(**filters)) == (len(found), True)
    return set(found)


def of(*numbers: int) -> set[str]:
    return {f"What is {n} + 1?" for n in numbers}


def test_filters_find_questions_with_a_candidate_that_meets_them_all(db):
    assert matching(db) == of(*range(9))
    assert matching(db, subject="Geometry") == of(5, 6, 7, 8)
    assert matching(db, subject="Geometry", level="Level 1") == set()
    assert matching(db, status="rejected") == of(0, 3, 6)
    assert matching(db, status="rejected", subject="Algebra") == of(0, 3)
    assert matching(db, status="rejected", strategy="perspectives") == of(0, 3, 6)
    assert matching(db, status="rejected", strategy="format") == set()  # never the same candidate
    assert matching(db, model="other/model") == of(*range(9))
    assert matching(db, strategy="nothing") == set()
    with db.write() as session:
        run_id = session.scalar(text("SELECT id FROM runs WHERE name = 'second'"))
        question = make_question("What is 6 + 1?", "7", "Level 2", "Geometry")
        store_set(session, "some", [Member(0, question)], {"content_hash": ""})
        session.execute(
            text(
                "INSERT INTO verdicts (candidate_id, run_id, status, reason, final, evidence, created_at) "
                "SELECT candidate_id, run_id, 'undecided', 'r', true, :e, '' FROM proposals "
                "WHERE question_id = :q AND strategy = 'format'"
            ),
            {"e": json.dumps(EVIDENCE), "q": question.id},
        )
        update_standings(session, list(session.scalars(text("SELECT id FROM candidates"))))
    publish(db, "ta", run="first", n=1)
    assert matching(db, run_id=run_id) == of(5, 6, 7, 8)
    assert matching(db, question_set="some") == of(6)
    assert matching(db, neighbor_set="ta@1") == of(*range(5))
    assert matching(db, neighbor_set="ta", status="rejected") == of(0, 3)
    assert matching(db, finding="unit_lost") == of(6)
    assert matching(db, finding="unit_lost", status="undecided", run_id=run_id) == of(6)
    assert matching(db, finding="unit_lost", strategy="perspectives") == set()
    with db.read() as session:
        assert finding_counts(session, str(run_id)) == {"unit_lost": 1}
        with pytest.raises(NotFoundError, match="no question set"):
            page_questions(session, QuestionFilters(question_set="none"))


def test_a_gold_is_suspect_if_the_solvers_agree_on_another_answer_everywhere(tmp_path):
    counts = {"wrong": (2, 1), "right": (28, 11), "wrong alone": (2, 11), "unsure": (10, 1)}
    with open_empty(tmp_path / "t.db") as db:
        for status in ("accepted", "rejected"):
            asked = [
                (f"{name}?", "1", [Proposed(f"{name} {n}", (status,), right=right) for n in range(2)])
                for name, right in counts.items()
            ]
            add_run(db, status, asked)
        with db.read() as session:
            [suspect] = find_suspects(session)
    sides = {"question_agreeing": 29, "question_drawn": 32, "neighbor_agreeing": 22, "neighbor_drawn": 24}
    named = {"question": "wrong?", "agreed": "other", "run": "accepted", "neighbors": 2, "gold_given": 4}
    assert suspect.items() >= {**sides, **named, "share": 0.9107}.items()


TEXTS = [
    (r"Let $x = \frac{12}{7}$. What is $7x$?", "12", r"Given $\tfrac{12}{7} = x$, find $7 \cdot x$."),
    (r"[asy] draw((0,0)--(1,2)); [/asy] How long is it?", r"\sqrt{5}", "The segment's length, please"),
    ('He said "one_two" and 100% went.', "3", "Großer Preis, naïve café, 数学の問題"),
    ("a\nb\tc   d", "", "-- DROP TABLE questions; '\"' OR 1=1"),
    ("AND OR NOT NEAR(x y) *:^ text:", "ab", "  "),
    ("x" * 5000 + "needle", "1", "short"),
]


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
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
def test_any_part_of_a_text_is_found(texts, words):
    assert found(texts, words) == read_through(words)


def test_words_must_all_stand_in_one_text(tmp_path):
    db = open_empty(tmp_path / "t.db")
    add_run(db, "r", [("Parking costs 3. Ben has tickets.", "3", [Proposed("Cars are dear.")])])
    assert found(db, "tickets parking") == {"Parking costs 3. Ben has tickets."}
    assert found(db, '"tickets parking"') == set()
    assert found(db, "cars dear") == {"Parking costs 3. Ben has tickets."}
    assert found(db, "cars tickets") == set()
