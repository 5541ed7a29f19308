"""`tagrpo rollouts`: import, watch, runs, steps, list, show."""

import threading
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from service.errors import InputError
from ui.cli import output
from ui.cli.eval.samples import visible
from ui.cli.output import DbOption, JsonOption

if TYPE_CHECKING:
    from trainer_adapter.record.browsing import RolloutHeader
    from trainer_adapter.record.importing import Imported

CHARACTERS_SHOWN = 2_000
SHOWN_METRICS = (
    "tagrpo/correct/mean",
    "tagrpo/zero/joint/share",
    "tagrpo/entropy/mean",
    "tagrpo/tokens/mean",
)

app = typer.Typer(
    no_args_is_help=True,
    help="Look at training runs: import what they recorded, browse it from step 1.",
    epilog="Example: tagrpo rollouts import runs/ta/rollouts",
)

FolderArgument = Annotated[
    Path, typer.Argument(help="The folder that training records into.", show_default=False)
]
NameOption = Annotated[
    str | None,
    typer.Option("--run", help="Name of the run in the database; else as training called it."),
]
RunArgument = Annotated[
    str | None,
    typer.Argument(help="Name or id of a run; not needed where there is only one.", show_default=False),
]


@app.command("import")
def import_(
    folder: FolderArgument, name: NameOption = None, db: DbOption = None, as_json: JsonOption = False
) -> None:
    """Import the rollouts and metrics of a training run; what is there already is left as it is.

    Example: [bold]tagrpo rollouts import runs/ta/rollouts[/bold]
    """
    from service.database import Database, locate_database
    from trainer_adapter.record.importing import import_rollouts

    with (
        output.progress("steps", quiet=as_json) as shown,
        Database.open(locate_database(db)) as database,
    ):
        done = import_rollouts(database, folder, name=name, report=shown.update)
    if as_json:
        output.print_json(asdict(done))
    else:
        output.say(_sentence(done))


@app.command()
def watch(
    folder: FolderArgument,
    name: NameOption = None,
    every: Annotated[float, typer.Option(min=0.1, help="Seconds between two looks.")] = 5.0,
    until_idle: Annotated[
        float | None,
        typer.Option(min=0.0, help="End when nothing new has come for so many seconds.", show_default=False),
    ] = None,
    db: DbOption = None,
) -> None:
    """Import new rollouts as they appear, while training runs; Ctrl-C ends it.

    A file that is still being copied is tried again. One that cannot be used is named once.

    Exit code 1: at the end a file is left that could not be used.

    Example: [bold]tagrpo rollouts watch runs/ta/rollouts --until-idle 600[/bold]
    """
    from service.database import Database, locate_database
    from trainer_adapter.record.importing import watch_rollouts

    stop = threading.Event()
    bad: InputError | None = None
    with Database.open(locate_database(db)) as database:
        try:
            for found in watch_rollouts(
                database, folder, name=name, every_s=every, idle_s=until_idle, stop=stop
            ):
                if isinstance(found, InputError):
                    bad = found
                    output.note(str(found))
                else:
                    bad = None if found.new or found.replaced else bad
                    output.say(_sentence(found))
        except KeyboardInterrupt:  # how a watch ends
            output.note("stopped watching; start again any time")
    if bad is not None:
        raise output.needs_attention(str(bad))


@app.command()
def runs(db: DbOption = None, as_json: JsonOption = False) -> None:
    """List the training runs, oldest first.

    Example: [bold]tagrpo rollouts runs[/bold]
    """
    from service.database import Database, locate_database
    from trainer_adapter.record.browsing import list_train_runs

    with Database.open(locate_database(db), create=False) as database, database.read() as session:
        found = list_train_runs(session)
    rows = [
        {
            "run": one.run.name,
            "run_id": one.run.id,
            "recipe": _recipe(one.run.spec),
            "steps": one.steps,
            "first_step": one.first_step,
            "last_step": one.last_step,
            "rollouts": one.rollouts,
        }
        for one in found
    ]
    if as_json:
        output.print_json({"runs": rows})
    elif not rows:
        output.say("no training runs yet; import one with `tagrpo rollouts import FOLDER`")
    else:
        columns = ("run", "recipe", "steps", "first_step", "last_step", "rollouts")
        output.table(
            [name.replace("_", " ") for name in columns], [[row[name] for name in columns] for row in rows]
        )


@app.command()
def steps(
    run: RunArgument = None,
    metric: Annotated[
        list[str] | None,
        typer.Option(
            help="A metric to show; may be given several times. Text before a final * stands for any ending.",
            show_default=False,
        ),
    ] = None,
    db: DbOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show the metrics of a run step by step; --json has all of them.

    Example: [bold]tagrpo rollouts steps ta --metric "tagrpo/zero/*"[/bold]
    """
    from service.database import Database, locate_database
    from trainer_adapter.record.browsing import choose_train_run, read_steps

    with Database.open(locate_database(db), create=False) as database, database.read() as session:
        chosen = choose_train_run(session, run)
        found = read_steps(session, chosen.id)
    known = {name: None for step in found for name in step.metrics}
    names = _chosen_metrics(list(known), metric)
    if as_json:
        kept = set(known) if metric is None else set(names)
        output.print_json(
            {
                "run": chosen.name,
                "steps": [
                    {
                        "step": step.step,
                        "rollouts": step.rollouts,
                        "metrics": {name: value for name, value in step.metrics.items() if name in kept},
                    }
                    for step in found
                ],
            }
        )
        return
    output.table(
        ["step", "rollouts", *names],
        [[step.step, step.rollouts, *(step.metrics.get(name) for name in names)] for step in found],
        title=chosen.name,
    )


@app.command("list")
def list_(
    run: RunArgument = None,
    step: Annotated[int | None, typer.Option(help="Of this step only.", show_default=False)] = None,
    question: Annotated[
        str | None, typer.Option(help="Of this question: its id, or how it begins.", show_default=False)
    ] = None,
    variant: Annotated[
        int | None,
        typer.Option(min=0, help="0: the question's own prompt; k: its k-th neighbor.", show_default=False),
    ] = None,
    grade: Annotated[str | None, typer.Option(help="correct, wrong or unknown.", show_default=False)] = None,
    least_reward: Annotated[
        float | None, typer.Option(help="Rewards of this or more.", show_default=False)
    ] = None,
    most_reward: Annotated[
        float | None, typer.Option(help="Rewards of this or less.", show_default=False)
    ] = None,
    truncated: Annotated[
        bool | None, typer.Option("--truncated/--ended", help="Cut at the longest length, or not.")
    ] = None,
    after: Annotated[
        int | None, typer.Option(help="Go on behind the rollout of this number.", show_default=False)
    ] = None,
    limit: Annotated[int, typer.Option(min=1, help="Rollouts to show.")] = 25,
    db: DbOption = None,
    as_json: JsonOption = False,
) -> None:
    """List rollouts of a run, by step and as they were recorded; texts are in `tagrpo rollouts show`.

    Example: [bold]tagrpo rollouts list ta --step 1 --variant 0 --grade wrong[/bold]
    """
    from service.database import Database, locate_database
    from trainer_adapter.record.browsing import RolloutFilters, choose_train_run, page_rollouts

    filters = RolloutFilters(step, question, variant, grade, least_reward, most_reward, truncated)
    with Database.open(locate_database(db), create=False) as database, database.read() as session:
        chosen = choose_train_run(session, run)
        page = page_rollouts(session, chosen.id, filters, after=after, limit=limit)
    if as_json:
        following = page[-1].id if len(page) == limit else None
        rows = [asdict(header) for header in page]
        output.print_json({"run": chosen.name, "rollouts": rows, "after": following})
        return
    if not page:
        output.say("no such rollouts")
        return
    output.table(
        [
            "rollout",
            "step",
            "question",
            "variant",
            "session",
            "grade",
            "reward",
            "advantage",
            "tokens",
            "answer",
        ],
        [_row(header) for header in page],
        title=chosen.name,
    )
    if len(page) == limit:
        output.say(f"more: --after {page[-1].id}")


@app.command()
def show(
    rollout: Annotated[int, typer.Argument(help="A rollout's number, as `list` shows it.")],
    full: Annotated[bool, typer.Option("--full", help="Show long texts whole.")] = False,
    db: DbOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show a rollout: the prompt it was drawn for, its text, and what training made of it.

    Example: [bold]tagrpo rollouts show 1[/bold]
    """
    from service.database import Database, locate_database
    from trainer_adapter.record.browsing import read_rollout, read_token_ratios

    with Database.open(locate_database(db), create=False) as database, database.read() as session:
        found = read_rollout(session, rollout)
        ratios = read_token_ratios(session, rollout)
    if as_json:
        output.print_json(
            {
                "run": found.run.name,
                **asdict(found.header),
                "prompt": found.prompt,
                "response": found.response,
                "token_log_ratios": None if ratios is None else ratios.pieces(found.response),
            }
        )
        return
    header = found.header
    output.heading(f"{found.run.name}, step {header.step}, rollout {header.id}")
    where = "the question's own prompt" if header.variant == 0 else f"neighbor {header.neighbor_id}"
    output.say(f"question {header.question_id}, {where}, session {header.session}, group {header.group}")
    output.say(f"{header.grade} ({header.reason}), answer read: {visible(header.extracted or '-')}")
    cut = ", cut at the longest length" if header.truncated else ""
    output.say(
        f"reward {header.reward:.4g}, advantage {_number(header.advantage)}, {header.tokens:,} tokens{cut}"
    )
    output.say(
        f"log-probs: old {_number(header.old_log_prob)}, sampling {_number(header.sampling_log_prob)}, "
        f"reference {_number(header.ref_log_prob)}; entropy {_number(header.entropy)}"
    )
    for title, text in (("prompt", found.prompt or "(not kept)"), ("response", found.response)):
        output.say()
        output.heading(title)
        shown = text if full else text[:CHARACTERS_SHOWN]
        left = len(text) - len(shown)
        output.say(visible(shown) + (f"\n[{left:,} characters more; --full shows them]" if left else ""))


def _sentence(done: "Imported") -> str:
    parts = [f"{done.new:,} new steps, {done.rollouts:,} rollouts"]
    if done.replaced:
        parts.append(f"{done.replaced:,} steps replaced, since they were trained again")
    if done.unchanged:
        parts.append(f"{done.unchanged:,} steps were there")
    if done.metrics:
        parts.append(f"metrics of {done.metrics:,} steps")
    if done.unread:
        parts.append(f"{done.unread:,} lines of metrics.jsonl hold no metrics (a kill leaves one)")
    return f"{done.run}: {'; '.join(parts)}"


def _recipe(spec: dict[str, Any]) -> str | None:
    recipe = spec.get("recipe")
    return str(recipe.get("name")) if isinstance(recipe, dict) else recipe


def _chosen_metrics(known: list[str], wanted: list[str] | None) -> list[str]:
    if wanted is None:
        return [name for name in SHOWN_METRICS if name in known]
    names: list[str] = []
    for one in wanted:
        matches = [name for name in known if name == one or (one.endswith("*") and name.startswith(one[:-1]))]
        if not matches:
            from difflib import get_close_matches

            near = ", ".join(get_close_matches(one, known, n=3, cutoff=0.3)) or "none at all"
            raise InputError(f"the run has no metric {one!r}; near it: {near}.")
        names += [name for name in matches if name not in names]
    return names


def _row(header: "RolloutHeader") -> list[object]:
    answer = None if header.extracted is None else visible(header.extracted[:40])
    return [
        header.id,
        header.step,
        header.question_id,
        header.variant,
        header.session,
        header.grade,
        header.reward,
        header.advantage,
        header.tokens,
        answer,
    ]


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}"
