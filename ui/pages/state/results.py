"""Results kept in memory: a key names what they were made from."""

from collections.abc import Callable
from typing import Any, TypeVar

import streamlit as st

R = TypeVar("R")


def keep(key: Any, make: Callable[[], R]) -> R:
    """Return the result of `make`, made once for each `repr(key)`; callers get a copy each."""
    result: R = _kept(repr(key), make)
    return result


@st.cache_data(max_entries=500, show_spinner=False)
def _kept(key: str, _make: Callable[[], Any]) -> Any:
    return _make()


forget = _kept.clear
