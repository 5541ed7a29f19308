"""`tagrpo runs`: list, show, rename and remove runs of all kinds."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Literal

from typer import Argument, Option

from ui.cli import exits, output
from ui.cli.output import Terminal, plural
from ui.cli.settings import Db, OnlyRun, RunArgument

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from service.database import Database
    from service.runs.removing import Holdings
    from service.runs.store import Run

Kind = Literal["propose", "eval", "judge", "train"]
Cells = Mapping[str, object]
"""What a table shows of a run, by heading."""


@dataclass(frozen=True)
class Standing:
    """The state of a run, by its kind.

    Attributes:
        record: What JSON has in addition to the values that all kinds have.
        text: Prints the same for people.
        needed: What needs attention, empty if nothing does.
    """

    record: Mapping[str, Any]
    text: Callable[[], None]
    needed: str = ""


def list_(
    kind: Annotated[
        Kind | None,
        Option(help="Only runs of this kind: neighbors, evaluations, judge runs or training runs."),
    ] = None,
    *,
    db: Db,
    terminal: Terminal,
) -> None:
    """List the runs, oldest first, with their input, model and size.

    --kind adds the columns of that kind.

    Example: tagrpo runs list --kind eval
    """
    with db.reading() as session:
        listed = [each for name in KINDS if kind in (None, name) for each in KINDS[name][1](session)]
    listed.sort(key=lambda each: (each[0].created_at, each[0].name))
    records = [
        {
            "run": run.name,
            "run_id": run.id,
            "kind": run.kind,
            **record,
            "created_at": run.created_at,
            "finished_at": run.finished_at,
        }
        for run, _, _, record in listed
    ]
    rows: list[Cells] = [
        {
            "run": run.name,
            **({"kind": run.kind, **common} if kind is None else special),
            "finished": run.finished_at or "no",
        }
        for run, common, special, _ in listed
    ]
    starts = [f"`tagrpo {start}`" for name, (start, _) in KINDS.items() if kind in (None, name)]
    terminal.emit(
        {"runs": records},
        output.table,
        [*rows[0]] if rows else [],
        [[*row.values()] for row in rows],
        empty=f"no runs yet; start one with {', '.join(starts)}",
    )


Listed = tuple["Run", Cells, Cells, Mapping[str, Any]]
"""A run, its cells among runs of all kinds and among those of its own, and its JSON."""


def _list_proposals(session: "Session") -> list[Listed]:
    from rephraser.views.runs import list_headers

    listed: list[Listed] = []
    for each in list_headers(session):
        spec = each.run.spec
        model = {"model": each.proposed_by}
        done = f"{each.candidates:,} candidates of {plural(each.questions, 'question')}"
        special = {
            "number": each.questions,
            "solvers": ", ".join(solver["model"] for solver in spec["solvers"]) or None,
            "candidates": each.candidates,
            "USD": each.usd,
        }
        common = {"over": spec["questions"], **model, "done": done}
        listed.append(
            (each.run, common, {"questions": spec["questions"], **model, **special}, each.to_json())
        )
    return listed


def _list_evaluations(session: "Session") -> list[Listed]:
    from evaluator.evals.overview import runs_overview
    from evaluator.evals.sources import BOX
    from evaluator.reports.documents.document import ABSENT, hundredths

    listed: list[Listed] = []
    for each in runs_overview(session):
        model = {"model": each.run.spec["model"]}
        done = f"{each.samples:,} samples of {plural(each.problems, 'problem')}"
        shares = each.sources.shares
        special = {
            "problems": each.problems,
            "samples each": str(each.most) if each.fewest == each.most else f"{each.fewest} to {each.most}",
            "graded": "all" if each.graded == each.samples else f"{each.graded:,} of {each.samples:,}",
            "pass@1 %": ABSENT if each.mean is None else hundredths(each.mean),
            "human grades": each.human,
            "boxed %": ABSENT if shares is None else hundredths(shares[BOX], 1),
        }
        common = {"over": each.benchmark, **model, "done": done}
        listed.append((each.run, common, {"benchmark": each.benchmark, **model, **special}, each.to_json()))
    return listed


def _list_judgings(session: "Session") -> list[Listed]:
    from service.runs.progress import progress_of
    from service.runs.store import list_runs

    runs = list_runs(session)
    names = {run.id: run.name for run in runs}
    listed: list[Listed] = []
    for each in progress_of(session, [run for run in runs if run.kind == "judge"]):
        spec = each.run.spec
        over, model = names.get(spec["eval_run"]), {"model": spec["model"]}
        done = f"{each.done:,} of {plural(each.planned, 'response')} judged"
        special = {"judged": spec["asked"], "requests": each.planned, "replies": each.done, "USD": each.usd}
        record = {"asked": spec["asked"], **_judging_numbers(each)}
        common = {"over": over, **model, "done": done}
        listed.append((each.run, common, {"evaluation": over, **model, **special}, record))
    return listed


def _judging_numbers(progress: Any) -> dict[str, Any]:
    names = ("planned", "done", "open", "failed", "final", "usd", "unpriced")
    return {name: getattr(progress, name) for name in names}


def _list_trainings(session: "Session") -> list[Listed]:
    from trainer_adapter.record.runs import list_train_runs

    listed: list[Listed] = []
    for each in list_train_runs(session):
        if each.problem:
            output.note(each.problem)
        model, numbers = {"model": each.model}, vars(each.numbers)
        done = f"{each.numbers.rollouts:,} rollouts in {plural(each.numbers.steps, 'step')}"
        special = {name.replace("_", " "): value for name, value in numbers.items()}
        common = {"over": each.recipe, **model, "done": done}
        listed.append((each.run, common, {"recipe": each.recipe, **model, **special}, each.to_json()))
    return listed


KINDS: Mapping[str, tuple[str, Callable[["Session"], list[Listed]]]] = {
    "propose": ("rephrase run", _list_proposals),
    "eval": ("eval run", _list_evaluations),
    "judge": ("eval score --judge", _list_judgings),
    "train": ("train run", _list_trainings),
}
"""By kind the command that starts a run, and what lists them."""


def show(run: OnlyRun = None, *, db: Db, terminal: Terminal) -> None:
    """Show the state of a run: settings, progress, errors, cost.

    Neighbors: verdicts, findings, the first 20 questions that lack neighbors (--json: all). Evaluation:
    pass@k with intervals and caveats. Judge: its requests. Training: its steps and rollouts.

    Exit code 3: some requests are open or failed.

    Example: tagrpo runs show math-gpt4
    """
    from ui.cli.eval import summary as evaluations
    from ui.cli.resuming import choose_run
    from ui.cli.train import rollouts as trainings

    kinds: dict[str, Callable[[Database, Run], Standing]] = {
        "propose": _show_proposals,
        "eval": evaluations.standing,
        "judge": _show_judging,
        "train": trainings.standing,
    }
    with db.open(read_only=True) as database:
        with database.read() as session:
            chosen = choose_run(session, run)
        state = kinds[chosen.kind](database, chosen)
    record = {
        "run": chosen.name,
        "id": chosen.id,
        "kind": chosen.kind,
        "created_at": chosen.created_at,
        "finished_at": chosen.finished_at,
        **state.record,
        "spec": chosen.spec,
        "versions": chosen.versions,
    }
    finished = chosen.finished_at or "no"

    def print_state() -> None:
        output.say(f"{chosen.name} ({chosen.id}), created {chosen.created_at}, finished: {finished}")
        state.text()

    terminal.emit(record, print_state)
    if state.needed:
        raise exits.needs_attention(state.needed)


def _show_proposals(database: "Database", run: "Run") -> Standing:
    from rephraser.views.runs import summarize
    from ui.cli.rephrase.running import print_run, run_attention

    with database.read() as session:
        summary = summarize(session, run)
    return Standing(vars(summary), partial(print_run, run, summary), run_attention(summary))


def _show_judging(database: "Database", run: "Run") -> Standing:
    """Return the state of a judge's run. A response whose request failed for good keeps its grade."""
    from service.runs.progress import frequent_errors, progress_of
    from service.runs.spending import read_ledger
    from ui.cli.requests import open_words, print_errors, print_ledger

    with database.read() as session:
        line, ledger = progress_of(session, [run])[0], read_ledger(session, run.id)
        errors = frequent_errors(session, run.id)

    def text() -> None:
        output.say(
            f"{run.spec['model']} judges {run.spec['asked']} grades of {run.spec['eval_run']}",
            f"responses: {line.done:,} judged, {line.open:,} open, {line.failed:,} failed, "
            f"{line.final:,} failed permanently",
        )
        print_errors(errors)
        print_ledger(ledger)

    record = {
        **_judging_numbers(line),
        "errors": {each.error: each.count for each in errors},
        "ledger": ledger,
    }
    return Standing(record, text, "; ".join(open_words(run.name, line.open, line.failed, errors)))


def rename(
    run: RunArgument,
    name: Annotated[str, Argument(help="New name of the run.")],
    *,
    db: Db,
    terminal: Terminal,
) -> None:
    """Rename a run; its id and all references stay.

    Example: tagrpo runs rename first-try baseline
    """
    from service.runs.removing import rename_run
    from service.runs.store import find_run

    with db.writing() as session:
        chosen = find_run(session, run)
        rename_run(session, chosen, name)
    record = {"run": name, "id": chosen.id, "before": chosen.name}
    terminal.emit(record, output.say, f"run {chosen.name} is now {name}")


SHOWN = {
    "asks": "requests and their answers",
    "proposals": "proposals",
    "verdicts": "verdicts",
    "audits": "audits",
    "run_problems": "problems",
    "samples": "samples",
    "grades": "grades",
}
"""Tables that are worth a line, and what their rows are called."""


def remove(
    run: RunArgument,
    yes: Annotated[bool, Option("--yes", help="Remove without confirmation.")] = False,
    *,
    db: Db,
    terminal: Terminal,
) -> None:
    """Remove a run and its data: answers, verdicts, samples, grades.

    Published sets, reviews, questions and candidates stay, as do the answers of solvers and judges, which
    other runs can use. tagrpo refuses to remove a run that is in use, that other runs build on, or whose
    audits contain human decisions. `tagrpo db upgrade --vacuum` releases the disk space.

    Example: tagrpo runs remove first-try
    """
    from rephraser.sets import list_sets
    from service.runs.removing import holdings, remove_run
    from service.runs.store import find_run
    from trainer_adapter.record.tables import TrainFolderRow

    with db.open() as database:
        with database.read() as session:
            chosen = find_run(session, run)
            hanging = holdings(session, chosen)
            headers = list_sets(session, None)
            sets = [each.ref for each in headers if chosen.id in {source["id"] for source in each.runs}]
            kept = session.get(TrainFolderRow, chosen.id)
            folders = [] if kept is None else [kept.folder]
        if not terminal.as_json:
            _note_content(chosen, hanging, sets, folders)
        if not hanging.obstacles and not yes:
            question = f"Remove run {chosen.name}? This cannot be undone."
            output.confirm(f"removing run {chosen.name!r}", question)
        with database.write() as session:
            remove_run(session, chosen)
    record = {
        "run": chosen.name,
        "id": chosen.id,
        "usd": hanging.usd,
        "removed": hanging.rows,
        "sets": sets,
        "rollout_folders": folders,
    }
    terminal.emit(record, output.say, f"removed run {chosen.name}")


def _note_content(run: "Run", hanging: "Holdings", sets: list[str], folders: list[str]) -> None:
    output.note(f"run {run.name} ({run.kind}, created {run.created_at}) contains:")
    for table, noun in SHOWN.items():
        if count := hanging.rows.get(table):
            output.note(f"  {count:,} {noun}")
    if hanging.usd:
        output.note(f"  cost ${hanging.usd:,.2f}")
    if sets:
        output.note(f"sets published from it stay, but their provenance is lost: {', '.join(sets)}")
    if folders:
        output.note(f"rollout files stay; remove them yourself: {', '.join(folders)}")
