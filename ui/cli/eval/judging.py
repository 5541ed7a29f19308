"""`tagrpo eval judge`: a judge model asked about responses of which no rule could tell."""

import asyncio
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

from evaluator.config import JudgeConfig
from ui.cli import exits, output
from ui.cli.configured import verb
from ui.cli.output import Terminal, plural
from ui.cli.requests import DryRun, print_estimates, print_ledger
from ui.cli.settings import Db

if TYPE_CHECKING:
    from evaluator.evals.results import RunResult
    from evaluator.judging.running import JudgeOutcome
    from service.runs.spending import LedgerLine
    from service.runs.store import Run


FLAGS = {
    "--model": "model",
    "--for": "asked",
    "--answers": "answers",
    "--max-usd": "max_usd",
    "--endpoint": "endpoint",
    "--base-url": "base_url",
}


@verb("judge", JudgeConfig, "run", FLAGS)
def judge(
    config: JudgeConfig,
    *,
    changes: Annotated[bool, Option(help="List the samples whose grade the judge changes.")] = False,
    dry_run: DryRun = False,
    db: Db,
    terminal: Terminal,
) -> None:
    """Ask a judge model about responses with an unknown grade, and show the effect of its grades.

    The judge's grades are stored next to the grader's. They count only if `report` or `compare` gets --judge
    MODEL. Without a verdict in the reply the grade stays. Requests, cap and cost belong to a separate run,
    and no question is paid for twice. After a kill or a spent budget, run the same command again to resume.

    Exit code 3: some samples still wait for the judge; 1: the judge cannot be asked.

    Example: tagrpo eval judge Qwen3-4B.math500 --model gpt-4o --max-usd 2
    """
    from evaluator.benchmarks.catalogue import is_secret
    from evaluator.evals.grading import grade_changes
    from evaluator.evals.results import load_result
    from evaluator.evals.runs import find_eval_run
    from evaluator.judging import running
    from evaluator.judging.estimating import estimate_judging
    from service.asks.ask import INTERRUPTED
    from service.models.stopping import deliver_signal
    from service.runs.spending import read_ledger
    from ui.cli.eval.grading import changes_json

    with db.open(read_only=dry_run) as database:
        with database.read() as session:
            chosen = find_eval_run(session, config.run)
        if dry_run:
            estimate = estimate_judging(config, database)
            spread = "from only a verdict to replies of max_tokens"
            record = {"run": chosen.name, **estimate.to_json()}
            terminal.emit(record, print_estimates, {"": estimate}, "response", spread, config.max_usd)
            return
        with terminal.stages(chosen.name) as report:
            judged = asyncio.run(running.judge(config, database, report, output.note))
        if judged.stopped == INTERRUPTED:
            deliver_signal()
        base = running.base_version(config, chosen)
        with database.read() as session:
            before = load_result(session, chosen, base)
            after = None if judged.waiting else load_result(session, chosen, judged.version)
            ledger = tuple(read_ledger(session, judged.run.id))
            turned = grade_changes(session, chosen.id, base, judged.version) if changes else []
    record = _record(chosen, judged, before, after, ledger)
    if changes:
        record["changes"] = changes_json(turned, secret=is_secret(chosen.spec["problems"]))
    terminal.emit(record, _print, record, ledger)
    if judged.waiting:
        raise exits.unfinished(
            {judged.stopped} if judged.stopped else set(),
            f"{chosen.name}: {plural(judged.waiting, 'sample')} still waiting for the judge"
            + (f": {judged.message or judged.stopped}" if judged.stopped else "")
            + "; run the same command again to resume.",
        )


def _record(
    run: "Run",
    judged: "JudgeOutcome",
    before: "RunResult",
    after: "RunResult | None",
    ledger: "tuple[LedgerLine, ...]",
) -> dict[str, Any]:
    return {
        "run": run.name,
        "judge_run": judged.run.name,
        "grader": judged.version,
        **judged.by_outcome,
        "stopped": judged.stopped,
        "message": judged.message,
        "failures": judged.failures,
        "unknown_before": before.unknown,
        "unknown_after": None if after is None else after.unknown,
        "judged": None if after is None or after.judged is None else asdict(after.judged),
        "ledger": [asdict(line) for line in ledger],
    }


_COUNTS = {
    "correct": "correct",
    "wrong": "wrong",
    "unsure": "unsure, grade unchanged",
    "silent": "no verdict or no reply, grade unchanged",
    "empty": "nothing to judge: no answer, or no gold answer",
    "waiting": "not asked yet",
}


def _print(record: dict[str, Any], ledger: "tuple[LedgerLine, ...]") -> None:
    from evaluator.reports.documents.document import hundredths
    from ui.cli.eval.grading import print_changes

    output.say(f"{record['run']}, judged in {record['judge_run']}")
    output.table(["judge's verdict", "samples"], [[words, record[name]] for name, words in _COUNTS.items()])
    if record["judged"] is not None:
        points = record["judged"]
        output.say(
            f"the judge gave {plural(points['grades'], 'grade')}, {points['correct']:,} of them correct: "
            f"{hundredths(points['points'])} points of pass@1; unknown grades: {record['unknown_before']:,} "
            f"before, {record['unknown_after']:,} after"
        )
        output.say(f"`tagrpo eval report {record['run']} --judge {points['model']}` counts these grades")
    print_ledger(ledger)
    if record.get("changes"):
        print_changes(record["changes"])
