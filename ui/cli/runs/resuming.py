"""`tagrpo resume`: a run goes on by its name, with the options it was last worked on with."""

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from service.errors import InputError, NotFoundError
from ui.cli.settings import Db, RunArgument, with_settings

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from service.database import Database
    from service.runs.store import Run

_OF_ONE_COMMAND = ("as_json", "quiet", "verbose", "dry_run", "max_requests", "retry_final")
NOT_KEPT = frozenset({*_OF_ONE_COMMAND, "db_file", "config", "endpoint", "run", "max_usd"})
"""What a file gave is kept by itself, and the cap on money by the run."""


def given_words(context: typer.Context) -> dict[str, list[str]]:
    """Return what was given to a command, by the command line, the environment or a settings file."""
    words: dict[str, list[str]] = {}
    for parameter in context.command.params:
        name = str(parameter.name)
        source = context.get_parameter_source(name)
        value = context.params.get(name)
        if name in NOT_KEPT or value is None or source is None or source.name == "DEFAULT":
            continue
        values = [str(each) for each in (value if isinstance(value, list | tuple) else [value])]
        if parameter.param_type_name == "argument":
            words[name] = values
        elif isinstance(value, bool):
            words[name] = [(parameter.opts if value else parameter.secondary_opts)[0]]
        else:
            words[name] = [word for each in values for word in (parameter.opts[0], each)]
    return words


def keep(context: typer.Context, database: "Database", runs: "Sequence[Run]") -> None:
    """Keep a command with the runs that it works on."""
    from service.runs.store import keep_command

    words = given_words(context)
    with database.write() as session:
        for run in runs:
            keep_command(session, run.id, os.getcwd(), words)


def resume(
    context: typer.Context,
    run: RunArgument,
    *,
    db: Db,
) -> None:
    """Resume a run: proposing neighbors, an evaluation, a judge or a training.

    Addresses, prices, caps and settings are those of the last command that worked on the run. Options after
    the name override them: --max-usd, --api-base, --json. Stored answers are not requested again.

    Example: tagrpo resume math-gpt4 --max-usd 100
    """
    from service.runs.store import read_command

    if run.startswith("-"):
        raise typer.BadParameter(
            "give the run's name first, then the options: tagrpo resume NAME --max-usd 5"
        )
    place = db.place.absolute()
    where = str(place) if isinstance(place, Path) else place.whole
    with db.reading() as session:
        chosen = choose(session, run)
        kept = read_command(session, chosen.id)
    given = {} if kept is None else dict(kept.words)
    if kept is None and chosen.kind != "propose":
        raise InputError(
            f"run {chosen.name} was not started by this command line, so its settings are unknown. Repeat "
            "the command that started it."
        )
    if chosen.kind == "eval" and not chosen.name.startswith(f"{_eval_name(given)}."):
        raise InputError(
            f"run {chosen.name} was renamed. Repeat the command that started it, with the new name."
        )
    if kept is not None and Path(kept.folder).is_dir():
        os.chdir(kept.folder)  # files are named as they were then
    given_anew = ["--db", where, *context.args]
    _run(_command(chosen.kind), _leading(chosen), given, given_anew, f"tagrpo resume {chosen.name}")


def choose(session: "Session", reference: str | None) -> "Run":
    """Return the run of any kind that is named, or the only one there is.

    NAME also stands for the eval run NAME.BENCHMARK, where there is one of them.

    Raises:
        NotFoundError: no such run.
        InputError: none is named and there are several, or none at all; or several are called so.
    """
    from evaluator.evals.runs import list_eval_runs, matching_runs
    from service.runs.store import find_run, list_runs

    if reference is None:
        runs = list_runs(session)
        if len(runs) != 1:
            names = ", ".join(sorted(run.name for run in runs))
            raise InputError(f"name a run. Available: {names}." if runs else "there are no runs yet.")
        return runs[0]
    try:
        return find_run(session, reference)
    except NotFoundError:
        try:
            matching = matching_runs(list_eval_runs(session), reference)
        except NotFoundError:
            matching = []
        if not matching:
            raise
    if len(matching) > 1:
        raise InputError(
            f"{reference} matches {', '.join(run.name for run in matching)}. Give one full name."
        )
    return matching[0]


def _leading(run: "Run") -> list[str]:
    """Return the argument that names the run: a judge's command names the evaluation."""
    if run.kind == "judge":
        return [str(run.spec["eval_run"])]
    return [run.name] if run.kind == "propose" else []


def _eval_name(words: Mapping[str, Sequence[str]]) -> str:
    """Return the name before the benchmark that a command gives to its runs."""
    from evaluator.evals.runs import model_slug

    return words["name"][-1] if "name" in words else model_slug(words["model"][-1])


def _command(kind: str) -> Callable[..., Any]:
    """Return what goes on with a run of a kind."""
    from ui.cli.eval.judging import judge
    from ui.cli.eval.running import run
    from ui.cli.neighbors.proposing import go_on
    from ui.cli.train.commands import run as train

    commands: dict[str, Callable[..., Any]] = {"propose": go_on, "eval": run, "judge": judge, "train": train}
    return commands[kind]


def _key(change: str) -> str:
    """Return the key of a change of a training: what stands before `=`, without Hydra's marks."""
    return change.partition("=")[0].lstrip("+~")


def _run(
    function: Callable[..., Any],
    leading: Sequence[str],
    kept: Mapping[str, Sequence[str]],
    given: Sequence[str],
    name: str,
) -> None:
    """Run a command with the words that were kept of each of its parameters, but of those given anew.

    Most settings of a run of neighbors stand in the run itself: `go_on` has no parameter for them. Options
    are known by their flags, for parameters have had other names.
    """
    from typer.main import get_command

    app = typer.Typer(rich_markup_mode="rich", pretty_exceptions_enable=False)
    app.command()(with_settings(function))
    command = get_command(app)
    options = {word.partition("=")[0] for word in given if word.startswith("-")}
    taken = set()
    for parameter in command.params:
        flags = {*parameter.opts, *parameter.secondary_opts}
        if options.isdisjoint(flags):
            taken |= flags
    changed = {_key(word) for word in given if "=" in word and not word.startswith("-")}
    words: list[str] = []
    for parameter_name, each in kept.items():
        if each and each[0].startswith("-"):
            words += each if each[0] in taken else []
        elif parameter_name in taken:
            words += [word for word in each if parameter_name != "changes" or _key(word) not in changed]
    code = command.main([*leading, *words, *given], prog_name=name, standalone_mode=False)
    if code:
        raise typer.Exit(int(code))
