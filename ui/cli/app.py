"""Entry point of the `tagrpo` command: the sub-commands, and what an error looks like."""

import errno
import re
import sys
import traceback
from collections.abc import Iterable
from functools import cache
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperGroup, TyperOption
from typer.main import get_command

from service.errors import InputError, Interrupted, TagrpoError, Terminated
from service.stopping import exit_on_sigterm
from ui.characters import visible
from ui.cli import output, settings
from ui.cli.lazy import lazy_imports

with lazy_imports():
    from importlib import metadata

GROUPS: dict[str, tuple[str, str, dict[str, str]]] = {
    "questions": (
        "Import, browse, mix and remove question sets.",
        "tagrpo questions import math_train.jsonl --name math",
        {"questions": "import list show mix contamination remove"},
    ),
    "rephrase": (
        'Propose, check, browse, review and audit rephrasings ("candidates", "neighbors").',
        "tagrpo rephrase run math --name rules proposer=rules",
        {"rephrase": "run import list show edit review audit rejudge"},
    ),
    "runs": (
        "List, inspect, rename and remove runs of all kinds.",
        "tagrpo runs show rules",
        {"runs": "list show rename remove"},
    ),
    "sets": (
        "Publish, compare, verify and export immutable sets of accepted rephrasings.",
        "tagrpo sets publish math --run rules --include unverified",
        {"sets": "publish list show tag export import"},
    ),
    "eval": (
        "Measure models: sample responses to benchmarks, grade them and report pass@k.",
        "tagrpo eval run amc23 --model hosted_vllm/Qwen/Qwen3-4B --base-url http://localhost:8000/v1 --n 128",
        {
            "evals": "run import export score benchmarks",
            "reports": "show label report compare",
            "servers": "serve",
        },
    ),
    "train": (
        "Train a policy with verl: plan, run, look at metrics and responses.",
        "tagrpo train run ta_grpo --set math@1 --model Qwen/Qwen3-1.7B --gpus 4",
        {"train": "run plan recipes metrics rollouts merge"},
    ),
    "db": (
        "Maintain the database: check, back up, upgrade, copy.",
        "tagrpo db backup /backups/tagrpo-monday.db",
        {"db": "check backup upgrade copy"},
    ),
}
"""By group: what it is for, an example, and its commands by the module that has them."""

COMMANDS = {
    "demo.demo": "Run the whole workflow on a small task: rephrase, check, publish, train, evaluate.",
    "servers.ui": "Open the pages in a browser.",
    "doctor.doctor": "Check what is installed and reachable.",
    "configs.resume": "Resume a run by its name, with its stored settings.",
    "diagnose.diagnose": (
        "Show what rephrasings change in training: questions without a gradient, difficulty, cost."
    ),
    "configs.config": "Print all settings of a command as a config file.",
}
"""Commands that stand alone, each with what it is for."""

WITHOUT = {
    "db_file": "demo.demo servers.serve configs.config train.merge train.recipes evals.benchmarks db.copy",
    "as_json": "demo.demo servers.serve servers.ui",
}
"""Options that these commands lack, since they open no database or print no report."""

STOPPED: dict[object, str] = {
    output.INTERRUPTED: "interrupted; run the same command again to resume",
    output.TERMINATED: "terminated; run the same command again to resume",
}

SETTINGS = {"help_option_names": ["-h", "--help"]}
"""Of every command's context; click keeps the help option that a command's first context has."""


def find_function(place: str) -> Any:
    """Return the function of a command by its place, MODULE.COMMAND."""
    module, _, name = place.rpartition(".")
    return getattr(import_module(f"ui.cli.{module}"), f"{name}_" if name in ("import", "list") else name)


class LazyGroup(TyperGroup):
    """A group whose commands (MODULE.COMMAND) and groups (by name) in `places` are imported when used."""

    def __init__(self, *, places: Iterable[str] = (*COMMANDS, *GROUPS), **settings: Any) -> None:
        shared = {"no_args_is_help": True, "rich_markup_mode": None, "context_settings": SETTINGS}
        super().__init__(**{**settings, **shared})
        self._places = {place.rpartition(".")[2]: place for place in places}
        self.commands = dict.fromkeys(self._places)  # type: ignore[assignment]  # typer suggests one

    def list_commands(self, ctx: Any) -> list[str]:
        return [*self._places]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        return _load(self._places[cmd_name]) if cmd_name in self._places else None

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        with formatter.section("Commands"):
            helps = {name: self.get_command(ctx, name).get_short_help_str(200) for name in self._places}
            formatter.write_dl([*helps.items()])


class Tree(LazyGroup):
    """The root. Its help imports no command."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        groups = {name: help for name, (help, *_) in GROUPS.items()}
        for title, entries in (("Commands", COMMANDS), ("Groups of commands", groups)):
            with formatter.section(title):
                formatter.write_dl([(place.rpartition(".")[2], help) for place, help in entries.items()])


@cache
def _load(place: str) -> Any:
    if place in GROUPS:
        help, example, modules = GROUPS[place]
        places = [f"{module}.{name}" for module, names in modules.items() for name in names.split()]
        return LazyGroup(name=place, help=help, epilog=f"Example: {example}", places=places)
    alone = typer.Typer(add_completion=False, rich_markup_mode=None, context_settings=SETTINGS)
    function = find_function(place)
    verb = getattr(function, "verb", None)
    without = [option for option, places in WITHOUT.items() if place in places.split()]
    decorate = alone.command(place.rpartition(".")[2], epilog=verb and verb.epilog)
    decorate(settings.with_settings(function, without))
    command: Any = get_command(alone)
    for param in command.params:
        if isinstance(param, TyperOption):
            param.metavar = param.metavar or settings.METAVARS.get(param.type_descriptor.annotation)
        else:  # typer shows arguments as `{name}` and `name <str>`
            param.metavar = param.metavar or param.name.upper() + "..." * (param.nargs != 1)
            usage = param.metavar if param.required or "[" in param.metavar else f"[{param.metavar}]"
            param.get_usage_pieces = lambda ctx, usage=usage: [usage]
            param.display_type_rich = lambda ctx: None
    return command


app = typer.Typer(
    name="tagrpo",
    cls=Tree,
    pretty_exceptions_enable=False,
    help="Build verified rephrasings of math questions for GRPO training: import questions, propose and "
    'check rephrasings ("neighbors"), publish immutable sets, train with verl, and measure models.\n\n'
    f"Exit codes: {', '.join(f'{code} {meaning}' for code, meaning in output.EXIT_CODES.items())}.\n\n"
    "Example: tagrpo questions import math_train.jsonl --name math",
)


_REFUSED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
"""What commands a terminal, and what Python makes of bytes that are not UTF-8: no database takes them."""


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"tagrpo {metadata.version('tagrpo')}")
        raise typer.Exit


@app.callback()
def _root(
    _version: Annotated[
        bool,
        # eager: before the missing command is complained about
        typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit."),
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help=output.QUIET)] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help=output.VERBOSE)] = False,
) -> None:
    output.set_level(quiet=quiet, verbose=verbose)


@cache
def commands() -> TyperGroup:
    """Return the root with every command loaded, for what reads the whole tree."""
    root: TyperGroup = get_command(app)  # type: ignore[assignment]
    root.commands = {name: root.get_command(None, name) for name in root.list_commands(None)}  # type: ignore
    for group in root.commands.values():
        if isinstance(group, LazyGroup):
            group.commands = {name: group.get_command(None, name) for name in group.list_commands(None)}
    return root


def main() -> None:
    """Run the command line; a `TagrpoError` becomes one message on stderr and exit code 2, a bug one and 1.

    A full disk or too large a number is no bug either. A reader that has gone away (`| head`) ends the
    command with exit code 1, Ctrl-C with 130, SIGTERM with 143, all without a traceback.
    """
    output.prepare_streams()
    try:
        if refused := [*filter(_REFUSED.search, sys.argv[1:])]:  # typer would print them back as they are
            raise InputError(
                f'"{visible(refused[0])}" on the command line contains control characters or is not UTF-8. '
                "Remove them, rename the file, or set LANG to a UTF-8 locale."
            )
        try:
            with exit_on_sigterm():
                get_command(app)(prog_name="tagrpo")
        finally:
            sys.stdout.flush()
    except SystemExit as leaving:
        if leaving.code in STOPPED:  # typer has swallowed the KeyboardInterrupt
            output.print_error(STOPPED[leaving.code])
        raise
    except BrokenPipeError:
        output.forget_stdout()
        sys.exit(output.FAILED)
    except (Exception, KeyboardInterrupt) as error:  # KeyboardInterrupt: before or after typer's turn
        code, message = _explain(error)
        output.print_error(message)
        sys.exit(code)


def _explain(error: BaseException) -> tuple[int, str]:
    """Return the exit code and the message for an error."""
    match error:
        case Interrupted():
            code = output.TERMINATED if isinstance(error, Terminated) else output.INTERRUPTED
            return code, str(error)
        case KeyboardInterrupt():
            return output.INTERRUPTED, STOPPED[output.INTERRUPTED]
        case TagrpoError():
            return output.USAGE, str(error)
        case OverflowError():  # of SQLite, numpy or torch
            return output.USAGE, "a number is too large. Give a smaller one."
        case OSError(errno=errno.ENOSPC | errno.EDQUOT):
            output.forget_stdout()
            return output.USAGE, f"{error.filename or 'output'}: {error.strerror}; free some space."
        case OSError() if error.filename is not None:
            return output.USAGE, f"{error.filename}: {error.strerror}."
    place = traceback.extract_tb(error.__traceback__)[-1]
    message, how = " ".join(str(error).split()), "" if output.is_verbose() else " (-v prints it)"
    return output.FAILED, (
        f"a bug in tagrpo {metadata.version('tagrpo')}: {type(error).__name__}: {message} "
        f"({place.filename}:{place.lineno}). Please report it with the command and its traceback{how}."
    )
