"""`tagrpo resume`: a run goes on by its name, with the config it was last worked on with."""

import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument

from service.errors import InputError, NotFoundError
from ui.cli.configs import VERBS
from ui.cli.settings import db, profiles_file, split_words
from ui.cli.tree import find_function

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from service.runs.store import Run

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
        config = config.model_copy(update={"name": _config_name(chosen)})
    db.name = str(place) if isinstance(place, Path) else place.whole
    command(config, **({"hide_log": hide_log} if chosen.kind == "train" else {}))


def _config_name(run: "Run") -> str:
    """Return the name that a config gives to a run; that of an evaluation lacks the benchmark."""
    if run.kind != "eval":
        return run.name
    suffix = "." + str(run.spec["problems"]).replace("@", "-")
    if not run.name.endswith(suffix):
        raise InputError(
            f"run {run.name} was renamed: an evaluation resumes only under a name that ends with {suffix}. "
            f"Rename it first, as in `tagrpo runs rename {run.name} {run.name}{suffix}`."
        )
    return run.name.removesuffix(suffix)


def choose_run(session: "Session", reference: str | None) -> "Run":
    """Return the run of any kind with this name, or the only one there is.

    NAME also stands for the eval run NAME.BENCHMARK, where there is one of them.
    """
    from evaluator.evals.runs import find_eval_run
    from service.runs.store import find_run, only_run

    if reference is None:
        return only_run(session)
    try:
        return find_run(session, reference)
    except NotFoundError:
        with suppress(NotFoundError):
            return find_eval_run(session, reference)
        raise
