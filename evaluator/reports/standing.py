"""The current state of an eval run: requests, responses, cost, and pass@k if available."""

from dataclasses import asdict, dataclass
from typing import Any

from evaluator.evals.missing import most_wanted, samples_lost, samples_missing
from evaluator.evals.results import RunResult, load_result
from evaluator.evals.runs import EvalSpec, is_imported
from evaluator.evals.samples import count_samples
from evaluator.passk.curves import Curve, curve
from service.database import Database
from service.errors import InputError
from service.runs.progress import ErrorCount, frequent_errors, progress_of
from service.runs.spending import LedgerLine, read_ledger
from service.runs.store import Run, find_run

ERRORS_LISTED = 20


@dataclass(frozen=True)
class RunNumbers:
    """A run as it stands. `result` and `curve` are None where there is nothing to report: `why` says so.

    `missing` samples are not there of `n` for each problem, `lost` of them since their requests failed for
    good. `questions` are the problems without neighbors, `errors` the most frequent ones of failed requests.
    """

    run: Run
    problems: int
    questions: int
    n: int
    samples: int
    fewest: int
    most: int
    missing: int
    lost: int
    open_requests: int
    failed_requests: int
    errors: tuple[ErrorCount, ...]
    ledger: tuple[LedgerLine, ...]
    result: RunResult | None
    curve: Curve | None
    why: str | None

    def to_json(self) -> dict[str, Any]:
        """Return the machine-readable form; the spec is in `runs show`."""
        result, curve = self.result, self.curve
        record: dict[str, Any] = {
            "run": self.run.name,
            "id": self.run.id,
            "created_at": self.run.created_at,
            "finished_at": self.run.finished_at,
            "benchmark": self.run.spec["problems"],
            "model": self.run.spec["model"],
            "problems": self.problems,
            "benchmark_problems": self.run.spec["size"],
            "n": self.n,
            "samples": self.samples,
            "fewest_samples": self.fewest,
            "most_samples": self.most,
            "missing": self.missing,
            "missing_for_good": self.lost,
            "open_requests": self.open_requests,
            "failed_requests": self.failed_requests,
            "errors": {each.error: each.count for each in self.errors},
            "ledger": [asdict(line) for line in self.ledger],
            "pass_at_k": None
            if curve is None
            else [
                {
                    "k": point.k,
                    "value": point.value,
                    "value_high": point.value_high,
                    "new_problems": [point.new_problems.low, point.new_problems.high],
                    "same_problems": [point.same_problems.low, point.same_problems.high],
                }
                for point in curve.points
            ],
            "why": self.why,
        }
        if result is not None:
            record |= {
                "grader": result.grader_version,
                "graded_samples": result.samples,
                "neighbors": result.neighbors,
                "correct": int(result.counts.correct.sum()),
                "unknown": result.unknown,
                "missing_samples": result.missing,
                "truncated": result.truncated,
                "truncated_share": result.share(result.truncated),
                "refused": result.refused,
                "refused_share": result.share(result.refused),
                "mean_tokens": result.mean_tokens,
                "usd": result.usd,
                "sources": result.sources.shares,
                "correct_sources": result.sources.correct_shares,
                "human_grades": result.human,
                "overruled": result.overruled,
            }
        return record


def read_numbers(database: Database, run: Run, n: int | None = None) -> RunNumbers:
    """Return where a run stands; without `n`, missing samples are counted to the most that was asked for."""
    with database.read() as session:
        run = find_run(session, run.id)
        counts = count_samples(session, run.id, None)
        progress, ledger = progress_of(session, [run])[0], tuple(read_ledger(session, run.id))
        errors = tuple(frequent_errors(session, run.id, limit=ERRORS_LISTED))
        there = [problem.samples for problem in counts] or [0]
        wanted = max(max(there), most_wanted(session, run.id)) if n is None else n
        lost, spec = samples_lost(session, run.id, wanted), EvalSpec.from_json(run.spec)
        missing = lost if is_imported(spec) else samples_missing(session, run.id, wanted)
        result, why = None, None
        try:
            result = load_result(session, run)
        except InputError as error:
            why = str(error)
    fewest = 0 if result is None else int(result.counts.n.min())
    ks = [2**power for power in range(fewest.bit_length())]
    return RunNumbers(
        run=run,
        problems=len(counts),
        questions=sum(problem.variant == 0 for problem in counts),
        n=wanted,
        samples=sum(there),
        fewest=min(there),
        most=max(there),
        missing=missing,
        lost=lost,
        open_requests=progress.open,
        failed_requests=progress.failed,
        errors=errors,
        ledger=ledger,
        result=result,
        curve=None if result is None or not ks else curve(result.counts, ks),
        why=why,
    )
