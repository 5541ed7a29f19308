"""`tagrpo runs show`: where a run of any kind stands."""

from dataclasses import asdict
from typing import TYPE_CHECKING

from ui.cli import exits, output
from ui.cli.output import Terminal
from ui.cli.settings import Db, OnlyRun

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from service.runs.store import Run


def show(
    run: OnlyRun = None,
    *,
    db: Db,
    terminal: Terminal,
) -> None:
    """Show where a run stands: settings, what there is, errors, cost.

    Of neighbors: verdicts, findings, the first 20 questions that lack some (--json: all). Of an evaluation:
    pass@k with its intervals, and what stands beside it. Of a judge: its requests. Of a training: its steps
    and rollouts.

    Exit code 3: requests are open, failed or failed for good.

    Example: [bold]tagrpo runs show math-gpt4[/bold]
    """
    from evaluator.evals.runs import IMPORTED
    from ui.cli.eval import summary as eval_summary
    from ui.cli.neighbors import summary
    from ui.cli.runs.resuming import choose
    from ui.cli.train import rollouts

    needed = ""
    with db.open() as database:
        with database.read() as session:
            chosen = choose(session, run)
            if chosen.kind == "propose":
                needed = summary.show(session, chosen, terminal)
            elif chosen.kind == "train":
                rollouts.show_run(session, chosen, terminal)
            elif chosen.kind == "judge":
                needed = _show_judging(session, chosen, terminal)
        if chosen.kind == "eval":
            stands = eval_summary.read_numbers(database, chosen)
            record = {**stands.to_json(), "spec": chosen.spec, "versions": chosen.versions}
            terminal.emit(record, eval_summary.print_run, chosen, stands)
            imported = chosen.spec["engine"].get("sampler") == IMPORTED
            needed = eval_summary.attention(stands, imported=imported)
    if needed:
        raise exits.needs_attention(needed)


def _show_judging(session: "Session", run: "Run", terminal: Terminal) -> str:
    """Print where a judge's run stands; return what needs attention. What failed for good keeps its grade."""
    from service.runs.progress import frequent_errors, progress_of
    from service.runs.spending import read_ledger
    from ui.cli.requests import open_words, print_errors, print_ledger
    from ui.cli.runs.listing import judging_numbers

    line, ledger = progress_of(session, [run])[0], read_ledger(session, run.id)
    errors = frequent_errors(session, run.id)

    def text() -> None:
        asked = f"{run.spec['model']} asked about {run.spec['asked']} grades of {run.spec['eval_run']}"
        output.say(f"{run.name} ({run.id}), made {run.created_at}: {asked}")
        output.say(
            f"requests: {line.filled:,} answered, {line.open:,} open, {line.failed:,} failed, "
            f"{line.final:,} failed for good"
        )
        print_errors(errors)
        print_ledger(ledger)

    record = {
        "run": run.name,
        "id": run.id,
        "spec": run.spec,
        "versions": run.versions,
        **judging_numbers(line),
        "errors": {each.error: each.cells for each in errors},
        "ledger": [asdict(each) for each in ledger],
    }
    terminal.emit(record, text)
    return "; ".join(open_words(run.name, line.open, line.failed, errors))
