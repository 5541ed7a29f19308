"""`tagrpo rollouts`: import, watch, prune, steps, list, show."""

import threading
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from typer import Argument, Option

from service.errors import InputError
from ui.cli import exits, output
from ui.cli.output import Terminal
from ui.cli.runs.showing import Standing
from ui.cli.settings import Db, OnlyRun

if TYPE_CHECKING:
    from collections.abc import Sequence

    from service.database import Database
    from service.runs.store import Run
    from trainer_adapter.record.browsing import RolloutHeader, WholeRollout
    from trainer_adapter.record.importing import Imported

SHOWN_METRICS = (
    "tagrpo/correct/mean",
    "tagrpo/zero/joint/share",
    "tagrpo/entropy/mean",
    "tagrpo/tokens/mean",
)


FolderArgument = Annotated[Path, Argument(help="Folder in which the training records its rollouts.")]
NameOption = Annotated[
    str | None, Option("--name", help="Name of the run in the database. Default: the training's own name.")
]
TextsOption = Annotated[
    Literal["shards", "database"],
    Option(
        help="Where to read responses: from the files in place, or from a copy in the database, which then "
        "works without the files."
    ),
]


def import_(
    folder: FolderArgument,
    name: NameOption = None,
    texts: TextsOption = "shards",
    *,
    db: Db,
    terminal: Terminal,
) -> None:
    """Import the rollouts and metrics of a training run; imported steps stay unchanged.

    Responses stay in the folder and are read from there. If you move the folder, import it again from its new
    place. Each step is stored separately: run the command again to resume an import.

    Example: [bold]tagrpo rollouts import runs/ta/rollouts[/bold]
    """
    from trainer_adapter.record.importing import import_rollouts

    with (
        terminal.progress("steps") as bar,
        db.open(create=True) as database,
    ):
        imported = import_rollouts(database, folder, name=name, texts=texts == "database", report=bar.update)
    terminal.emit(asdict(imported), output.say, _sentence(imported))


def watch(
    folder: FolderArgument,
    name: NameOption = None,
    texts: TextsOption = "shards",
    every: Annotated[float, Option(min=0.1, help="Seconds between two scans of the folder.")] = 5.0,
    until_idle: Annotated[
        float | None, Option(min=0.0, help="Stop after this many seconds without new files.")
    ] = None,
    *,
    db: Db,
) -> None:
    """Import new rollouts during a training; press Ctrl-C to stop.

    A file that is still being copied is retried. An unusable file is reported once.

    Exit code 3: at the end, at least one file could not be used.

    Example: [bold]tagrpo rollouts watch runs/ta/rollouts --until-idle 600[/bold]
    """
    from trainer_adapter.record.importing import watch_rollouts

    stop = threading.Event()
    bad: InputError | None = None
    with db.open(create=True) as database:
        try:
            for outcome in watch_rollouts(
                database,
                folder,
                name=name,
                texts=texts == "database",
                every_s=every,
                idle_s=until_idle,
                stop=stop,
            ):
                if isinstance(outcome, InputError):
                    bad = outcome
                    output.note(str(outcome))
                else:
                    bad = None if outcome.new or outcome.replaced else bad
                    output.say(_sentence(outcome))
        except KeyboardInterrupt:  # how a watch ends
            output.note("stopped watching; run the command again at any time")
    if bad is not None:
        raise exits.needs_attention(str(bad))


def prune(
    run: Annotated[str, Argument(help="Name or id of a training run.")],
    keep_every: Annotated[
        int, Option(min=1, help="Keep the responses of every n-th step: 50 keeps steps 50, 100, ...")
    ],
    keep_last: Annotated[int, Option(min=0, help="Keep the responses of the last steps.")] = 10,
    yes: Annotated[bool, Option("--yes", help="Remove without a prompt.")] = False,
    dry_run: Annotated[bool, Option(help="Show what would be removed; remove nothing.")] = False,
    *,
    db: Db,
    terminal: Terminal,
) -> None:
    """Remove the responses of most steps of a training from the database and its files.

    Metrics of all steps stay. A file that changed since its import also stays. `tagrpo db vacuum` releases
    the disk space in the database.

    Example: [bold]tagrpo rollouts prune ta --keep-every 50 --dry-run[/bold]
    """
    from trainer_adapter.record.browsing import choose_train_run
    from trainer_adapter.record.importing import prune as prune_steps
    from trainer_adapter.record.importing import steps_to_prune

    with db.open() as database:
        with database.read() as session:
            chosen = choose_train_run(session, run)
            leaving = steps_to_prune(session, chosen.id, keep_every=keep_every, keep_last=keep_last)
        files = [each.file for each in leaving if each.file is not None]
        record = {
            "run": chosen.name,
            "steps": [each.step for each in leaving],
            "rollouts": sum(each.rollouts for each in leaving),
            "files": [str(file) for file in files],
            "bytes": sum(each.bytes for each in leaving),
        }
        sentence = (
            f"{chosen.name}: {record['rollouts']:,} rollouts of {output.plural(len(leaving), 'step')}, "
            f"{output.plural(len(files), 'file')} with "
            f"{sum(each.bytes for each in leaving) / 2**20:,.1f} MiB"
        )
        if dry_run or not leaving:
            terminal.emit(
                record,
                output.say,
                f"{sentence} would be removed" if leaving else f"{chosen.name}: no step would be removed",
            )
            return
        if not yes:
            what = f"removing the rollouts of {output.plural(len(leaving), 'step')}"
            output.confirm(what, f"Remove {sentence}?")
        with terminal.progress("steps") as bar:
            prune_steps(database, chosen.id, leaving, report=bar.update)
    terminal.emit(record, output.say, f"removed {sentence}")


def standing(database: "Database", run: "Run") -> Standing:
    """Return what a training run is, and how much of it was imported, for `runs show`."""
    from trainer_adapter.record.browsing import read_train_run
    from trainer_adapter.record.series import metric_series
    from trainer_adapter.verl.alarms import WATCHED, alarms_of

    with database.read() as session:
        training = read_train_run(session, run)
        [series] = metric_series(session, [run.id], WATCHED)
    alarms = alarms_of(
        (step, {name: values[place] for name, values in series.values.items()})
        for place, step in enumerate(series.steps)
    )
    first_and_last = "" if training.first_step is None else f", {training.first_step} to {training.last_step}"
    text = partial(
        output.say,
        f"recipe {training.recipe or 'unknown'}, model {training.model or 'unknown'}",
        f"{training.rollouts:,} rollouts in {output.plural(training.steps, 'step')}{first_and_last}",
        *(f"alarm at {alarm}" for alarm in alarms),
        f"show its metrics: tagrpo rollouts steps {run.name}",
    )
    return Standing({**training.to_json(), "alarms": [alarm._asdict() for alarm in alarms]}, text)


def steps(
    run: OnlyRun = None,
    metric: Annotated[
        list[str] | None,
        Option(help="Metric to show; a final * matches any ending. Repeat the option for several."),
    ] = None,
    *,
    db: Db,
    terminal: Terminal,
) -> None:
    """Show the metrics of a run step by step; --json has all of them.

    Example: [bold]tagrpo rollouts steps ta --metric "tagrpo/zero/*"[/bold]
    """
    from trainer_adapter.record.browsing import choose_train_run, read_steps

    with db.reading() as session:
        chosen = choose_train_run(session, run)
        recorded = read_steps(session, chosen.id)
    known = {name: None for step in recorded for name in step.metrics}
    names = chosen_metrics(list(known), metric)
    kept = set(known) if metric is None else set(names)
    records = [
        {
            "step": step.step,
            "rollouts": step.rollouts,
            "metrics": {name: value for name, value in step.metrics.items() if name in kept},
        }
        for step in recorded
    ]
    terminal.emit(
        {"run": chosen.name, "steps": records},
        output.table,
        ["step", "rollouts", *names],
        [[step.step, step.rollouts, *(step.metrics.get(name) for name in names)] for step in recorded],
        title=chosen.name,
    )


@dataclass(frozen=True)
class Filters:
    """Which rollouts are listed."""

    step: Annotated[int | None, Option(help="Only this step.")] = None
    question_id: Annotated[
        str | None, Option("--question", help="Only this question: its id or first characters.")
    ] = None
    variant: Annotated[
        int | None, Option(min=0, help="0: the question's own prompt; k: its k-th neighbor.")
    ] = None
    grade: Annotated[str | None, Option(help="Only this grade: correct, wrong or unknown.")] = None
    least_reward: Annotated[float | None, Option(help="Only rewards of at least this.")] = None
    most_reward: Annotated[float | None, Option(help="Only rewards of at most this.")] = None
    truncated: Annotated[
        bool | None,
        Option(
            "--truncated/--ended", help="Only responses cut off at the maximum length, or only the others."
        ),
    ] = None
    text: Annotated[str | None, Option(help="Only rollouts whose response contains this text.")] = None


def list_(
    run: OnlyRun = None,
    *,
    filters: Filters,
    after: Annotated[int | None, Option(help="Continue after the rollout with this number.")] = None,
    limit: Annotated[int, Option(min=1, help="Number of rollouts to show.")] = 25,
    db: Db,
    terminal: Terminal,
) -> None:
    """List rollouts of a run by step, in the order of recording; `tagrpo rollouts show` prints their texts.

    Example: [bold]tagrpo rollouts list ta --step 1 --variant 0 --grade wrong[/bold]
    """
    from trainer_adapter.record.browsing import RolloutFilters, choose_train_run, search_rollouts

    with db.reading() as session:
        chosen = choose_train_run(session, run)
        page = search_rollouts(session, chosen.id, RolloutFilters(**vars(filters)), after=after, limit=limit)
    record = {
        "run": chosen.name,
        "rollouts": [asdict(header) for header in page.rollouts],
        "after": page.after,
    }
    terminal.emit(record, _print_page, chosen.name, page.rollouts, page.after)


def show(
    rollout: Annotated[int, Argument(help="Number of a rollout, as shown by `list`.")],
    full: Annotated[bool, Option(help="Show long texts in full.")] = False,
    *,
    db: Db,
    terminal: Terminal,
) -> None:
    """Show a rollout: its prompt, its text, and its reward, advantage and log-probabilities.

    Example: [bold]tagrpo rollouts show 1[/bold]
    """
    from trainer_adapter.record.browsing import read_rollout, read_token_ratios

    with db.reading() as session:
        stored = read_rollout(session, rollout)
        ratios = read_token_ratios(session, rollout)
    record = {
        "run": stored.run.name,
        **asdict(stored.header),
        "prompt": stored.prompt,
        "response": stored.response,
        "token_log_ratios": None if ratios is None else ratios.pieces(stored.response),
    }
    terminal.emit(record, _print_rollout, stored, full=full)


def _print_page(run: str, page: "Sequence[RolloutHeader]", after: int | None) -> None:
    fields = ("id", "step", "question_id", "variant", "session", "grade", "reward", "advantage", "tokens")
    rows = [
        [*(getattr(header, name) for name in fields), header.extracted and header.extracted[:40]]
        for header in page
    ]
    columns = ["rollout", "step", "question", *fields[3:], "answer"]
    output.table(columns, rows, title=run, empty="no such rollouts")
    output.say_next(after)


def _print_rollout(stored: "WholeRollout", *, full: bool) -> None:
    header = stored.header
    output.heading(f"{stored.run.name}, step {header.step}, rollout {header.id}")
    where = "the question's own prompt" if header.variant == 0 else f"neighbor {header.neighbor_id}"
    output.say(f"question {header.question_id}, {where}, session {header.session}, group {header.group}")
    output.say(f"{header.grade} ({header.reason}), extracted answer: {header.extracted or '-'}")
    cut = ", cut off at the maximum length" if header.truncated else ""
    output.say(
        f"reward {header.reward:.4g}, advantage {_number(header.advantage)}, {header.tokens:,} tokens{cut}"
    )
    output.say(
        f"log-probs: old {_number(header.old_log_prob)}, sampling {_number(header.sampling_log_prob)}, "
        f"reference {_number(header.ref_log_prob)}; entropy {_number(header.entropy)}"
    )
    for title, text in (("prompt", stored.prompt or "(not stored)"), ("response", stored.response)):
        output.say()
        output.heading(title)
        output.say_text(text, len(text), full=full)


def _sentence(imported: "Imported") -> str:
    parts = [f"{imported.new:,} new steps, {imported.rollouts:,} rollouts"]
    if imported.replaced:
        parts.append(f"{imported.replaced:,} steps replaced, since they were trained again")
    if imported.unchanged:
        parts.append(f"{imported.unchanged:,} steps already imported")
    if imported.metrics:
        parts.append(f"metrics of {imported.metrics:,} steps")
    if imported.unread:
        parts.append(f"{imported.unread:,} lines of metrics.jsonl contain no metrics (a kill can leave one)")
    return f"{imported.run}: {'; '.join(parts)}"


def chosen_metrics(names_there: list[str], wanted: list[str] | None) -> list[str]:
    """Return the names that are wanted, where text before a final * stands for any ending."""
    if wanted is None:
        return [name for name in SHOWN_METRICS if name in names_there]
    names: list[str] = []
    for pattern in wanted:
        matches = [
            name
            for name in names_there
            if name == pattern or (pattern.endswith("*") and name.startswith(pattern[:-1]))
        ]
        if not matches:
            from difflib import get_close_matches

            near = ", ".join(get_close_matches(pattern, names_there, n=3, cutoff=0.3)) or "none at all"
            raise InputError(f"the run has no metric {pattern!r}. Similar: {near}.")
        names += [name for name in matches if name not in names]
    return names


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}"
