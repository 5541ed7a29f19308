"""maj@k on demand: wrong answers must be grouped first, which takes seconds."""

from collections.abc import Sequence
from functools import partial

import streamlit as st
from sqlalchemy.orm import Session

from evaluator.evals.votes import make_votes, read_answers
from evaluator.grading import Grader
from evaluator.reports.methods import Entry
from evaluator.reports.report import curve_ks
from evaluator.reports.scores import MAJ_AT_K, Score, score_majority
from ui.pages.curves.choosing import Choice
from ui.pages.curves.data import PageReport, make_report
from ui.pages.state import links, settings
from ui.pages.state.database import reading
from ui.pages.state.results import Results

MOST_K = 64
"""Maximum k; beyond it, counting a problem's subsets takes long."""

_kept = Results(8 * 2**20)


def majority_report(choice: Choice) -> PageReport | None:
    """Return the report of maj@k, or offer to compute it and return None."""
    key = (str(settings.current().database), choice.references, choice.palette, _state(choice))
    if not links.flag("made") and not _kept.has(key):
        st.button(
            "Compute maj@k",
            type="primary",
            icon=":material/play_arrow:",
            on_click=lambda: links.set_query(made=True),
        )
        st.caption(
            "The grader groups equivalent wrong answers of every problem. This takes seconds to minutes; "
            "the result is cached."
        )
        return None
    with st.spinner("Grouping answers, counting majorities", show_time=True):  # safe
        return _kept.get(key, lambda: _make(choice))


def _state(choice: Choice) -> str:
    """Return a text that changes whenever samples or grades of these runs change."""
    runs = (run for method in choice.methods for run in method.runs)
    return ";".join(f"{run.run.id}:{run.grader}:{run.samples}:{run.missing}" for run in runs)


def _make(choice: Choice) -> PageReport:
    fewest = min(
        run.fewest for method in choice.methods for run in method.runs if run.benchmark in choice.benchmarks
    )
    ks = curve_ks(min(max(fewest, 1), MOST_K), ())
    with reading() as session:
        return make_report(
            session,
            choice.references,
            MAJ_AT_K,
            choice.interval,
            choice.palette,
            ks=ks,
            majority=partial(_score, session),
        )


def _score(
    session: Session, entry: Entry, problem_ids: Sequence[str], ks: Sequence[int]
) -> tuple[Score, ...]:
    answers = [read_answers(session, result.run.id, result.grader_version) for result in entry.results]
    with Grader() as grader:
        return score_majority(make_votes(answers, grader.cluster_many), problem_ids, ks)
