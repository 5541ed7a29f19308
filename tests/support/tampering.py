"""What somebody does to a database past tagrpo: no trigger and no foreign key is in the way."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import Connection, create_engine, text

from service.database import Database


@contextmanager
def past_tagrpo(database: Database | Path) -> Iterator[Connection]:
    """One transaction; a file loses its triggers for good."""
    if isinstance(database, Path):
        with Database.open(database, create=False) as opened, past_tagrpo(opened) as connection:
            yield connection
        return
    place = database.place
    engine = create_engine(f"sqlite:///{place}" if isinstance(place, Path) else place)
    with engine.begin() as connection:
        if not isinstance(place, Path):
            connection.execute(text("SET LOCAL session_replication_role = replica"))
        else:
            names = connection.scalars(text("SELECT name FROM sqlite_master WHERE type = 'trigger'")).all()
            for name in names:
                connection.execute(text(f"DROP TRIGGER {name}"))
        yield connection
    engine.dispose()
