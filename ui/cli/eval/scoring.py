"""`tagrpo eval score`: grades by the rules, by a grader of one's own, or by a judge model."""

import asyncio
from collections import Counter
from typing import TYPE_CHECKING, Any

from evaluator.config import ScoreConfig
from service.errors import InputError
from ui.cli import exits, output
from ui.cli.configured import Verb
from ui.cli.output import plural, terminal
from ui.cli.requests import DryRun, estimate_notes
from ui.cli.settings import db

if TYPE_CHECKING:
    from service.database import Database
    from service.runs.store import Run

FLAGS = {
    "--judge": "model",
    "--for": "asked",
    "--answers": "answers",
    "--grader": "grader",
    "--max-usd": "max_usd",
    "--base-url": "base_url",
}


@Verb("score", ScoreConfig, "run", FLAGS)
def score(config: ScoreConfig, *, changes: bool = False, dry_run: DryRun = False) -> None:
    """Grade the samples of a run that have no grade yet: by this version's rules, or by a judge model.

    Grades by other versions or with another --answers setting are kept. If there are any, it reports how many
    grades changed, by where the answer was found.

    --judge asks a model about the samples with an unknown grade. Its grades count only if `report` or
    `compare` gets --judge MODEL. A reply without a verdict changes nothing. Requests, cap and cost
    belong to a separate run, and no question is paid for twice. After a kill or a spent budget, run the same
    command again to resume.

    Exit code 3: some samples still wait for the judge; 1: requests to the judge fail.

    Example: tagrpo eval score Qwen3-4B.amc23 --answers boxed --changes

    Example: tagrpo eval score Qwen3-4B.math500 --judge gpt-4o --max-usd 2

    Args:
        changes: List the samples whose grade changed.
    """
    from evaluator.evals.runs import find_eval_run
    from evaluator.judging.running import estimate_judging

    with db.open(read_only=dry_run) as database:
        with database.read() as session:
            chosen = find_eval_run(session, config.run)
        if dry_run and config.model is None:
            raise InputError("--dry-run estimates the cost of a judge. Add --judge, or remove --dry-run.")
        if dry_run:
            estimate = estimate_judging(config, database)
            record = {"run": chosen.name, **estimate.to_json()}
            terminal.show(record, *estimate_notes([estimate], config.max_usd))
        elif config.model is None:
            _grade(config, chosen, database, changes)
        else:
            _judge(config, chosen, database, changes)


def _grade(config: ScoreConfig, run: "Run", database: "Database", changes: bool) -> None:
    from evaluator.evals.grading import grade_changes, grade_run
    from evaluator.evals.overview import other_version
    from evaluator.evals.results import load_result
    from evaluator.evals.runs import run_answers
    from evaluator.grading import Grader
    from evaluator.grading.versions import GradeCache, version_taking

    grading = Grader(workers=config.workers, cache=GradeCache(database), own=config.grader)
    with grading as grader, terminal.progress(run.name) as bar:
        version = grader.version if config.grader else version_taking(config.answers or run_answers(run))
        graded = grade_run(database, run.id, grader, bar.stage("grading"), version=version)
    with database.read() as session:
        old = other_version(session, run.id, version)
        changed = grade_changes(session, run, old, version) if old is not None else []
        result = load_result(session, run, version)
    correct = int(result.counts.correct.sum())
    sources = ("old", "new", "old_source", "new_source")
    by_source = Counter(tuple(row[name] for name in sources) for row in changed).most_common()
    record = {
        "run": run.name,
        "grader": version,
        "graded": graded.samples,
        "correct": correct,
        "wrong": result.samples - correct - result.unknown,
        "unknown": result.unknown,
        "human_grades": result.human,
        "overruled": result.overruled,
        "compared_with": old,
        "changed": Counter(f"{row['old']} to {row['new']}" for row in changed),
        "changed_by_source": [
            {**dict(zip(sources, key, strict=True)), "grades": count} for key, count in by_source
        ],
    }
    _show(record, changed if changes else None)


def _judge(config: ScoreConfig, run: "Run", database: "Database", changes: bool) -> None:
    from evaluator.evals.grading import grade_changes
    from evaluator.evals.results import load_result
    from evaluator.judging import running
    from service.runs.spending import read_ledger

    with terminal.progress(run.name) as report:
        judged = asyncio.run(running.judge(config, database, report, output.note))
    exits.end_if_interrupted(judged.stopped)
    base = running.base_version(config, run)
    with database.read() as session:
        before = load_result(session, run, base)
        after = None if judged.waiting else load_result(session, run, judged.version)
        ledger = read_ledger(session, judged.run.id)
        changed = grade_changes(session, run, base, judged.version) if changes else None
    record = {
        "run": run.name,
        "judge_run": judged.run.name,
        "grader": judged.version,
        **judged.by_outcome,
        "stopped": judged.stopped,
        "message": judged.message,
        "failures": judged.failures,
        "unknown_before": before.unknown,
        "unknown_after": after and after.unknown,
        "judged": after and after.judged,
        "ledger": ledger,
    }
    judge = after and after.judged and after.judged.model
    _show(
        record, changed, f"`tagrpo eval report {run.name} --judge {judge}` counts these grades" * bool(judge)
    )
    if judged.waiting:
        raise exits.unfinished(
            {judged.stopped},
            f"{run.name}: {plural(judged.waiting, 'sample')} still waiting for the judge"
            + (f": {judged.message or judged.stopped}" if judged.stopped else "")
            + "; run the same command again to resume.",
        )


def _show(record: dict[str, Any], changes: list[dict[str, Any]] | None, note: str = "") -> None:
    """Print the record, with the changed grades if they are wanted."""
    from ui.cli.records import list_table

    columns = "problem=position sample=ordinal gold old old_reason new new_reason old_extracted new_extracted"
    more = {} if changes is None else {"changes": changes}
    table = list_table(changes, columns) if changes else None
    terminal.show({**record, **more}, note or None, table, hidden=("changes",))
