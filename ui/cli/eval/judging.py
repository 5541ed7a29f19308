"""`tagrpo eval judge`: a judge model asked about responses of which no rule could tell."""

import asyncio
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from typer import Option

from ui.cli import exits, output
from ui.cli.eval.settings import (
    AnswersChoice,
    AnswersName,
    EvalRequests,
    EvalRun,
    OwnGrader,
    Workers,
    check_grader,
    model_settings,
)
from ui.cli.output import Terminal, plural
from ui.cli.requests import DryRun, hold_cap, log_folder, print_estimates, print_ledger
from ui.cli.runs.resuming import keep
from ui.cli.settings import Db, SettingsFile

if TYPE_CHECKING:
    from evaluator.evals.results import RunResult
    from evaluator.judging.running import JudgeOutcome
    from service.runs.spending import LedgerLine
    from service.runs.store import Run


def judge(
    context: typer.Context,
    run: EvalRun,
    *,
    model: Annotated[str, Option(help="Judge model, named as in litellm (gpt-4o, hosted_vllm/NAME).")],
    about: Annotated[
        Literal["unknown", "wrong", "all"],
        Option(
            "--for",
            help="Grades to check. unknown: only unknown grades; wrong: also wrong ones; all: all grades.",
        ),
    ] = "unknown",
    max_tokens: Annotated[
        int, Option(min=1, help="Maximum tokens of a reply; a reply that is cut off does not count.")
    ] = 2048,
    temperature: Annotated[
        float, Option(min=0, max=2, help="Temperature; use 1 for models that accept no other value.")
    ] = 0.0,
    changes: Annotated[bool, Option(help="List the samples whose grade the judge changes.")] = False,
    dry_run: DryRun = False,
    answers: AnswersChoice = None,
    own_grader: OwnGrader = None,
    workers: Workers = None,
    requests: EvalRequests,
    settings: SettingsFile,
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
    from evaluator.evals.grading import grade_changes, grade_run
    from evaluator.evals.results import load_result
    from evaluator.evals.runs import find_eval_run
    from evaluator.grading import Grader
    from evaluator.grading.versions import GradeCache
    from evaluator.judging.estimating import estimate_judging
    from evaluator.judging.running import JudgeOutcome, JudgeSpec, judge_run, open_judge_run
    from service.asks.ask import INTERRUPTED
    from service.asks.prompts import prompt_request
    from service.engines.opening import OpenModels, check_request
    from service.models.stopping import deliver_signal
    from service.runs.spending import read_ledger
    from ui.cli.eval.grading import changes_json

    check_grader(own_grader, answers)
    if requests.retry_final:
        raise typer.BadParameter(
            "requests that failed for good leave the grade unchanged. Remove --retry-final"
        )
    spec = JudgeSpec(model, about, max_tokens, temperature)
    if dry_run:
        with db.open(read_only=True) as database:
            with database.read() as session:
                chosen = find_eval_run(session, run)
            base = _base(chosen, own_grader, answers)
            estimate = estimate_judging(database, chosen, spec, base, requests.prices_in_force())
        terminal.emit(
            {"run": chosen.name, **estimate.to_json()},
            print_estimates,
            {"": estimate},
            "response",
            "from only a verdict to replies of --max-tokens",
            requests.max_usd,
        )
        return
    with db.open() as database:
        with database.read() as session:
            chosen = find_eval_run(session, run)
        base = _base(chosen, own_grader, answers)

        async def ask(grader: Grader, bar: output.Bar) -> JudgeOutcome:
            capped = requests.max_usd is not None
            async with OpenModels(log_folder(database), requests.price_table(), capped=capped) as models:
                source = model_settings("remote", model, requests, {}, base_url=requests.api_base)
                endpoint = await models.open(source)
                check_request(endpoint, prompt_request(model, spec.prompt, spec.sampling, "?"))
                grade_run(database, chosen.id, grader, output.stage(bar, "grading"), version=base)
                with database.write() as session:
                    judging = open_judge_run(session, chosen, spec, base)
                hold_cap(database, [judging], requests.max_usd)
                keep(context, database, [judging])
                return await judge_run(
                    database,
                    chosen,
                    judging,
                    spec,
                    base,
                    models.models(requests.options()),
                    output.stages(bar),
                )

        with (
            Grader(workers=workers, cache=GradeCache(database), own=own_grader or _own(chosen)) as grader,
            terminal.progress(chosen.name) as bar,
        ):
            judged = asyncio.run(ask(grader, bar))
        if judged.stopped == INTERRUPTED:
            deliver_signal()
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


def _own(run: "Run") -> str | None:
    from evaluator.evals.runs import run_version
    from evaluator.grading.workers.own import own_name

    return own_name(run_version(run))


def _base(run: "Run", own_grader: str | None, answers: "AnswersName | None") -> str:
    """Return the version of the grades that the judge's stand beside."""
    from evaluator.evals.runs import run_answers, run_version
    from evaluator.grading.versions import version_taking
    from evaluator.grading.workers.own import own_version

    if own_grader is not None:
        return own_version(own_grader)
    if answers is not None and answers != run_answers(run):
        return version_taking(answers)
    return run_version(run)


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
