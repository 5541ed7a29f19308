"""`tagrpo rollouts`: add, prune, steps, list, show."""

from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from service.errors import InputError
from ui.cli import output
from ui.cli.output import Terminal
from ui.cli.runs import Standing
from ui.cli.settings import Db, OnlyRun

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from service.database import Database
    from service.runs.store import Run
    from trainer_adapter.record.reading import Record, WholeRollout
    from trainer_adapter.record.runs import TrainNumbers

SHOWN_METRICS = (
    "tagrpo/correct/mean",
    "tagrpo/zero/joint/share",
    "tagrpo/entropy/mean",
    "tagrpo/tokens/mean",
)


def add(
    folder: Annotated[Path, Argument(help="Folder in which the training records its rollouts.")],
    name: Annotated[
        str | None, Option("--name", help="Name of the run in the database. Default: the training's own.")
    ] = None,
    *,
    db: Db,
    terminal: Terminal,
) -> None:
    """Add a training run that was not started here, or the new place of its folder.

    Nothing is copied: the UI and commands read the folder, also during the training.

    Example: tagrpo rollouts add runs/ta/rollouts
    """
    from trainer_adapter.record.reading import Record
    from trainer_adapter.record.runs import read_train_run, register

    recorded = Record(folder)  # a wrong folder leaves no new database
    with db.open(create=True) as database, database.write() as session:
        run = register(session, recorded, name)
        training = read_train_run(session, run)
    record = {"run": run.name, "folder": str(folder.resolve()), **training.to_json()}
    terminal.emit(record, output.say, f"{run.name}: {numbers_text(training.numbers)}")


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
    """Remove the files of most steps of a training run; counts and metrics of all steps stay.

    Example: tagrpo rollouts prune ta --keep-every 50 --dry-run
    """
    from trainer_adapter.record.pruning import steps_to_prune

    with db.reading() as session:
        name, record = chosen_record(session, run)
    prunable = steps_to_prune(record, keep_every=keep_every, keep_last=keep_last)
    files = [file for each in prunable for file in each.files]
    size = sum(each.bytes for each in prunable)
    rollouts = sum(each.rollouts for each in prunable)
    done = {
        "run": name,
        "steps": [each.step for each in prunable],
        "rollouts": rollouts,
        "files": [str(file) for file in files],
        "bytes": size,
    }
    sentence = (
        f"{name}: {rollouts:,} rollouts of {output.plural(len(prunable), 'step')}, "
        f"{output.plural(len(files), 'file')} with {size / 2**20:,.1f} MiB"
    )
    if dry_run or not prunable:
        words = f"{sentence} would be removed" if prunable else f"{name}: no step would be removed"
        terminal.emit(done, output.say, words)
        return
    if not yes:
        what = f"removing the rollouts of {output.plural(len(prunable), 'step')}"
        output.confirm(what, f"Remove {sentence}?")
    for file in files:
        file.unlink(missing_ok=True)
    terminal.emit(done, output.say, f"removed {sentence}")


def chosen_record(session: "Session", run: str | None) -> "tuple[str, Record]":
    """Return name and record of a training; warn of its damaged files."""
    from trainer_adapter.record.runs import choose_train_run, open_record

    chosen = choose_train_run(session, run)
    record = open_record(session, chosen)
    for problem in record.problems():
        output.note(problem)
    return chosen.name, record


def numbers_text(numbers: "TrainNumbers") -> str:
    """Return rollouts and steps in words."""
    steps = output.plural(numbers.steps, "step")
    first_and_last = "" if numbers.first_step is None else f", {numbers.first_step} to {numbers.last_step}"
    return f"{numbers.rollouts:,} rollouts in {steps}{first_and_last}"


def standing(database: "Database", run: "Run") -> Standing:
    """Return what a training run is, and how far it has come, for `runs show`."""
    from trainer_adapter.record.runs import open_record, read_train_run
    from trainer_adapter.verl.alarms import alarms_of

    with database.read() as session:
        training = read_train_run(session, run)
        alarms = list(alarms_of(open_record(session, run).metrics().items())) if not training.problem else []
    text = partial(
        output.say,
        f"recipe {training.recipe or 'unknown'}, model {training.model or 'unknown'}",
        training.problem or numbers_text(training.numbers),
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

    Example: tagrpo rollouts steps ta --metric "tagrpo/zero/*"
    """
    with db.reading() as session:
        name, record = chosen_record(session, run)
    metrics, counted = record.metrics(), record.counts().page_steps()
    if unread := record.unread_metrics():
        output.note(f"{output.plural(unread, 'line')} of metrics.jsonl cannot be read. A kill leaves one.")
    rollouts = {step.step: step.responses for step in counted}
    known = {name: None for of_step in metrics.values() for name in of_step}
    names = chosen_metrics(list(known), metric)
    kept = set(known) if metric is None else set(names)
    records: list[dict[str, Any]] = [
        {
            "step": step,
            "rollouts": rollouts.get(step, 0),
            "metrics": {name: value for name, value in metrics.get(step, {}).items() if name in kept},
        }
        for step in sorted(rollouts.keys() | metrics.keys())
    ]
    terminal.emit(
        {"run": name, "steps": records},
        output.table,
        ["step", "rollouts", *names],
        [[each["step"], each["rollouts"], *map(each["metrics"].get, names)] for each in records],
        title=name,
    )


@dataclass(frozen=True)
class Filters:
    """Which rollouts are listed."""

    step: Annotated[int | None, Option(help="Only this step; with --last-step, the first step.")] = None
    last_step: Annotated[int | None, Option(help="Only up to this step.")] = None
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
    after: Annotated[str | None, Option(help="Continue after this rollout.")] = None,
    limit: Annotated[int, Option(min=1, help="Number of rollouts to show.")] = 25,
    db: Db,
    terminal: Terminal,
) -> None:
    """List rollouts of a run by step, question and session; `tagrpo rollouts show` prints their texts.

    Example: tagrpo rollouts list ta --step 1 --variant 0 --grade wrong
    """
    from trainer_adapter.record.listing import RolloutFilters, list_rollouts

    with db.reading() as session:
        name, record = chosen_record(session, run)
    after = None if after is None else after.rpartition(f"{name}:")[2]
    page = list_rollouts(record, RolloutFilters(**vars(filters)), after=after, limit=limit)
    for problem in set(page.problems) - set(record.problems()):
        output.note(problem)
    done = {
        "run": name,
        "rollouts": [
            {**asdict(header), "id": f"{name}:{header.id}", "grade": header.grade} for header in page.rollouts
        ],
        "after": page.after and f"{name}:{page.after}",
    }
    terminal.emit(done, _print_page, done)


def show(
    rollout: Annotated[str, Argument(help="Id of a rollout, RUN:STEP:ROW, as shown by `list`.")],
    full: Annotated[bool, Option(help="Show long texts in full.")] = False,
    *,
    db: Db,
    terminal: Terminal,
) -> None:
    """Show a rollout: its prompt, its text, and its reward, advantage and log-probabilities.

    Example: tagrpo rollouts show ta:1:0
    """
    run, _, place = rollout.rpartition(":")
    run, _, step = run.rpartition(":")
    with db.reading() as session:
        name, record = chosen_record(session, run or None)
    stored = record.rollout(f"{step}:{place}")
    ratios = stored.token_ratios
    done = {
        "run": name,
        **asdict(stored.header),
        "id": f"{name}:{stored.header.id}",
        "grade": stored.header.grade,
        "prompt": stored.prompt,
        "response": stored.response,
        "token_log_ratios": None if ratios is None else ratios.pieces(stored.response),
    }
    terminal.emit(done, _print_rollout, name, stored, full=full)


def _print_page(page: "dict[str, Any]") -> None:
    fields = ("id", "step", "question_id", "variant", "session", "grade", "reward", "advantage", "tokens")
    rows = [
        [*(header[name] for name in fields), header["extracted"] and header["extracted"][:40]]
        for header in page["rollouts"]
    ]
    columns = ["rollout", "step", "question", *fields[3:], "answer"]
    output.table(columns, rows, title=page["run"], empty="no such rollouts")
    output.say_next(page["after"])


def _print_rollout(run: str, stored: "WholeRollout", *, full: bool) -> None:
    header = stored.header
    output.heading(f"{run}, step {header.step}, rollout {run}:{header.id}")
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
