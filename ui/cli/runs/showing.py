"""`tagrpo runs show`: where a run of any kind stands."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from ui.cli import exits, output
from ui.cli.output import Terminal
from ui.cli.settings import Db, OnlyRun

if TYPE_CHECKING:
    from service.database import Database
    from service.runs.store import Run


@dataclass(frozen=True)
class Standing:
    """Where a run stands, by its kind.

    Attributes:
        record: the machine-readable form, beside what all kinds have.
        text: prints the same for people.
        needed: what needs attention, empty where nothing does.
    """

    record: Mapping[str, Any]
    text: Callable[[], None]
    needed: str = ""


def show(
    run: OnlyRun = None,
    *,
    db: Db,
    terminal: Terminal,
) -> None:
    """Show the state of a run: settings, progress, errors, cost.

    Neighbors: verdicts, findings, the first 20 questions that lack neighbors (--json: all). Evaluation:
    pass@k with intervals and caveats. Judge: its requests. Training: its steps and rollouts.

    Exit code 3: some requests are open or failed.

    Example: tagrpo runs show math-gpt4
    """
    from ui.cli.eval import summary as evaluations
    from ui.cli.neighbors import summary as neighbors
    from ui.cli.runs.resuming import choose
    from ui.cli.train import rollouts as trainings

    kinds: dict[str, Callable[[Database, Run], Standing]] = {
        "propose": neighbors.standing,
        "eval": evaluations.standing,
        "judge": _judging,
        "train": trainings.standing,
    }
    with db.open(read_only=True) as database:
        with database.read() as session:
            chosen = choose(session, run)
        stands = kinds[chosen.kind](database, chosen)
    record = {
        "run": chosen.name,
        "id": chosen.id,
        "kind": chosen.kind,
        "created_at": chosen.created_at,
        "finished_at": chosen.finished_at,
        **stands.record,
        "spec": chosen.spec,
        "versions": chosen.versions,
    }
    terminal.emit(record, _print, chosen, stands)
    if stands.needed:
        raise exits.needs_attention(stands.needed)


def _print(run: "Run", stands: Standing) -> None:
    output.say(f"{run.name} ({run.id}), created {run.created_at}, finished: {run.finished_at or 'no'}")
    stands.text()


def _judging(database: "Database", run: "Run") -> Standing:
    """Return where a judge's run stands. What failed for good keeps its grade."""
    from service.runs.progress import frequent_errors, progress_of
    from service.runs.spending import read_ledger
    from ui.cli.requests import open_words, print_errors, print_ledger
    from ui.cli.runs.listing import judging_numbers

    with database.read() as session:
        line, ledger = progress_of(session, [run])[0], read_ledger(session, run.id)
        errors = frequent_errors(session, run.id)

    def text() -> None:
        output.say(
            f"{run.spec['model']} judges {run.spec['asked']} grades of {run.spec['eval_run']}",
            f"responses: {line.done:,} judged, {line.open:,} open, {line.failed:,} failed, "
            f"{line.final:,} failed for good",
        )
        print_errors(errors)
        print_ledger(ledger)

    record = {
        **judging_numbers(line),
        "errors": {each.error: each.count for each in errors},
        "ledger": [asdict(each) for each in ledger],
    }
    return Standing(record, text, "; ".join(open_words(run.name, line.open, line.failed, errors)))
