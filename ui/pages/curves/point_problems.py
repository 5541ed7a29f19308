"""The problems that make up a point: those that one run solves and the other does not."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, get_args

import streamlit as st

from evaluator.benchmarks.catalogue import is_secret
from evaluator.evals.overview import RunOverview
from evaluator.evals.samples import SampleFilters, SampleHeader, browse_samples
from evaluator.reports.comparing import SOLVED, Which, contrast_problems, contrast_texts
from evaluator.reports.methods import load_methods
from ui.characters import one_line
from ui.pages.curves.choosing import POINT_PARAMETERS, CurveChoice
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
Row = Mapping[str, Any]


@st.fragment
def show_point_problems(choice: CurveChoice, usual_k: int) -> None:
    layout.section("Problems at one k", "Problems that one method solves and the other does not.")
    if len(choice.methods) < 2:
        st.caption("Choose a second method to compare with.")
        return
    by_benchmark: dict[str, dict[str, RunOverview]] = {name: {} for name in choice.benchmarks}
    for label, method in choice.methods.items():
        for run in method.runs:
            by_benchmark.setdefault(run.benchmark, {})[label] = run
    measured = {name: by_benchmark[name] for name in choice.benchmarks if len(by_benchmark[name]) > 1}
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
    with layout.or_stop(f"{first} and {second} cannot be compared."):
        a, b = fetch(load_methods, (*choice.references(first), *choice.references(second)))
    entries = a.entries[benchmark], b.entries[benchmark]
    rows, too_few = contrast_problems(*entries, k)
    only = [entry.counts.problems - len(rows) - too_few for entry in entries]
    notes = []
    if too_few:
        notes.append(f"Problems with fewer than {k} graded samples, excluded: {too_few:,}.")
    if any(only):
        notes.append(
            f"{only[0]:,} problems are only in the run of {first}, {only[1]:,} only in the run of {second}."
        )
    if not rows:
        notes.append("The two runs have no common problem to compare.")
    if notes:
        layout.caption(" ".join(notes))
    if rows:
        _list(rows, k, {label: runs[label].run.id for label in (first, second)}, secret=is_secret(benchmark))


def _list(contrasts: Sequence[Row], k: int, sides: Mapping[str, str], *, secret: bool) -> None:
    """Show the problems of two runs, given by the labels of their methods."""
    kinds = [contrast["which"] for contrast in contrasts]
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
        help=f"Solved: among {k:d} samples, at least one is correct with probability {SOLVED:g} or more.",
        resets=["problem", "after"],
    )
    chosen = [each for each in contrasts if which in ("all", each["which"])]
    ids, after = [each["problem_id"] for each in chosen], links.text("after")
    start = ids.index(after) + 1 if after in ids else 0
    listed = chosen[start : start + PAGE]
    if not listed:
        st.caption("None.")
        return
    texts = fetch(contrast_texts, sides[first], tuple(each["position"] for each in listed))
    columns = [
        Column("number", "problem", "figure", COUNTED),
        Column("first", f"{first}: pass@{k}", "share"),
        Column("second", f"{second}: pass@{k}", "share"),
        Column("correct_first", f"{first}: correct"),
        Column("correct_second", f"{second}: correct"),
        *([] if secret else [Column("text", "text", wide=True)]),
        Column("problem_id", "id"),
    ]
    rows = [
        {
            "number": _positions(each),
            "first": each["value_a"],
            "second": each["value_b"],
            "correct_first": f"{each['correct_a']} of {each['n_a']}",
            "correct_second": f"{each['correct_b']} of {each['n_b']}",
            "text": texts[each["position"]].text,
            "problem_id": each["problem_id"],
        }
        for each in listed
    ]
    look = {"parameter": "problem", "value": "problem_id", "name": "problems"}
    problem_id = pick_row(rows, columns, "point-problems", **look)
    pager(
        "after",
        listed[-1]["problem_id"] if len(chosen) > start + PAGE else None,
        f"{len(listed):,} of {numbers[which]:,}, largest differences first. Click a row for the responses.",
    )
    picked = next((contrast for contrast in contrasts if contrast["problem_id"] == problem_id), None)
    if picked is not None:
        _show_problem(picked, sides, secret=secret)


def _positions(contrast: Row) -> str:
    """Return the problem's position in both runs, or in one if it is the same."""
    return " / ".join(dict.fromkeys([str(contrast["position"]), str(contrast["position_b"])]))


def _show_problem(contrast: Row, sides: Mapping[str, str], *, secret: bool) -> None:
    """Show a problem, its gold answer, and a response of each run."""
    with layout.card():
        position = contrast["position"]
        problem = fetch(contrast_texts, next(iter(sides.values())), (position,))[position]
        if not show_statement(problem, f"problem {_positions(contrast)}", secret=secret):
            return
        views = (
            ("left", position, contrast["value_a"]),
            ("right", contrast["position_b"], contrast["value_b"]),
        )
        labels = list(zip(views, sides, strict=True))
        for (side, place, value), label in layout.in_columns(labels, gap="large"):
            st.markdown(f"**{escaped(label)}**")
            filters = SampleFilters(position=place)
            samples, _ = fetch(browse_samples, sides[label], filters, limit=MOST_SAMPLES)
            _show_side(samples, contrast["problem_id"], side, solved=value >= SOLVED)


def _show_side(samples: list[SampleHeader], problem_id: str, name: str, *, solved: bool) -> None:
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
