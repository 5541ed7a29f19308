"""`tagrpo config`: every setting of a verb, as a file to start from."""

from typing import Annotated

from typer import Argument

from service.config import settings_of, summary, template
from service.errors import InputError
from ui.cli.configured import Verb
from ui.cli.output import terminal
from ui.cli.tree import find_function

VERBS = {
    "rephrase": "rephrase.running.run",
    "eval": "eval.running.run",
    "score": "eval.running.score",
    "train": "train.running.run",
    "export": "sets.commands.export",
}
"""The commands that take a config, by its name."""


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
