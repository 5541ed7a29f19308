"""The current state of an eval run: requests, responses, cost, and pass@k if available."""

from dataclasses import asdict
from typing import Any

from evaluator.evals.counts import count_samples
from evaluator.evals.missing import most_wanted, samples_lost, samples_missing
from evaluator.evals.results import load_result
from evaluator.evals.runs import EvalSpec, is_imported
from evaluator.passk.curves import curve
from service.database import Database
from service.errors import InputError
from service.runs.progress import frequent_errors, progress_of
from service.runs.spending import read_ledger
from service.runs.store import Run, find_run

ERRORS_LISTED = 20


def read_numbers(database: Database, run: Run, n: int | None = None) -> dict[str, Any]:
    """Return where a run stands; without `n`, missing samples are counted to the most that was asked for.

    If there is no pass@k, `why` says why.
    """
    result, why = None, None
    with database.read() as session:
        run = find_run(session, run.id)
        counts = count_samples(session, run.id, None)
        progress, ledger = progress_of(session, [run])[0], read_ledger(session, run.id)
        errors = frequent_errors(session, run.id, limit=ERRORS_LISTED)
        there = [problem.samples for problem in counts] or [0]
        wanted = max(max(there), most_wanted(session, run.id)) if n is None else n
        lost = samples_lost(session, run.id, wanted)
        imported = is_imported(EvalSpec.model_validate(run.spec))
        missing = lost if imported else samples_missing(session, run.id, wanted)
        try:
            result = load_result(session, run)
        except InputError as error:
            why = str(error)
    fewest = 0 if result is None else int(result.counts.n.min())
    ks = [2**power for power in range(fewest.bit_length())]
    points = curve(result.counts, ks) if result is not None and ks else None
    record = {
        "run": run.name,
        "id": run.id,
        "created_at": run.created_at,
        "finished_at": run.finished_at,
        "benchmark": run.spec["problems"],
        "model": run.spec["model"],
        "problems": len(counts),
        "originals": sum(problem.variant == 0 for problem in counts),
        "benchmark_problems": run.spec["size"],
        "n": wanted,
        "samples": sum(there),
        "fewest_samples": min(there),
        "most_samples": max(there),
        "missing": missing,
        "missing_for_good": lost,
        "open_requests": progress.open,
        "failed_requests": progress.failed,
        "errors": errors,
        "ledger": [asdict(line) for line in ledger],
        "pass_at_k": points
        and [
            {
                "k": point.k,
                "value": point.value,
                "value_high": point.value_high,
                "new_problems": [point.new_problems.low, point.new_problems.high],
                "same_problems": [point.same_problems.low, point.same_problems.high],
            }
            for point in points.points
        ],
        "why": why or (None if points else "pass@k needs at least one sample of each problem"),
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
