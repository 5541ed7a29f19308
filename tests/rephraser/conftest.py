"""What most tests of this room stand on."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from runs import open_empty

from service.database import Database


@pytest.fixture
def db(tmp_path: Path) -> Iterator[Database]:
    """An empty database."""
    with open_empty(tmp_path / "t.db") as database:
        yield database
