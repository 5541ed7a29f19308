"""Grade the stored samples of a run again by the rules, or by an own grader."""

from collections import Counter
from functools import partial
from typing import Any

from evaluator.config import ScoreConfig
from evaluator.evals.grading import grade_changes, grade_run
from evaluator.evals.overview import other_version
from evaluator.evals.results import load_result
from evaluator.evals.runs import run_answers
from evaluator.grading import Grader
from evaluator.grading.versions import version_taking
from service.database import Database
from service.runs.store import Run
from service.telling import TellStage

_SOURCES = ("old", "new", "old_source", "new_source")


def score_by_rules(config: ScoreConfig, run: Run, db: Database, report: TellStage) -> dict[str, Any]:
    """Grade the samples that lack a grade by this version; compare with the previous version's grades."""
    with Grader(workers=config.workers, own=config.grader) as grader:
        version = grader.version if config.grader else version_taking(config.answers or run_answers(run))
        graded = grade_run(db, run.id, grader, partial(report, "grading"), version=version)
    with db.read() as session:
        old = other_version(session, run.id, version)
        changes = [] if old is None else grade_changes(session, run, old, version)
        result = load_result(session, run, version)
    correct = int(result.counts.correct.sum())
    by_source = Counter(tuple(change[name] for name in _SOURCES) for change in changes)
    return {
        "run": run.name,
        "grader": version,
        "graded": graded.total(),
        "correct": correct,
        "wrong": result.samples - correct - result.unknown,
        "unknown": result.unknown,
        "human_grades": result.human,
        "overruled": result.overruled,
        "compared_with": old,
        "changed": Counter(f"{change['old']} to {change['new']}" for change in changes),
        "changed_by_source": [
            {**dict(zip(_SOURCES, key, strict=True)), "grades": count}
            for key, count in by_source.most_common()
        ],
        "changes": changes,
    }
