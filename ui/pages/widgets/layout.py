"""Page layout: the title line, rows of numbers, chips, empty states.

All texts passed in are plain; they are escaped.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Literal

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from service.errors import TagrpoError
from ui.pages.text.markup import escaped

Colour = Literal["red", "orange", "yellow", "blue", "green", "violet", "gray"]

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
[class*="st-key-shape-"] svg.marks { max-width: 100%; height: auto; }
[data-testid="stMarkdownContainer"] :is(p, .katex-display):has(.katex) { overflow: auto hidden; }
[data-testid="stElementToolbar"], .st-key-bound-reviewer [data-testid="InputInstructions"] { display: none; }
</style>"""
"""Style of all pages, in one place: every added style makes the browser style the whole page again.

Downloads are small. A chart whose aspect ratio matters shrinks as a whole. Streamlit's toolbar over charts
would cover the text above them. A formula that cannot be broken scrolls, so that it does not overlap the text
next to it.
"""


def title(heading: str, words: str) -> None:
    """Start a page: its heading and one sentence on its purpose."""
    st.html(_STYLE)  # safe: a constant
    with st.container(gap="xxsmall"):
        st.title(escaped(heading), anchor=False)
        st.caption(escaped(words))


def section(heading: str, words: str = "") -> None:
    st.subheader(escaped(heading), anchor=False)
    if words:
        st.caption(escaped(words))


def caption(words: str) -> None:
    st.caption(escaped(words))


def numbers(*items: tuple[str, str] | tuple[str, str, str]) -> None:
    """Show a row of numbers (name, value, and how it is counted); in a narrow window they wrap."""
    with st.container(horizontal=True, gap="small"):
        for name, value, *hint in items:
            st.metric(escaped(name), value, help=escaped("".join(hint)) or None, border=True, width="content")


def line(*parts: str) -> None:
    """Show chips and bold text side by side as one element: every element costs the browser time."""
    st.markdown(" ".join(parts))  # safe: parts are made by the functions below


def strong(words: str) -> str:
    return f"**{escaped(words)}**"


def chip(label: str, colour: Colour = "gray", icon: str = "") -> str:
    """Return a short label with a background, for a line or any other Markdown."""
    return f":{colour}-badge[{f'{icon} {escaped(label)}'.strip()}]"


def verdict_chip(verdict: str) -> str:
    return chip(verdict, *VERDICTS.get(verdict, ("gray", "")))


def grade_chip(grade: str) -> str:
    return chip(grade, *GRADES.get(grade, ("gray", "")))


def row() -> DeltaGenerator:
    return st.container(horizontal=True, gap="small", vertical_alignment="center")


def card(key: str | None = None) -> DeltaGenerator:
    return st.container(border=True, key=key)


def folded(label: str, *, icon: str | None = None) -> DeltaGenerator:
    return st.popover(escaped(label), icon=icon, type="tertiary")


def empty_state(heading: str, words: str = "", *, commands: Sequence[str] = ()) -> None:
    """Report that there is nothing to show, and the next step; commands can be copied."""
    with st.container(border=True, gap="small"):
        st.markdown(f"**{escaped(heading)}**")  # safe
        if words:
            st.markdown(escaped(words))  # safe
        for command in commands:
            st.code(command, language=None, wrap_lines=True)


def note(words: str) -> None:
    """Warn in a line that the view differs from the requested one."""
    st.warning(escaped(words), icon=":material/info:")


def error_box(heading: str, words: str = "") -> None:
    """Report an error and what to do about it."""
    st.error(f"**{escaped(heading)}**" + (f"\n\n{escaped(words)}" if words else ""), icon=":material/error:")


@contextmanager
def or_stop(heading: str) -> Iterator[None]:
    """Show an error of tagrpo under this heading and stop the page."""
    try:
        yield
    except TagrpoError as error:
        error_box(heading, str(error))
        st.stop()
