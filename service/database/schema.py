"""Create the schema of a new database from the tables of all packages, or migrate an older one.

The tables are the schema. A new column belongs in its table's class, and in `migrate` for databases of an
earlier revision. Triggers are declared next to the tables (`service.database.triggers`).
"""

from importlib import import_module

from sqlalchemy import MetaData, text
from sqlalchemy.engine import Connection

from service.database.base import Base

TABLES = (
    "service.questions.images",
    "service.runs.tables",
    "service.asks.tables",
    "evaluator.grading.versions",
    "evaluator.evals.tables",
    "rephraser.tables",
    "trainer_adapter.record.tables",
)
"""Modules of tables, by name: this room imports none that stands on it, yet every database has all tables."""

HEAD_REVISION = "1.6"
UPGRADABLE = ("1.3", "1.4", "1.5")
"""Older revisions that `migrate` brings to the newest one."""

TRIGGERS_GONE = (
    *("questions_searched", "candidates_searched", "questions_counted", "question_set_members_counted"),
    *("proposals_standing", "proposals_standing_gone", "verdicts_standing", "verdicts_findings"),
    *("reviews_standing", "reviews_withdrawn", "standings_counted", "standings_moved", "standings_gone"),
    *("run_problems_counted", "samples_counted", "grades_counted", "grades_sourced"),
    *("verdicts_no_delete", "audit_members_no_delete", "samples_no_delete", "sample_texts_no_delete"),
    *("grades_no_delete", "human_grades_no_delete", "human_grade_withdrawals_no_delete"),
)
TABLES_GONE = (
    *("text_letters", "searched_texts", "question_labels", "question_set_counts", "run_spending"),
    *("standing_counts", "verdict_cache"),
)
"""Triggers and tables of older revisions that `migrate` removes; it also makes missing indexes."""

# As Alembic, which earlier versions migrated with, names and spells it.
_VERSION_TABLE = """
CREATE TABLE alembic_version (
    version_num VARCHAR(32) NOT NULL,
    CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
)
"""


def load_tables() -> MetaData:
    """Return the metadata with the tables of all rooms."""
    for module in TABLES:
        import_module(module)
    return Base.metadata


def create_schema(connection: Connection) -> None:
    """Make all tables in an empty database; the caller's transaction commits them."""
    load_tables().create_all(connection, checkfirst=False)
    connection.execute(text(_VERSION_TABLE))
    connection.execute(text("INSERT INTO alembic_version VALUES (:name)"), {"name": HEAD_REVISION})


def migrate(connection: Connection) -> None:
    """Bring the database from an older revision to the newest one; the caller's transaction commits it."""
    on_server = connection.dialect.name == "postgresql"
    trigger = "FUNCTION IF EXISTS {} CASCADE" if on_server else "TRIGGER IF EXISTS {}"
    gone = [
        *(trigger.format(name) for name in TRIGGERS_GONE),
        *(f"INDEX IF EXISTS {table}_letters" for table in ("questions", "candidates")),
        *(f"TABLE IF EXISTS {table}" for table in TABLES_GONE),
    ]
    for each in gone:
        connection.execute(text(f"DROP {each}"))
    for table in load_tables().sorted_tables:
        for index in table.indexes:
            index.create(connection, checkfirst=True)
    connection.execute(text("UPDATE alembic_version SET version_num = :name"), {"name": HEAD_REVISION})
