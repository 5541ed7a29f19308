"""`tagrpo eval score`: grades by the rules, by a grader of one's own, or by a judge model."""

import asyncio

from evaluator.config import ScoreConfig
from service.errors import InputError
from ui.cli import exits, output
from ui.cli.configured import Verb
from ui.cli.output import plural, terminal
from ui.cli.requests import DryRun, estimate_notes
from ui.cli.settings import db

FLAGS = {
    "--judge": "model",
    "--for": "asked",
    "--answers": "answers",
    "--grader": "grader",
    "--max-usd": "max_usd",
    "--base-url": "base_url",
}


@Verb("score", ScoreConfig, "run", FLAGS)
def score(config: ScoreConfig, *, changes: bool = False, dry_run: DryRun = False) -> None:
    """Grade the samples of a run that have no grade yet, by rules or by a judge model.

    Earlier grades are kept; it reports how many changed. --judge asks a model about the samples with an
    unknown grade. Its grades count only if `eval report` or `eval compare` gets --judge MODEL. After an
    interruption or a spent budget, run the same command again.

    Exit codes: 3 some samples still wait for the judge, 1 requests to the judge fail.

    Example: tagrpo eval score Qwen3-4B.amc23 --answers boxed --changes

    Example: tagrpo eval score Qwen3-4B.math500 --judge gpt-4o --max-usd 2

    Args:
        changes: List the samples whose grade changed.
    """
    from evaluator.evals.runs import find_eval_run
    from evaluator.judging.running import estimate_judging
    from evaluator.judging.scoring import score_by_judge, score_by_rules
    from ui.cli.records import list_table

    if dry_run and config.model is None:
        raise InputError("--dry-run estimates the cost of a judge. Add --judge, or remove --dry-run.")
    with db.open(read_only=dry_run) as database:
        with database.read() as session:
            chosen = find_eval_run(session, config.run)
        if dry_run:
            estimate = estimate_judging(config, database)
            record = {"run": chosen.name, **estimate.to_json()}
            terminal.show(record, *estimate_notes([estimate], config.max_usd))
            return
        with terminal.progress(chosen.name) as bar:
            if config.model is None:
                record = score_by_rules(config, chosen, database, bar)
            else:
                record = asyncio.run(score_by_judge(config, chosen, database, bar, output.note))
    stopped, waiting = record.get("stopped"), record.get("waiting", 0)
    exits.end_if_interrupted(stopped)
    listed = record["changes"] if changes else []
    if not changes:
        del record["changes"]
    columns = "problem=position sample=ordinal gold old old_reason new new_reason old_extracted new_extracted"
    count = f"`tagrpo eval report {chosen.name} --judge {config.model}` counts these grades"
    terminal.show(
        record,
        count if record.get("judged") else None,
        list_table(listed, columns) if listed else None,
        hidden=("changes",),
    )
    if waiting:
        raise exits.unfinished(
            {stopped},
            f"{chosen.name}: {plural(waiting, 'sample')} still waiting for the judge"
            + (f": {record['message'] or stopped}" if stopped else "")
            + "; run the same command again to resume.",
        )
