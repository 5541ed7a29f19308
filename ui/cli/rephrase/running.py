"""`tagrpo rephrase run` and `import`: start a run of candidates and verdicts, or resume one."""

import asyncio
from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING

from rephraser.config import RephraseConfig
from ui.cli import exits, output
from ui.cli.configured import Verb
from ui.cli.output import Part, plural, terminal
from ui.cli.records import record_parts
from ui.cli.requests import DryRun, estimate_notes, open_words
from ui.cli.settings import db, resume_command

if TYPE_CHECKING:
    from rephraser.views.runs import RunSummary
    from service.asks.work import Outcome

COMMON = {"--name": "name", "--solver": "solver", "--n": "n", "--limit": "limit", "--max-usd": "max_usd"}


@Verb(
    "rephrase",
    RephraseConfig,
    "questions",
    {**COMMON, "--model": "proposer.model", "--base-url": "proposer.base_url"},
)
def run(config: RephraseConfig, *, dry_run: DryRun = False) -> None:
    """Propose neighbors for questions, check them, and compare answers if a solver is named.

    Results are stored as they arrive. After an interruption or a spent budget, run the same command again, or
    `tagrpo resume NAME`; nothing is paid for twice.

    Example: tagrpo rephrase run math --name math-gpt4 --model gpt-4-turbo --solver hosted_vllm/Qwen/Qwen3-4B
    solver.base_url=http://localhost:8000/v1 --max-usd 50
    """
    from rephraser.run.estimate import estimate
    from rephraser.run.execution import rephrase
    from rephraser.views.runs import summarize
    from service.asks.ask import INTERRUPTED
    from service.models.stopping import deliver_signal

    with db.open() as database:
        if dry_run:
            expected = estimate(config, database)
            terminal.show(expected.to_json(), *estimate_notes([expected], config.max_usd))
            return
        with terminal.progress(config.name) as bar:
            done, outcome = asyncio.run(rephrase(config, database, bar, output.note))
        with database.read() as session:
            summary = summarize(session, done)
    if outcome.stopped == INTERRUPTED:  # requests in flight are stored
        deliver_signal()
    record = {**vars(summary), "stopped": outcome.stopped, "message": outcome.message}
    terminal.emit(record, *_summary_parts(summary, ended=not outcome.stopped))
    problems = _run_problems(outcome, summary)
    if problems:
        raise exits.unfinished({outcome.stopped}, "; ".join(problems) + ".")


@Verb(
    "rephrase",
    RephraseConfig,
    "proposer.candidates",
    {"--questions": "questions", **COMMON},
    chosen=("proposer=file",),
)
def import_(config: RephraseConfig, *, dry_run: DryRun = False) -> None:
    """Start a run with candidates from a file or a Hub dataset, check them, and compare answers.

    The same as `tagrpo rephrase run QUESTIONS proposer=file proposer.candidates=FILE`.

    Example: tagrpo rephrase import candidates.jsonl --questions math --name theirs
    """
    run(config, dry_run=dry_run)


def run_attention(summary: "RunSummary") -> str:
    """Say in one line what of a run needs attention; empty if nothing does."""
    problems = open_words(summary.run, summary.open_questions, summary.failed_questions, {})
    return "; ".join(problems + _failed_for_good(summary))


def _summary_parts(summary: "RunSummary", *, ended: bool) -> Iterator[Part]:
    """Yield the state of a run. `ended`: the run is complete, so resuming it sends no requests."""
    missing = plural(len(summary.unfinished), "question")
    kind = "accepted neighbors" if summary.compared_answers else "neighbors that passed the structural checks"
    done = f"{summary.complete:,} of {summary.questions:,} questions have all {summary.wanted}"
    yield f"run {summary.run}: {done} {kind}"
    record = {
        "questions by neighbors": summary.questions_by_neighbors,
        "candidates": summary.candidates,
        "findings": summary.findings,
        "unusable replies": summary.unreadable,
        "failed requests": summary.errors,
        "cost": list(map(asdict, summary.ledger)),
        f"{missing} with fewer than {summary.wanted} neighbors": list(map(asdict, summary.unfinished)),
    }
    yield from record_parts(record)
    if summary.suspects:
        yield (
            f"\n{plural(summary.suspects, 'question')} with a suspect gold answer that the solvers "
            f"contradict: `tagrpo questions list --suspects --run {summary.run}`"
        )
    if summary.unreadable_questions:
        yield (
            f"\n{plural(summary.unreadable_questions, 'question')} without enough readable answers: their "
            "candidates stay undecided, and no more answers are requested. If solvers were cut off, raise "
            "solver.max_tokens."
        )
    if not summary.compared_answers:
        yield (
            "\nNo answers were compared because no --solver was given, so these neighbors are unverified. "
            "Publish them with --include unverified, or start a run with --solver."
        )
    if ended and summary.unfinished and not (summary.open_questions or summary.failed_questions):
        yield (
            "\nThis run is complete; a higher cap would add nothing. To find more neighbors, start a run "
            "with another name and another model or strategy."
        )


def _failed_for_good(summary: "RunSummary") -> list[str]:
    if not summary.final_questions:
        return []
    whose = "its question" if summary.final_questions == 1 else "their questions"
    failed = plural(summary.final_questions, "request")
    retry = resume_command(summary.run, "retry_final=true")
    return [f"{failed} failed permanently, and {whose} continued without them; {retry} retries"]


def way_on(stopped: str, run: str) -> str:
    """Say how to go on with a run that stopped for this reason."""
    from service.asks.ask import BUDGET, ENOUGH
    from service.asks.request import SETTINGS

    if stopped == SETTINGS:
        return "a run's settings are fixed; start a run with other settings under another --name"
    options = {BUDGET: ("max_usd=MORE",), ENOUGH: ("stop_below=LESS",)}.get(stopped, ())
    return f"continue with {resume_command(run, *options)}"


def _run_problems(outcome: "Outcome", summary: "RunSummary") -> list[str]:
    problems = []
    if outcome.stopped:
        reason = outcome.message or outcome.stopped
        problems.append(f"stopped: {reason}; {way_on(outcome.stopped, summary.run)}")
    elif summary.open_questions:
        problems.append(
            f"{plural(summary.open_questions, 'request')} waiting in a batch job; "
            f"{resume_command(summary.run, 'proposer.batch=true')} collects the results"
        )
    if summary.failed_questions:
        problems.append(
            f"{plural(summary.failed_questions, 'request')} got no answer; "
            f"{resume_command(summary.run)} retries"
        )
    return problems + _failed_for_good(summary)
