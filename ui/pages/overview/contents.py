"""Contents of the database: numbers, candidates and sets, and all runs."""

from collections import Counter
from typing import Any

import streamlit as st
from sqlalchemy.orm import Session

from evaluator.evals.runs import EvalSpec, is_imported
from rephraser.reviews.status import standing_counts
from rephraser.sets.store import list_sets
from service.errors import NotFoundError
from service.questions.browsing import count_labels
from service.questions.browsing import list_sets as list_question_sets
from service.runs.progress import RunProgress, count_runs, page_runs, progress_of
from service.runs.spending import sum_costs
from service.runs.store import find_run
from trainer_adapter.record.runs import TrainRun
from ui.charts.stacked_bars import VERDICT_COLOURS, stacked_bars
from ui.pages.curves.choosing import place_of
from ui.pages.state import links
from ui.pages.state.database import cached, fetch
from ui.pages.state.records import list_trainings
from ui.pages.text.markup import escaped
from ui.pages.widgets import layout
from ui.pages.widgets.beginnings import no_neighbors
from ui.pages.widgets.charts import cached_chart, show_chart
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


@cached
def _verdicts(session: Session) -> Counter[tuple[str, str]]:
    counts: Counter[tuple[str, str]] = Counter()
    for standing in standing_counts(session):
        counts[standing.strategy, standing.status] += standing.candidates
    return counts


def _questions() -> int:
    return sum(number for _, _, number in fetch(count_labels))


def is_empty() -> bool:
    return not _questions() and not fetch(count_runs)


def show_numbers() -> None:
    verdicts, by_kind = _verdicts(), fetch(count_runs)
    accepted = sum(count for (_, status), count in verdicts.items() if status == "accepted")
    runs = ", ".join(f"{count:,} {kind}" for kind, count in sorted(by_kind.items()))
    usd, unpriced = fetch(sum_costs)
    layout.numbers(
        [
            layout.Number(
                "questions", f"{_questions():,}", hint=f"In {_plural(len(fetch(list_question_sets)), 'set')}."
            ),
            layout.Number(
                "accepted neighbors",
                f"{accepted:,}",
                f"of {verdicts.total():,}",
                "Candidates accepted by the verdict or a reviewer.",
            ),
            layout.Number("neighbor sets", f"{len(fetch(list_sets)):,}", hint="Published versions."),
            layout.Number("runs", f"{sum(by_kind.values()):,}", hint=f"{runs}." if runs else None),
            layout.Number(
                "spent, at least" if unpriced else "spent",
                f"{usd:,.2f}",
                "USD",
                f"Excludes {_plural(unpriced, 'request')} without a known price."
                if unpriced
                else "Computed from model prices; local models are free.",
            ),
        ]
    )


def show_holdings() -> None:
    left, right = st.columns([3, 2], gap="large")
    with left:
        verdicts = sorted(_verdicts().items())
        if verdicts:
            rows = [{"name": name, "part": status, "count": count} for (name, status), count in verdicts]
            chart = cached_chart(
                stacked_bars,
                rows,
                title="Candidates by strategy and verdict",
                colours=VERDICT_COLOURS,
                unit="candidates",
            )
            show_chart(chart, "neighbors-by-verdict", "holdings-verdicts", rows=rows)
        else:
            no_neighbors("No neighbors yet.")
    with right:
        _sets()


def _sets() -> None:
    rows = [
        {"set": stored.name, "kind": "questions", "questions": members, "neighbors": None}
        for stored, members, _ in fetch(list_question_sets)
    ]
    rows += [
        {"set": header.ref, "kind": "neighbor set"}
        | {name: header.counts[name] for name in ("questions", "neighbors")}
        for header in reversed(fetch(list_sets)[-20:])
    ]
    if rows:
        page_table(
            rows,
            [
                Column("set", "set"),
                Column("kind", "kind"),
                Column("questions", "questions", "whole"),
                Column("neighbors", "neighbors", "whole"),
            ],
            "holdings-sets",
            name="sets",
        )


def _plural(count: int, word: str) -> str:
    return f"{count:,} {word}{'' if count == 1 else 's'}"


@cached
def _page(session: Session, kind: str, after: str) -> tuple[list[RunProgress], bool]:
    only = None if kind == ALL else kind
    try:
        runs = page_runs(session, kind=only, after=after or None, limit=PAGE + 1)
    except NotFoundError:  # the address names a run of another database
        runs = page_runs(session, kind=only, limit=PAGE + 1)
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
    pager(
        {"after": runs[-1].run.id} if more else None,
        {"after": None} if after else None,
        words=f"{len(runs):,} of {total:,} runs",
    )
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
    asked = run.kind != "train" and not (
        run.kind == "eval" and is_imported(EvalSpec.model_validate(run.spec))
    )
    return {
        "run": progress.run.name,
        "kind": KINDS.get(progress.run.kind, progress.run.kind),
        "state": state,
        "done": progress.done if asked else None,
        "open": progress.open if asked else None,
        "failed": failures if asked else None,
        "tokens": progress.completion_tokens if asked else None,
        "usd": progress.usd if asked and (progress.usd or not progress.unpriced) else None,
        "started": progress.run.created_at.replace("T", " ").removesuffix("Z"),
    }


def _details(name: str) -> None:
    progress = _run(name)
    if progress is None:
        layout.error_box(f"There is no run {name!r} in this database.")
        return
    with layout.card():
        with layout.row():
            layout.line(
                layout.strong(progress.run.name),
                layout.chip(KINDS.get(progress.run.kind, progress.run.kind), "blue"),
            )
            if progress.run.kind == "propose":
                links.link("Its neighbors", "questions", run=name)
                links.link("Review", "review", run=name)
            elif progress.run.kind == "eval":
                if place := place_of(progress.run.id):
                    label, benchmark, has_curve = place
                    if has_curve:
                        links.link("Its curve", "curves", run=label)
                    samples = {"view": "samples", "of": label, "point": benchmark}
                    links.link("Its responses", "curves", icon=":material/chat:", **samples)
            elif progress.run.kind == "train":
                links.link("Its rollouts", "rollouts", run=name)
                links.link("Training signal", "signal", run=name)
        for kind, requests in progress.requests_by_kind.items():
            st.caption(escaped(f"{kind}: {requests:,} requests"))
        if progress.unpriced:
            st.caption(escaped(f"{progress.unpriced:,} requests have no known price."))
        st.caption("Settings")
        st.json(progress.run.spec, expanded=1)
