"""The page "Sets"."""

import streamlit as st

from rephraser.sets.store import list_sets
from ui.pages.review.choosing import neighbor_runs
from ui.pages.sets import contents
from ui.pages.sets.changes import show_changes
from ui.pages.sets.contents import show_statistics, show_using
from ui.pages.state import settings
from ui.pages.state.database import fetch, show_page
from ui.pages.widgets import layout
from ui.pages.widgets.beginnings import no_neighbors
from ui.pages.widgets.choices import choose

VIEWS = {"statistics": "Statistics", "changes": "Changes", "use": "Verify and export"}


def body() -> None:
    headers = fetch(list_sets)
    if not headers and not (runs := neighbor_runs()):
        no_neighbors("There are no neighbor sets yet, and no neighbors to publish.")
    elif not headers:
        layout.empty_state(
            "There are no neighbor sets yet.",
            "Publish the accepted neighbors of a run as an immutable version:",
            commands=(settings.command(f"sets publish NAME --run {runs[0].name}"),),
        )
    else:
        header = contents.choose_version(headers)
        contents.show_numbers(header)
        contents.show_versions(headers, header.name)
        view = choose(st.segmented_control, "View", "view", list(VIEWS), words=VIEWS.__getitem__)
        if view == "changes":
            show_changes(headers, header)
        elif view == "use":
            show_using(header)
        else:
            show_statistics(header)


show_page("Sets", "Contents of published neighbor sets, and changes between versions.", body)
