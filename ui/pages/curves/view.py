"""The page "Curves"."""

import streamlit as st

from ui.pages.curves import choosing
from ui.pages.curves.behind import show_behind
from ui.pages.curves.cost import show_cost
from ui.pages.curves.data import reported
from ui.pages.curves.differences import show_differences
from ui.pages.curves.panels import show_panels
from ui.pages.curves.published_table import show_sources, show_table
from ui.pages.state import links, settings
from ui.pages.state.database import reading
from ui.pages.widgets import layout

VIEWS = {"curves": "Curves", "differences": "Differences", "table": "Table", "cost": "Cost"}

layout.title("Curves", "pass@k of evaluated models, and the problems behind every point.")
with reading():
    pass
found = choosing.read_methods()
if not any(one.runs for one in found):
    database = settings.current().database
    layout.empty_state(
        "Nothing has been evaluated yet.",
        "Draw samples for a benchmark and grade them, or look at the results of the demo:",
        commands=(
            "tagrpo eval run aime24 --n 32 --model MODEL",
            f"tagrpo eval list --db {database}",
            "tagrpo ui --demo",
        ),
    )
    choosing.say_not_ready(found)
else:
    choice = choosing.choose(found)
    if choice is None:
        choosing.say_not_ready(found)
        st.caption("Choose at least one method.")
        st.stop()
    view = st.segmented_control(
        "View",
        list(VIEWS),
        format_func=VIEWS.__getitem__,
        label_visibility="collapsed",
        required=True,
        **links.bound(
            "view",
            lambda: links.choice("view", list(VIEWS), "curves"),
            lambda one: None if one == "curves" else one,
        ),
    )
    if choice.metric == "maj@k" and view != "differences":
        from ui.pages.curves.majority import reported_majority

        asked = reported_majority(choice)
        if asked is None:
            st.stop()
        result = asked
    else:
        result = reported(choice.references, choice.metric, choice.interval, choice.palette)
    if result.error is not None:
        layout.error_box("These runs cannot be reported together.", result.error)
    elif view == "differences":
        show_differences(choice)
    elif view == "table":
        show_table(result)
    elif view == "cost":
        show_cost(choice, result)
    else:
        show_panels(choice, result)
        show_sources(result)
        show_behind(choice, result.k)
