"""Active runs: progress, speed, cost, errors, time left. Refreshed every few seconds."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import streamlit as st
from sqlalchemy.orm import Session

from service.errors import InputError
from service.runs.progress import (
    ErrorCount,
    Minute,
    Pace,
    RunProgress,
    frequent_errors,
    last_minutes,
    pace,
    page_runs,
)
from service.runs.store import Run
from trainer_adapter.record.progress import TrainingProgress, training_progress
from ui.pages.overview.runs import KINDS, UNITS
from ui.pages.state import links
from ui.pages.state.database import cached
from ui.pages.state.records import open_run, stored_trainings
from ui.pages.text.markup import escaped
from ui.pages.widgets import layout

EVERY_SECONDS = 4
LOOKED_AT = 50
QUIET_MINUTES = 10
_MINUTE = "%Y-%m-%dT%H:%M"


@dataclass(frozen=True)
class OpenRun:
    """A run with open requests; `minutes` are the last ones in which any ended."""

    progress: RunProgress
    minutes: tuple[Minute, ...]
    errors: tuple[ErrorCount, ...]

    def is_quiet(self, now: datetime) -> bool:
        """Say whether no answer has arrived for so long that the run probably stopped."""
        last = self.minutes[-1].minute if self.minutes else self.progress.run.created_at[:16]
        ended = datetime.strptime(last, _MINUTE).replace(tzinfo=UTC)
        return now - ended > timedelta(minutes=QUIET_MINUTES)


@cached
def open_runs(session: Session) -> list[OpenRun]:
    """Return the newest runs with open requests."""
    return [
        OpenRun(
            progress,
            tuple(last_minutes(session, progress.run.id)),
            tuple(frequent_errors(session, progress.run.id, limit=3))
            if progress.failed + progress.final
            else (),
        )
        for progress in page_runs(session, limit=LOOKED_AT)
        if progress.state == "open"
    ]


def trainings(now: datetime) -> list[TrainingProgress]:
    """Return the trainings that are active, newest first."""
    under_way = [_progress(run, now) for run, _ in stored_trainings().values()]
    return [progress for progress in under_way[::-1] if progress is not None]


def _progress(run: Run, now: datetime) -> TrainingProgress | None:
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
    """Show the active runs; only this part of the page is refreshed."""
    now = datetime.now(UTC)
    runs = open_runs()
    active = [run for run in runs if not run.is_quiet(now)]
    trained = trainings(now)
    for training in trained:
        _training_card(training, now)
    if not active and not trained:
        st.caption("No active runs. A run appears here when it starts.")
    for run in active:
        _card(run, now)
    quiet = [run.progress for run in runs if run.is_quiet(now)]
    if quiet:
        names = ", ".join(f"{progress.run.name} ({progress.open:,} open)" for progress in quiet[:5])
        more = f" and {len(quiet) - 5} more" if len(quiet) > 5 else ""
        st.caption(
            escaped(
                f"Stopped with open requests: {names}{more}. No answer for {QUIET_MINUTES} minutes. Run the "
                "same command again to resume; nothing is paid for twice."
            )
        )


def _card(run: OpenRun, now: datetime) -> None:
    progress = run.progress
    done = progress.done + progress.final
    share = done / progress.planned if progress.planned else 0.0
    unit = UNITS.get(progress.run.kind, "tasks")
    with layout.card(key=f"running-{progress.run.id}"):
        kind = KINDS.get(progress.run.kind, progress.run.kind)
        parts = [layout.strong(progress.run.name), layout.chip(kind, "blue", ":material/sync:")]
        if progress.failed:
            parts.append(layout.chip(f"{progress.failed:,} failed", "red", ":material/error:"))
        if progress.final:
            parts.append(layout.chip(f"{progress.final:,} failed for good", "red", ":material/block:"))
        layout.line(*parts)
        st.progress(share, text=escaped(f"{done:,} of {progress.planned:,} {unit}, {100 * share:.1f}%"))
        st.markdown(escaped("  ·  ".join(facts(progress, pace(run.minutes, progress, now)))))
        for error in run.errors:
            st.caption(escaped(f"{error.count:,} times: {error.error[:300]}"))


def _training_card(training: TrainingProgress, now: datetime) -> None:
    with layout.card(key=f"running-{training.run.id}"):
        with layout.row():
            layout.line(layout.strong(training.run.name), layout.chip("training", "blue", ":material/sync:"))
            links.link("Its rollouts", "rollouts", icon=":material/account_tree:", run=training.run.name)
            links.link("Training signal", "signal", icon=":material/monitoring:", run=training.run.name)
        if training.total:
            share = min(1.0, training.step / training.total)
            st.progress(share, text=f"step {training.step:d} of {training.total:d}, {100 * share:.1f}%")
        st.markdown(escaped("  ·  ".join(training_facts(training, now))))


def training_facts(training: TrainingProgress, now: datetime) -> list[str]:
    """Return step, speed and time left as text."""
    words = [] if training.total else [f"step {training.step:,}"]
    words += [
        f"{training.responses:,} responses per step",
        f"{duration(training.seconds_a_step / 60)} per step",
    ]
    if training.minutes_left is not None:
        words.append(f"about {duration(training.minutes_left)} left")
    ago = (now - training.written_at).total_seconds() / 60
    return [*words, f"last step {duration(max(0.0, ago))} ago"]


def facts(progress: RunProgress, going: Pace | None) -> list[str]:
    """Return speed, time left and cost as text."""
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


def duration(minutes: float) -> str:
    """Return minutes in a readable form: 40 s, 12 min, 3 h 20 min, 2 days 4 h."""
    if minutes < 1:
        return f"{max(1, round(60 * minutes))} s"
    whole = round(minutes)
    if whole < 60:
        return f"{whole} min"
    if whole < 48 * 60:
        return f"{whole // 60} h {whole % 60} min"
    return f"{whole // 1440} days {whole % 1440 // 60} h"
