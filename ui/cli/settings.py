"""Settings of commands: frozen dataclasses, whose fields are options of every command that takes them.

    @dataclass(frozen=True)
    class Requests:
        max_usd: Annotated[float | None, Option(min=0, help="Hard cap on the cost.")] = None

    def ask(question: str, *, requests: Requests, db: Db, terminal: Terminal) -> None: ...

The command of `ask` (`ui.cli.app` lists them) has `--max-usd`, `--db` and `--json`. From a field follow the
option's name, type, default and help, and the key of a settings file (`SettingsFile`); a flag has no `--no-`
form unless it names one, and a `tuple[str, ...]` may be given several times. `panel` of a class is the
heading of its options in the help.
"""

import inspect
import os
import shlex
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from copy import copy
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_origin, get_type_hints

import typer
from typer import Argument, Option
from typer.core import TyperCommand
from typer.models import OptionInfo

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from service.database import Database, Place


def command_group(help: str, example: str, commands: Mapping[str, Callable[..., None]]) -> typer.Typer:
    """Return the group of these commands; called without one of them it shows its help."""
    group = typer.Typer(no_args_is_help=True, help=help, epilog=f"Example: {example}")
    for name, function in commands.items():
        group.command(name, cls=Command)(with_settings(function))
    return group


def with_settings(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function as typer wants it: a parameter for each field of the settings that it takes."""
    hints = get_type_hints(function, include_extras=True)
    parameters: list[inspect.Parameter] = []
    settings: dict[str, type] = {}
    for name, parameter in inspect.signature(function).parameters.items():
        hint = hints[name]
        if is_dataclass(hint) and isinstance(hint, type):
            settings[name] = hint
            parameters += _parameters(hint)
        else:
            parameters.append(_parameter(name, hint, parameter.default))

    @wraps(function)
    def call(**values: Any) -> Any:
        for name, kind in settings.items():
            values[name] = kind(**{each.name: _taken(each, values.pop(each.name)) for each in fields(kind)})
            if kind is Db:
                _DB_FILE.set(values[name].db_file)
        return function(**values)

    call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    call.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return call


def _parameters(kind: type) -> Iterator[inspect.Parameter]:
    hints = get_type_hints(kind, include_extras=True)
    for each in fields(kind):
        hint, default = hints[each.name], each.default
        if isinstance(default, tuple):
            base, *extras = get_args(hint)
            hint, default = Annotated[list[get_args(base)[0]] | None, *extras], None  # type: ignore[misc]
        yield _parameter(
            each.name,
            hint,
            inspect.Parameter.empty if default is MISSING else default,
            panel=getattr(kind, "panel", None),
        )


def _parameter(name: str, hint: Any, default: Any, panel: str | None = None) -> inspect.Parameter:
    if get_origin(hint) is Annotated:
        base, *extras = get_args(hint)
        hint = Annotated[base, *(_named(extra, name, base, panel) for extra in extras)]
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=hint)


def _named(extra: Any, name: str, base: Any, panel: str | None) -> Any:
    """Return an option under its panel; typer would give a flag without a name a second one, `--no-...`."""
    if not isinstance(extra, OptionInfo):
        return extra
    extra = copy(extra)
    extra.rich_help_panel = extra.rich_help_panel or panel
    if base is bool and extra.default is ...:  # where typer keeps the first name of an annotated option
        extra.default = f"--{name.replace('_', '-')}"
    return extra


def _taken(field: Field[Any], value: Any) -> Any:
    return tuple(value or ()) if isinstance(field.default, tuple) else value


@dataclass(frozen=True)
class Db:
    """The database that a command works on."""

    db_file: Annotated[
        str | None,
        Option(
            "--db",
            envvar="TAGRPO_DB",
            help="Database: a file, or postgresql+psycopg://USER@HOST/NAME. Default: ./tagrpo.db.",
        ),
    ] = None

    @property
    def place(self) -> "Place":
        """The file or server: the option, else what the environment says, else the usual file."""
        from service.database import locate_database

        return locate_database(self.db_file)

    def open(self, *, create: bool = False, read_only: bool = False) -> "Database":
        """Open the database.

        Raises:
            DatabaseError: there is none and `create` is not set, or it cannot be used.
        """
        from service.database import Database

        return Database.open(self.place, create=create, read_only=read_only)

    @contextmanager
    def reading(self) -> Iterator["Session"]:
        """Open the database for one transaction that reads."""
        with self.open(read_only=True) as database, database.read() as session:
            yield session

    @contextmanager
    def writing(self) -> Iterator["Session"]:
        """Open the database for one transaction that writes."""
        with self.open() as database, database.write() as session:
            yield session


_DB_FILE: ContextVar[str | None] = ContextVar("db_file", default=None)


def resume_command(run: str, *options: str) -> str:
    """Return the command that goes on with a run, in backquotes; with `--db` where it needs it."""
    from service.database import locate_database

    given = None if (text := _DB_FILE.get()) is None else locate_database(text)
    if given is not None and given.absolute() != locate_database(None).absolute():
        options = (*options, "--db", str(given))
    return f"`{shlex.join(['tagrpo', 'resume', run, *options])}`"


class Command(TyperCommand):
    """A command whose options may stand in `tagrpo.toml` beside the database, in a table of its name."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if (path := _shared_file(args)).is_file():
            table: Any = _read_toml(path)
            ctx.meta[_FILE] = path, table.pop(_ENDPOINT, {})
            _check_tables(path, table, ctx.find_root().command)
            for name in ctx.command_path.split()[1:]:
                table = table.get(name, {})
            _use(ctx, "shared", path, table)
        return super().parse_args(ctx, args)


_FILE, _ENDPOINT = "tagrpo.toml", "endpoint"
_LITERAL_KEYS = ("key", "api-key", "token", "password")
_LAYERS = ("shared", _ENDPOINT, "config")
"""Where options come from that are not given: the later wins."""


def _check_tables(path: Path, tables: Mapping[str, Any], group: Any, inside: str = "") -> None:
    """Refuse a table that is named after no command, which nobody would read."""
    from service.errors import InputError

    for name, inner in tables.items():
        command = group.commands.get(name)
        if command is None or not isinstance(inner, dict):
            there = ", ".join(group.commands)
            raise InputError(f"{path}: [{inside}{name}] is not the name of a command. Valid names: {there}.")
        if hasattr(command, "commands"):
            _check_tables(path, inner, command, f"{inside}{name}.")


def _shared_file(args: Sequence[str]) -> Path:
    """Return `tagrpo.toml` beside the database, in this folder where that is a server's.

    Options are not parsed yet where it is needed.
    """
    given: Sequence[str] = ()
    for place, word in enumerate(args):
        if word == "--db":
            given = list(args[place + 1 : place + 2])
        elif word.startswith("--db="):
            given = [word.removeprefix("--db=")]
    database = given[0] if given else os.environ.get("TAGRPO_DB") or "tagrpo.db"
    return Path(_FILE) if "://" in database else Path(database).parent / _FILE


def _read_toml(path: Path) -> dict[str, Any]:
    """Return the tables of a file.

    Raises:
        InputError: it cannot be read or is no TOML.
    """
    from service.errors import InputError

    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot read the settings ({error}).") from error
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{path}: not valid TOML ({error}).") from error


def _use(context: Any, layer: str, path: Path, values: Mapping[str, Any]) -> None:
    """Let values of a file stand for options that are not given.

    Raises:
        InputError: a key is no option of the command.
    """
    from service.errors import InputError

    keys = _keys(context.command.params)
    for key in values:
        if key.replace("_", "-") in _LITERAL_KEYS:
            raise InputError(
                f"{path}: {key} would store a key in a file that others can read or copy. Put it into the "
                'environment and name the variable: `export LAB_KEY=...` and api-key-env = "LAB_KEY".'
            )
        if key not in keys:
            command = " ".join(context.command_path.split()[1:]) or context.command.name
            raise InputError(f"{path}: {command} has no option {key!r}. {_nearest(key, keys)}")
    layers = context.meta.setdefault("layers", {})
    several = {
        parameter.name for parameter in context.command.params if getattr(parameter, "multiple", False)
    }
    layers[layer] = {
        keys[key]: [value] if keys[key] in several and not isinstance(value, list) else value
        for key, value in values.items()
    }
    context.default_map = {name: value for each in _LAYERS for name, value in layers.get(each, {}).items()}


def _read_settings(context: typer.Context, path: Path | None) -> Path | None:
    if path is not None:
        _use(context, "config", path, _read_toml(path))
    return path


def _read_endpoint(context: typer.Context, name: str | None) -> str | None:
    from service.errors import InputError

    if name is None:
        return None
    path, endpoints = context.meta.get(_FILE, (_shared_file([]), {}))
    if name not in endpoints:
        there = ", ".join(endpoints) or "none"
        raise InputError(f"{path}: [endpoint.{name}] does not exist. Available: {there}.")
    if not isinstance(endpoints[name], dict):
        raise InputError(
            f"{path}: endpoint.{name} is not a table. Write its options below [endpoint.{name}]."
        )
    _use(context, _ENDPOINT, path, endpoints[name])
    return name


def _keys(parameters: Sequence[Any]) -> Mapping[str, str]:
    """Return the parameters by their keys in a settings file: their names, without the dashes."""
    return {
        parameter.opts[0].removeprefix("--"): parameter.name
        for parameter in parameters
        if parameter.name not in ("config", "endpoint", "help")
    }


def _nearest(key: str, keys: Mapping[str, str]) -> str:
    from difflib import get_close_matches

    near = get_close_matches(key.replace("_", "-"), keys, n=1)
    return f"Did you mean {near[0]!r}?" if near else f"Available: {', '.join(sorted(keys))}."


@dataclass(frozen=True)
class SettingsFile:
    """A file that gives a command's options; those on the command line win."""

    config: Annotated[
        Path | None,
        Option(
            is_eager=True,
            callback=_read_settings,
            help="TOML file of options without dashes (max-usd = 50). Options on the command line take "
            "precedence.",
        ),
    ] = None
    endpoint: Annotated[
        str | None,
        Option(
            is_eager=True,
            callback=_read_endpoint,
            help="Read address, prices and limits from \\[endpoint.NAME] in tagrpo.toml, in the database's "
            "folder.",
        ),
    ] = None


Seed = Annotated[int, Option("--seed", min=0, max=2**63 - 1, help="Random seed.")]
Reviewer = Annotated[
    str | None,
    Option("--reviewer", envvar="TAGRPO_REVIEWER", help="Name of the reviewer. Default: your login name."),
]
RunArgument = Annotated[str, Argument(help="Name or id of the run.")]
OnlyRun = Annotated[str | None, Argument(help="Name or id of a run; optional if there is only one.")]


def reviewer_name(option: str | None) -> str:
    """Return the reviewer: as given, else the login name."""
    from service.errors import InputError

    name = option
    if name is None:
        import getpass

        try:
            name = getpass.getuser()
        except (OSError, KeyError, ImportError) as error:
            raise InputError(
                "your login has no name. Give one with --reviewer or TAGRPO_REVIEWER."
            ) from error
    if not name.strip():
        raise InputError("the reviewer's name is empty. Give one with --reviewer or TAGRPO_REVIEWER.")
    return name.strip()
