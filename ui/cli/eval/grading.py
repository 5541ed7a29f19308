"""`tagrpo eval grade`: a run graded again, and the grades that changed."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

from ui.cli import output
from ui.cli.eval.settings import AnswersChoice, EvalRun, OwnGrader, Workers, check_grader
from ui.cli.output import Terminal, plural
from ui.cli.settings import Db

if TYPE_CHECKING:
    from evaluator.evals.grading import GradeChange, Graded
    from evaluator.evals.results import RunResult


def grade(
    run: EvalRun,
    changes: Annotated[
        bool, Option(help="List the samples that another version graded differently.")
    ] = False,
    answers: AnswersChoice = None,
    own_grader: OwnGrader = None,
    workers: Workers = None,
    *,
    db: Db,
    terminal: Terminal,
) -> None:
    """Grade the samples of a run that this grader version has not graded; no model is asked.

    Grades of other versions and of another --answers setting are kept. If there are any, the changed verdicts
    are counted by where the answer was found; --changes lists them.

    Example: tagrpo eval grade Qwen3-4B.amc23 --answers boxed --changes
    """
    from evaluator.benchmarks.catalogue import is_secret
    from evaluator.evals.grading import grade_changes, grade_run
    from evaluator.evals.overview import other_version
    from evaluator.evals.results import load_result
    from evaluator.evals.runs import find_eval_run, run_answers
    from evaluator.grading import Grader
    from evaluator.grading.versions import GradeCache, version_taking

    check_grader(own_grader, answers)
    with db.open() as database:
        with database.read() as session:
            chosen = find_eval_run(session, run)
        grading = Grader(workers=workers, cache=GradeCache(database), own=own_grader)
        with grading as grader, terminal.progress(chosen.name) as bar:
            version = grader.version if own_grader else version_taking(answers or run_answers(chosen))
            graded = grade_run(
                database,
                chosen.id,
                grader,
                output.stage(bar, "grading"),
                version=version,
            )
        with database.read() as session:
            old = other_version(session, chosen.id, version)
            changed = grade_changes(session, chosen.id, old, version) if old is not None else []
            result = load_result(session, chosen, version)
    record = _record(result, graded, old, changed)
    if changes:
        record["changes"] = changes_json(changed, secret=is_secret(chosen.spec["problems"]))
    terminal.emit(record, _print, record, result)


def _record(
    result: "RunResult", graded: "Graded", old: str | None, changed: "Sequence[GradeChange]"
) -> dict[str, Any]:
    """Return what grading did, and what another version of the grader had said otherwise."""
    correct = int(result.counts.correct.sum())
    by_source = Counter((change.old, change.new, change.old_source, change.new_source) for change in changed)
    return {
        "run": result.run.name,
        "grader": result.grader_version,
        "graded": graded.samples,
        "correct": correct,
        "wrong": result.samples - correct - result.unknown,
        "unknown": result.unknown,
        "human_grades": result.human,
        "overruled": result.overruled,
        "compared_with": old,
        "changed": Counter(f"{change.old} to {change.new}" for change in changed),
        "changed_by_source": [
            {"old": before, "new": after, "old_source": then, "new_source": now, "grades": count}
            for (before, after, then, now), count in by_source.most_common()
        ],
    }


def _print(record: dict[str, Any], result: "RunResult") -> None:
    from evaluator.evals.sources import NONE_FOUND
    from ui.cli.eval.summary import human_words

    output.say(f"run {record['run']}: {plural(record['graded'], 'new grade')} by {record['grader']}")
    output.say(f"{record['correct']:,} of {result.samples:,} correct, {record['unknown']:,} unknown")
    if result.human:
        output.say(human_words(result))
    if record["compared_with"] is None:
        return
    output.say()
    moves = record["changed"]
    counted = ", ".join(f"{move} {count:,}" for move, count in sorted(moves.items()))
    changed = f"compared with {record['compared_with']}: {plural(moves.total(), 'verdict')} changed"
    output.say(changed + (f": {counted}" if counted else ""))
    if not moves:
        return
    output.table(
        ["verdict", "answer found", "now", "grades"],
        [
            [
                f"{row['old']} to {row['new']}",
                row["old_source"] or NONE_FOUND,
                row["new_source"] or NONE_FOUND,
                row["grades"],
            ]
            for row in record["changed_by_source"]
        ],
    )
    if "changes" in record:
        print_changes(record["changes"])


def changes_json(changed: "Sequence[GradeChange]", *, secret: bool) -> list[dict[str, Any]]:
    """Return the samples whose grades differ; of gated benchmarks without golds and answers."""
    hidden = {"gold", "old_extracted", "new_extracted"} if secret else set()
    return [
        {name: None if name in hidden else value for name, value in asdict(change).items()}
        for change in changed
    ]


def print_changes(changes: Sequence[dict[str, Any]]) -> None:
    """Print what `changes_json` returned."""
    output.say()
    output.table(
        ["problem", "sample", "gold", "old", "new", "previous answer", "now"],
        [
            [
                row["position"],
                row["ordinal"],
                row["gold"],
                f"{row['old']} ({row['old_reason']})",
                f"{row['new']} ({row['new_reason']})",
                row["old_extracted"],
                row["new_extracted"],
            ]
            for row in changes
        ],
    )
