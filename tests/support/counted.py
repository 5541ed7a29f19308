"""Comparing the counts and standings that are kept with those made anew from what is stored."""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import text

from service.database import Database

MADE: Mapping[str, str] = {
    "sample_counts": """
        SELECT p.id, COUNT(s.id), COUNT(s.id) FILTER (WHERE s.stop_reason = 'length'),
               COUNT(s.id) FILTER (WHERE s.stop_reason IN ('content_filter', 'refusal')),
               COUNT(s.completion_tokens), COALESCE(SUM(s.completion_tokens), 0)
        FROM run_problems AS p LEFT JOIN samples AS s ON s.run_problem_id = p.id GROUP BY p.id""",
    "grade_counts": """
        SELECT run_problem_id, grader_id,
               COUNT(*) FILTER (WHERE value = 'correct'),
               COUNT(*) FILTER (WHERE value = 'wrong'),
               COUNT(*) FILTER (WHERE value = 'unknown')
        FROM grades GROUP BY 1, 2""",
    "standings": """
        SELECT p.id, p.run_id, p.question_id, p.ordinal, p.candidate_id, p.proposer, p.strategy,
               p.strategy_hash, p.model, COALESCE(r.decision, v.status, 'pending'), v.id, r.id
        FROM proposals AS p
        LEFT JOIN verdicts AS v ON v.id = (
            SELECT MAX(id) FROM verdicts WHERE run_id = p.run_id AND candidate_id = p.candidate_id)
        LEFT JOIN reviews AS r ON r.id = (
            SELECT MAX(id) FROM reviews
            WHERE candidate_id = p.candidate_id AND id NOT IN (SELECT review_id FROM review_withdrawals))""",
    "candidate_findings": """
        SELECT DISTINCT json_extract(f.value, '$.name'), c.question_id, c.id, v.run_id
        FROM verdicts AS v JOIN candidates AS c ON c.id = v.candidate_id,
             json_each(v.evidence, '$.findings') AS f
        WHERE json_extract(f.value, '$.name') IS NOT NULL""",
    "grade_sources": """
        SELECT run_problem_id, grader_id, COALESCE(source, ''), COUNT(*),
               COUNT(*) FILTER (WHERE value = 'correct')
        FROM grades GROUP BY 1, 2, 3""",
}
"""By table of counts the query that makes it anew."""

ON_POSTGRESQL = {
    "candidate_findings": """
        SELECT DISTINCT f.value ->> 'name', c.question_id, c.id, v.run_id
        FROM verdicts AS v JOIN candidates AS c ON c.id = v.candidate_id,
             json_array_elements(COALESCE(v.evidence -> 'findings', '[]')) AS f
        WHERE f.value ->> 'name' IS NOT NULL""",
}


def kept_and_made(db: Database) -> dict[str, tuple[list[Any], list[Any]]]:
    """Return for each table of counts its rows, and the rows it would have if it were made now."""
    found = {}
    with db.read() as session:
        other = db.connections.engine.dialect.name == "postgresql"
        for table, query in {**MADE, **(ON_POSTGRESQL if other else {})}.items():
            kept, made = (
                [tuple(row) for row in session.execute(text(statement.replace(":", "\\:")))]
                for statement in (f"SELECT * FROM {table}", query)
            )
            found[table] = sorted(kept, key=repr), sorted(made, key=repr)
    return found


def assert_counts_hold(db: Database, *filled: str) -> None:
    """Assert that every table of counts holds, and that these tables hold anything at all."""
    for table, (kept, made) in kept_and_made(db).items():
        assert kept == made, table
        assert kept or table not in filled, f"{table} is empty, so nothing was tested"
