"""Page layout: the title line, rows of numbers, chips, empty states.

All texts passed in are plain; they are escaped.
"""

import html
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal, TypeVar

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from service.errors import TagrpoError
from ui.characters import visible
from ui.pages.text.markup import escaped, with_commands

T = TypeVar("T")
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
.heading :is(h1, h3) { margin: 0; font-weight: 600; line-height: 1.2; }
.heading h1 { padding: 1.25rem 0 0.3rem; font-size: 1.7rem; }
.heading h3 { padding-top: 0.75rem; font-size: 1.05rem; }
.heading p { margin: 0.35rem 0 0; font-size: 0.875rem; opacity: 0.6; }
.numbers { display: flex; flex-wrap: wrap; gap: 1rem; }
.numbers div {
  position: relative; padding: 0.7rem 0.95rem; border: 1px solid rgba(128, 136, 150, 0.3);
  border-radius: 0.5rem;
}
.numbers span { display: block; font-size: 0.875rem; white-space: nowrap; }
.numbers b { font-size: 1.5rem; font-weight: 400; white-space: nowrap; }
.numbers [data-hint] span { text-decoration: underline dotted 1px; text-underline-offset: 0.2em; }
.numbers [data-hint]:is(:hover, :focus)::after {
  content: attr(data-hint); position: absolute; z-index: 30; top: calc(100% + 0.3rem); left: 0;
  width: max-content; max-width: 17rem; padding: 0.4rem 0.6rem; border-radius: 0.4rem;
  background: #2b303b; color: #fff; font-size: 0.8rem;
}
[data-testid="stDownloadButton"] button, [class*="st-key-download-"] [data-testid="stPopoverButton"] {
  min-height: 1.6rem; padding: 0 0.35rem; font-size: 0.8rem; opacity: 0.72;
}
[class*="st-key-download-"] { margin-top: -0.9rem; }
[data-testid="stDownloadButton"] button:is(:hover, :focus-visible) { opacity: 1; }
[data-testid="stDownloadButton"] button p { font-size: 0.8rem; }
[data-testid="stDownloadButton"] button [data-testid="stIconMaterial"] { font-size: 1rem; }
[data-testid="stColumn"]:has(> :empty) { visibility: hidden; }
[class*="st-key-shape-"] svg.marks { max-width: 100%; height: auto; }
[data-testid="stMarkdownContainer"] { counter-reset: katexEqnNo mmlEqnNo; }
[data-testid="stMarkdownContainer"] :is(p, .katex-display):has(.katex) { overflow: auto hidden; }
[data-testid="stElementToolbar"], .st-key-bound-reviewer [data-testid="InputInstructions"] { display: none; }
</style>"""
"""Style of all pages, in one place: every added style makes the browser style the whole page again.

Downloads are small. A chart whose aspect ratio matters shrinks as a whole. A column without content has no
border. Streamlit's toolbar would cover text. Each text numbers its equations. A long formula scrolls.
"""


def title(heading: str, words: str) -> None:
    """Start a page: its heading and one sentence on its purpose."""
    st.html(f"{_STYLE}<div class='heading'><h1>{_html(heading)}</h1><p>{_html(words)}</p></div>")  # safe


def section(heading: str, words: str = "") -> None:
    below = f"<p>{_html(words)}</p>" if words else ""
    st.html(f"<div class='heading'><h3>{_html(heading)}</h3>{below}</div>")  # safe: it escapes


def caption(words: str) -> None:
    st.caption(escaped(words))


def numbers(*items: tuple[str, str] | tuple[str, str, str]) -> None:
    """Show numbers in one row (name, value, and a hint); in a narrow window they wrap."""
    parts = []
    for name, value, *hint in items:
        more = f' tabindex="0" data-hint="{_html(hint[0])}"' if any(hint) else ""
        parts.append(f"<div{more}><span>{_html(name)}</span><b>{_html(value)}</b></div>")
    st.html(f"<div class='numbers'>{''.join(parts)}</div>")  # safe: it escapes


def _html(text: str) -> str:
    return html.escape(visible(text))


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


def in_columns(items: Sequence[T], number: int = 2, **look: Any) -> Iterator[T]:
    """Yield items side by side, each within its column; on a narrow page they are below each other."""
    for start in range(0, len(items), number):
        for place, item in zip(st.columns(number, **look), items[start : start + number], strict=False):
            with place:
                yield item


def row(alignment: Literal["center", "bottom"] = "center") -> DeltaGenerator:
    return st.container(horizontal=True, gap="small", vertical_alignment=alignment)


def card(key: str | None = None) -> DeltaGenerator:
    return st.container(border=True, key=key)


def folded(label: str, key: str, show: Callable[[], object], *, icon: str | None = None) -> None:
    """Show a button that opens a box; `show` runs only while it is open, since every element costs time."""
    popover = st.popover(escaped(label), icon=icon, type="tertiary", key=key, on_change="rerun")
    if popover.open:
        with popover:
            show()


def empty_state(heading: str, words: str = "", *, commands: Sequence[str] = ()) -> None:
    """Report that there is nothing to show, and the next step; commands can be copied."""
    with st.container(border=True, gap="small"):
        st.markdown(f"**{escaped(heading)}**")  # safe
        if words:
            st.markdown(with_commands(words))  # safe
        for command in commands:
            st.code(command, language=None, wrap_lines=True)


def note(words: str) -> None:
    """Warn in a line that the view differs from the requested one."""
    st.warning(escaped(words), icon=":material/info:")


def error_box(heading: str, words: str = "") -> None:
    """Report an error and what to do about it."""
    lines = [f"**{escaped(heading)}**", *map(with_commands, words.split("\n"))]
    st.error("\n\n".join(lines), icon=":material/error:")  # safe


@contextmanager
def or_stop(heading: str) -> Iterator[None]:
    """Show an error of tagrpo under this heading and stop the page."""
    try:
        yield
    except TagrpoError as error:
        error_box(heading, str(error))
        st.stop()
