"""The page "Questions": the list, or one question."""

from ui.pages.questions import listing, question
from ui.pages.state import links
from ui.pages.state.database import reading
from ui.pages.widgets import layout

layout.title(
    "Questions", "Questions with their neighbors side by side, and the evidence behind every verdict."
)
with reading():
    pass  # says what to do where there is no database
reference, candidate = links.text("id"), links.text("candidate")
if reference or candidate:
    question.show(reference, candidate)
else:
    listing.show()
