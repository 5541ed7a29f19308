"""A PostgreSQL that is restarted in the middle of a review, or of a publication."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from command_line import run_here
from postgres_cluster import Cluster
from runs import Asked, Proposed, add_run
from sqlalchemy import Engine, event, func, select

from rephraser import sets
from rephraser.tables import (
    CandidateRow,
    NeighborSetMemberRow,
    NeighborSetQuestionRow,
    NeighborSetRow,
    ReviewRow,
)
from service.database import Database

ASKED: list[Asked] = [
    ("What is 2+3?", "5", [Proposed("Add 2 and 3."), Proposed("Sum up 2 and 3.", ("rejected",))]),
    ("Halve 8.", "4", [Proposed("What is half of 8?")]),
]


@pytest.fixture
def url(cluster: Cluster) -> Iterator[str]:
    made = cluster.empty()
    with Database.open(made) as db:
        add_run(db, "run", ASKED)
    yield made
    cluster.drop(made)


class Restart:
    """Restarts the server once: behind the first statement that begins so, or before its commit."""

    def __init__(self, cluster: Cluster, behind: str, *, in_commit: bool) -> None:
        self.cluster, self.behind, self.in_commit = cluster, behind, in_commit
        self.reached = self.over = False

    def executed(self, _c: Any, _cursor: Any, statement: str, *_: Any) -> None:
        self.reached = self.reached or statement.startswith(self.behind)
        if not self.in_commit:
            self.now()

    def now(self, *_: Any) -> None:
        if self.reached and not self.over:
            self.over = True
            self.cluster.stop(how="immediate")
            self.cluster.start()

    def __enter__(self) -> None:
        event.listen(Engine, "after_cursor_execute", self.executed)
        event.listen(Engine, "commit", self.now)

    def __exit__(self, *_: object) -> None:
        event.remove(Engine, "after_cursor_execute", self.executed)
        event.remove(Engine, "commit", self.now)
        assert self.over, f"no statement began with {self.behind}"


def count(url: str, *tables: Any) -> list[int]:
    with Database.open(url, read_only=True) as db, db.read() as session:
        return [session.scalar(select(func.count()).select_from(table)) or 0 for table in tables]


@pytest.mark.slow
@pytest.mark.parametrize("in_commit", [False, True], ids=["within", "commit"])
def test_a_review_is_there_once_or_not_at_all(cluster: Cluster, url: str, in_commit: bool) -> None:
    with Database.open(url) as db, db.read() as session:
        text = CandidateRow.text == "Sum up 2 and 3."
        candidate = session.scalars(select(CandidateRow.id).where(text)).one()
    review = ("rephrase", "review", candidate, "--accept", "--reviewer", "ann", "--db", url)
    with Restart(cluster, "INSERT INTO reviews", in_commit=in_commit):
        done = run_here(*review)
    assert (done.code, "The last step was not written" in done.err) == (2, True), done
    assert count(url, ReviewRow) == [0]
    assert run_here(*review).code == 0
    assert count(url, ReviewRow) == [1]


@pytest.mark.slow
@pytest.mark.parametrize("in_commit", [False, True], ids=["within", "commit"])
def test_a_set_is_published_whole_or_not_at_all(cluster: Cluster, url: str, in_commit: bool) -> None:
    tables = (NeighborSetRow, NeighborSetQuestionRow, NeighborSetMemberRow)
    publish = ("sets", "publish", "math", "--run", "run", "--json", "--db", url)
    with Restart(cluster, "INSERT INTO neighbor_set_members", in_commit=in_commit):
        done = run_here(*publish)
    assert (done.code, "The last step was not written" in done.err) == (2, True), done
    assert count(url, *tables) == [0, 0, 0]
    assert [json.loads(run_here(*publish).out)["created"] for _ in range(2)] == [True, False]
    assert count(url, *tables) == [1, 2, 2]
    with Database.open(url) as db, db.read() as session:
        assert sets.verify(session, "math@1").ok
