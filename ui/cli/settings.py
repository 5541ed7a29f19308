"""Settings of commands: those of every command, and those that several take."""

import getpass
import inspect
import os
import re
import shlex
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from copy import copy
from dataclasses import dataclass, is_dataclass
from functools import wraps
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, TypeAlias, TypeVar, get_args, get_origin, get_type_hints

from typer import Argument, Option
from typer.models import OptionInfo

from service.errors import InputError
from ui.cli import output
from ui.cli.lazy import lazy_imports

with lazy_imports():
    from sqlalchemy import orm

    from evaluator.benchmarks import loading
    from service.database import engine
    from service.database import place as places
    from ui.cli import configs

Session: TypeAlias = "orm.Session"
Form = TypeVar("Form", bound=str)
_HELP = re.compile(r"^    (\w+): (.*(?:\n {8}.*)*)", re.MULTILINE)


class Db:
    """The database of the running command: its option --db, else the environment, else the default file."""

    name: str | None = None

    @property
    def place(self) -> "places.Place":
        """The file or server."""
        return places.locate_database(self.name)

    def open(self, *, create: bool = False, read_only: bool = False) -> "engine.Database":
        """Open the database."""
        return engine.Database.open(self.place, create=create, read_only=read_only)

    @contextmanager
    def reading(self) -> Iterator[Session]:
        """Open the database for one transaction that reads."""
        with self.open(read_only=True) as database, database.read() as session:
            yield session

    @contextmanager
    def writing(self) -> Iterator[Session]:
        """Open the database for one transaction that writes."""
        with self.open() as database, database.write() as session:
            yield session


db = Db()

METAVARS: dict[Any, str] = {str: "TEXT", list[str]: "TEXT", int: "N", float: "X", Path: "FILE"}
"""Placeholders for the values of options in help, by type."""

DB_HELP = "Database: a file, or postgresql+psycopg://USER@HOST/NAME. Default: ./tagrpo.db."
EVERYWHERE: dict[str, tuple[Any, Any]] = {
    "db_file": (Annotated[str | None, Option("--db", envvar="TAGRPO_DB", help=DB_HELP)], None),
    "as_json": (Annotated[bool, Option("--json", help="Print one JSON object instead of text.")], False),
    "quiet": (Annotated[bool, Option("--quiet", "-q", hidden=True, help=output.QUIET)], False),
    "verbose": (Annotated[bool, Option("--verbose", "-v", hidden=True, help=output.VERBOSE)], False),
}
"""Options of all commands, by the names of their parameters; `app.WITHOUT` has the exceptions."""


def with_settings(function: Callable[..., Any], without: Collection[str]) -> Callable[..., Any]:
    """Return the function for typer, with the options of all commands except those named `without`.

    A dataclass among its parameters becomes one parameter per field. The section `Args` of the docstring has
    the help of the parameters.
    """
    taken: configs.Verb | None = getattr(function, "verb", None)
    described: list[tuple[Any, ...]] = []
    groups: dict[str, type] = {}
    for name, hint, default, help in _described(function):
        if taken is not None and name == "config":
            described += taken.parameters()
        elif is_dataclass(hint) and isinstance(hint, type):
            groups[name] = hint
            described += _described(hint)
        else:
            described.append((name, hint, default, help))
    described += [(name, *EVERYWHERE[name]) for name in EVERYWHERE if name not in without]
    parameters = [_parameter(*each) for each in described]

    @wraps(function)
    def call(**values: Any) -> Any:
        db.name, as_json, quiet, verbose = (values.pop(name, None) for name in EVERYWHERE)
        output.terminal.as_json = bool(as_json)
        output.set_level(quiet=quiet, verbose=verbose)
        for name, kind in groups.items():
            values[name] = kind(**{each: values.pop(each) for each in inspect.signature(kind).parameters})
        if taken is not None:
            values["config"] = taken.read(values, profiles_file())
        return function(**values)

    call.__doc__ = inspect.cleandoc(function.__doc__ or "").partition("\nArgs:\n")[0]
    call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    call.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return call


def profiles_file() -> Path:
    """Return `tagrpo.toml` next to the database, or in this folder if the database is on a server."""
    database = db.name or os.environ.get("TAGRPO_DB") or "tagrpo.db"
    return Path("tagrpo.toml") if "://" in database else Path(database).parent / "tagrpo.toml"


def _described(described: Any) -> Iterator[tuple[str, Any, Any, str | None]]:
    """Yield name, type, default and help of the parameters of a function or dataclass."""
    hints = get_type_hints(described, include_extras=True)
    helps = dict(_HELP.findall(inspect.cleandoc(described.__doc__ or "").partition("\nArgs:\n")[2]))
    for name, parameter in inspect.signature(described).parameters.items():
        yield name, hints[name], parameter.default, " ".join(helps.get(name, "").split())


def _parameter(name: str, hint: Any, default: Any, help: str | None = None) -> inspect.Parameter:
    """Return a parameter for typer. Without a default it is an argument, unless its type says otherwise.

    typer would give a flag without a name a second one, `--no-...`.
    """
    base, *extras = get_args(hint) if get_origin(hint) is Annotated else (hint,)
    extra = copy(extras[0]) if extras else Argument() if default is inspect.Parameter.empty else Option()
    extra.help = extra.help or help
    members = get_args(base) if get_origin(base) is UnionType else (base,)
    if (
        isinstance(extra, OptionInfo)
        and any(get_origin(each) is list for each in members)
        and "Repeat" not in str(extra.help)
    ):
        extra.help = f"{extra.help} Repeat the option for several."
    if isinstance(extra, OptionInfo) and base is bool and extra.default is ...:  # where typer keeps the name
        extra.default = f"--{name.replace('_', '-')}"
    kind = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(name, kind, default=default, annotation=Annotated[base, extra])


def resume_command(run: str, *options: str) -> str:
    """Return the command that resumes a run, in backquotes, with `--db` if necessary."""
    if db.name is not None and places.absolute(db.place) != places.absolute(places.locate_database(None)):
        options = (*options, "--db", str(places.without_password(db.place)))
    return f"`{shlex.join(['tagrpo', 'resume', run, *options])}`"


Reviewer = Annotated[
    str | None,
    Option("--reviewer", envvar="TAGRPO_REVIEWER", help="Name of the reviewer. Default: your login name."),
]
RunArgument = Annotated[str, Argument(help="Name or id of the run.")]
OnlyRun = Annotated[str | None, Argument(help="Name or id of a run; optional if there is only one.")]
Words = Annotated[list[str] | None, Argument(metavar="[KEY=VALUE]...", help="Changed settings.")]
AnswersName = Literal["all", "boxed"]
EvalRun = Annotated[str, Argument(help="Name or id of an eval run.")]
AnswersTaken = Annotated[
    AnswersName, Option("--answers", help="Answers that count: any final answer, or only boxed ones.")
]
OwnGrader = Annotated[
    str | None, Option("--grader", help="Your own grader as module:function, instead of the built-in rules.")
]
DryRun = Annotated[
    bool, Option("--dry-run", help="Print the planned requests and their cost; send and store nothing.")
]
Overwrite = Annotated[bool, Option("--overwrite", help="Overwrite existing files.")]
Limit = Annotated[int, Option(min=1, help="Number of rows per page.")]


def reviewer_name(option: str | None) -> str:
    """Return the reviewer: as given, else the login name."""
    with suppress(OSError, KeyError, ImportError):  # a login without a name
        option = getpass.getuser() if option is None else option
    if option is None or not option.strip():
        raise InputError("the reviewer has no name. Give one with --reviewer or TAGRPO_REVIEWER.")
    return option.strip()


@dataclass(frozen=True)
class BenchmarkRows:
    """Where the rows of benchmarks come from, and which are taken.

    Args:
        source: File with the rows, instead of the Hub. For several benchmarks: one file each, or NAME=FILE.
        options_seed: Seed that shuffles the options of multiple-choice questions.
        allow_changed: Accept a benchmark whose content differs from the version known to tagrpo.
    """

    source: Annotated[list[str] | None, Option("--from")] = None
    options_seed: int = 0
    allow_changed: bool = False

    def loader(self, names: Sequence[str]) -> "Callable[[str], loading.LoadedBenchmark]":
        """Return what loads each of these benchmarks; nothing is read yet."""
        rows = {"options_seed": self.options_seed, "allow_changed": self.allow_changed}
        return loading.benchmark_loader(names, self.source or (), **rows)


def form_of(path: Path, given: Form | None, by_suffix: Mapping[str, Form]) -> Form:
    """Return the form of a file: as given, else what its name ends in."""
    form = given or by_suffix.get(path.suffix.lower())
    if form is None:
        raise InputError(
            f"{path}: the format is unknown. End the name in {', '.join(by_suffix)}, or give --format."
        )
    return form
