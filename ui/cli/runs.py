"""`tagrpo runs`: list, show, rename and remove runs of all kinds; what a run costs and what it needs."""

import textwrap
from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Literal

from service.errors import NotFoundError
from ui.cli import output
from ui.cli.output import plural, terminal
from ui.cli.settings import OnlyRun, RunArgument, db, resume_command

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from service.database import Database
    from service.models.estimate import Estimate
    from service.runs.store import Run

Kind = Literal["propose", "eval", "judge", "train"]
STARTS = {
    "propose": "rephrase run",
    "eval": "eval run",
    "judge": "eval score --judge",
    "train": "train run",
}
"""By kind the command that starts a run."""
SIZES = ("candidates", "samples", "graded", "pass_at_1", "planned", "done", "steps", "rollouts", "usd")
"""Numbers that show how far a run is, in the order in which a list has them."""
LONGEST_MESSAGE = 200


def list_(kind: Kind | None = None) -> None:
    """List all runs with their input, model and size, oldest first.

    Example: tagrpo runs list --kind eval

    Args:
        kind: Only runs of this kind. propose: runs of `rephrase`; judge: runs of `eval score --judge`.
    """
    with db.reading() as session:
        listed = sorted(_records(session), key=lambda each: (each[0].created_at, each[0].name))
    names = {run.id: run.name for run, _ in listed}
    rows: list[dict[str, Any]] = []
    for run, record in listed:
        over = run.spec.get("questions") or run.spec.get("problems") or run.spec.get("eval_run")
        size = {name: record[name] for name in SIZES if record.get(name) is not None}
        if kind in (None, run.kind):
            row = {"run": run.name, "run_id": run.id, "kind": run.kind, **record}
            row |= {"over": names.get(str(over), over) or record.get("recipe")}
            row |= {"model": record["model"] or record.get("proposer")}
            row |= {"size": size | ({"usd": "unknown"} if record.get("usd", 0) is None else {})}
            rows.append({**row, "created_at": run.created_at, "finished_at": run.finished_at})
    starts = ", ".join(f"`tagrpo {start}`" for name, start in STARTS.items() if kind in (None, name))
    columns = "run kind over model size finished=finished_at"
    terminal.rows("runs", rows, columns, empty=f"no runs yet; start one with {starts}")


def _records(session: "Session") -> "Iterator[tuple[Run, Mapping[str, Any]]]":
    from evaluator.evals.overview import runs_overview
    from rephraser.views.runs import list_records
    from service.runs.progress import progress_of
    from service.runs.store import list_runs
    from trainer_adapter.record.runs import list_train_runs

    yield from list_records(session)
    yield from ((each.run, each.to_json()) for each in runs_overview(session))
    for progress in progress_of(session, [run for run in list_runs(session) if run.kind == "judge"]):
        spec = progress.run.spec
        yield progress.run, {"asked": spec["asked"], "model": spec["model"], **_judging_numbers(progress)}
    for training in list_train_runs(session):
        if training.problem:
            output.note(training.problem)
        yield training.run, training.to_json()


def _judging_numbers(progress: Any) -> dict[str, Any]:
    names = ("planned", "done", "open", "failed", "final", "usd", "unpriced")
    return {name: getattr(progress, name) for name in names}


def show(run: OnlyRun = None) -> None:
    """Show the state of a run: settings, progress, errors, cost.

    Exit code 3: some requests are open or failed.

    Example: tagrpo runs show math-gpt4
    """
    from service.runs.store import find_run

    with db.open(read_only=True) as database:
        with database.read() as session:
            chosen = find_run(session, run)
        state, problems = _state(database, chosen)
    described = ("id", "kind", "created_at", "finished_at")
    record = {"run": chosen.name, **{name: getattr(chosen, name) for name in described}, **state}
    record |= {"spec": state.get("spec", chosen.spec), "versions": chosen.versions}
    terminal.show(record, hidden=("run_id",))
    if problems:
        raise output.needs_attention("; ".join(problems))


def _state(database: "Database", run: "Run") -> tuple[Mapping[str, Any], list[str]]:
    """Return the numbers of a run and what needs attention."""
    from rephraser.views.runs import summarize
    from service.runs.progress import frequent_errors, progress_of
    from service.runs.spending import read_ledger
    from ui.cli import evals, rephrase, train

    if run.kind == "eval":
        return evals.standing(database, run)
    with database.read() as session:
        if run.kind == "train":
            return train.standing(session, run), []
        if run.kind == "propose":
            summary = summarize(session, run)
            return summary, rephrase.attention(summary)
        [progress] = progress_of(session, [run])
        errors = frequent_errors(session, run.id)
        record = {"errors": errors, "ledger": read_ledger(session, run.id)}
    # a response whose request failed permanently keeps its grade
    problems = open_words(run.name, progress.open, progress.failed, errors)
    return {**_judging_numbers(progress), **record}, problems


def open_words(name: str, open_: int, failed: int, errors: Mapping[str, int]) -> list[str]:
    """Name the unanswered requests of a run, the reason and the way on; empty if there are none."""
    parts = []
    if open_:
        parts.append(f"{plural(open_, 'request')} {'is' if open_ == 1 else 'are'} open")
    if failed:
        words = error_words(errors)
        parts.append(f"{plural(failed, 'request')} failed" + (f" ({words})" if words else ""))
    return [f"{name}: {' and '.join(parts)}; resume with {resume_command(name)}"] if parts else []


def error_words(errors: Mapping[str, int], kinds: Collection[str] | None = None) -> str:
    """Say why requests failed: each kind (of these) with the most frequent message of a server."""
    words: dict[str, str] = {}
    for error in errors:
        kind, _, message = error.partition(": ")
        short = textwrap.shorten(message, LONGEST_MESSAGE, placeholder=" ...")
        if kinds is None or kind in kinds:
            words.setdefault(kind, f"{kind}: {short}" if short else kind)
    return ", ".join(words.values())


def show_estimates(
    record: Mapping[str, Any], estimates: "Collection[Estimate]", max_usd: float | None
) -> None:
    """Print what a dry run expects, whether the cap suffices, and what the estimates come from."""
    from service.models.estimate import IMAGE_TOKENS

    notes = []
    ranges = [estimate.usd for estimate in estimates if estimate.usd is not None]
    if max_usd is not None and sum(high for _, high in ranges) > max_usd:
        surely = "stops" if sum(low for low, _ in ranges) > max_usd else "may stop"
        notes.append(f"--max-usd {max_usd:g} {surely} the run before it is complete.")
    if len(ranges) < len(estimates):
        notes.append("A price is unknown. Set the model's price=[IN,OUT].")
    if any(estimate.images and estimate.trial is None for estimate in estimates):
        low, high = IMAGE_TOKENS
        notes.append(f"Images are assumed to take {low:,.0f} to {high:,.0f} tokens each; models differ.")
    if any(estimate.trial is None for estimate in estimates):
        notes.append("Estimated from text lengths. A trial run on a few (--limit) narrows the ranges.")
    terminal.show(record, *notes, "Nothing was sent or stored.")


def _find_exactly(session: "Session", reference: str) -> "Run":
    """Return the run with this name or beginning of an id; another run must not be changed instead."""
    from service.runs.store import find_run

    run = find_run(session, reference)
    if run.name != reference and not run.id.startswith(reference):
        raise NotFoundError(f"there is no run {reference!r}. Did you mean {run.name!r}?")
    return run


def rename(run: RunArgument, name: str) -> None:
    """Rename a run; its id and all references stay.

    Example: tagrpo runs rename first-try baseline

    Args:
        name: New name of the run.
    """
    from service.runs.removing import rename_run

    with db.writing() as session:
        chosen = _find_exactly(session, run)
        rename_run(session, chosen, name)
    terminal.show({"run": name, "id": chosen.id, "before": chosen.name})


def remove(run: RunArgument, yes: bool = False) -> None:
    """Remove a run and its data: answers, verdicts, samples, grades.

    Published sets, reviews, questions and candidates stay, and answers that other runs can use. A run that is
    in use, that other runs build on, or whose audits contain human decisions cannot be removed.
    `tagrpo db upgrade --vacuum` releases the disk space.

    Example: tagrpo runs remove first-try

    Args:
        yes: Remove without confirmation.
    """
    from rephraser.sets import list_sets
    from service.runs.removing import holdings, remove_run
    from trainer_adapter.record.runs import stored_folder

    with db.open() as database:
        with database.read() as session:
            chosen = _find_exactly(session, run)
            content = holdings(session, chosen)
            headers = list_sets(session, None)
            sets = [each.ref for each in headers if chosen.id in {source["id"] for source in each.runs}]
            folder = stored_folder(session, chosen)
        if not terminal.as_json:
            rows = ", ".join(f"{table} {count:,}" for table, count in content.rows.items()) or "no rows"
            output.note(f"run {chosen.name} ({chosen.kind}, created {chosen.created_at}): {rows}")
            if sets:
                output.note(f"sets published from it stay, but their provenance is lost: {', '.join(sets)}")
            if folder:
                output.note(f"rollout files stay; remove them yourself: {folder}")
        if not content.obstacles and not yes:
            output.confirm_removal(f"run {chosen.name!r}")
        with database.write() as session:
            remove_run(session, chosen)
    record = {"run": chosen.name, "id": chosen.id, "usd": content.usd, "removed": content.rows}
    terminal.show({**record, "sets": sets, "rollout_folders": [folder] if folder else []})
