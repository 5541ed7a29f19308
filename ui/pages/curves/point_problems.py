"""The problems that make up a point: those that one run solves and the other does not."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, get_args

import streamlit as st

from evaluator.benchmarks.catalogue import is_secret
from evaluator.evals.problems import RunProblem
from evaluator.reports.comparing import SOLVED, Contrast, Contrasts, Which, contrast_runs, contrast_texts
from ui.pages.curves.choosing import POINT_PARAMETERS, Choice
from ui.pages.curves.responses import COUNTED, Side, show_problem
from ui.pages.state import links
from ui.pages.state.database import fetch
from ui.pages.text.markup import escaped
from ui.pages.widgets import layout
from ui.pages.widgets.choices import choose
from ui.pages.widgets.pager import pager
from ui.pages.widgets.tables import Column, pick_row

PAGE = 12
WHICH: tuple[Which, ...] = get_args(Which)


@st.fragment
def show_point_problems(choice: Choice, usual_k: int) -> None:
    layout.section("Problems at one k", "Problems that one method solves and the other does not.")
    if len(choice.labels) < 2:
        st.caption("Choose a second method to compare with.")
        return
    measured = {
        name: {label: run for label in choice.labels if (run := choice.run(label, name)) is not None}
        for name in choice.benchmarks
    }
    measured = {name: runs for name, runs in measured.items() if len(runs) > 1}
    if not measured:
        st.caption("No benchmark has runs of two of these methods.")
        return
    most_measured = max(measured, key=lambda name: len(measured[name]))
    asked = links.number("k", usual_k)
    select: Callable[..., Any] = partial(choose, st.selectbox, resets=POINT_PARAMETERS)
    with layout.row():
        benchmark: str = select("Benchmark", "point", list(measured), most_measured, width=200)
        runs = measured[benchmark]
        first: str = select("Method", "of", list(runs), list(runs)[-1], width=200)
        others = [label for label in runs if label != first]
        enough = [label for label in others if runs[label].fewest >= asked]
        second: str = select("against", "against", others, (enough or others)[0], width=200)
        fewer = min(first, second, key=lambda label: runs[label].fewest)
        most = runs[fewer].fewest
        ks = sorted({2**power for power in range(max(most, 1).bit_length())} | {min(usual_k, max(most, 1))})
        k: int = select("k", "k", ks, min(usual_k, ks[-1]), width=90)
    if asked > most:
        st.caption(escaped(f"k = {asked}: {fewer} has at most {most:,} graded samples per problem here."))
    sides = Side(first, runs[first].run.id), Side(second, runs[second].run.id)
    contrasts = fetch(contrast_runs, sides[0].run_id, sides[1].run_id, k)
    _notes(contrasts, first, second)
    if contrasts.problems:
        _list(contrasts, sides, is_secret(benchmark))


def _notes(contrasts: Contrasts, first: str, second: str) -> None:
    notes = []
    if contrasts.too_few:
        notes.append(
            f"{contrasts.too_few:,} problems have fewer than {contrasts.k} graded samples and are excluded."
        )
    if contrasts.only_first or contrasts.only_second:
        notes.append(
            f"{contrasts.only_first:,} problems are only in the run of {first}, {contrasts.only_second:,} "
            f"only in the run of {second}."
        )
    if notes:
        st.caption(escaped(" ".join(notes)))
    if not contrasts.problems:
        st.caption("The two runs have no common problem to compare.")


def _list(contrasts: Contrasts, sides: tuple[Side, Side], secret: bool) -> None:
    kinds = [contrast.which for contrast in contrasts.problems]
    numbers = {which: kinds.count(which) for which in WHICH}
    first, second = sides[0].label, sides[1].label
    words = {
        "first only": f"only {first}: {numbers['first only']:,}",
        "second only": f"only {second}: {numbers['second only']:,}",
        "both": f"both: {numbers['both']:,}",
        "neither": f"neither: {numbers['neither']:,}",
        "all": f"all: {len(contrasts.problems):,}",
    }
    usual: Which = (
        "first only" if numbers["first only"] else "second only" if numbers["second only"] else "all"
    )
    which = choose(
        st.segmented_control,
        "Solved by",
        "which",
        WHICH,
        usual,
        words=words.__getitem__,
        label_visibility="visible",
        help=f"Solved: among {contrasts.k:d} samples, at least one is correct with probability {SOLVED:g} or "
        "more.",
        resets=["problem", "after"],
    )
    chosen = [each for each in contrasts.problems if which in ("all", each.which)]
    ids, after = [each.problem_id for each in chosen], links.text("after")
    first_place = ids.index(after) + 1 if after in ids else 0
    listed = chosen[first_place : first_place + PAGE]
    if not listed:
        st.caption("None.")
        return
    texts = fetch(contrast_texts, tuple(listed))
    rows = [row(contrast, texts, secret=secret) for contrast in listed]
    apart = any(row["number"] != row["number_second"] for row in rows)
    problem_id = pick_row(
        rows,
        columns_of(contrasts.k, first, second, secret=secret, apart=apart),
        "point-problems",
        parameter="problem",
        value="problem",
        name="problems",
    )
    pager(
        {"after": listed[-1].problem_id} if len(chosen) > first_place + PAGE else None,
        {"after": None} if first_place else None,
        words=f"{len(listed):,} of {len(chosen):,}, largest differences "
        "first. Click a row to see the responses.",
    )
    picked = next((contrast for contrast in contrasts.problems if contrast.problem_id == problem_id), None)
    if picked is not None:
        show_problem(
            picked, texts if picked in listed else fetch(contrast_texts, (picked,)), sides, secret=secret
        )


def row(contrast: Contrast, texts: Mapping[int, RunProblem], *, secret: bool) -> dict[str, Any]:
    """Return a problem as a row; for a gated benchmark, without its text and answer."""
    a, b = contrast.counts
    problem, other = texts[a.run_problem_id], texts[b.run_problem_id]
    return {
        "number": problem.position,
        "number_second": other.position,
        "problem": contrast.problem_id,
        "first": contrast.values[0],
        "second": contrast.values[1],
        "difference": contrast.difference,
        "correct_first": f"{a.correct} of {a.asked}",
        "correct_second": f"{b.correct} of {b.asked}",
        **({} if secret else {"answer": problem.answer, "text": problem.text}),
    }


def columns_of(k: int, first: str, second: str, *, secret: bool, apart: bool) -> list[Column]:
    """Return the columns; with the problem's position in both runs if they are `apart`."""
    places = [Column("number", "problem", "figure", COUNTED)]
    if apart:
        places = [
            Column("number", f"{first}: problem", "figure", COUNTED),
            Column("number_second", f"{second}: problem", "figure", COUNTED),
        ]
    columns = [
        *places,
        Column("first", f"{first}: pass@{k}, %", "share"),
        Column("second", f"{second}: pass@{k}, %", "share"),
        Column("correct_first", f"{first}: correct"),
        Column("correct_second", f"{second}: correct"),
        Column("problem", "id"),
    ]
    return columns if secret else [*columns[:-1], Column("text", "text", wide=True), columns[-1]]
