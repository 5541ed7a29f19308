"""A problem with the responses of two runs side by side."""

from collections.abc import Mapping
from dataclasses import dataclass

import streamlit as st

from evaluator.evals.problems import RunProblem
from evaluator.evals.samples import SampleHeader, page_samples, read_texts
from evaluator.reports.contrast import SOLVED, Contrast
from ui.characters import one_line
from ui.pages.state import settings
from ui.pages.state.database import fetch
from ui.pages.text.markup import escaped, show_math_text, show_text
from ui.pages.widgets import layout
from ui.pages.widgets.choices import choose
from ui.pages.widgets.pictures import show_pictures

MOST_SAMPLES = 256
_ANSWER_MAX = 30
COUNTED = "Position in the run, from 0, including neighbors; use it in commands."
GATED = (
    "The texts of this benchmark are gated. Downloads never include them. The UI shows them only if the "
    "server accepts only local connections (tagrpo ui without --host, for example through a tunnel)."
)


@dataclass(frozen=True)
class Side:
    """A method with its run on the benchmark."""

    label: str
    run_id: str


def is_hidden(*, secret: bool) -> bool:
    """Say whether to hide a benchmark's texts: it is gated, and other machines can reach the server."""
    return secret and not settings.current().is_private


def show_statement(problem: RunProblem, *, secret: bool, words: str = "") -> bool:
    """Show a problem with its gold answer; return whether its responses may be shown too.

    `words` describe its position if a number is not enough.
    """
    words = words or f"problem {problem.position}"
    layout.line(layout.chip(words, "blue"), layout.chip(problem.problem_id))
    if is_hidden(secret=secret):
        st.caption(escaped(GATED))
        return False
    show_math_text(problem.text, f"problem-{problem.id}")
    show_pictures(problem.images)
    st.markdown(f"Gold answer: {escaped(problem.answer) or '(none)'}")
    return True


def show_problem(
    contrast: Contrast, texts: Mapping[int, RunProblem], sides: tuple[Side, Side], *, secret: bool
) -> None:
    """Show a problem, its gold answer, and a response of each run; `texts` are by `run_problem_id`."""
    problem, other = (texts[counts.run_problem_id] for counts in contrast.counts)
    numbers = problem.position, other.position
    places = [f"{number} of {side.label}" for number, side in zip(numbers, sides, strict=True)]
    words = f"problem {', '.join(places)}" if numbers[0] != numbers[1] else ""
    with layout.card():
        if not show_statement(problem, secret=secret, words=words):
            return
        columns = st.columns(2, gap="large")
        values = contrast.first, contrast.second
        for place, (column, side) in enumerate(zip(columns, sides, strict=True)):
            with column:
                _show_side(
                    side,
                    contrast.counts[place].run_problem_id,
                    solved=values[place] >= SOLVED,
                    name=("left", "right")[place],
                )


def _show_side(side: Side, run_problem_id: int, *, solved: bool, name: str) -> None:
    samples = fetch(page_samples, side.run_id, run_problem_id, limit=MOST_SAMPLES)
    st.markdown(f"**{escaped(side.label)}**")
    if not samples:
        st.caption("No samples.")
        return
    if len(samples) == MOST_SAMPLES:
        st.caption(f"The first {MOST_SAMPLES:d} samples; `tagrpo eval show` shows the others.")
    by_ordinal = {sample.ordinal: sample for sample in samples}
    expected = "correct" if solved else "wrong"
    usual = next((sample for sample in samples if sample.counted == expected), samples[0]).ordinal
    # The parameter contains the problem, so that the choice belongs to it and another problem starts fresh.
    chosen = choose(
        st.selectbox,
        "Response",
        f"{name}-{run_problem_id}",
        list(by_ordinal),
        usual,
        words=lambda ordinal: sample_label(by_ordinal[ordinal]),
    )
    show_response(by_ordinal[chosen], name)


def show_response(sample: SampleHeader, name: str) -> None:
    """Show a response with its grade; `name` distinguishes it from others on the page."""
    chips = [layout.grade_chip(sample.value or "not graded")]
    if sample.human:
        chips.insert(0, layout.chip(f"{sample.human} by a person", *layout.GRADES[sample.human]))
    if sample.reason:
        chips.append(layout.chip(sample.reason))
    if sample.source:
        chips.append(layout.chip(f"answer found in: {sample.source}"))
    if sample.completion_tokens is not None:
        chips.append(layout.chip(f"{sample.completion_tokens:,} tokens"))
    if sample.stop_reason != "stop":
        chips.append(layout.chip(f"stop reason: {sample.stop_reason}", "orange"))
    layout.line(*chips)
    text = fetch(read_texts, (sample.id,))[sample.id]
    raw = st.toggle(
        "Source text", key=f"raw-{name}", help="Show the response as plain text, without rendering formulas."
    )
    show = show_text if raw else show_math_text
    show(text, f"response-{name}-{sample.id}")


def sample_label(sample: SampleHeader) -> str:
    """Return a sample as a line of the list."""
    answer = one_line(sample.extracted or "", _ANSWER_MAX)
    return f"{sample.ordinal}: {sample.counted or 'not graded'}" + (f", {answer}" if answer else "")
