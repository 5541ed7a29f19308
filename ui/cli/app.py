"""Entry point of the `tagrpo` command: the sub-commands, and what an error looks like."""

import errno
import re
import sys
from collections.abc import Sequence
from functools import cache
from typing import Annotated

import typer
from typer.core import TyperGroup
from typer.main import get_command

from service.errors import InputError, Interrupted, TagrpoError, Terminated
from service.models.stopping import exit_on_sigterm
from ui.characters import visible
from ui.cli import configs, db, demo, doctor, exits, output, sandbox, ui
from ui.cli.diagnose import commands as diagnose
from ui.cli.eval import benchmarks, exchange, human_grades, reporting, running
from ui.cli.eval import browsing as eval_browsing
from ui.cli.eval import grading as eval_grading
from ui.cli.eval import importing as eval_importing
from ui.cli.eval import judging as eval_judging
from ui.cli.grade import serving
from ui.cli.neighbors import audits, judging, mending, proposing, reviews
from ui.cli.neighbors import browsing as neighbors
from ui.cli.questions import browsing as questions
from ui.cli.questions import contamination, importing
from ui.cli.questions import removing as removing_questions
from ui.cli.runs import listing, removing, resuming, showing
from ui.cli.sets import commands as sets
from ui.cli.sets import exports, publishing
from ui.cli.settings import command_group, with_settings
from ui.cli.train import commands as train
from ui.cli.train import curves, recipes, rescued, rollouts

GO_ON = "run the same command again to resume"
STOPPED = {exits.Code.INTERRUPTED: f"interrupted; {GO_ON}", exits.Code.TERMINATED: f"terminated; {GO_ON}"}

SETTINGS = {"help_option_names": ["-h", "--help"]}
"""Of every command's context; click keeps the help option that a command's first context has."""

app = typer.Typer(
    name="tagrpo",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings=SETTINGS,
    help="Build verified rephrasings of math questions for GRPO training: import questions, propose and "
    'check rephrasings ("neighbors"), publish immutable sets, train with verl, and measure models.\n\n'
    f"Exit codes: {', '.join(f'{code} {meaning}' for code, meaning in exits.MEANINGS.items())}.\n\n"
    "Example: tagrpo questions import math_train.jsonl --name math",
)
GROUPS = {
    "questions": command_group(
        "Import, browse, mix and remove question sets.",
        "tagrpo questions import math_train.jsonl --name math",
        {
            "import": importing.import_,
            "list": questions.list_,
            "show": questions.show,
            "suspects": questions.suspects,
            "mix": importing.mix,
            "contamination": contamination.contamination,
            "remove": removing_questions.remove,
        },
    ),
    "benchmarks": command_group(
        "List benchmarks and check that their content has not changed.",
        "tagrpo benchmarks check mine.jsonl",
        {"list": benchmarks.list_, "check": benchmarks.check},
    ),
    "rephrase": command_group(
        "Propose, check, browse, review and audit neighbors.",
        "tagrpo rephrase run math --name rules proposer=rules",
        {
            "run": proposing.run,
            "list": neighbors.list_,
            "show": neighbors.show,
            "review": reviews.review,
            "reviews": reviews.list_,
            "mend": mending.mend,
            "audit": audits.audit,
            "judge": judging.judge,
        },
    ),
    "runs": command_group(
        "List, inspect, rename and remove runs of all kinds.",
        "tagrpo runs show rules",
        {
            "list": listing.list_,
            "show": showing.show,
            "remove": removing.remove,
            "rename": removing.rename,
        },
    ),
    "sets": command_group(
        "Publish, compare, verify and export immutable neighbor sets.",
        "tagrpo sets publish math --run rules --include unverified",
        {
            "publish": publishing.publish,
            "list": sets.list_,
            "show": sets.show,
            "diff": sets.diff,
            "verify": sets.verify,
            "tag": sets.tag,
            "export": exports.export,
            "import": exports.import_,
        },
    ),
    "eval": command_group(
        "Measure models: sample responses to benchmarks, grade them and report pass@k.",
        "tagrpo eval run amc23 --model hosted_vllm/Qwen/Qwen3-4B --base-url http://localhost:8000/v1 --n 128",
        {
            "run": running.run,
            "import": eval_importing.import_,
            "export": exchange.export,
            "agreement": exchange.agreement,
            "grade": eval_grading.grade,
            "judge": eval_judging.judge,
            "samples": eval_browsing.samples,
            "human-grade": human_grades.human_grade,
            "human-grades": human_grades.human_grades,
            "report": reporting.report,
            "compare": reporting.compare,
        },
    ),
    "grade": command_group(
        "Serve the grader over HTTP.",
        "tagrpo grade serve --unknown-reward 0",
        {"serve": serving.serve},
    ),
    "diagnose": command_group(
        "Compare groups with and without neighbors: equal rewards, difficulty, diversity and cost.",
        "tagrpo diagnose zero-gradient base step-100 --g 8",
        {
            "zero-gradient": diagnose.zero_gradient,
            "forecast": diagnose.forecast,
            "difficulty": diagnose.difficulty,
            "diversity": diagnose.diversity,
            "cost": diagnose.cost,
            "report": diagnose.report,
        },
    ),
    "rollouts": command_group(
        "Browse the responses of training runs, also during the training.",
        "tagrpo rollouts list ta --step 1 --grade wrong",
        {
            "add": rollouts.add,
            "prune": rollouts.prune,
            "steps": rollouts.steps,
            "curves": curves.curves,
            "list": rollouts.list_,
            "rescued": rescued.rescued,
            "show": rollouts.show,
        },
    ),
    "recipes": command_group(
        "List the training recipes and the verl settings of each.",
        "tagrpo recipes show ta_grpo",
        {"list": recipes.list_, "show": recipes.show},
    ),
    "train": command_group(
        "Train a policy with verl: plan, run, resume.",
        "tagrpo train run ta_grpo --set math@1 --model Qwen/Qwen3-1.7B --gpus 4",
        {"plan": train.plan, "run": train.run},
    ),
    "db": command_group(
        "Maintain the database: check, back up, upgrade, shrink.",
        "tagrpo db backup /backups/tagrpo-monday.db",
        {
            "check": db.check,
            "backup": db.backup,
            "copy": db.copy,
            "upgrade": db.upgrade,
            "vacuum": db.vacuum,
        },
    ),
    "sandbox": command_group(
        "Create a small world of word problems for a laptop: questions, labelled candidates, a tiny policy.",
        "tagrpo sandbox questions world-a --world A",
        {
            "questions": sandbox.questions,
            "candidates": sandbox.candidates,
            "score": sandbox.score,
            "pretrain": sandbox.pretrain,
            "policy": sandbox.policy,
        },
    ),
}
for name, group in GROUPS.items():
    app.add_typer(group, name=name)
for command in (demo.demo, ui.ui, doctor.doctor, resuming.resume, configs.config):
    app.command()(with_settings(command))


_COMMANDS_OF_TERMINALS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


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
    _quiet: output.QuietOption = False,
    _verbose: output.VerboseOption = False,
) -> None:
    pass


@cache
def commands() -> TyperGroup:
    """Return all commands as click reads them; building them takes a tenth of a second."""
    group: TyperGroup = get_command(app)  # type: ignore[assignment]
    return group


def main() -> None:
    """Run the command line; a `TagrpoError` becomes one message on stderr and exit code 2, a bug one and 1.

    A full disk is no bug either and reads the same, nor is a number on the command line that is too large for
    what computes with it. A reader that has gone away (`| head`) ends the command
    with exit code 1, Ctrl-C with 130, SIGTERM with 143, all without a traceback.
    """
    output.prepare_streams()
    try:
        _check_arguments(sys.argv[1:])
        try:
            with exit_on_sigterm():
                commands()(prog_name="tagrpo")
        finally:
            sys.stdout.flush()
    except SystemExit as leaving:
        if leaving.code in STOPPED:  # typer has swallowed the KeyboardInterrupt
            output.print_error(STOPPED[exits.Code(leaving.code)])
        raise
    except Interrupted as error:
        output.print_error(str(error))
        sys.exit(exits.Code.TERMINATED if isinstance(error, Terminated) else exits.Code.INTERRUPTED)
    except TagrpoError as error:
        output.print_error(str(error))
        sys.exit(exits.Code.USAGE)
    except OverflowError as error:  # of SQLite, numpy and torch, whose numbers end somewhere
        huge = [argument for argument in sys.argv[1:] if _is_huge(argument)]
        if not huge:
            _report_bug(error)
            sys.exit(exits.Code.FAILED)
        output.print_error(f"{huge[0]}: the number is too large. Give a smaller one.")
        sys.exit(exits.Code.USAGE)
    except BrokenPipeError:
        output.forget_stdout()
        sys.exit(exits.Code.FAILED)
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        if not full and error.filename is None:
            _report_bug(error)
            sys.exit(exits.Code.FAILED)
        if full:
            output.forget_stdout()
        way_out = "; free some space" if full else ""
        output.print_error(f"{error.filename or 'output'}: {error.strerror}{way_out}.")
        sys.exit(exits.Code.USAGE)
    except KeyboardInterrupt:  # before or after typer's turn
        output.print_error(STOPPED[exits.Code.INTERRUPTED])
        sys.exit(exits.Code.INTERRUPTED)
    except Exception as error:
        _report_bug(error)
        sys.exit(exits.Code.FAILED)


def _report_bug(error: Exception) -> None:
    """Say in one line that an error nobody foresaw is ours, where it arose and how to report it."""
    import traceback
    from importlib.metadata import version

    place = traceback.extract_tb(error.__traceback__)[-1]
    message = " ".join(str(error).split())
    how = "" if output.LOUDNESS.verbose else " (-v prints it)"
    output.print_error(
        f"a bug in tagrpo {version('tagrpo')}: {type(error).__name__}: {message} "
        f"({place.filename}:{place.lineno}). Please report it with the command and its traceback{how}."
    )


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
            readable = argument.encode("utf-8", "backslashreplace").decode("utf-8")
            raise InputError(
                f'"{readable}" on the command line is not UTF-8. Rename it, or set LANG to a UTF-8 locale.'
            ) from error
        if _COMMANDS_OF_TERMINALS.search(argument):  # typer would print it back as it is
            raise InputError(
                f'"{visible(argument)}" on the command line contains control characters. Remove them.'
            )
