"""`tagrpo eval run`: draw and grade responses, and print pass@k."""

import asyncio
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evaluator.config import EvalConfig
from ui.cli import exits, output
from ui.cli.configured import Verb
from ui.cli.output import plural, terminal
from ui.cli.requests import DryRun, error_words, estimate_notes
from ui.cli.settings import db

if TYPE_CHECKING:
    from evaluator.evals.running import EvalOutcome
    from service.database import Database
    from service.runs.store import Run

FLAGS = {
    "--model": "model",
    "--n": "n",
    "--name": "name",
    "--limit": "limit",
    "--preset": "preset",
    "--from": "sources",
    "--max-usd": "max_usd",
    "--base-url": "base_url",
}


@Verb("eval", EvalConfig, "benchmarks", FLAGS)
def run(config: EvalConfig, *, dry_run: DryRun = False) -> None:
    """Sample n responses to every problem of one or more benchmarks, grade them, and print pass@k.

    Results are stored as they arrive. After an interruption or a spent budget, run the same command again, or
    `tagrpo resume NAME`. A larger --n samples only what is missing. Other settings start another run.
    neighbors=NAME evaluates a neighbor set instead of benchmarks; endpoint=NAME selects a profile.

    Exit code 3: samples are missing, because a cap was reached or requests got no answer; 1: requests to the
    model fail. The message says why.

    Example: tagrpo eval run amc23 aime24 --model hosted_vllm/Qwen/Qwen3-4B --n 128
    --base-url http://localhost:8000/v1 temperature=0.7
    """
    from evaluator.evals.evaluating import estimate, evaluate, load_benchmarks
    from evaluator.reports.standing import read_numbers
    from service.asks.ask import INTERRUPTED
    from service.models.stopping import deliver_signal
    from ui.cli.eval.summary import numbers_parts

    if dry_run:
        there = not isinstance(db.place, Path) or db.place.is_file() or config.neighbors is not None
        with db.open(read_only=True) if there else nullcontext() as stored:
            estimates = estimate(config, stored, note=output.note, neighbors=_neighbors(config, stored))
        record = {"runs": [{"run": name, **each.to_json()} for name, each in estimates.items()]}
        terminal.show(record, *estimate_notes(estimates.values(), config.max_usd))
        return
    problems: list[str] = []
    reasons: set[str | None] = set()
    records: list[dict[str, Any]] = []

    def add(run: "Run", outcome: "EvalOutcome") -> None:
        numbers = read_numbers(database, run, config.n)
        names = ("drawn", "stopped", "message", "failures")
        of_outcome = {name: getattr(outcome, name) for name in names}
        records.append({**numbers.record, **of_outcome, "graded": outcome.graded.samples})
        if not terminal.as_json:
            output.say(*numbers_parts(numbers))
        if (most := numbers.record["most_samples"]) > config.n:
            output.note(
                f"run {run.name} has up to {plural(most, 'sample')} per problem; those beyond --n "
                f"{config.n:,} count too"
            )
        problems.extend(complaints(run, outcome, numbers.record["errors"]))
        reasons.add(outcome.stopped)

    loaded = load_benchmarks(config)  # a wrong name leaves no new database
    with db.open(create=config.neighbors is None) as database:
        worked = asyncio.run(
            evaluate(
                config,
                database,
                progress=terminal.progress,
                note=output.note,
                each=add,
                loaded=loaded,
                neighbors=_neighbors(config, database),
            )
        )
    if worked[-1][1].stopped == INTERRUPTED:
        deliver_signal()
    if terminal.as_json:
        terminal.emit({"runs": records})
    if problems:
        raise exits.unfinished(reasons, "; ".join(problems) + ".")


def _neighbors(config: EvalConfig, database: "Database | None") -> Any:
    """Return what loads the neighbor set of a config, None for benchmarks."""
    from rephraser.sets.problems import load_neighbors

    if config.neighbors is None or database is None:
        return None
    return lambda grader: load_neighbors(config, database, grader, output.note)


def complaints(run: "Run", outcome: "EvalOutcome", errors: Mapping[str, int]) -> list[str]:
    """Say what of a run needs attention; requests that are open although nothing stopped are in a job.

    Failed requests are quoted in the server's words, unless the reason to stop does.
    """
    from service.asks.ask import BUDGET
    from ui.cli.eval.summary import lost_words

    problems = []
    if outcome.stopped:
        problems.append(f"{run.name}: stopped: {outcome.message or outcome.stopped}")
    if outcome.lost:
        problems.append(lost_words(run.name, outcome.lost, errors=errors))
    if coming := outcome.missing - outcome.lost:
        words = "" if outcome.message else error_words(errors)
        failed = f" (failed requests: {words})" if words else ""
        more = " with a higher --max-usd" if outcome.stopped == BUDGET else ""
        problems.append(
            f"{run.name}: {plural(coming, 'sample')} missing{failed}; run the same command{more} to get them"
        )
    return problems
