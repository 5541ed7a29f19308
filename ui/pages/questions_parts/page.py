"""The page "Questions": the list, or one question."""

from ui.pages.kit import layout, links
from ui.pages.kit.database import reading
from ui.pages.questions_parts import listing, question


def show() -> None:
    """Draw the page."""
    layout.title(
        "Questions", "Questions with their neighbors side by side, and the evidence behind every verdict."
    )
    with reading():
        pass
    reference, candidate = links.text("id"), links.text("candidate")
    if reference or candidate:
        question.show(reference, candidate)
    else:
        listing.show()
