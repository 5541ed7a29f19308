"""`tagrpo eval run`: draw and grade responses, and print pass@k."""

import asyncio
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
    from evaluator.reports.standing import RunNumbers
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


@verb("eval", EvalConfig, "benchmarks", FLAGS)
def run(config: EvalConfig, *, dry_run: DryRun = False, db: Db, terminal: Terminal) -> None:
    """Draw n responses to every problem of benchmarks, grade them, and print pass@k.

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
        spread = "from short responses to responses of max_tokens"
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
        from ui.cli.eval import summary

        numbers = read_numbers(database, run, self._n)
        if self._terminal.as_json:
            self._records.append({**numbers.to_json(), **summary.outcome_json(outcome)})
        else:
            summary.print_numbers(numbers)
        if numbers.most > numbers.n:
            output.note(
                f"run {run.name} has up to {plural(numbers.most, 'sample')} per problem; those beyond --n "
                f"{numbers.n:,} count too"
            )
        self._problems += complaints(run, outcome, numbers)
        self._reasons |= {outcome.stopped} if outcome.stopped else set()

    def finish(self) -> None:
        if self._terminal.as_json:
            output.print_json({"runs": self._records})
        if self._problems:
            raise exits.unfinished(self._reasons, "; ".join(self._problems) + ".")


def complaints(run: "Run", outcome: "EvalOutcome", numbers: "RunNumbers") -> list[str]:
    """Say what of a run needs attention; requests that are open although nothing stopped are in a job.

    Why requests failed stands there in the server's own words, unless they stand in `stopped` already.
    """
    from service.asks.ask import BUDGET
    from ui.cli.eval import summary

    problems = []
    more = " with a higher --max-usd" if outcome.stopped == BUDGET else ""
    if outcome.stopped:
        problems.append(f"{run.name}: stopped: {outcome.message or outcome.stopped}")
    if outcome.lost:
        problems.append(summary.lost_words(run.name, outcome.lost, errors=numbers.errors))
    if coming := outcome.missing - outcome.lost:
        words = words_by_kind(numbers.errors)
        failed = ", ".join(
            f"{kind} {count:,}"
            + (f": {words[kind]}" if words.get(kind) and words[kind] not in (outcome.message or "") else "")
            for kind, count in sorted(outcome.failures.items())
        )
        problems.append(
            f"{run.name}: {plural(coming, 'sample')} missing"
            + (f" (failed requests: {failed})" if failed else "")
            + f"; run the same command{more} to draw them"
        )
    return problems
