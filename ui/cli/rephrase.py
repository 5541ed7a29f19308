"""`tagrpo rephrase run`, `import` and `rejudge`: start or resume a run, or judge it by other thresholds."""

import asyncio
from collections.abc import Iterator
from functools import partial
from typing import Any

from rephraser.config import RephraseConfig, VerdictRule
from service.config import Reading
from ui.cli import output
from ui.cli.configured import Verb
from ui.cli.output import plural, terminal
from ui.cli.requests import DryRun, estimate_notes, open_words
from ui.cli.settings import RunArgument, Words, db, resume_command

COMMON = {"--name": "name", "--solver": "solver", "--n": "n", "--limit": "limit", "--max-usd": "max_usd"}
MODEL = {"--model": "proposer.model", "--base-url": "proposer.base_url"}


@Verb("rephrase", RephraseConfig, "questions", COMMON | MODEL)
def run(config: RephraseConfig, *, dry_run: DryRun = False) -> None:
    """Propose rephrasings of questions, check them, and compare answers if a solver is named.

    A solver answers the question and each rephrasing; tagrpo accepts a rephrasing if enough answers match.
    After an interruption or a spent budget, run the same command again, or `tagrpo resume NAME`.

    Example: tagrpo rephrase run math --name math-gpt4 --model gpt-4-turbo --solver hosted_vllm/Qwen/Qwen3-4B
    solver.base_url=http://localhost:8000/v1 --max-usd 50
    """
    from rephraser.run import estimate, execution
    from rephraser.views.runs import summarize

    with db.open() as database:
        if dry_run:
            expected = estimate.estimate(config, database)
            terminal.show(expected.to_json(), *estimate_notes([expected], config.max_usd))
            return
        with terminal.progress(config.name) as bar:
            done, outcome = asyncio.run(execution.rephrase(config, database, bar, output.note))
        with database.read() as session:
            summary = summarize(session, done)
    output.end_if_interrupted(outcome.stopped)
    kind = "accepted neighbors"
    if not summary["compared_answers"]:
        kind = "neighbors that passed the structural checks"
    terminal.show(
        {**summary, "stopped": outcome.stopped, "message": outcome.message},
        f"{summary['complete']:,} of {summary['questions']:,} questions have all {summary['wanted']} {kind}",
        *_next_steps(summary, ended=not outcome.stopped),
        hidden=("run_id", "questions", "complete", "wanted", "compared_answers"),
    )
    if problems := attention(summary, outcome.stopped, outcome.message):
        raise output.unfinished({outcome.stopped}, "; ".join(problems) + ".")


@Verb(
    "rephrase",
    RephraseConfig,
    "proposer.candidates",
    {"--questions": "questions", **COMMON},
    chosen=("proposer=file",),
)
def import_(config: RephraseConfig, *, dry_run: DryRun = False) -> None:
    """Start a run with rephrasings from a file or a Hub dataset, check them, and compare answers.

    The same as `tagrpo rephrase run QUESTIONS proposer=file proposer.candidates=FILE`.

    Example: tagrpo rephrase import candidates.jsonl --questions math --name theirs
    """
    run(config, dry_run=dry_run)


def _next_steps(summary: dict[str, Any], *, ended: bool) -> Iterator[str]:
    """Yield what a user can do next. `ended`: the run is complete, so resuming it sends no requests."""
    if summary["suspects"]:
        yield (
            f"{plural(summary['suspects'], 'question')} with a suspect gold answer that the solvers "
            f"contradict: `tagrpo questions list --suspects --run {summary['run']}`"
        )
    if summary["unreadable_questions"]:
        yield (
            f"{plural(summary['unreadable_questions'], 'question')} without enough readable answers: their "
            "candidates stay undecided. If solvers were cut off, raise solver.max_tokens."
        )
    if not summary["compared_answers"]:
        yield (
            "No answers were compared because no --solver was given, so these neighbors are unverified. "
            "Publish them with --include unverified, or start a run with --solver."
        )
    if ended and summary["unfinished"] and not (summary["open_questions"] or summary["failed_questions"]):
        yield (
            "This run is complete; a higher cap would add nothing. To find more neighbors, start a run with "
            "another name and another model or strategy."
        )


def attention(summary: dict[str, Any], stopped: str | None = None, message: str | None = None) -> list[str]:
    """Say what of a run needs attention, with the way on."""
    problems = open_words(summary["run"], summary["open_questions"], summary["failed_questions"], {})
    if stopped:
        options = {"budget": ("max_usd=MORE",), "enough": ("stop_below=LESS",)}.get(stopped, ())
        way_on = f"continue with {resume_command(summary['run'], *options)}"
        if stopped == "settings":
            way_on = "a run's settings are fixed; start a run with other settings under another --name"
        problems = [f"stopped: {message or stopped}; {way_on}"]
    if failed := summary["final_questions"]:
        problems.append(
            f"{plural(failed, 'request')} failed permanently, and the questions continued without them; "
            f"{resume_command(summary['run'], 'retry_final=true')} retries"
        )
    return problems


def rejudge(run: RunArgument, changes: Words = None, dry_run: bool = False) -> None:
    """Judge a run's stored answers again with other thresholds. It sends no requests.

    KEY=VALUE sets accept, reject, question_samples or looks, as in the table verdict of
    `tagrpo config rephrase`. The new verdicts are added; published sets stay unchanged, and reviews still
    override verdicts. `tagrpo resume` continues with the run's own thresholds.

    Example: tagrpo rephrase rejudge math-gpt4 accept=11 --dry-run

    Args:
        dry_run: Show what would change; store nothing.
    """
    from evaluator.grading import Grader
    from rephraser.run.execution import make_rule
    from rephraser.run.rejudge import judge_again
    from rephraser.run.spec import RunSpec
    from rephraser.run.store import find_neighbor_run
    from rephraser.verdict import rule_spec

    reading = Reading(VerdictRule)
    reading.add_words(changes or ())
    with db.open() as database:
        with database.read() as session:
            chosen = find_neighbor_run(session, run)
        rule = make_rule(reading.build(), RunSpec.from_json(chosen.spec).rule)
        with terminal.progress(chosen.name) as bar, Grader() as grader:
            report = partial(bar, "comparing answers")
            rejudged = judge_again(database, chosen, rule, grader, dry_run=dry_run, report=report)
    terminal.show({"run": chosen.name, "rule": rule_spec(rule), "dry_run": dry_run, **rejudged})
