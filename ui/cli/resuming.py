"""`tagrpo resume`: a run goes on by its name, with the config it was last worked on with."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument

from service.errors import InputError
from ui.cli.configs import VERBS
from ui.cli.settings import db, profiles_file, split_words
from ui.cli.tree import find_function

if TYPE_CHECKING:
    pass

CONFIGS = {"propose": "rephrase", "judge": "score"}
"""The config of a run by its kind, where the names differ."""


def resume(
    words: Annotated[list[str], Argument(metavar="RUN [KEY=VALUE]...")], *, hide_log: bool = False
) -> None:
    """Resume a run: rephrasing, evaluation, judging or training.

    KEY=VALUE changes a setting that does not affect results, such as max_usd=100 or
    base_url=http://localhost:8001/v1; others are refused. Stored answers are not requested again.

    Example: tagrpo resume math-gpt4 max_usd=100

    Args:
        words: Name or id of the run, then settings.
        hide_log: Training: write verl's output only to the run's folder, and show the steps.
    """
    from evaluator.evals.runs import choose_run, config_name
    from service.config import read_stored
    from service.runs.store import read_config

    name, changes = split_words("resume", words)
    place = db.place.absolute()
    with db.reading() as session:
        chosen = choose_run(session, name)
        kept = read_config(session, chosen.id)
    if kept is None:
        raise InputError(
            f"run {chosen.name} was not started by this command line, so its settings are unknown. Repeat "
            "the command that started it."
        )
    profiles = profiles_file().absolute()  # before the folder changes
    if Path(kept.folder).is_dir():
        os.chdir(kept.folder)  # files are named as they were then
    command = find_function(VERBS[CONFIGS.get(chosen.kind, chosen.kind)])
    known = profiles if profiles.is_file() else None
    config = read_stored(command.verb.kind, kept.config, changes, profiles=known)
    if chosen.kind != "judge":
        name = config_name(chosen) if chosen.kind == "eval" else chosen.name
        config = config.model_copy(update={"name": name})
    db.name = str(place) if isinstance(place, Path) else place.whole
    command(config, **({"hide_log": hide_log} if chosen.kind == "train" else {}))
