"""Every query of the pages, on a small copy of the database that they are measured on: none walks a table."""

import random
from collections.abc import Iterator

import pytest
from plans import walked
from postgres_cluster import Cluster
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from benchmarks.pages.database import make_database
from benchmarks.pages.places import World, read_world
from benchmarks.pages.queries import Ask, page_queries
from evaluator.evals.tables import GradeRow
from service.database import Database
from service.database.postgresql.copying import copy_database
from service.questions.tables import QuestionRow

pytestmark = [pytest.mark.slow, pytest.mark.sqlite]  # plans


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Database:
    path = tmp_path_factory.mktemp("pages") / "t.db"
    make_database(path, scale=0.01)
    return Database.open(path, read_only=True)


@pytest.fixture(scope="module")
def world(database: Database) -> World:
    return read_world(database)


@pytest.fixture(scope="module")
def on_a_server(database: Database, cluster: Cluster) -> Iterator[Database]:
    """The same rows on PostgreSQL, which knows how many there are."""
    url = cluster.empty()
    copy_database(database.place, url, report=lambda *_: None)
    with Database.open(url, read_only=True) as copied:
        copied.connections.run_alone("ANALYZE")
        yield copied
    cluster.drop(url)


def tables(database: Database, ask: Ask) -> set[str]:
    return walked(database, lambda session: ask(session, random.Random(3)), on_server=True)


def test_no_query_of_a_page_walks_a_table(database: Database, world: World) -> None:
    found = {name: tables(database, ask) for name, ask in page_queries(world).items()}
    assert {name: walks for name, walks in found.items() if walks} == {}
    assert len(found) > 40


def test_no_query_of_a_page_walks_a_table_of_a_server(on_a_server: Database, world: World) -> None:
    found = {name: tables(on_a_server, ask) for name, ask in page_queries(world).items()}
    assert {name: walks for name, walks in found.items() if walks} == {}


def test_counting_rows_and_reading_all_texts_would_walk_tables(database: Database) -> None:
    def counted(session: Session, chance: random.Random) -> object:
        by_value = select(GradeRow.value, func.count()).group_by(GradeRow.value)
        return session.execute(by_value).all()

    def read_through(session: Session, chance: random.Random) -> object:
        return session.scalars(select(QuestionRow.id).where(QuestionRow.text.icontains("tangent"))).all()

    assert tables(database, counted) == {"grades"}
    assert tables(database, read_through) == {"questions"}
