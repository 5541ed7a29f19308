"""The page "Overview"."""

from ui.pages.overview.contents import count_runs, show_holdings, show_numbers, show_runs, total_questions
from ui.pages.overview.running import show_running
from ui.pages.state.database import fetch, show_page
from ui.pages.widgets import layout
from ui.pages.widgets.beginnings import no_questions


def body() -> None:
    counts = fetch(count_runs)
    if not counts and not total_questions():
        no_questions("The database is empty.")
        return
    show_numbers()
    layout.section("Active runs")
    show_running()
    layout.section("Candidates and sets")
    show_holdings()
    if counts:
        layout.section("Runs")
        show_runs(counts)


show_page("Overview", "Contents of the database and active runs.", body)
