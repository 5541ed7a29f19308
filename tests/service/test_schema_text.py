"""The schema of each dialect as it is committed, so that a change of it is seen in review."""

from pathlib import Path

import pytest
from postgres_cluster import Cluster
from schema_text import FOLDER, RENEW, schema_text

from service.database import Database


def check(place: str | Path, name: str) -> None:
    with Database.open(place) as db:
        assert schema_text(db) == (FOLDER / name).read_text(encoding="utf-8"), f"to renew it: {RENEW}"


@pytest.mark.sqlite
def test_the_schema_of_a_file_is_the_committed_one(tmp_path: Path) -> None:
    check(tmp_path / "t.db", "sqlite.txt")


def test_the_schema_of_a_server_is_the_committed_one(cluster: Cluster) -> None:
    url = cluster.empty()
    check(url, "postgresql.txt")
    cluster.drop(url)
