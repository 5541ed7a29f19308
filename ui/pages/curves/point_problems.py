"""The problems that make up a point: those that one run solves and the other does not."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, get_args

import streamlit as st

from evaluator.benchmarks.catalogue import is_secret
from evaluator.evals.problems import RunProblem
from evaluator.evals.samples import SampleFilters, SampleHeader, browse_samples
from evaluator.reports.comparing import SOLVED, Contrast, Contrasts, Which, contrast_runs, contrast_texts
from ui.characters import one_line
from ui.pages.curves.choosing import POINT_PARAMETERS, Choice
from ui.pages.curves.responses import COUNTED, show_response, show_statement
from ui.pages.state import links
from ui.pages.state.database import fetch
from ui.pages.text.markup import escaped
from ui.pages.widgets import layout
from ui.pages.widgets.choices import choose
from ui.pages.widgets.pager import pager
from ui.pages.widgets.tables import Column, pick_row

PAGE = 12
MOST_SAMPLES = 256
WHICH: tuple[Which, ...] = get_args(Which)


@st.fragment
def show_point_problems(choice: Choice, usual_k: int) -> None:
    layout.section("Problems at one k", "Problems that one method solves and the other does not.")
    if len(choice.methods) < 2:
        st.caption("Choose a second method to compare with.")
        return
    measured = {
        name: {
            label: run
            for label, method in choice.methods.items()
            for run in method.runs
            if run.benchmark == name
        }
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
        layout.caption(f"k = {asked}: {fewer} has at most {most:,} graded samples per problem here.")
    sides = {label: runs[label].run.id for label in (first, second)}
    contrasts = fetch(contrast_runs, sides[first], sides[second], k)
    notes = []
    if contrasts.too_few:
        notes.append(f"{contrasts.too_few:,} problems have fewer than {k} graded samples and are excluded.")
    if contrasts.only_first or contrasts.only_second:
        notes.append(
            f"{contrasts.only_first:,} problems are only in the run of {first}, {contrasts.only_second:,} "
            f"only in the run of {second}."
        )
    if not contrasts.problems:
        notes.append("The two runs have no common problem to compare.")
    if notes:
        layout.caption(" ".join(notes))
    if contrasts.problems:
        _list(contrasts, sides, secret=is_secret(benchmark))


def _list(contrasts: Contrasts, sides: Mapping[str, str], *, secret: bool) -> None:
    """Show the problems of two runs, given by the labels of their methods."""
    kinds = [contrast.which for contrast in contrasts.problems]
    numbers = {which: kinds.count(which) for which in WHICH} | {"all": len(kinds)}
    first, second = sides
    names = {"first only": f"only {first}", "second only": f"only {second}"}
    usual: Which = next((each for each in WHICH[:2] if numbers[each]), "all")
    which = choose(
        st.segmented_control,
        "Solved by",
        "which",
        WHICH,
        usual,
        words=lambda which: f"{names.get(which, which)}: {numbers[which]:,}",
        label_visibility="visible",
        help=f"Solved: among {contrasts.k:d} samples, at least one is correct with probability {SOLVED:g} or "
        "more.",
        resets=["problem", "after"],
    )
    chosen = [each for each in contrasts.problems if which in ("all", each.which)]
    ids, after = [each.problem_id for each in chosen], links.text("after")
    start = ids.index(after) + 1 if after in ids else 0
    listed = chosen[start : start + PAGE]
    if not listed:
        st.caption("None.")
        return
    texts = fetch(contrast_texts, tuple(listed))
    columns = [
        Column("number", "problem", "figure", COUNTED),
        Column("first", f"{first}: pass@{contrasts.k}, %", "share"),
        Column("second", f"{second}: pass@{contrasts.k}, %", "share"),
        Column("correct_first", f"{first}: correct"),
        Column("correct_second", f"{second}: correct"),
        *([] if secret else [Column("text", "text", wide=True)]),
        Column("problem_id", "id"),
    ]
    rows = []
    for contrast in listed:
        a, b = contrast.counts
        counts = {"correct_first": f"{a.correct} of {a.asked}", "correct_second": f"{b.correct} of {b.asked}"}
        text = {} if secret else {"text": texts[a.run_problem_id].text}
        values = dict(zip(("first", "second"), contrast.values, strict=True))
        named = {"number": _positions(contrast, texts), "problem_id": contrast.problem_id}
        rows.append({**named, **values, **counts, **text})
    look = {"parameter": "problem", "value": "problem_id", "name": "problems"}
    problem_id = pick_row(rows, columns, "point-problems", **look)
    pager(
        {"after": listed[-1].problem_id} if len(chosen) > start + PAGE else None,
        {"after": None} if start else None,
        words=f"{len(listed):,} of {numbers[which]:,}, largest differences first. Click a row to see the "
        "responses.",
    )
    picked = next((contrast for contrast in contrasts.problems if contrast.problem_id == problem_id), None)
    if picked is not None:
        texts = texts if picked in listed else fetch(contrast_texts, (picked,))
        _show_problem(picked, texts, sides, secret=secret)


def _positions(contrast: Contrast, texts: Mapping[int, RunProblem]) -> str:
    """Return the problem's position in both runs, or in one if it is the same."""
    places = [str(texts[counts.run_problem_id].position) for counts in contrast.counts]
    return " / ".join(dict.fromkeys(places))


def _show_problem(
    contrast: Contrast, texts: Mapping[int, RunProblem], sides: Mapping[str, str], *, secret: bool
) -> None:
    """Show a problem, its gold answer, and a response of each run."""
    with layout.card():
        problem = texts[contrast.counts[0].run_problem_id]
        if not show_statement(problem, f"problem {_positions(contrast, texts)}", secret=secret):
            return
        for place, label in layout.in_columns(list(enumerate(sides)), gap="large"):
            st.markdown(f"**{escaped(label)}**")
            counts, solved = contrast.counts[place], contrast.values[place] >= SOLVED
            filters = SampleFilters(position=counts.position)
            samples, _ = fetch(browse_samples, sides[label], filters, limit=MOST_SAMPLES)
            _show_side(samples, counts.run_problem_id, ("left", "right")[place], solved=solved)


def _show_side(samples: list[SampleHeader], problem_id: int, name: str, *, solved: bool) -> None:
    if not samples:
        st.caption("No samples.")
        return
    if len(samples) == MOST_SAMPLES:
        st.caption(f"The first {MOST_SAMPLES:d} samples; `tagrpo eval show` shows the others.")
    by_ordinal = {sample.ordinal: sample for sample in samples}
    expected = "correct" if solved else "wrong"
    usual = next((sample for sample in samples if sample.counted == expected), samples[0]).ordinal

    def label(ordinal: int) -> str:
        answer = one_line(by_ordinal[ordinal].extracted or "", 30)
        return f"{ordinal}: {by_ordinal[ordinal].counted or 'not graded'}" + (f", {answer}" if answer else "")

    # The parameter contains the problem, so that the choice belongs to it and another problem starts fresh.
    chosen = choose(st.selectbox, "Response", f"{name}-{problem_id}", list(by_ordinal), usual, words=label)
    show_response(by_ordinal[chosen], name)
