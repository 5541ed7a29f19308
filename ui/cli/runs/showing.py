"""`tagrpo runs show`: where a run of any kind stands."""

from typing import Annotated

from typer import Argument

from ui.cli import exits
from ui.cli.output import Terminal
from ui.cli.settings import Db


def show(
    run: Annotated[str | None, Argument(help="Name or id of a run; not needed if there is only one.")] = None,
    *,
    db: Db,
    terminal: Terminal,
) -> None:
    """Show where a run stands: settings, what there is, errors, cost.

    Of neighbors: verdicts, findings, the first 20 questions that lack some (--json: all). Of an evaluation:
    pass@k with its intervals, and what stands beside it. Of a training: its steps and rollouts.

    Exit code 3: requests that propose neighbors or judge them are open or failed, or samples of an evaluation
    are missing for good.

    Example: [bold]tagrpo runs show math-gpt4[/bold]
    """
    from evaluator.evals.runs import IMPORTED
    from ui.cli.eval import reports
    from ui.cli.neighbors import summary
    from ui.cli.runs.choosing import choose
    from ui.cli.train import rollouts

    needed = ""
    with db.open() as database:
        with database.read() as session:
            chosen = choose(session, run)
            if chosen.kind == "propose":
                needed = summary.show(session, chosen, terminal)
            elif chosen.kind == "train":
                rollouts.show_run(session, chosen, terminal)
        if chosen.kind == "eval":
            stands = reports.read_numbers(database, chosen)
            record = {**stands.to_json(), "spec": chosen.spec, "versions": chosen.versions}
            terminal.emit(record, reports.print_run, chosen, stands)
            if stands.lost:
                imported = chosen.spec["engine"].get("sampler") == IMPORTED
                needed = reports.lost_words(chosen.name, stands.lost, imported=imported)
    if needed:
        raise exits.needs_attention(needed)
