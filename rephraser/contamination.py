"""Which questions of a set, or neighbors of a published one, repeat problems of benchmarks."""

from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import Any

from evaluator.benchmarks.loading import LoadedBenchmark
from evaluator.grading import Grader
from rephraser.sets.store import load_set
from service.database import Database
from service.questions import get_set, load_members
from service.questions.contamination import (
    MEASURES,
    VARIANT,
    OverlapSettings,
    SourceText,
    find_overlaps,
    store_check,
)
from service.telling import TellStage


def check_contamination(
    database: Database,
    set_name: str,
    neighbors: str | None,
    benchmarks: Sequence[LoadedBenchmark],
    settings: OverlapSettings,
    grader: Grader,
    progress: TellStage,
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Compare a question set, and the neighbors of a published set, with benchmarks; store the result.

    Return a row for each set of texts and benchmark, with the number of pairs by measure, and a row for each
    text that repeats a problem, without their words; rows count from 0.
    """

    def equal(answers: Sequence[tuple[str, str]]) -> list[bool]:
        return [value == "correct" for value in grader.equal_many(answers)]

    checks: list[dict[str, Any]] = []
    pairs: list[dict[str, Any]] = []
    with database.read() as session:
        content_hash = get_set(session, set_name).content_hash
        members = [member for member in load_members(session, set_name) if member.held is None]
        published = None if neighbors is None else load_set(session, neighbors)
    placed = [
        (member.position, SourceText(each.id, each.text, each.answer, each.images))
        for member in members
        for each in [member.question]
    ]
    sides = [(set_name, content_hash, placed)]
    if published is not None:
        placed = [
            (row, SourceText(each.candidate_id, each.text, entry.question.answer, entry.question.images))
            for row, entry in enumerate(published.entries)
            for each in entry.neighbors
        ]
        sides.append((published.header.ref, published.header.content_hash, placed))
    for against in benchmarks:
        problems = [SourceText(each.id, each.text, each.answer, each.images) for each in against.problems]
        problem_rows = {problem.id: row for row, problem in enumerate(problems)}
        for name, content_hash, placed in sides:
            texts, rows = [text for _, text in placed], {text.id: row for row, text in placed}
            tell = partial(progress, f"{name} and {against.name}")
            overlaps = find_overlaps(texts, problems, settings, equal=equal, progress=tell)
            by_measure = Counter(overlap.measure for overlap in overlaps)
            repeated = {overlap.problem_id for overlap in overlaps if overlap.measure != VARIANT}
            checks.append(
                {
                    "set": name,
                    "texts": len(texts),
                    "benchmark": against.name,
                    "problems": len(problems),
                    "problems_hash": against.problems_hash,
                    "repeated_problems": len(repeated),
                    "pairs": {measure: by_measure[measure] for measure in MEASURES},
                }
            )
            pairs.extend(
                {
                    "set": name,
                    "benchmark": against.name,
                    "row": rows[overlap.source_id],
                    "problem_row": problem_rows[overlap.problem_id],
                    **vars(overlap),
                }
                for overlap in overlaps
            )
            with database.write() as session:
                store_check(
                    session,
                    set_name=name,
                    set_hash=content_hash,
                    benchmark=against.name,
                    problems_hash=against.problems_hash,
                    settings=settings,
                    overlaps=overlaps,
                )
    return checks, pairs
