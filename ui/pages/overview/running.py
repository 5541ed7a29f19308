"""Active runs: progress, speed, cost, errors, time left. Refreshed every few seconds."""

from datetime import UTC, datetime, timedelta
from typing import NamedTuple

import streamlit as st
from sqlalchemy import case, func, select
from sqlalchemy.orm import Session

from service.asks.tables import ANSWERED, AskRow
from service.errors import InputError
from service.runs.progress import RunProgress, frequent_errors
from service.runs.store import Run
from service.runs.tables import PICO_PER_USD
from service.telling import duration
from trainer_adapter.record.progress import TrainingProgress, training_progress
from ui.pages.overview.contents import KINDS, UNITS, page_runs, training_links
from ui.pages.state.database import cached
from ui.pages.state.records import open_run, stored_trainings
from ui.pages.text.markup import escaped
from ui.pages.widgets import layout

EVERY_SECONDS = 4
LOOKED_AT = 50
QUIET_MINUTES = 10
WINDOW_S, SHORTEST_S = 300.0, 10.0


class Pace(NamedTuple):
    """How fast a run goes: means over the last minutes. `minutes_left` is None if no task is done."""

    requests_per_minute: float
    tokens_per_second: float
    usd_per_minute: float
    minutes_left: float | None


OpenRun = tuple[RunProgress, datetime, Pace | None, dict[str, int]]
"""A run with open tasks: when a request last ended, its pace, and its most frequent errors."""


@cached
def _open_runs(session: Session) -> list[OpenRun]:
    now = datetime.now(UTC).timestamp()
    runs: list[OpenRun] = []
    for progress in page_runs(session, limit=LOOKED_AT):
        if progress.state == "open":
            run = progress.run
            ended = session.scalar(select(func.max(AskRow.ended_at)).where(AskRow.run_id == run.id))
            ended = ended or datetime.fromisoformat(run.created_at).timestamp()
            errors = frequent_errors(session, run.id, limit=3) if progress.failed + progress.final else {}
            last = datetime.fromtimestamp(ended, UTC)
            runs.append((progress, last, pace(session, progress, now), errors))
    return runs


def pace(session: Session, progress: RunProgress, now: float) -> Pace | None:
    """Return the pace over the `WINDOW_S` seconds before `now`; None if nothing was answered in them.

    A run that began in them is measured from its first request that ended. What is left is estimated from
    the requests that a finished task has taken.
    """
    answered, tokens, pico, first = session.execute(
        select(
            func.sum(case((AskRow.state == ANSWERED, 1), else_=0)),
            func.sum(AskRow.completion_tokens),
            func.sum(func.coalesce(AskRow.cost_pico, AskRow.worst_pico)),
            func.min(AskRow.ended_at),
        ).where(AskRow.run_id == progress.run.id, AskRow.ended_at.between(now - WINDOW_S, now))
    ).one()
    if not answered:
        return None
    minutes = max(SHORTEST_S, now - first) / 60
    per_minute, left = int(answered) / minutes, progress.open + progress.failed
    requests = sum(line.requests for line in progress.ledger)
    requests_left = left * requests / progress.done if progress.done else None
    return Pace(
        requests_per_minute=per_minute,
        tokens_per_second=int(tokens or 0) / minutes / 60,
        usd_per_minute=int(pico or 0) / PICO_PER_USD / minutes,
        minutes_left=None if requests_left is None else requests_left / per_minute,
    )


def is_quiet(run: OpenRun, now: datetime) -> bool:
    """Say whether no answer has arrived for so long that the run probably stopped."""
    return now - run[1] > timedelta(minutes=QUIET_MINUTES)


def _training(run: Run, now: datetime) -> TrainingProgress | None:
    try:
        record = open_run(run.id)
    except InputError:  # the page "Rollouts" says why
        return None
    quiet = timedelta(minutes=QUIET_MINUTES)
    if now.timestamp() - record.folder.stat().st_mtime > quiet.total_seconds():
        return None
    return training_progress(run, record, now, quiet)


@st.fragment(run_every=EVERY_SECONDS)
def show_running() -> None:
    now = datetime.now(UTC)
    runs = _open_runs()
    active = [run for run in runs if not is_quiet(run, now)]
    newest_first = reversed(stored_trainings().values())
    trainings = [training for run, _ in newest_first if (training := _training(run, now))]
    for training in trainings:
        _training_card(training, now)
    if not active and not trainings:
        st.caption("No active runs. A run appears here when it starts.")
    for run in active:
        _card(run, now)
    if quiet := [run[0] for run in runs if is_quiet(run, now)]:
        names = ", ".join(f"{progress.run.name} ({progress.open:,} open)" for progress in quiet[:5])
        more = f" and {len(quiet) - 5} more" if len(quiet) > 5 else ""
        layout.caption(
            f"Stopped with open requests: {names}{more}. No answer for {QUIET_MINUTES} minutes. Run the "
            "same command again to resume; no request is paid for twice."
        )


def _card(run: OpenRun, now: datetime) -> None:
    progress, last, going, errors = run
    if (now - last).total_seconds() > WINDOW_S:
        going = None
    done = progress.done + progress.final
    share = done / progress.planned if progress.planned else 0.0
    unit = UNITS.get(progress.run.kind, "tasks")
    with layout.card(key=f"running-{progress.run.id}"):
        kind = KINDS.get(progress.run.kind, progress.run.kind)
        parts = [layout.strong(progress.run.name), layout.chip(kind, "blue", ":material/sync:")]
        if progress.failed:
            parts.append(layout.chip(f"{progress.failed:,} failed", "red", ":material/error:"))
        if progress.final:
            parts.append(layout.chip(f"{progress.final:,} failed permanently", "red", ":material/block:"))
        layout.line(*parts)
        st.progress(share, text=escaped(f"{done:,} of {progress.planned:,} {unit}, {100 * share:.1f}%"))
        st.markdown(escaped("  ·  ".join(facts(progress, going))))
        for error, count in errors.items():
            layout.caption(f"{count:,} times: {error[:300]}")


def _training_card(training: TrainingProgress, now: datetime) -> None:
    with layout.card(key=f"running-{training.run.id}"):
        with layout.row():
            layout.line(layout.strong(training.run.name), layout.chip("training", "blue", ":material/sync:"))
            training_links(training.run.name)
        if training.total:
            share = min(1.0, training.step / training.total)
            st.progress(share, text=f"step {training.step:d} of {training.total:d}, {100 * share:.1f}%")
        words = [] if training.total else [f"step {training.step:,}"]
        words.append(f"{training.responses:,} responses per step")
        words.append(f"{duration(training.seconds_a_step / 60)} per step")
        if training.minutes_left is not None:
            words.append(f"about {duration(training.minutes_left)} left")
        ago = (now - training.written_at).total_seconds() / 60
        words.append(f"last step {duration(max(0.0, ago))} ago")
        st.markdown(escaped("  ·  ".join(words)))


def facts(progress: RunProgress, going: Pace | None) -> list[str]:
    words = []
    if going is None:
        words.append("no answer in the last 5 minutes")
    else:
        words.append(f"{going.requests_per_minute:,.0f} requests/min")
        if going.tokens_per_second:
            words.append(f"{going.tokens_per_second:,.0f} tokens/s")
        if going.minutes_left is not None:
            words.append(f"about {duration(going.minutes_left)} left")
    cost = f"{progress.usd:,.2f} USD"
    if going is not None and going.usd_per_minute:
        cost += f" ({60 * going.usd_per_minute:,.2f} USD/h)"
    if progress.unpriced:
        cost = f"at least {cost}, {progress.unpriced:,} requests without a known price"
    return [*words, cost]
