"""The page "Overview"."""

from ui.pages.overview.holdings import read_holdings, show_holdings, show_numbers
from ui.pages.overview.running import show_running
from ui.pages.overview.runs import show_runs
from ui.pages.state.database import begin_page
from ui.pages.widgets import layout
from ui.pages.widgets.beginnings import no_questions

begin_page("Overview", "Contents of the database and active runs.")
holdings = read_holdings()
if not holdings.questions and not holdings.runs:
    no_questions("The database is empty.")
else:
    show_numbers(holdings)
    layout.section("Active runs")
    show_running()
    layout.section("Candidates and sets")
    show_holdings(holdings)
    if holdings.runs:
        layout.section("Runs")
        show_runs(holdings.runs)
