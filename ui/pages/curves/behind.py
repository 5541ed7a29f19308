"""The problems behind a point: which ones one run solves and the other does not."""

from typing import Any, get_args

import streamlit as st

from evaluator.benchmarks.catalogue import is_secret
from evaluator.evals.contrast import SOLVED, Contrast, Contrasts, Which
from evaluator.evals.problems import RunProblem
from service.errors import InputError
from ui.pages.curves.choosing import Choice
from ui.pages.curves.data import contrasted, texts_of
from ui.pages.curves.responses import Side, show_problem
from ui.pages.state import links
from ui.pages.text.markup import escaped
from ui.pages.widgets import layout
from ui.pages.widgets.onward import onward
from ui.pages.widgets.picking import pick_row
from ui.pages.widgets.tables import Column

PAGE = 12
WHICH: tuple[Which, ...] = get_args(Which)
FORGET = ["problem", "after", "which"]


@links.part
def show_behind(choice: Choice, usual_k: int) -> None:
    """Show the problems of two methods at a point: the one clicked, or the one chosen here."""
    layout.section("Behind a point", "Problems that one method solves and the other does not.")
    if len(choice.labels) < 2:
        st.caption("Choose a second method to compare with.")
        return
    chosen = _choose(choice, usual_k)
    if chosen is None:
        st.caption("No benchmark has runs of two of these methods.")
        return
    benchmark, first, second, k = chosen
    one, other = choice.run(first, benchmark), choice.run(second, benchmark)
    if one is None or other is None or first == second:
        st.caption("Choose two different methods.")
        return
    found = contrasted(one.run.id, other.run.id, k)
    _notes(found, first, second)
    if found.problems:
        sides = (Side(first, one.run.id), Side(second, other.run.id))
        _list(found, sides, is_secret(benchmark))


def _choose(choice: Choice, usual_k: int) -> tuple[str, str, str, int] | None:
    held = {
        name: [label for label in choice.labels if choice.run(label, name) is not None]
        for name in choice.benchmarks
    }
    names = [name for name, labels in held.items() if len(labels) > 1]
    if not names:
        return None
    usual_name = max(names, key=lambda name: len(held[name]))
    benchmark = links.choice("point", names, usual_name)
    labels = held[benchmark]
    first = links.choice("of", labels, labels[-1])
    others = [label for label in labels if label != first]
    asked = links.number("k", usual_k)
    enough = [label for label in others if _samples(choice, label, benchmark) >= asked]
    usual_second = (enough or others)[0]
    pair = (first, links.choice("against", others, usual_second))
    most = min(_samples(choice, label, benchmark) for label in pair)
    ks = sorted({2**power for power in range(max(most, 1).bit_length())} | {min(usual_k, max(most, 1))})
    usual = str(min(usual_k, ks[-1]))
    with layout.row():
        st.selectbox(
            "Benchmark",
            names,
            width=200,
            **links.bound("point", lambda: links.choice("point", names, usual_name), resets=FORGET),
        )
        st.selectbox(
            "Method",
            labels,
            width=200,
            **links.bound("of", lambda: links.choice("of", labels, labels[-1]), resets=FORGET),
        )
        second = st.selectbox(
            "against",
            others,
            width=200,
            **links.bound("against", lambda: links.choice("against", others, usual_second), resets=FORGET),
        )
        k = st.selectbox(
            "k",
            [str(one) for one in ks],
            width=90,
            **links.bound("k", lambda: links.choice("k", [str(one) for one in ks], usual), resets=FORGET),
        )
    if asked > most:
        fewer = min(pair, key=lambda label: _samples(choice, label, benchmark))
        st.caption(escaped(f"k = {asked}: {fewer} has {most:,} graded samples of a problem here."))
    return benchmark, first, str(second), int(k)


def _samples(choice: Choice, label: str, benchmark: str) -> int:
    run = choice.run(label, benchmark)
    return 0 if run is None else run.fewest


def _notes(found: Contrasts, first: str, second: str) -> None:
    said = []
    if found.too_few:
        said.append(f"{found.too_few:,} problems have fewer than {found.k} graded samples and are left out.")
    if found.only_first or found.only_second:
        said.append(
            f"{found.only_first:,} problems stand in the run of {first} only, {found.only_second:,} in that "
            f"of {second} only."
        )
    if said:
        st.caption(escaped(" ".join(said)))
    if not found.problems:
        st.caption("The two runs share no problem that can be compared here.")


def _list(found: Contrasts, sides: tuple[Side, Side], secret: bool) -> None:
    numbers = found.numbers()
    first, second = sides[0].label, sides[1].label
    words = {
        "first only": f"only {first}: {numbers['first only']:,}",
        "second only": f"only {second}: {numbers['second only']:,}",
        "both": f"both: {numbers['both']:,}",
        "neither": f"neither: {numbers['neither']:,}",
        "all": f"all: {len(found.problems):,}",
    }
    usual: Which = (
        "first only" if numbers["first only"] else "second only" if numbers["second only"] else "all"
    )
    which = st.segmented_control(
        "Solved by",
        list(WHICH),
        format_func=lambda one: escaped(words[one]),
        required=True,
        help=f"Solved: k = {found.k:d} samples hold a right one with probability {SOLVED:g} or more.",
        **links.bound(
            "which",
            lambda: links.choice("which", list(WHICH), usual),
            lambda one: None if one == usual else one,
            resets=["problem", "after"],
        ),
    )
    after = links.text("after")
    try:
        page = found.page(which, after=after or None, limit=PAGE + 1)
    except InputError:  # a place in another list
        after, page = "", found.page(which, limit=PAGE + 1)
    shown = page[:PAGE]
    if not shown:
        st.caption("None.")
        return
    texts = texts_of(tuple(shown))
    rows = [row(one, texts[one.counts[0].run_problem_id], secret=secret) for one in shown]
    chosen = pick_row(
        rows,
        _columns(found.k, first, second, secret=secret),
        "behind",
        parameter="problem",
        value="problem",
        name="problems",
    )
    onward(
        shown[-1].problem_id if len(page) > PAGE else None,
        begun=bool(after),
        words=f"{len(shown):,} of {numbers.get(which, len(found.problems)):,}, the largest "
        "differences first. A click on a row shows the responses.",
    )
    one = next((one for one in found.problems if one.problem_id == chosen), None)
    if one is not None:
        text = texts.get(one.counts[0].run_problem_id) or texts_of((one,))[one.counts[0].run_problem_id]
        show_problem(one, text, sides, secret=secret)


def row(one: Contrast, problem: RunProblem, *, secret: bool) -> dict[str, Any]:
    """Return a problem as a row; of a gated benchmark without its text and answer."""
    a, b = one.counts
    return {
        "number": problem.position + 1,
        "problem": one.problem_id,
        "first": one.first,
        "second": one.second,
        "difference": one.difference,
        "correct_first": f"{a.correct} of {a.graded}",
        "correct_second": f"{b.correct} of {b.graded}",
        **({} if secret else {"answer": problem.answer, "text": problem.text}),
    }


def _columns(k: int, first: str, second: str, *, secret: bool) -> list[Column]:
    columns = [
        Column("number", "problem", "whole"),
        Column("first", f"{first}: pass@{k}, %", "share"),
        Column("second", f"{second}: pass@{k}, %", "share"),
        Column("correct_first", f"{first}: right"),
        Column("correct_second", f"{second}: right"),
        Column("problem", "id"),
    ]
    return columns if secret else [*columns[:-1], Column("text", "text", wide=True), columns[-1]]
