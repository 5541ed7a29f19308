"""The schema of each dialect as it is committed, so that a change of it is seen in review."""

import hashlib
from pathlib import Path

import pytest
from postgres_cluster import Cluster
from schema_text import FOLDER, RENEW, schema_text

from service.database import Database
from service.database.engine import HEAD_REVISION

DESCRIBED = ("1.5", "beb0bbc2f06c")
"""A revision, and the hash of the schema that it names."""


def check(place: str | Path, name: str) -> None:
    with Database.open(place) as db:
        assert schema_text(db) == (FOLDER / name).read_text(encoding="utf-8"), f"to renew it: {RENEW}"


@pytest.mark.sqlite
def test_the_schema_of_a_file_is_the_committed_one(tmp_path: Path) -> None:
    check(tmp_path / "t.db", "sqlite.txt")


def test_another_schema_has_another_revision() -> None:
    """Where it had not, databases of before would be opened, and fail wherever a column is missing."""
    schema = (FOLDER / "sqlite.txt").read_bytes()
    assert (HEAD_REVISION, hashlib.sha256(schema).hexdigest()[:12]) == DESCRIBED, (
        "give a changed schema a migration of its own"
    )


def test_the_schema_of_a_server_is_the_committed_one(cluster: Cluster) -> None:
    url = cluster.empty()
    check(url, "postgresql.txt")
    cluster.drop(url)
