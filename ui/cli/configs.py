"""Commands that take the config of a verb, `tagrpo config`, and `resume`, which takes a stored one.

Some settings are flags, the others come as KEY=VALUE or in files:

    @Verb(RephraseConfig, "questions", "--model=proposer.model --max-usd")
    def run(config: RephraseConfig) -> None: ...
"""

import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypeVar, cast

from typer import Argument, Option

from service.config import Config
from service.config.fields import Setting, fields_of, find_setting, kind_of, settings_of
from service.config.reading import Reading, read_stored
from service.errors import InputError, suggest
from ui.cli.lazy import lazy_imports
from ui.cli.output import terminal
from ui.cli.settings import METAVARS, RunArgument, Words, db, profiles_file

with lazy_imports():
    from evaluator.evals import runs
    from service.database import place as places
    from service.runs import store, tables
    from ui.cli import app

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True)
class Verb:
    """How a command takes a config."""

    kind: type[Config]
    argument: str  # the setting that an argument without `=` gives
    flag_words: str  # flags for settings: --max-usd for max_usd, --model=proposer.model for another name
    chosen: tuple[str, ...] = ()  # KEY=VALUE words that the command implies
    optional: bool = False  # whether the command gets no config if nothing is given

    def __call__(self, function: F) -> F:
        """Let a command take this config as its parameter `config`."""
        function.verb = self  # type: ignore[attr-defined]
        return function

    @property
    def flags(self) -> dict[str, str]:
        """The settings by their flags."""
        pairs = (word.partition("=") for word in self.flag_words.split())
        return {flag: path or flag[2:].replace("-", "_") for flag, _, path in pairs}

    @property
    def epilog(self) -> str:
        """What help says of the settings that have no flag."""
        more = len(settings_of(self.kind)) - len(self.flags) - 1
        return f"{more} more settings, given as KEY=VALUE or in a file: tagrpo config {self.kind.verb}"

    @property
    def setting(self) -> Setting:
        """The setting of the argument."""
        return cast(Setting, find_setting(self.kind, self.argument))

    @property
    def word(self) -> str:
        """The name of the argument: questions, recipe, candidates."""
        return self.argument.removesuffix(".name").rpartition(".")[2]

    def parameters(self) -> Iterator[tuple[str, Any, Any]]:
        """Yield name, type and default of the words, the files and the flags."""
        dots = "..." if isinstance(self.setting.default, tuple) else ""
        usage = f"[{self.word.upper()}]{dots} [KEY=VALUE]..."
        words = Argument(metavar=usage, help=self.setting.about)
        yield "words", Annotated[list[str] | None, words], None
        for flag, path in self.flags.items():
            yield (_name(flag), *_flag(self.kind, flag, path))
        files = Option("-c", "--config", metavar="FILE", help="TOML file of settings; later files win.")
        yield "files", Annotated[list[Path] | None, files], None

    def read(self, values: dict[str, Any], profiles: Path) -> Config | None:
        """Return the config that profiles, files, flags and words give, in this order.

        Their parameters are removed from `values`.
        """
        words, files = values.pop("words") or [], values.pop("files") or []
        flags = {flag: values.pop(_name(flag)) for flag in self.flags}
        if self.optional and not (words or files or any(flags.values())):
            return None
        reading = Reading(self.kind, {path: flag for flag, path in self.flags.items()})
        if profiles.is_file():
            reading.add_file(profiles, profiles_only=True)
        for path in files:
            reading.add_file(path)
        names = [word for word in words if "=" not in word]
        changes = [word for word in words if "=" in word]
        # first those such as proposer=rules, so that a flag of another choice is refused
        tables = [each.path for each in fields_of(self.kind) if each.tables]
        choices = [word for word in changes if word.partition("=")[0] in tables]
        reading.add_words([*self.chosen, *choices])
        for flag, given in flags.items():
            if given is not None and given is not False:
                reading.set(self.flags[flag], given, f"{flag}: ")
        several = isinstance(self.setting.default, tuple)
        if len(names) > 1 and not several:
            raise InputError(f"{', '.join(names)}: give one {self.word}, and settings as KEY=VALUE.")
        if names:
            reading.set(self.argument, names if several else names[0])
        reading.add_words([word for word in changes if word not in choices])
        return reading.build()


def _flag(kind: type[Config], flag: str, path: str) -> tuple[Any, Any]:
    """Return the type and the default of a flag. Its value is read as that of KEY=VALUE."""
    setting = cast(Setting, find_setting(kind, path))
    default = setting.default
    if isinstance(default, bool):
        return Annotated[bool, Option(flag, help=setting.about)], False
    words = "MODEL" if setting.tables else "|".join(setting.literals) or "TEXT"
    values = next((METAVARS[each] for each in (int, float, Path) if each in setting.types), words)
    notes = [setting.limits] if setting.limits and "|" not in values else []
    notes += [f"default: {default}"] if default not in (None, ()) else []
    text = setting.about + (f" [{'; '.join(notes)}]" if notes else "")
    option = Option(flag, metavar=values, help=text)
    return Annotated[(list[str] if isinstance(default, tuple) else str) | None, option], None


def _name(flag: str) -> str:
    return f"flag_{flag.lstrip('-').replace('-', '_')}"


VERBS = {
    "rephrase": "rephrase.run",
    "eval": "evals.run",
    "score": "evals.score",
    "train": "train.run",
    "export": "sets.export",
}
"""The commands that take a config, by its name."""


def find_verb(name: str) -> Verb:
    """Return how the command of a config takes it."""
    if name not in VERBS:
        raise InputError(f"no config {name!r}. {suggest(name, VERBS)}")
    return cast(Verb, app.find_function(VERBS[name]).verb)


def summary(kind: type[Config]) -> str:
    """Return the first sentence of a config's docstring."""
    return (kind.__doc__ or "").strip().splitlines()[0]


def template(kind: type[Config], about: str) -> str:
    """Return a TOML file with every setting in a comment: what it means, its range and its default.

    Read back as it is, it changes nothing.
    """
    lines = [f"# {line}".rstrip() for line in about.splitlines()]
    table = kind
    for each in settings_of(kind):
        prefix, _, name = each.path.rpartition(".")
        if each.table is not table:
            table, header = each.table, f"[{prefix}]"
            lines += ["", f"# {summary(table)}"]
            if cast(Setting, find_setting(kind, prefix)).is_list:
                lines.append(f"# [{header}] once per item; {header} applies to all items.")
            lines += [f"# {header}", f'# kind = "{kind_of(table)}"'] if header in lines else [header]
        limits = f" ({each.limits})" if each.limits else ""
        required = " Required." if each.info.is_required() else ""
        default = "" if each.default is None else json.dumps(each.default, default=str)
        lines += ["", f"# {each.about}{limits}{required}", f"# {name} = {default}".rstrip()]
    return "\n".join(lines) + "\n"


def config(verb: Annotated[str, Argument(metavar="|".join(VERBS), help="The command.")]) -> None:
    """Print all settings of a command and their defaults, as a TOML file to edit and pass with -c.

    Example: tagrpo config rephrase
    """
    taken = find_verb(verb)
    about = (
        f"{summary(taken.kind)}\n\nGive this file with -c FILE. On the command line, KEY=VALUE after the "
        "other arguments wins over it,\nand a key in a table has a dot, as in solver.max_tokens=2048."
    )
    settings = {
        each.path: {
            "about": each.about,
            "default": each.default,
            "takes": each.limits,
            "required": each.info.is_required(),
            "operational": each.operational,
            "of": each.choice and "=".join(each.choice),
        }
        for each in settings_of(taken.kind)
    }
    terminal.emit({"config": verb, "settings": settings}, template(taken.kind, about).rstrip())


def resume(run: RunArgument, changes: Words = None, *, hide_log: bool = False) -> None:
    """Resume a run: rephrasing, evaluation, judging or training.

    KEY=VALUE changes a setting that does not affect results, such as max_usd=100 or
    base_url=http://localhost:8001/v1; others are refused. Stored answers are not requested again.

    Example: tagrpo resume math-gpt4 max_usd=100

    Args:
        hide_log: Training: write verl's output only to the run's folder, and show the steps.
    """
    place, profiles = places.absolute(db.place), profiles_file().absolute()  # before the folder changes
    with db.reading() as session:
        chosen = store.find_run(session, run)
        kept = session.get(tables.RunConfigRow, chosen.id)
    if kept is None:
        raise InputError(
            f"run {chosen.name} was not started by this command line, so its settings are unknown. Repeat "
            "the command that started it."
        )
    if Path(kept.folder).is_dir():
        os.chdir(kept.folder)  # files are named as they were then
    verb = {"propose": "rephrase", "judge": "score"}.get(chosen.kind, chosen.kind)
    command = app.find_function(VERBS[verb])
    known = profiles if profiles.is_file() else None
    settings = read_stored(command.verb.kind, kept.config, changes or (), profiles=known)
    if chosen.kind != "judge":
        name = runs.config_name(chosen) if chosen.kind == "eval" else chosen.name
        settings = settings.model_copy(update={"name": name})
    db.name = str(place) if isinstance(place, Path) else place.render_as_string(hide_password=False)
    command(settings, **({"hide_log": hide_log} if chosen.kind == "train" else {}))
