"""The page "Sets"."""

import streamlit as st

from ui.pages.sets import choosing
from ui.pages.sets.changes import show_changes
from ui.pages.sets.statistics import show_statistics
from ui.pages.sets.using import show_using
from ui.pages.state import links, settings
from ui.pages.state.database import reading
from ui.pages.widgets import layout

VIEWS = {"statistics": "Statistics", "changes": "What changed", "use": "Verify and export"}

layout.title("Sets", "Published neighbor sets: what is in them, and what changed.")
with reading():
    pass
found = choosing.headers()
if not found:
    database = settings.current().database
    layout.empty_state(
        "There is no neighbor set yet.",
        "Publish the accepted neighbors of a run as an immutable version:",
        commands=(f"tagrpo sets publish NAME --run RUN --db {database}", f"tagrpo runs list --db {database}"),
    )
else:
    header = choosing.choose(found)
    choosing.show_numbers(header)
    choosing.show_versions(found, header.name)
    view = st.segmented_control(
        "View",
        list(VIEWS),
        format_func=VIEWS.__getitem__,
        label_visibility="collapsed",
        required=True,
        **links.bound(
            "view",
            lambda: links.choice("view", list(VIEWS), "statistics"),
            lambda one: None if one == "statistics" else one,
        ),
    )
    if view == "changes":
        show_changes(found, header)
    elif view == "use":
        show_using(header)
    else:
        show_statistics(header)
