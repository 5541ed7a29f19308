"""`tagrpo eval run`: draw and grade responses, and print pass@k."""

import asyncio
from collections.abc import Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evaluator.config import EvalConfig
from ui.cli import exits, output
from ui.cli.configured import verb
from ui.cli.output import Terminal, plural
from ui.cli.requests import DryRun, print_estimates, words_by_kind
from ui.cli.settings import Db

if TYPE_CHECKING:
    from evaluator.evals.evaluating import ProblemSet
    from evaluator.evals.running import EvalOutcome
    from evaluator.grading import Grader
    from service.database import Database
    from service.runs.progress import ErrorCount
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


@verb("eval", EvalConfig, "benchmarks", FLAGS)
def run(config: EvalConfig, *, dry_run: DryRun = False, db: Db, terminal: Terminal) -> None:
    """Draw n responses to every problem of one or more benchmarks, grade them, and print pass@k.

    Results are stored as they arrive. After an interruption or a spent budget, run the same command again, or
    `tagrpo resume NAME`. A larger --n draws only the missing samples. Other settings start another run.
    neighbors=NAME takes a published neighbor set instead of benchmarks, endpoint=NAME a profile.

    Exit code 3: samples are missing, because a cap was reached or requests got no answer; 1: the model cannot
    be asked. The message says why.

    Example: tagrpo eval run amc23 aime24 --model hosted_vllm/Qwen/Qwen3-4B --n 128
    --base-url http://localhost:8000/v1 temperature=0.7
    """
    from evaluator.evals.evaluating import estimate, evaluate, load_benchmarks
    from service.asks.ask import INTERRUPTED
    from service.models.stopping import deliver_signal

    if dry_run:
        there = not isinstance(db.place, Path) or db.place.is_file() or config.neighbors is not None
        with db.open(read_only=True) if there else nullcontext() as stored:
            estimates = estimate(config, stored, note=output.note, neighbors=_neighbors(config, stored))
        record = {"runs": [{"run": name, **each.to_json()} for name, each in estimates.items()]}
        spread = "ranging from short responses to max_tokens tokens"
        terminal.emit(record, print_estimates, estimates, "problem", spread, config.max_usd)
        return
    summing = _Summing(config.n, terminal)
    loaded = load_benchmarks(config)  # a wrong name leaves no new database
    with db.open(create=config.neighbors is None) as database:
        worked = asyncio.run(
            evaluate(
                config,
                database,
                progress=terminal.stages,
                note=output.note,
                each=partial(summing.add, database),
                loaded=loaded,
                neighbors=_neighbors(config, database),
            )
        )
    if worked[-1][1].stopped == INTERRUPTED:
        deliver_signal()
    summing.finish()


def _neighbors(config: EvalConfig, database: "Database | None") -> Any:
    """Return what loads the neighbor set of a config, None for benchmarks."""
    from rephraser.sets.problems import load_neighbors

    if config.neighbors is None or database is None:
        return None

    def load(grader: "Grader") -> "ProblemSet":
        return load_neighbors(config, database, grader, output.note)

    return load


class _Summing:
    """Prints each run when it ends, and says at the end what needs attention."""

    def __init__(self, n: int, terminal: Terminal) -> None:
        self._n, self._terminal = n, terminal
        self._problems: list[str] = []
        self._reasons: set[str] = set()
        self._records: list[dict[str, Any]] = []

    def add(self, database: "Database", run: "Run", outcome: "EvalOutcome") -> None:
        from evaluator.reports.standing import read_numbers
        from ui.cli.eval.summary import print_numbers

        numbers = read_numbers(database, run, self._n)
        names = ("drawn", "stopped", "message", "failures")
        self._records.append(
            {
                **numbers.record,
                **{name: getattr(outcome, name) for name in names},
                "graded": outcome.graded.samples,
            }
        )
        if not self._terminal.as_json:
            print_numbers(numbers)
        if (most := numbers.record["most_samples"]) > self._n:
            output.note(
                f"run {run.name} has up to {plural(most, 'sample')} per problem; those beyond --n "
                f"{self._n:,} count too"
            )
        self._problems += complaints(run, outcome, numbers.errors)
        self._reasons |= {outcome.stopped} if outcome.stopped else set()

    def finish(self) -> None:
        if self._terminal.as_json:
            output.print_json({"runs": self._records})
        if self._problems:
            raise exits.unfinished(self._reasons, "; ".join(self._problems) + ".")


def complaints(run: "Run", outcome: "EvalOutcome", errors: "Sequence[ErrorCount]") -> list[str]:
    """Say what of a run needs attention; requests that are open although nothing stopped are in a job.

    Failed requests are quoted in the server's words, unless the reason to stop quotes them already.
    """
    from service.asks.ask import BUDGET
    from ui.cli.eval.summary import lost_words

    problems = []
    if outcome.stopped:
        problems.append(f"{run.name}: stopped: {outcome.message or outcome.stopped}")
    if outcome.lost:
        problems.append(lost_words(run.name, outcome.lost, errors=errors))
    if coming := outcome.missing - outcome.lost:
        words = words_by_kind(errors)
        quoted = {kind: text for kind, text in words.items() if text and text not in (outcome.message or "")}
        failed = ", ".join(
            f"{kind} {count:,}" + (f": {quoted[kind]}" if kind in quoted else "")
            for kind, count in sorted(outcome.failures.items())
        )
        failed = f" (failed requests: {failed})" if failed else ""
        more = " with a higher --max-usd" if outcome.stopped == BUDGET else ""
        problems.append(
            f"{run.name}: {plural(coming, 'sample')} missing{failed}; run the same command{more} to get them"
        )
    return problems
