"""The schema: made whole in a new database, from the tables of all rooms; an older one is migrated.

The tables are the schema, so a new column stands in its table's class and, once databases of an earlier
revision are about, in a revision here for these. Triggers are declared next to the tables
(`service.database.triggers`).
"""

from importlib import import_module
from typing import NamedTuple

from sqlalchemy import text
from sqlalchemy.engine import Connection

from service.database.base import Base

TABLES = (
    "service.questions.tables",
    "service.runs.tables",
    "service.asks.tables",
    "evaluator.grading.versions",
    "evaluator.evals.tables",
    "rephraser.tables",
    "trainer_adapter.record.tables",
)
"""Modules of tables, by name: this room imports none that stands on it, yet every database has all tables."""


class Revision(NamedTuple):
    """What leads from the revision before to this one: triggers that go, then statements."""

    name: str
    triggers: tuple[str, ...] = ()
    statements: tuple[str, ...] = ()


_STANDINGS_COUNTED = "(run_id, proposer, strategy, strategy_hash, model, status)"
_ASKS_COSTS = "(run_id, kind, model, state, cost_pico, worst_pico, prompt_tokens, completion_tokens)"
REVISIONS = (
    Revision("1.3"),  # the oldest schema that is upgraded
    Revision(
        "1.4",  # Searches read the texts; the index of three letters in a row goes.
        ("questions_searched", "candidates_searched"),
        (
            "DROP INDEX IF EXISTS questions_letters",
            "DROP INDEX IF EXISTS candidates_letters",
            "DROP TABLE IF EXISTS text_letters",
            "DROP TABLE searched_texts",
        ),
    ),
    Revision(
        "1.5",  # Sums are made by queries, transactions keep standings, and grades are not cached.
        (
            *("questions_counted", "question_set_members_counted", "proposals_standing"),
            *("proposals_standing_gone", "verdicts_standing", "verdicts_findings", "reviews_standing"),
            *("reviews_withdrawn", "standings_counted", "standings_moved", "standings_gone"),
        ),
        (
            "DROP TABLE question_labels",
            "DROP TABLE question_set_counts",
            "DROP TABLE run_spending",
            "DROP TABLE standing_counts",
            "DROP TABLE verdict_cache",
            "CREATE INDEX ix_questions_subject_level ON questions (subject, level)",
            f"CREATE INDEX ix_standings_counted ON standings {_STANDINGS_COUNTED}",
            f"CREATE INDEX ix_asks_costs ON asks {_ASKS_COSTS}",
        ),
    ),
)
"""The history, the newest revision last."""

HEAD_REVISION = REVISIONS[-1].name

# As Alembic, which earlier versions migrated with, names and spells it.
_VERSION_TABLE = """
CREATE TABLE alembic_version (
    version_num VARCHAR(32) NOT NULL,
    CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
)
"""


def load_tables() -> None:
    """Have the tables of all rooms in the metadata."""
    for module in TABLES:
        import_module(module)


def create_schema(connection: Connection) -> None:
    """Make all tables in an empty database; the caller's transaction commits them."""
    load_tables()
    Base.metadata.create_all(connection, checkfirst=False)
    connection.execute(text(_VERSION_TABLE))
    connection.execute(text("INSERT INTO alembic_version VALUES (:name)"), {"name": HEAD_REVISION})


def migrate(connection: Connection, name: str) -> None:
    """Bring the database from a revision to the newest one; the caller's transaction commits it."""
    names = [revision.name for revision in REVISIONS]
    for revision in REVISIONS[names.index(name) + 1 :]:
        for trigger in revision.triggers:
            on_server = connection.dialect.name == "postgresql"
            kind = f"FUNCTION IF EXISTS {trigger} CASCADE" if on_server else f"TRIGGER IF EXISTS {trigger}"
            connection.execute(text(f"DROP {kind}"))
        for statement in revision.statements:
            connection.execute(text(statement))
    connection.execute(text("UPDATE alembic_version SET version_num = :name"), {"name": names[-1]})
