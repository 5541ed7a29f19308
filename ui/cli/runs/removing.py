"""`tagrpo runs remove|rename`: with what hangs on a run shown first."""

from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from ui.cli import output
from ui.cli.output import Terminal
from ui.cli.settings import Db

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from service.runs.removing import Holdings
    from service.runs.store import Run

SHOWN = {
    "cells": "requests and their answers",
    "proposals": "proposals",
    "verdicts": "verdicts",
    "audits": "audits",
    "run_problems": "problems",
    "samples": "samples",
    "grades": "grades",
}
"""Tables that are worth a line, and what their rows are called."""


def remove(
    run: Annotated[str, Argument(help="Name or id of a run of any kind.")],
    yes: Annotated[bool, Option("--yes", help="Remove without a prompt.")] = False,
    *,
    db: Db,
    terminal: Terminal,
) -> None:
    """Remove a run and its data: answers, verdicts, samples, grades.

    Published sets, reviews, questions and candidates stay, as do the answers of solvers and judges, which
    other runs can use. tagrpo refuses to remove a run that is in use, that other runs build on, or whose
    audits contain human decisions.
    `tagrpo db vacuum` releases the disk space.

    Example: tagrpo runs remove first-try
    """
    from service.runs.removing import holdings, remove_run
    from service.runs.store import find_run
    from trainer_adapter.record.tables import TrainFolderRow

    with db.open() as database:
        with database.read() as session:
            chosen = find_run(session, run)
            hanging = holdings(session, chosen)
            sets = _sets_of(session, chosen)
            kept = session.get(TrainFolderRow, chosen.id)
            folders = [] if kept is None else [kept.folder]
        if not terminal.as_json:
            _show(chosen, hanging, sets, folders)
        if not hanging.obstacles and not yes:
            question = f"Remove run {chosen.name}? This cannot be undone."
            output.confirm(f"removing run {chosen.name!r}", question)
        with database.write() as session:
            remove_run(session, chosen)
    record = {"run": chosen.name, "id": chosen.id, "usd": hanging.usd, "removed": hanging.rows, "sets": sets}
    record["rollout_folders"] = folders
    terminal.emit(record, output.say, f"removed run {chosen.name}")


def rename(
    run: Annotated[str, Argument(help="Name or id of a run of any kind.")],
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


def _sets_of(session: "Session", run: "Run") -> list[str]:
    from rephraser.sets import list_sets

    return [
        header.ref
        for header in list_sets(session, None)
        if run.id in {published["id"] for published in header.runs}
    ]


def _show(run: "Run", hanging: "Holdings", sets: list[str], folders: list[str]) -> None:
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
