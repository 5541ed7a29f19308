"""The page "Questions": the list, or one question."""

from ui.pages.questions import listing, question
from ui.pages.state import links
from ui.pages.state.database import show_page


def body() -> None:
    reference, candidate = links.text("id"), links.text("candidate")
    if reference or candidate:
        question.show(reference, candidate)
    else:
        listing.show()


show_page(
    "Questions", "Questions and their neighbors side by side, with the evidence for every verdict.", body
)
