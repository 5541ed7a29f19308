"""Entry point of the `tagrpo` command: the sub-commands, and what an error looks like."""

import errno
import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from service.errors import InputError, Interrupted, TagrpoError
from ui.cli import doctor, output, ui
from ui.cli.demo import commands as demo
from ui.cli.demo import sandbox
from ui.cli.diagnose import commands as diagnose
from ui.cli.eval import benchmarks
from ui.cli.eval import commands as evals
from ui.cli.eval import tables as eval_tables
from ui.cli.neighbors import commands as neighbors
from ui.cli.neighbors import propose
from ui.cli.questions import commands as questions
from ui.cli.questions import contamination
from ui.cli.runs import commands as runs
from ui.cli.sets import commands as sets
from ui.cli.train import commands as train
from ui.cli.train import rollouts

STOPPED = "interrupted; run the same command again to go on where it stopped"
INTERRUPTED = 130  # as shells say it: 128 + SIGINT

app = typer.Typer(
    name="tagrpo",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help=(
        "Verified rephrasings for GRPO training: import questions, propose neighbors, check them by answers, "
        "publish immutable sets, export them.\n\n"
        "Exit codes: 0 done, 1 done but something needs attention, 2 bad usage or input.\n\n"
        "Example: [bold]tagrpo questions import math_train.jsonl --name math[/bold]"
    ),
)
questions.app.command("contamination")(contamination.contamination)
app.add_typer(questions.app, name="questions")
app.add_typer(benchmarks.app, name="benchmarks")
neighbors.app.add_typer(propose.app)  # without a name: its commands stand among those of neighbors
app.add_typer(neighbors.app, name="neighbors")
app.add_typer(runs.app, name="runs")
app.add_typer(sets.app, name="sets")
evals.app.add_typer(eval_tables.app)
app.add_typer(evals.app, name="eval")
app.add_typer(diagnose.app, name="diagnose")
app.add_typer(rollouts.app, name="rollouts")
app.add_typer(train.app, name="train")
app.add_typer(sandbox.app, name="sandbox")
app.command()(demo.demo)
app.command()(ui.ui)
app.command()(doctor.doctor)


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"tagrpo {version('tagrpo')}")
        raise typer.Exit


@app.callback()
def _root(
    _version: Annotated[
        bool,
        typer.Option(
            "--version",
            callback=_print_version,
            is_eager=True,  # before the missing command is complained about
            help="Print the version and exit.",
        ),
    ] = False,
) -> None:
    pass


def main() -> None:
    """Run the command line; a `TagrpoError` becomes one message on stderr and exit code 2.

    A full disk is no bug either and reads the same, nor is a number on the command line that is too large for
    what computes with it. A reader that has gone away (`| head`) ends the command
    with exit code 1, Ctrl-C with 130, both without a traceback.
    """
    output.prepare_streams()
    try:
        _check_arguments(sys.argv[1:])
        try:
            app()
        finally:
            sys.stdout.flush()
    except SystemExit as leaving:
        if leaving.code == INTERRUPTED:  # typer has swallowed the KeyboardInterrupt
            output.print_error(STOPPED)
        raise
    except Interrupted as error:
        output.print_error(str(error))
        sys.exit(INTERRUPTED)
    except TagrpoError as error:
        output.print_error(str(error))
        sys.exit(2)
    except OverflowError:  # of SQLite, numpy and torch, whose numbers end somewhere
        huge = [argument for argument in sys.argv[1:] if _is_huge(argument)]
        if not huge:
            raise
        output.print_error(f"{huge[0]}: the number is larger than can be used; give a smaller one.")
        sys.exit(2)
    except BrokenPipeError:
        output.forget_stdout()
        sys.exit(1)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        output.forget_stdout()
        output.print_error(f"{error.filename or 'what is written here'}: {error.strerror}; free some space.")
        sys.exit(2)
    except KeyboardInterrupt:  # before or after typer's turn
        output.print_error(STOPPED)
        sys.exit(INTERRUPTED)


def _is_huge(argument: str) -> bool:
    """Say whether an argument is a whole number of more than 64 bits, or sets an option to one."""
    number = argument.rpartition("=")[2].removeprefix("-")
    return number.isascii() and number.isdigit() and (len(number) > 19 or int(number) >= 2**63)


def _check_arguments(arguments: Sequence[str]) -> None:
    """Refuse bytes that are not UTF-8 (Python hands them over as lone surrogates): no database takes them."""
    for argument in arguments:
        try:
            argument.encode("utf-8")
        except UnicodeEncodeError as error:
            shown = argument.encode("utf-8", "backslashreplace").decode("utf-8")
            raise InputError(
                f'"{shown}" on the command line is not UTF-8; rename it, or set LANG to a UTF-8 locale.'
            ) from error
