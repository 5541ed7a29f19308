"""`tagrpo config` and `resume`: the settings of a verb as a file, and a run that goes on with its own."""

import os
from pathlib import Path
from typing import Annotated

from typer import Argument

from service.config import read_stored, settings_of, summary, template
from service.errors import InputError
from ui.cli.configured import Verb
from ui.cli.output import terminal
from ui.cli.settings import RunArgument, Words, db, profiles_file
from ui.cli.tree import find_function

VERBS = {
    "rephrase": "rephrase.run",
    "eval": "eval.running.run",
    "score": "eval.running.score",
    "train": "train.run",
    "export": "sets.export",
}
"""The commands that take a config, by its name."""

CONFIGS = {"propose": "rephrase", "judge": "score"}
"""The config of a run by its kind, where the names differ."""


def find_verb(name: str) -> Verb:
    """Return how the command of a config takes it."""
    if name not in VERBS:
        raise InputError(f"{name}: there is no such config. Available: {', '.join(VERBS)}.")
    verb: Verb = find_function(VERBS[name]).verb
    return verb


def config(verb: Annotated[str, Argument(help=f"One of: {', '.join(VERBS)}.")]) -> None:
    """Print all settings of a command and their defaults, as a TOML file to edit and pass with -c.

    Example: tagrpo config rephrase
    """
    taken = find_verb(verb)
    about = (
        f"{summary(taken.kind)}\n\nGive this file with -c FILE. On the command line, KEY=VALUE after the "
        "other arguments wins over it,\nand a key in a table has a dot, as in solver.max_tokens=2048."
    )
    record = {setting.path: setting.to_json() for setting in settings_of(taken.kind)}
    terminal.emit({"config": verb, "settings": record}, template(taken.kind, about).rstrip())


def resume(run: RunArgument, changes: Words = None, *, hide_log: bool = False) -> None:
    """Resume a run: rephrasing, evaluation, judging or training.

    KEY=VALUE changes a setting that does not affect results, such as max_usd=100 or
    base_url=http://localhost:8001/v1; others are refused. Stored answers are not requested again.

    Example: tagrpo resume math-gpt4 max_usd=100

    Args:
        hide_log: Training: write verl's output only to the run's folder, and show the steps.
    """
    from evaluator.evals.runs import config_name
    from service.runs.store import find_run, read_config

    place, profiles = db.place.absolute(), profiles_file().absolute()  # before the folder changes
    with db.reading() as session:
        chosen = find_run(session, run)
        kept = read_config(session, chosen.id)
    if kept is None:
        raise InputError(
            f"run {chosen.name} was not started by this command line, so its settings are unknown. Repeat "
            "the command that started it."
        )
    if Path(kept.folder).is_dir():
        os.chdir(kept.folder)  # files are named as they were then
    command = find_function(VERBS[CONFIGS.get(chosen.kind, chosen.kind)])
    known = profiles if profiles.is_file() else None
    settings = read_stored(command.verb.kind, kept.config, changes or (), profiles=known)
    if chosen.kind != "judge":
        name = config_name(chosen) if chosen.kind == "eval" else chosen.name
        settings = settings.model_copy(update={"name": name})
    db.name = str(place) if isinstance(place, Path) else place.whole
    command(settings, **({"hide_log": hide_log} if chosen.kind == "train" else {}))
