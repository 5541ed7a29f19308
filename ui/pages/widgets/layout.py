"""How pages are laid out: the title line, rows of numbers, chips, what to show where there is nothing.

All texts given here are plain ones: they are escaped, whatever they hold.
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal, NewType

import streamlit as st

from ui.pages.text.markup import escaped

Colour = Literal["red", "orange", "yellow", "blue", "green", "violet", "gray"]
HAND_OVER_S = 0.01
"""Seconds in which what stands is sent; so long does a page take longer on the server."""

Part = NewType("Part", str)
"""Markdown for a part of a line, in which all that is data was escaped."""

VERDICTS: dict[str, tuple[Colour, str]] = {
    "accepted": ("green", ":material/check_circle:"),
    "rejected": ("red", ":material/cancel:"),
    "undecided": ("yellow", ":material/help:"),
    "unverified": ("gray", ":material/radio_button_unchecked:"),
}
GRADES: dict[str, tuple[Colour, str]] = {
    "correct": ("green", ":material/check:"),
    "wrong": ("red", ":material/close:"),
    "unknown": ("gray", ":material/question_mark:"),
}


@dataclass(frozen=True)
class Number:
    """A number with its name and, where it has one, its unit; `hint` says what is counted and how."""

    name: str
    value: str
    unit: str = ""
    hint: str | None = None


_STYLE = """<style>
[data-testid="stDownloadButton"] button {
  min-height: 1.6rem; padding: 0 0.35rem; font-size: 0.8rem; opacity: 0.72;
}
[data-testid="stDownloadButton"] button:is(:hover, :focus-visible) { opacity: 1; }
[data-testid="stDownloadButton"] button p { font-size: 0.8rem; }
[data-testid="stDownloadButton"] button [data-testid="stIconMaterial"] { font-size: 1rem; }
:is([class*="st-key-chart-"], [class*="st-key-shape-"]) [data-testid="stPopover"] button {
  min-height: 1.6rem; opacity: 0.72;
}
[data-testid="stVegaLiteChart"] { max-width: 100%; overflow-x: auto; }
[class*="st-key-shape-"] svg.marks { max-width: 100%; height: auto; }
[data-testid="stMarkdownContainer"] :is(p, .katex-display):has(.katex) { overflow: auto hidden; }
[data-testid="stElementToolbar"], .st-key-bound-reviewer [data-testid="InputInstructions"] { display: none; }
</style>"""
"""Downloads stand at every table and chart: small, so that they are found and not looked at. Panels of
charts keep their size: where the window is narrower, they are scrolled and the page is not. A chart whose
shape says something becomes smaller as a whole. Streamlit's own bar over charts would cover what stands
above them. A formula that cannot be broken is scrolled, so that it does not run over the text beside it. All
of it in one place: every style that is added makes the browser style the whole page again."""


def title(heading: str, words: str = "") -> None:
    """Begin a page: its heading and one sentence on what it answers, with the link to the view at hand."""
    from ui.pages.state import links

    st.html(_STYLE)  # safe: a constant
    with st.container(horizontal=True, vertical_alignment="bottom", horizontal_alignment="distribute"):
        with st.container(width="stretch", gap="xxsmall"):
            st.title(escaped(heading), anchor=False)
            if words:
                st.caption(escaped(words))
        links.here()


def hand_over() -> None:
    """Let the browser draw what was shown so far while the rest is made; called before a page's charts.

    Another thread sends what a script shows, and hardly has its turn before the script has ended: then all of
    the page is drawn at once, and nothing is to be seen before its charts. `benchmarks/pages/latency.py`
    measures it (*paint*).
    """
    time.sleep(HAND_OVER_S)


def section(heading: str, words: str = "") -> None:
    """Begin a part of a page."""
    st.subheader(escaped(heading), anchor=False)
    if words:
        st.caption(escaped(words))


def numbers(items: Sequence[Number]) -> None:
    """Show a row of numbers; on a narrow window they stand in several rows."""
    with st.container(horizontal=True, gap="small"):
        for item in items:
            value = f"{item.value} {item.unit}".strip()
            st.metric(
                escaped(item.name), value, help=item.hint and escaped(item.hint), border=True, width="content"
            )


def line(*parts: Part) -> None:
    """Show chips and strong words, side by side, as one element: every element takes the browser time."""
    st.markdown(" ".join(parts))  # safe: parts are made by the functions below


def strong(words: str) -> Part:
    """Return words in bold, for a line."""
    return Part(f"**{escaped(words)}**")


def chip(label: str, colour: Colour = "gray", icon: str = "") -> Part:
    """Return a short label with a ground of its own, for a line or any other Markdown."""
    return Part(f":{colour}-badge[{f'{icon} {escaped(label)}'.strip()}]")


def verdict_chip(verdict: str) -> Part:
    """Return a verdict in its colour, for a line."""
    return chip(verdict, *VERDICTS.get(verdict, ("gray", "")))


def grade_chip(grade: str) -> Part:
    """Return a grade in its colour, for a line."""
    return chip(grade, *GRADES.get(grade, ("gray", "")))


@contextmanager
def row(*, gap: Literal["small", "medium"] = "small") -> Iterator[None]:
    """What is shown within stands side by side, and breaks into lines where there is no room."""
    with st.container(horizontal=True, gap=gap, vertical_alignment="center"):
        yield


@contextmanager
def card(key: str | None = None) -> Iterator[None]:
    """What is shown within stands in a frame."""
    with st.container(border=True, key=key):
        yield


@contextmanager
def folded(label: str, *, icon: str | None = None) -> Iterator[None]:
    """What is shown within opens on a click, over the page."""
    with st.popover(escaped(label), icon=icon, type="tertiary"):
        yield


def empty_state(heading: str, words: str = "", *, commands: Sequence[str] = ()) -> None:
    """Say that there is nothing to show, and what to do next; commands can be copied."""
    with st.container(border=True, gap="small"):
        st.markdown(f"**{escaped(heading)}**")  # safe
        if words:
            st.markdown(escaped(words))  # safe
        for command in commands:
            st.code(command, language=None, wrap_lines=True)


def note(words: str) -> None:
    """Say in a line that something is not as it was asked for."""
    st.warning(escaped(words), icon=":material/info:")


def error_box(heading: str, words: str = "") -> None:
    """Say what happened and how to go on."""
    st.error(f"**{escaped(heading)}**" + (f"\n\n{escaped(words)}" if words else ""), icon=":material/error:")
