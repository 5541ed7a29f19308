"""Entry point of the `tagrpo` command: the sub-commands, and what an error looks like."""

import sys
from typing import Annotated

import typer

from evaluator.errors import TagrpoError
from ui.cli import demo, doctor, neighbors, output, propose, questions, runs, sets

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
app.add_typer(questions.app, name="questions")
neighbors.app.add_typer(propose.app)  # without a name: its commands stand among those of neighbors
app.add_typer(neighbors.app, name="neighbors")
app.add_typer(runs.app, name="runs")
app.add_typer(sets.app, name="sets")
app.command()(demo.demo)
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
    """Run the command line; a `TagrpoError` becomes one message on stderr and exit code 2."""
    try:
        app()
    except TagrpoError as error:
        output.print_error(str(error))
        sys.exit(2)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(1)
    except KeyboardInterrupt:
        output.print_error("interrupted; run the same command again to go on where it stopped")
        sys.exit(130)
