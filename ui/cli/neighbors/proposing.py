"""`tagrpo rephrase run`: start a run of candidates and verdicts, or go on with one."""

import asyncio

from rephraser.config import RephraseConfig
from ui.cli import exits, output
from ui.cli.configured import verb
from ui.cli.output import Terminal
from ui.cli.requests import DryRun, print_estimates
from ui.cli.settings import Db

FLAGS = {
    "--name": "name",
    "--model": "proposer.model",
    "--solver": "solver",
    "--n": "n",
    "--limit": "limit",
    "--max-usd": "max_usd",
    "--base-url": "proposer.base_url",
}


@verb("rephrase", RephraseConfig, "questions", FLAGS)
def run(config: RephraseConfig, *, dry_run: DryRun = False, db: Db, terminal: Terminal) -> None:
    """Propose neighbors for questions, check them, and compare answers if a solver is named.

    Results are stored as they arrive. After an interruption or a spent budget, run the same command again, or
    `tagrpo resume NAME`; nothing is paid for twice.

    Example: tagrpo rephrase run math --name math-gpt4 --model gpt-4-turbo --solver hosted_vllm/Qwen/Qwen3-4B
    solver.base_url=http://localhost:8000/v1 --max-usd 50
    """
    from rephraser.run.execution import estimate, rephrase
    from rephraser.views.runs import summarize
    from service.asks.ask import INTERRUPTED
    from service.models.stopping import deliver_signal
    from ui.cli.neighbors.summary import print_summary, run_problems

    with db.open() as database:
        if dry_run:
            expected = estimate(config, database)
            spread = "one round to all rounds for all questions"
            terminal.emit(
                expected.to_json(), print_estimates, {"": expected}, "question", spread, config.max_usd
            )
            return
        with terminal.progress(config.name) as bar:
            done, outcome = asyncio.run(rephrase(config, database, output.stages(bar), output.note))
        with database.read() as session:
            summary = summarize(session, done)
    if outcome.stopped == INTERRUPTED:  # requests in flight are stored
        deliver_signal()
    record = {**summary.to_json(), "stopped": outcome.stopped, "message": outcome.message}
    terminal.emit(record, print_summary, summary, ended=not outcome.stopped)
    problems = run_problems(outcome, summary)
    if problems:
        raise exits.unfinished({outcome.stopped} if outcome.stopped else set(), "; ".join(problems) + ".")
