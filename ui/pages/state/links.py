"""A page's state in its address: typed readers and writers, widgets bound to it, links between pages.

Only the address holds state, so that every view can be linked and the browser's Back and Forward work. Values
that equal their default are omitted.
"""

import re
from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeVar

import streamlit as st
from streamlit.runtime.scriptrunner import get_script_run_ctx

from ui.pages.text.markup import escaped

Page = Literal["overview", "questions", "review", "sets", "rollouts", "signal", "curves"]
PAGES: tuple[tuple[Page, str, str], ...] = (
    ("overview", "Overview", ":material/home:"),
    ("questions", "Questions", ":material/format_list_bulleted:"),
    ("review", "Review", ":material/rate_review:"),
    ("sets", "Sets", ":material/inventory_2:"),
    ("rollouts", "Rollouts", ":material/account_tree:"),
    ("signal", "Training signal", ":material/monitoring:"),
    ("curves", "Curves", ":material/show_chart:"),
)
"""Page name in the address, its title, its icon."""

T = TypeVar("T", bound=str | int)
Value = str | int | float | bool | Sequence[str] | None

MAX_LENGTH = 500
"""Maximum characters of a value read from an address; longer ones are cut."""


def text(name: str, default: str = "") -> str:
    """Return a text of the address."""
    value = st.query_params.get(name)
    return default if value is None else value[:MAX_LENGTH]


def number(name: str, default: int = 0, *, low: int | None = None, high: int | None = None) -> int:
    """Return a whole number of the address; the default if it is missing or out of bounds."""
    try:
        value = int(st.query_params.get(name, ""))
    except ValueError:
        return default
    return default if (low is not None and value < low) or (high is not None and value > high) else value


def flag(name: str, default: bool = False) -> bool:
    """Return a switch of the address ("1" or "0")."""
    return {"1": True, "0": False}.get(st.query_params.get(name, ""), default)


def choice(name: str, options: Sequence[T], default: T) -> T:
    """Return one of the options; the default if the address names none of them."""
    asked = st.query_params.get(name)
    return next((option for option in options if str(option) == asked), default)


def unknown_value(name: str, options: Sequence[str | int]) -> str:
    """Return the value in the address if it is not among the options, otherwise ""."""
    there = set(map(str, options))
    return ", ".join(value for value in values(name) if value and value not in there)


def values(name: str, options: Sequence[str] | None = None) -> tuple[str, ...]:
    """Return the repeated values of the address (`?verdict=a&verdict=b`) that are among the options."""
    texts = (value[:MAX_LENGTH] for value in st.query_params.get_all(name))
    return tuple(text for text in texts if options is None or text in options)


def place(name: str) -> tuple[int, str] | None:
    """Return a position in a list that the address holds as "12:q_1"; None for anything else."""
    match = re.fullmatch(r"(\d{1,9}):(.*)", text(name), re.ASCII | re.DOTALL)
    return (int(match[1]), match[2]) if match else None


def set_query(**values: Value) -> None:
    """Write values into the address, as one step of its history; None and empty ones are removed."""
    state: dict[str, list[str]] = {name: st.query_params.get_all(name) for name in st.query_params}
    state |= {name: _texts(value) for name, value in values.items()}
    st.query_params.from_dict({name: texts for name, texts in state.items() if texts})


def link(label: str, page: Page, *, icon: str | None = None, **values: Value) -> None:
    """Show a link to a view on another page, with the page's icon unless another one is given."""
    st.page_link(
        page=page_file(page),
        label=escaped(label),
        icon=icon or next(usual for name, _, usual in PAGES if name == page),
        query_params=[(name, text) for name, value in values.items() for text in _texts(value)] or None,
    )


def page_file(page: Page) -> str:
    """Return a page's file for `st.Page`, `st.page_link` and `st.switch_page`."""
    # A folder "signal" would hide Python's module: Streamlit puts the parent folder on the path.
    folder = "training_signal" if page == "signal" else page
    return f"{folder}/view.py"


def _texts(value: Value) -> list[str]:
    if isinstance(value, bool):
        return ["1"] if value else []
    if isinstance(value, str | int | float):
        return [str(value)] if value != "" else []
    return [str(part) for part in value or ()]


def bind(
    name: str,
    read: Callable[[], Any],
    write: Callable[[Any], Value] = lambda value: value,
    *,
    resets: Sequence[str] = (),
) -> dict[str, Any]:
    """Return `key` and `on_change` for a widget whose value is stored in the address under `name`.

    The widget shows the value that `read` finds there, also after Back and Forward and after its default
    changes; the user's choice is written there. `resets` are parameters to remove after a change, such as the
    position in a list.
    """
    key, seen = f"bound:{name}", f"bound-seen:{name}"
    context = get_script_run_ctx()
    page = context and context.page_script_hash  # two pages may use a name for different things
    now = page, st.query_params.get_all(name), read()
    if key not in st.session_state or st.session_state.get(seen) != now:
        st.session_state[key] = now[2]
    st.session_state[seen] = now

    def store() -> None:
        set_query(**{name: write(st.session_state[key])}, **dict.fromkeys(resets))
        st.session_state[seen] = page, st.query_params.get_all(name), read()

    return {"key": key, "on_change": store}
