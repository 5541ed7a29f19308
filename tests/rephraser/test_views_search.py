"""Searching texts: what the index of letters finds is what reading every text would find."""

from pathlib import Path

import pytest
from postgres_cluster import Cluster
from runs import Proposed, add_run, open_empty
from sqlalchemy import create_engine, text
from sqlalchemy.orm import Session

from rephraser.views.questions import QuestionFilters, count_questions, page_questions
from service.database import Database
from service.questions.searching import may_hold, search_terms

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


@pytest.mark.sqlite
def test_a_write_that_fails_leaves_nothing_in_the_index(tmp_path: Path) -> None:
    insert = text("INSERT INTO questions (id, text, answer, created_at) VALUES ('q', 'vanishing', '', '')")
    with Database.open(tmp_path / "t.db") as db:

        def fail() -> None:
            with db.write() as session:
                session.execute(insert)
                raise RuntimeError

        with pytest.raises(RuntimeError):
            fail()
        with db.write() as session:
            session.execute(insert)
        assert found(db, "vanish") == {"vanishing"}
        with db.read() as session:
            assert session.execute(text("SELECT count(*) FROM searched_texts")).scalar_one() == 1
        assert db.integrity_report() == []


def indexes_of_letters(session: Session) -> set[str]:
    return set(session.scalars(text("SELECT indexname FROM pg_indexes WHERE indexname LIKE '%letters'")))


def test_a_server_has_indexes_of_letters_and_uses_them(cluster: Cluster) -> None:
    url = cluster.empty()
    with Database.open(url) as db, db.read() as session:
        session.execute(text("SET LOCAL enable_seqscan = off"))  # which is quicker for a few rows
        query = may_hold(session, ["needle"])
        assert query is not None
        statement = query.compile(session.get_bind(), compile_kwargs={"literal_binds": True})
        plan = "\n".join(session.scalars(text(f"EXPLAIN {statement}".replace(":", "\\:"))))
        assert indexes_of_letters(session) == {"questions_letters", "candidates_letters"}
        assert all(name in plan for name in indexes_of_letters(session)), plan
        assert "Seq Scan" not in plan
    cluster.drop(url)


def test_a_role_that_may_make_no_extension_searches_without_an_index(cluster: Cluster) -> None:
    url = cluster.empty(schema=False)
    cluster.run("CREATE ROLE modest LOGIN")
    engine = create_engine(url)
    with engine.begin() as connection:
        connection.execute(text("GRANT CREATE ON SCHEMA public TO modest"))
    engine.dispose()
    with Database.open(url.replace("tagrpo@", "modest@")) as db:
        add_run(db, "r", [("Cars are dear.", "3", [Proposed("Autos cost much.")])])
        with db.read() as session:
            assert indexes_of_letters(session) == set()
        assert found(db, "autos cost") == {"Cars are dear."}
    cluster.drop(url)
    cluster.run("DROP ROLE modest")
