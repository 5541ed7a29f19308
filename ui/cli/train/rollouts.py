"""`tagrpo train rollouts`: the responses of training runs, listed, shown, registered and pruned."""

import re
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, TypeVar

from typer import Argument, Option

from service.errors import InputError
from ui.cli import output
from ui.cli.output import Terminal, plural
from ui.cli.runs import Standing
from ui.cli.settings import Db

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from service.database import Database
    from service.runs.store import Run
    from trainer_adapter.record.reading import Record
    from trainer_adapter.record.runs import TrainNumbers

Number = TypeVar("Number", int, float)

ROLLOUT_ID = re.compile(r"(?:(.+):)?(\d+:\d+)")
LONGEST_SHOWN = 8_000
"""Characters of a text that a terminal gets."""


@dataclass(frozen=True)
class Filters:
    """Which rollouts are listed."""

    step: Annotated[str | None, Option(metavar="N or N:M", help="Only this step, or steps N to M.")] = None
    question: Annotated[
        str | None, Option(metavar="ID", help="Only this question: its id or first characters.")
    ] = None
    variant: Annotated[
        int | None, Option(min=0, help="0: the question's own prompt; k: its k-th neighbor.")
    ] = None
    grade: Annotated[str | None, Option(help="Only this grade: correct, wrong or unknown.")] = None
    reward: Annotated[
        str | None, Option(metavar="R or LOW:HIGH", help="Only this reward, or a range such as 0.5: or :0.")
    ] = None
    truncated: Annotated[
        bool | None,
        Option(
            "--truncated/--ended", help="Only responses cut off at the maximum length, or only the others."
        ),
    ] = None
    text: Annotated[str | None, Option(help="Only rollouts whose response contains this text.")] = None


@dataclass(frozen=True)
class Files:
    """What happens to the files of a run."""

    add: Annotated[
        bool, Option("--add", help="Register FOLDER: a training run started elsewhere, or moved.")
    ] = False
    name: Annotated[str | None, Option(help="With --add: name of the run. Default: as recorded.")] = None
    prune: Annotated[
        int | None,
        Option(min=1, metavar="N", help="Remove the responses of all but every N-th step; metrics stay."),
    ] = None
    keep_last: Annotated[int, Option(min=0, help="With --prune: number of last steps to keep.")] = 10
    yes: Annotated[bool, Option("--yes", help="With --prune: remove. Default: only list steps.")] = False


def rollouts(
    target: Annotated[
        str | None,
        Argument(
            metavar="[RUN|RUN:STEP:ROW|FOLDER]",
            help="Run (optional if there is only one), one rollout to show, or a folder to --add.",
        ),
    ] = None,
    *,
    filters: Filters,
    rescued: Annotated[
        Literal["all", "yes", "never"] | None,
        Option(help="List questions that were all wrong: all, only rescued (yes), or never rescued."),
    ] = None,
    after: Annotated[str | None, Option(help="Continue after this rollout or question.")] = None,
    limit: Annotated[int, Option(min=1, help="Number of rows to show.")] = 25,
    files: Files,
    db: Db,
    terminal: Terminal,
) -> None:
    """List the responses of a training run, also during the training; with an id, show one of them.

    --rescued lists the questions without a correct response to themselves, most frequent first, and the
    neighbors that rescued them. It needs a recipe such as ta_rescue. --add copies nothing: the UI and the
    commands read the folder.

    Example: tagrpo train rollouts ta --step 1 --variant 0 --grade wrong

    Example: tagrpo train rollouts ta:1:0
    """
    if files.add:
        _add(target, files.name, db, terminal)
        return
    single = ROLLOUT_ID.fullmatch(target or "")
    with db.reading() as session:
        name, record = chosen_record(session, single[1] if single else target)
        if rescued is not None:
            _list_rescued(session, name, record, rescued, after, limit, terminal)
            return
    if single:
        _show(name, record, single[2], terminal)
    elif files.prune is not None:
        _prune(name, record, files.prune, files, terminal)
    else:
        _list(name, record, filters, after, limit, terminal)


def _list(
    name: str, record: "Record", filters: Filters, after: str | None, limit: int, terminal: Terminal
) -> None:
    from trainer_adapter.record.listing import RolloutFilters, list_rollouts

    first, last = _range(filters.step, int)
    if first is not None and last is None:
        last = max(record.steps(), default=first)
    least, most = _range(filters.reward, float)
    wanted = RolloutFilters(
        step=first,
        last_step=last,
        question_id=filters.question,
        variant=filters.variant,
        grade=filters.grade,
        least_reward=least,
        most_reward=most,
        truncated=filters.truncated,
        text=filters.text,
    )
    page = list_rollouts(record, wanted, after=after and after.rpartition(f"{name}:")[2], limit=limit)
    for problem in set(page.problems) - set(record.problems()):
        output.note(problem)
    rows = [
        {**asdict(header), "id": f"{name}:{header.id}", "grade": header.grade} for header in page.rollouts
    ]
    done = {"run": name, "rollouts": rows, "after": page.after and f"{name}:{page.after}"}
    fields = ("id", "step", "question_id", "variant", "session", "grade", "reward", "advantage", "tokens")

    def print_page() -> None:
        output.table(
            ["rollout", "step", "question", *fields[3:], "answer"],
            [[*map(row.get, fields), row["extracted"] and row["extracted"][:40]] for row in rows],
            title=name,
            empty="no such rollouts",
        )
        output.say_next(done["after"])

    terminal.emit(done, print_page)


def _range(text: str | None, kind: Callable[[str], Number]) -> tuple[Number | None, Number | None]:
    """Return the ends of N, N:M, N: or :M; None where it is open."""
    if text is None:
        return None, None
    low, colon, high = text.partition(":")
    try:
        ends = [kind(end) if end else None for end in (low, high if colon else low)]
    except ValueError:
        raise InputError(f"{text!r} is not a range. Give a number, or two as in 1:5.") from None
    return ends[0], ends[1]


def _show(run: str, record: "Record", place: str, terminal: Terminal) -> None:
    stored = record.rollout(place)
    ratios, header = stored.token_ratios, stored.header
    done = {
        "run": run,
        **asdict(header),
        "id": f"{run}:{header.id}",
        "grade": header.grade,
        "prompt": stored.prompt,
        "response": stored.response,
        "token_log_ratios": None if ratios is None else ratios.pieces(stored.response),
    }

    old, sampling, reference, entropy, advantage = (
        "-" if value is None else f"{value:.4g}"
        for value in (
            *(header.old_log_prob, header.sampling_log_prob, header.ref_log_prob),
            *(header.entropy, header.advantage),
        )
    )

    def print_rollout() -> None:
        where = "the question's own prompt" if header.variant == 0 else f"neighbor {header.neighbor_id}"
        cut = ", cut off at the maximum length" if header.truncated else ""
        output.heading(f"{run}, step {header.step}, rollout {run}:{header.id}")
        output.say(
            f"question {header.question_id}, {where}, session {header.session}, group {header.group}",
            f"{header.grade} ({header.reason}), extracted answer: {header.extracted or '-'}",
            f"reward {header.reward:.4g}, advantage {advantage}, {header.tokens:,} tokens{cut}",
            f"log-probs: old {old}, sampling {sampling}, reference {reference}; entropy {entropy}",
        )
        for title, text in (("prompt", stored.prompt or "(not stored)"), ("response", stored.response)):
            output.say()
            output.heading(title)
            left = len(text) - LONGEST_SHOWN
            more = f"\n[{left:,} more characters; --json has them]" if left > 0 else ""
            output.say(text[:LONGEST_SHOWN] + more)

    terminal.emit(done, print_rollout)


def _list_rescued(
    session: "Session",
    name: str,
    training: "Record",
    rescued: str,
    after: str | None,
    limit: int,
    terminal: Terminal,
) -> None:
    from service.questions.store import question_texts
    from trainer_adapter.record.rescues import NEVER, RESCUED, page_rescues, rescue_totals

    counts, spec = training.counts(), training.run.spec
    totals = rescue_totals(counts, spec)
    outcome = {"yes": RESCUED, "never": NEVER}.get(rescued)
    page = page_rescues(counts, spec, outcome=outcome, after=after, limit=limit + 1)
    questions, more = page[:limit], len(page) > limit
    texts = question_texts(session, [question.question_id for question in questions])
    record = {
        "run": name,
        "totals": {
            **asdict(totals),
            "dead_share": totals.dead_share,
            "revived_share": totals.revived_share,
        },
        "questions": [
            {**asdict(question), "text": texts.get(question.question_id), "outcome": question.outcome}
            for question in questions
        ],
        "after": questions[-1].question_id if more else None,
    }
    columns = "question", "all-wrong at", "rescued at", "last", "correct among its neighbors' responses"
    rows = [
        [
            question.question_id,
            f"{question.dead} of {question.visits}",
            question.revived,
            question.last_step,
            question.in_words(),
            texts.get(question.question_id, "")[: output.TEXT_SHOWN] or None,
        ]
        for question in questions
    ]

    def print_questions() -> None:
        output.say(*totals.sentences())
        output.table([*columns, "text"], rows, title=name, empty="no question matches")
        output.say_next(record["after"])

    terminal.emit(record, print_questions)


def _add(folder: str | None, name: str | None, db: Db, terminal: Terminal) -> None:
    from trainer_adapter.record.reading import Record
    from trainer_adapter.record.runs import read_train_run, register

    if folder is None:
        raise InputError("--add needs the folder in which the training records its rollouts.")
    recorded = Record(Path(folder))  # a wrong folder leaves no new database
    with db.open(create=True) as database, database.write() as session:
        run = register(session, recorded, name)
        training = read_train_run(session, run)
    record = {"run": run.name, "folder": str(Path(folder).resolve()), **training.to_json()}
    terminal.emit(record, output.say, f"{run.name}: {numbers_text(training.numbers)}")


def _prune(name: str, record: "Record", keep_every: int, files: Files, terminal: Terminal) -> None:
    from trainer_adapter.record.pruning import steps_to_prune

    prunable = steps_to_prune(record, keep_every=keep_every, keep_last=files.keep_last)
    paths = [path for each in prunable for path in each.files]
    responses, size = sum(each.rollouts for each in prunable), sum(each.bytes for each in prunable)
    done = {
        "run": name,
        "removed": files.yes,
        "steps": [each.step for each in prunable],
        "rollouts": responses,
        "files": list(map(str, paths)),
        "bytes": size,
    }
    if files.yes:
        for path in paths:
            path.unlink(missing_ok=True)
    words = (
        f"{name}: {responses:,} rollouts of {plural(len(prunable), 'step')}, "
        f"{plural(len(paths), 'file')} with {size / 2**20:,.1f} MiB "
        + ("removed" if files.yes else "would be removed. Add --yes to remove them")
    )
    terminal.emit(done, output.say, words if prunable else f"{name}: there is no step to remove")


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
    first_and_last = "" if numbers.first_step is None else f", {numbers.first_step} to {numbers.last_step}"
    return f"{numbers.rollouts:,} rollouts in {plural(numbers.steps, 'step')}{first_and_last}"


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
        f"show its metrics: tagrpo train metrics {run.name}",
    )
    return Standing({**training.to_json(), "alarms": [alarm._asdict() for alarm in alarms]}, text)
