"""Widgets whose choice stands in the address, and a note where the address asks for what is not there."""

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
    pinned: bool = False,
    **look: Any,
) -> T:
    """Show a widget that chooses one of the options, and return the choice.

    Args:
        widget: `st.selectbox`, `st.radio`, or `st.segmented_control`, which shows a label only where `look`
            says so.
        name: the parameter of the address that holds the choice; it is left out where that is the default.
        default: chosen where the address names none of the options; the first one without it.
        words: returns what is shown of an option, as plain text.
        resets, pinned: as for `links.bound`.
        look: further arguments of the widget.
    """
    usual = options[0] if default is None else default
    if widget is st.segmented_control:
        look = {"required": True, "label_visibility": "collapsed", **look}
    chosen: T = widget(
        escaped(label),
        options,
        format_func=_texts(widget, words),
        **look,
        **links.bound(
            name,
            lambda: links.choice(name, options, usual),
            lambda option: None if option == usual else option,
            resets=resets,
            pinned=pinned,
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
    pinned: bool = False,
    **look: Any,
) -> list[str]:
    """Show a widget that chooses some of the options (`st.multiselect`, `st.pills`), and return the choice.

    Args:
        default: chosen where the address names none of the options.
        most: how many can be chosen.
        others: as for `choose`.
    """
    if widget is st.pills:
        look = {"selection_mode": "multi", **look}
    elif most is not None:
        look = {"max_selections": most, **look}
    chosen = widget(
        escaped(label),
        options,
        format_func=_texts(widget, words),
        **look,
        **links.bound(
            name,
            lambda: list(links.many(name, options))[:most] or list(default),
            lambda picked: None if set(picked) == set(default) else list(picked),
            resets=resets,
            pinned=pinned,
        ),
    )
    return list(chosen)


def switch(
    label: str, name: str, default: bool = False, *, help: str | None = None, resets: Sequence[str] = ()
) -> bool:
    """Show a switch whose state stands in the address where it is not the default; return the state."""
    return st.toggle(
        escaped(label),
        help=help and escaped(help),
        **links.bound(
            name,
            lambda: links.flag(name, default),
            lambda on: None if on == default else str(int(on)),
            resets=resets,
        ),
    )


def note_absent(name: str, options: Sequence[str | int], what: str, instead: str) -> None:
    """Say that the address asks for what is none of the options, and what is shown instead of it."""
    if asked := links.unknown(name, options):
        layout.note(f"There is no {what} {asked} here. Shown: {instead}.")


def _texts(widget: Callable[..., Any], words: Callable[[T], str]) -> Callable[[T], str]:
    """Return the texts of options as the widget wants them: lists show plain text, buttons Markdown."""
    if widget in (st.selectbox, st.multiselect):
        return words
    return lambda option: escaped(words(option))
