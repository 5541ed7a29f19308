"""`tagrpo runs`: list, show, rename and remove runs of all kinds."""

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from typer import Option

from ui.cli import exits, output
from ui.cli.output import Table, plural, terminal
from ui.cli.settings import OnlyRun, RunArgument, db

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from service.database import Database
    from service.runs.removing import Holdings
    from service.runs.store import Run

Kind = Literal["propose", "eval", "judge", "train"]


def list_(kind: Kind | None = None) -> None:
    """List all runs with their input, model and size, oldest first.

    Example: tagrpo runs list --kind eval

    Args:
        kind: Only runs of this kind: neighbors, evaluations, judge runs or training runs.
    """
    with db.reading() as session:
        listed = [each for name in KINDS if kind in (None, name) for each in KINDS[name][1](session)]
    listed.sort(key=lambda each: (each[0].created_at, each[0].name))
    starts = [f"`tagrpo {start}`" for name, (start, _) in KINDS.items() if kind in (None, name)]
    empty = f"no runs yet; start one with {', '.join(starts)}"
    rows, records = [], []
    for run, over, model, done, record in listed:
        rows.append([run.name, run.kind, over, model, done, run.finished_at or "no"])
        named = {"run": run.name, "run_id": run.id, "kind": run.kind}
        times = {"created_at": run.created_at, "finished_at": run.finished_at}
        records.append({**named, **record, **times})
    table = Table(["run", "kind", "over", "model", "done", "finished"], rows, empty)
    terminal.emit({"runs": records}, table)


Listed: TypeAlias = "tuple[Run, str | None, str | None, str, Mapping[str, Any]]"
"""A run in a list: what it is over, its model, how far it is, and its JSON."""


def _list_proposals(session: "Session") -> Iterator[Listed]:
    from rephraser.views.runs import list_records, proposed_by

    for run, record in list_records(session):
        size = f"{record['candidates']:,} candidates of {plural(record['questions'], 'question')}"
        done = size + _cost(record["usd"])
        yield (run, run.spec["questions"], proposed_by(run.spec), done, record)


def _list_evaluations(session: "Session") -> Iterator[Listed]:
    from evaluator.evals.overview import runs_overview
    from evaluator.reports.documents.document import hundredths

    for each in runs_overview(session):
        done = f"{each.samples:,} samples of {plural(each.problems, 'problem')}"
        done += f", {each.graded:,} graded" if each.graded < each.samples else ""
        done += "" if each.mean is None else f", pass@1 {hundredths(each.mean)}%"
        yield (each.run, each.benchmark, each.run.spec["model"], done, each.to_json())


def _list_judgings(session: "Session") -> Iterator[Listed]:
    from service.runs.progress import progress_of
    from service.runs.store import list_runs

    runs = list_runs(session)
    names = {run.id: run.name for run in runs}
    for each in progress_of(session, [run for run in runs if run.kind == "judge"]):
        spec = each.run.spec
        done = f"{each.done:,} of {plural(each.planned, 'response')} judged{_cost(each.usd)}"
        record = {"asked": spec["asked"], **_judging_numbers(each)}
        yield (each.run, names.get(spec["eval_run"]), spec["model"], done, record)


def _list_trainings(session: "Session") -> Iterator[Listed]:
    from trainer_adapter.record.runs import list_train_runs

    for each in list_train_runs(session):
        if each.problem:
            output.note(each.problem)
        done = f"{each.numbers.rollouts:,} rollouts in {plural(each.numbers.steps, 'step')}"
        yield (each.run, each.recipe, each.model, done, each.to_json())


def _cost(usd: float | None) -> str:
    return ", price unknown" if usd is None else f", ${usd:,.2f}"


def _judging_numbers(progress: Any) -> dict[str, Any]:
    names = ("planned", "done", "open", "failed", "final", "usd", "unpriced")
    return {name: getattr(progress, name) for name in names}


KINDS: Mapping[str, tuple[str, Callable[["Session"], Iterator[Listed]]]] = {
    "propose": ("rephrase run", _list_proposals),
    "eval": ("eval run", _list_evaluations),
    "judge": ("eval score --judge", _list_judgings),
    "train": ("train run", _list_trainings),
}
"""By kind the command that starts a run, and what lists them."""


def show(run: OnlyRun = None) -> None:
    """Show the state of a run: settings, progress, errors, cost.

    Neighbors: verdicts, findings, questions that lack neighbors. Evaluation:
    pass@k with intervals and caveats. Judge: its requests. Training: its steps and rollouts.

    Exit code 3: some requests are open or failed.

    Example: tagrpo runs show math-gpt4
    """
    from ui.cli.eval import summary as evaluations
    from ui.cli.resuming import choose_run
    from ui.cli.train import rollouts as trainings

    kinds: dict[str, Callable[[Database, Run], tuple[Mapping[str, Any], str]]] = {
        "propose": _show_proposals,
        "eval": evaluations.standing,
        "judge": _show_judging,
        "train": trainings.standing,
    }
    with db.open(read_only=True) as database:
        with database.read() as session:
            chosen = choose_run(session, run)
        state, needed = kinds[chosen.kind](database, chosen)
    described = ("id", "kind", "created_at", "finished_at")
    record = {"run": chosen.name, **{name: getattr(chosen, name) for name in described}, **state}
    record |= {"spec": state.get("spec", chosen.spec), "versions": chosen.versions}
    terminal.show(record, hidden=("run_id",))
    if needed:
        raise exits.needs_attention(needed)


def _show_proposals(database: "Database", run: "Run") -> tuple[Mapping[str, Any], str]:
    from rephraser.views.runs import summarize
    from ui.cli.rephrase.running import run_attention

    with database.read() as session:
        summary = summarize(session, run)
    return vars(summary), run_attention(summary)


def _show_judging(database: "Database", run: "Run") -> tuple[Mapping[str, Any], str]:
    """Return the state of a judge's run. A response whose request failed permanently keeps its grade."""
    from service.runs.progress import frequent_errors, progress_of
    from service.runs.spending import read_ledger
    from ui.cli.requests import open_words

    with database.read() as session:
        line, ledger = progress_of(session, [run])[0], read_ledger(session, run.id)
        errors = frequent_errors(session, run.id)
    record = {**_judging_numbers(line), "errors": errors, "ledger": ledger}
    return record, "; ".join(open_words(run.name, line.open, line.failed, errors))


def rename(run: RunArgument, name: str) -> None:
    """Rename a run; its id and all references stay.

    Example: tagrpo runs rename first-try baseline

    Args:
        name: New name of the run.
    """
    from service.runs.removing import rename_run
    from service.runs.store import find_run

    with db.writing() as session:
        chosen = find_run(session, run)
        rename_run(session, chosen, name)
    terminal.show({"run": name, "id": chosen.id, "before": chosen.name})


SHOWN = {
    "asks": "request",
    "proposals": "proposal",
    "verdicts": "verdict",
    "audits": "audit",
    "run_problems": "problem",
    "samples": "sample",
    "grades": "grade",
}
"""Tables whose numbers of rows are printed before a run is removed, and what a row is."""


def remove(run: RunArgument, yes: Annotated[bool, Option("--yes")] = False) -> None:
    """Remove a run and its data: answers, verdicts, samples, grades.

    Published sets, reviews, questions and candidates stay, as do the answers of solvers and judges, which
    other runs can use. tagrpo refuses to remove a run that is in use, that other runs build on, or whose
    audits contain human decisions. `tagrpo db upgrade --vacuum` releases the disk space.

    Example: tagrpo runs remove first-try

    Args:
        yes: Remove without confirmation.
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
    terminal.show(record)


def _note_content(run: "Run", hanging: "Holdings", sets: list[str], folders: list[str]) -> None:
    rows = hanging.rows
    held = ", ".join(plural(rows[name], word) for name, word in SHOWN.items() if rows.get(name))
    cost = f", cost ${hanging.usd:,.2f}" if hanging.usd else ""
    output.note(f"run {run.name} ({run.kind}, created {run.created_at}) contains {held or 'nothing'}{cost}")
    if sets:
        output.note(f"sets published from it stay, but their provenance is lost: {', '.join(sets)}")
    if folders:
        output.note(f"rollout files stay; remove them yourself: {', '.join(folders)}")
