"""Contents of the database: numbers, candidates and sets, and all runs."""

from typing import Any

import streamlit as st
from sqlalchemy import func, select, tuple_
from sqlalchemy.orm import Session

from evaluator.evals.runs import is_imported
from rephraser.candidates import standing_counts
from rephraser.questions.store import count_labels
from rephraser.questions.store import list_sets as list_question_sets
from rephraser.sets.store import list_sets
from service.errors import NotFoundError
from service.runs.progress import RunProgress, progress_of, sum_costs
from service.runs.store import as_run, find_run
from service.runs.tables import RunRow
from trainer_adapter.record.runs import TrainRun
from ui.charts.stacked_bars import VERDICT_COLOURS, stacked_bars
from ui.pages.curves.choosing import place_of
from ui.pages.state import links
from ui.pages.state.database import cached, fetch
from ui.pages.state.records import list_trainings
from ui.pages.widgets import layout
from ui.pages.widgets.beginnings import no_neighbors
from ui.pages.widgets.charts import draw_chart
from ui.pages.widgets.choices import choose
from ui.pages.widgets.pager import pager
from ui.pages.widgets.tables import Column, page_table, pick_row

PAGE = 25
ALL = "all"
KINDS = {"propose": "neighbors", "eval": "eval", "judge": "judge", "train": "training"}
UNITS = {"propose": "questions", "eval": "requests", "judge": "responses"}
"""What a task of each kind of run works on."""

_COLUMNS = [
    Column("run", "run"),
    Column("kind", "kind"),
    Column("state", "state"),
    Column("done", "done", "whole", hint="Questions, requests or responses."),
    Column("open", "open", "whole"),
    Column("failed", "failed", "whole"),
    Column("tokens", "tokens generated", "whole"),
    Column("usd", "cost, USD", "usd", hint="Only requests with a known price; empty if there are none."),
    Column("started", "started (UTC)"),
]


def page_runs(
    session: Session, *, kind: str | None = None, after: str | None = None, limit: int = 25
) -> list[RunProgress]:
    """Return up to `limit` runs (of a kind), newest first: those older than the run with the id `after`.

    An id of another database is ignored.
    """
    key = tuple_(RunRow.created_at, RunRow.id)
    query = select(RunRow).order_by(RunRow.created_at.desc(), RunRow.id.desc()).limit(limit)
    if kind is not None:
        query = query.where(RunRow.kind == kind)
    created_at = after and session.scalar(select(RunRow.created_at).where(RunRow.id == after))
    if created_at:
        query = query.where(key < (created_at, after))
    return progress_of(session, [as_run(row) for row in session.scalars(query)])


def count_runs(session: Session) -> dict[str, int]:
    """Return the number of runs by kind."""
    rows = session.execute(select(RunRow.kind, func.count()).group_by(RunRow.kind)).all()
    return dict[str, int]((kind, count) for kind, count in rows)


def total_questions() -> int:
    return sum(number for _, _, number in fetch(count_labels))


def show_numbers() -> None:
    standing, by_kind = fetch(standing_counts), fetch(count_runs)
    accepted = sum(each.candidates for each in standing if each.status == "accepted")
    runs = ", ".join(f"{count:,} {kind}" for kind, count in sorted(by_kind.items()))
    usd, unpriced = fetch(sum_costs)
    priced = f"Excludes {_plural(unpriced, 'request')} without a known price."
    layout.numbers(
        ("questions", f"{total_questions():,}", f"In {_plural(len(fetch(list_question_sets)), 'set')}."),
        (
            "accepted neighbors",
            f"{accepted:,} of {sum(each.candidates for each in standing):,}",
            "Candidates accepted by the verdict or a reviewer.",
        ),
        ("neighbor sets", f"{len(fetch(list_sets)):,}", "Published versions."),
        ("runs", f"{sum(by_kind.values()):,}", f"{runs}." if runs else ""),
        (
            "spent, at least" if unpriced else "spent",
            f"{usd:,.2f} USD",
            priced if unpriced else "Computed from model prices; local models are free.",
        ),
    )


def show_holdings() -> None:
    left, right = st.columns(2, gap="medium")
    with left:
        standing = sorted(fetch(standing_counts), key=lambda each: each.strategy)
        rows = [{"name": each.strategy, "part": each.status, "count": each.candidates} for each in standing]
        if rows:
            draw_chart(
                stacked_bars,
                rows,
                "neighbors-by-verdict",
                "holdings-verdicts",
                title="Candidates by strategy and verdict",
                colours=VERDICT_COLOURS,
                unit="candidates",
            )
        else:
            no_neighbors("No neighbors yet.")
    sets: list[dict[str, Any]] = [
        {"set": stored.name, "kind": "questions", "questions": members}
        for stored, members, _ in fetch(list_question_sets)
    ]
    newest = reversed(fetch(list_sets)[-20:])
    sets += [{**header.counts, "set": header.ref, "kind": "neighbor set"} for header in newest]
    columns = [
        Column("set", "set"),
        Column("kind", "kind"),
        Column("questions", "questions", "whole"),
        Column("neighbors", "neighbors", "whole"),
    ]
    with right:
        if sets:
            page_table(sets, columns, "holdings-sets", name="sets")


def _plural(count: int, word: str) -> str:
    return f"{count:,} {word}{'' if count == 1 else 's'}"


@cached
def _page(session: Session, kind: str, after: str) -> tuple[list[RunProgress], bool]:
    runs = page_runs(session, kind=None if kind == ALL else kind, after=after, limit=PAGE + 1)
    return runs[:PAGE], len(runs) > PAGE


@cached
def _run(session: Session, name: str) -> RunProgress | None:
    try:
        return progress_of(session, [find_run(session, name)])[0]
    except NotFoundError:
        return None


def show_runs(counts: dict[str, int]) -> None:
    kinds = [ALL, *(kind for kind in KINDS if counts.get(kind))]
    kind = choose(
        st.segmented_control,
        "Kind of run",
        "kind",
        kinds,
        words=lambda kind: KINDS.get(kind, kind),
        resets=["after"],
    )
    after = links.text("after")
    runs, more = _page(kind, after)
    is_trained = any(progress.run.kind == "train" for progress in runs)
    training = {each.run.id: each for each in list_trainings()} if is_trained else {}
    rows = [row(progress, training.get(progress.run.id)) for progress in runs]
    name = pick_row(rows, _COLUMNS, "runs", parameter="run", value="run", name="runs")
    total = sum(counts.values()) if kind == ALL else counts.get(kind, 0)
    pager("after", runs[-1].run.id if more else None, f"{len(runs):,} of {total:,} runs")
    if name:
        _details(name)


def row(progress: RunProgress, training: TrainRun | None) -> dict[str, Any]:
    """Return a run as a row; a training has steps instead of requests, an imported one has neither."""
    failures = progress.failed + progress.final
    state = f"with {failures:,} failures" if progress.state == "failed" else progress.state
    if progress.run.kind == "train":
        last = None if training is None else training.numbers.last_step
        state = "no steps yet" if last is None else f"to step {last:,}"
        state = "folder not found" if training is not None and training.problem else state
    run = progress.run
    asked = run.kind != "train" and not is_imported(run)
    requests = {
        "done": progress.done,
        "open": progress.open,
        "failed": failures,
        "tokens": sum(line.completion_tokens for line in progress.ledger),
        "usd": progress.usd if progress.usd or not progress.unpriced else None,
    }
    return {
        "run": run.name,
        "kind": KINDS.get(run.kind, run.kind),
        "state": state,
        **(requests if asked else {}),
        "started": run.created_at.replace("T", " ").removesuffix("Z"),
    }


def _details(name: str) -> None:
    progress = _run(name)
    if progress is None:
        layout.error_box(f"There is no run {name!r} in this database.")
        return
    run = progress.run
    with layout.card():
        with layout.row():
            layout.line(layout.strong(run.name), layout.chip(KINDS.get(run.kind, run.kind), "blue"))
            if run.kind == "propose":
                links.link("Its neighbors", "questions", run=name)
                links.link("Review", "review", run=name)
            elif run.kind == "train":
                training_links(name)
            elif run.kind == "eval" and (place := place_of(run.id)):
                label, benchmark, has_curve = place
                if has_curve:
                    links.link("Its curve", "curves", run=label)
                samples = {"view": "samples", "of": label, "point": benchmark}
                links.link("Its responses", "curves", icon=":material/chat:", **samples)
        for line in progress.ledger:
            layout.caption(f"{line.kind}, {line.model}: {line.requests:,} requests")
        if progress.unpriced:
            layout.caption(f"{progress.unpriced:,} requests have no known price.")
        st.caption("Settings")
        st.json(run.spec, expanded=1)


def training_links(name: str) -> None:
    links.link("Its rollouts", "rollouts", run=name)
    links.link("Training signal", "signal", run=name)
