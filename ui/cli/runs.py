"""`tagrpo runs`: list, show, rename and remove runs of all kinds; what a run costs and what it needs."""

import textwrap
from collections.abc import Collection, Iterator, Mapping
from typing import Any, Literal

from service.errors import NotFoundError
from ui.cli import output
from ui.cli.lazy import lazy_imports
from ui.cli.output import plural, terminal
from ui.cli.settings import OnlyRun, RunArgument, Session, db, resume_command

with lazy_imports():
    from evaluator.evals import overview
    from rephraser.sets import store as neighbor_sets
    from rephraser.views import runs as rephrase_runs
    from service.database import engine
    from service.models import estimate
    from service.runs import progress, removing, store
    from trainer_adapter.record import runs as train_runs
    from ui.cli import evals, rephrase, train

Kind = Literal["propose", "eval", "judge", "train"]
STARTS = {"propose": "rephrase run", "eval": "eval run", "judge": "eval score --judge", "train": "train run"}
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
            row["over"] = names.get(str(over), over) or record.get("recipe")
            row["model"] = record["model"] or record.get("proposer")
            row |= {"size": size | ({"usd": "unknown"} if record.get("usd", 0) is None else {})}
            rows.append({**row, "created_at": run.created_at, "finished_at": run.finished_at})
    starts = ", ".join(f"`tagrpo {start}`" for name, start in STARTS.items() if kind in (None, name))
    columns = "run kind over model size finished=finished_at"
    terminal.rows("runs", rows, columns, empty=f"no runs yet; start one with {starts}")


def _records(session: Session) -> "Iterator[tuple[store.Run, Mapping[str, Any]]]":
    kinds = {run.kind for run in store.list_runs(session)}  # each kind needs other imports
    if "propose" in kinds:
        yield from rephrase_runs.list_records(session)
    if "eval" in kinds:
        yield from ((each.run, each.to_json()) for each in overview.runs_overview(session))
    for each in progress.progress_of(session, store.list_runs(session, "judge")):
        spec = each.run.spec
        yield each.run, {"asked": spec["asked"], "model": spec["model"], **_judging_numbers(each)}
    for training in train_runs.list_train_runs(session) if "train" in kinds else ():
        if training.problem:
            output.note(training.problem)
        yield training.run, training.to_json()


def _judging_numbers(judging: Any) -> dict[str, Any]:
    names = ("planned", "done", "open", "failed", "final", "usd", "unpriced")
    return {name: getattr(judging, name) for name in names}


def show(run: OnlyRun = None) -> None:
    """Show the state of a run: settings, progress, errors, cost.

    Exit code 3: some requests are open or failed.

    Example: tagrpo runs show math-gpt4
    """
    with db.open(read_only=True) as database:
        with database.read() as session:
            chosen = store.find_run(session, run)
        state, problems = _state(database, chosen)
    described = ("id", "kind", "created_at", "finished_at")
    record = {"run": chosen.name, **{name: getattr(chosen, name) for name in described}, **state}
    record |= {"spec": state.get("spec", chosen.spec), "versions": chosen.versions}
    terminal.show(record, hidden=("run_id",))
    if problems:
        raise output.needs_attention("; ".join(problems))


def _state(database: "engine.Database", run: "store.Run") -> tuple[Mapping[str, Any], list[str]]:
    """Return the numbers of a run and what needs attention."""
    if run.kind == "eval":
        return evals.standing(database, run)
    with database.read() as session:
        if run.kind == "train":
            return train.standing(session, run), []
        if run.kind == "propose":
            summary = rephrase_runs.summarize(session, run)
            return summary, rephrase.attention(summary)
        [judging] = progress.progress_of(session, [run])
        errors = progress.frequent_errors(session, run.id)
        record = {"errors": errors, "ledger": judging.ledger}
    # a response whose request failed permanently keeps its grade
    problems = open_words(run.name, judging.open, judging.failed, errors)
    return {**_judging_numbers(judging), **record}, problems


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
    record: Mapping[str, Any], estimates: "Collection[estimate.Estimate]", max_usd: float | None
) -> None:
    """Print what a dry run expects, whether the cap suffices, and what the estimates come from."""
    notes = []
    ranges = [each.usd for each in estimates if each.usd is not None]
    if max_usd is not None and sum(high for _, high in ranges) > max_usd:
        surely = "stops" if sum(low for low, _ in ranges) > max_usd else "may stop"
        notes.append(f"--max-usd {max_usd:g} {surely} the run before it is complete.")
    if len(ranges) < len(estimates):
        notes.append("A price is unknown. Set price=[IN,OUT], or proposer.price and solver.price.")
    if any(each.images and each.trial is None for each in estimates):
        low, high = estimate.IMAGE_TOKENS
        notes.append(f"Images are assumed to take {low:,.0f} to {high:,.0f} tokens each; models differ.")
    if any(each.trial is None for each in estimates):
        notes.append("Estimated from text lengths. A trial run on a few (--limit) narrows the ranges.")
    terminal.show(record, *notes, "Nothing was sent or stored.")


def _find_exactly(session: Session, reference: str) -> "store.Run":
    """Return the run with this name or beginning of an id; another run must not be changed instead."""
    run = store.find_run(session, reference)
    if run.name != reference and not run.id.startswith(reference):
        raise NotFoundError(f"there is no run {reference!r}. Did you mean {run.name!r}?")
    return run


def rename(run: RunArgument, name: str) -> None:
    """Rename a run; its id and all references stay.

    Example: tagrpo runs rename first-try baseline

    Args:
        name: New name of the run.
    """
    with db.writing() as session:
        chosen = _find_exactly(session, run)
        store.rename_run(session, chosen, name)
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
    with db.open() as database:
        with database.read() as session:
            chosen = _find_exactly(session, run)
            removing.check_removable(session, chosen)
            counts = removing.count_rows(session, chosen.id)
            usd = sum(line.usd for line in progress.read_ledger(session, chosen.id))
            headers = neighbor_sets.list_sets(session, None)
            sets = [each.ref for each in headers if chosen.id in {source["id"] for source in each.runs}]
            folder = train_runs.stored_folder(session, chosen)
        rows = ", ".join(f"{table} {count:,}" for table, count in counts.items()) or "no rows"
        output.note(f"run {chosen.name} ({chosen.kind}, created {chosen.created_at}): {rows}")
        if sets:
            output.note(f"sets published from it stay, but their provenance is lost: {', '.join(sets)}")
        if folder:
            output.note(f"rollout files stay; remove them yourself: {folder}")
        if not yes:
            output.confirm_removal(f"run {chosen.name!r}")
        with database.write() as session:
            removing.remove_run(session, chosen)
    record = {"run": chosen.name, "id": chosen.id, "usd": usd, "removed": counts}
    terminal.show({**record, "sets": sets, "rollout_folders": [folder] if folder else []})
