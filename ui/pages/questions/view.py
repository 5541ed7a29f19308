"""The page "Questions": the list, or one question."""

from ui.pages.questions import listing, question
from ui.pages.state import links
from ui.pages.state.database import begin_page

begin_page("Questions", "Questions and their neighbors side by side, with the evidence for every verdict.")
reference, candidate = links.text("id"), links.text("candidate")
if reference or candidate:
    question.show(reference, candidate)
else:
    listing.show()
