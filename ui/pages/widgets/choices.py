"""Widgets whose choice is in the address, with a note if the address names a missing option."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import streamlit as st

from ui.pages.state import links
from ui.pages.text.markup import escaped
from ui.pages.widgets import layout

T = TypeVar("T", bound=str | int)


def choose(
    widget: Callable[..., Any],
    label: str,
    name: str,
    options: Sequence[T],
    default: T | None = None,
    *,
    words: Callable[[T], str] = str,
    resets: Sequence[str] = (),
    **look: Any,
) -> T:
    """Show a widget (`st.selectbox`, `st.radio`, ...) that chooses one of the options, and return the choice.

    It is in the address under `name`, unless it is the default, which is usually the first option. `words`
    returns an option's label, as plain text. `resets` are parameters to remove after a change.
    """
    usual = options[0] if default is None else default
    if widget is st.segmented_control:
        look = {"required": True, "label_visibility": "collapsed", **look}
    chosen: T = widget(
        escaped(label),
        options,
        format_func=_texts(widget, words),
        **look,
        **links.bind(
            name,
            lambda: links.choice(name, options, usual),
            lambda option: None if option == usual else option,
            resets=resets,
        ),
    )
    return usual if chosen is None else chosen


def choose_several(
    widget: Callable[..., Any],
    label: str,
    name: str,
    options: Sequence[str],
    default: Sequence[str] = (),
    *,
    words: Callable[[str], str] = str,
    most: int | None = None,
    resets: Sequence[str] = (),
    **look: Any,
) -> list[str]:
    """Show `st.multiselect` or `st.pills`, which choose up to `most` options, as `choose` does."""
    if widget is st.pills:
        look = {"selection_mode": "multi", **look}
    elif most is not None:
        look = {"max_selections": most, **look}
    chosen = widget(
        escaped(label),
        options,
        format_func=_texts(widget, words),
        **look,
        **links.bind(
            name,
            lambda: list(links.values(name, options))[:most] or list(default),
            lambda picked: None if set(picked) == set(default) else list(picked),
            resets=resets,
        ),
    )
    return list(chosen)


def search_field(placeholder: str, name: str, resets: Sequence[str], **look: Any) -> str:
    """Show a field for the text to search for, and return it."""
    text: str = st.text_input(
        "Search",
        placeholder=placeholder,
        icon=":material/search:",
        **look,
        **links.bind(name, lambda: links.text(name), resets=resets),
    )
    return text.strip()


def choose_step(steps: Sequence[int], resets: Sequence[str], width: int) -> int | None:
    """Show the choice of a training step, and return it; None for all."""
    options = [-1, *steps]  # None would leave the choice empty
    step = choose(
        st.selectbox,
        "Step",
        "step",
        options,
        words=lambda number: "all steps" if number < 0 else f"step {number}",
        resets=resets,
        width=width,
    )
    note_absent("step", options, "step", "all steps")
    return None if step < 0 else step


def switch(
    label: str, name: str, default: bool = False, *, help: str | None = None, resets: Sequence[str] = ()
) -> bool:
    """Show a switch whose state is in the address unless it is the default; return the state."""
    return st.toggle(
        escaped(label),
        help=help and escaped(help),
        **links.bind(
            name,
            lambda: links.flag(name, default),
            lambda on: None if on == default else str(int(on)),
            resets=resets,
        ),
    )


def asked_to_compute(label: str, words: str, key: str) -> bool:
    """Say whether the address asks for a long computation; if not, offer it."""
    if links.flag("made"):
        return True
    ask: dict[str, Any] = {"type": "primary", "icon": ":material/play_arrow:", "key": key}
    st.button(label, on_click=lambda: links.set_query(made=True), **ask)  # safe: a constant
    layout.caption(words)
    return False


def note_absent(name: str, options: Sequence[str | int], what: str, instead: str) -> None:
    """Report that the address names a missing option, and what is shown instead."""
    if asked := links.unknown_value(name, options):
        layout.note(f"There is no {what} {asked} here. Showing {instead} instead.")


def _texts(widget: Callable[..., Any], words: Callable[[T], str]) -> Callable[[T], str]:
    """Return labels as the widget expects them: lists show plain text, buttons Markdown."""
    if widget in (st.selectbox, st.multiselect):
        return words
    return lambda option: escaped(words(option))
