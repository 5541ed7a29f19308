"""Empty states: the next step, with existing names filled in."""

from sqlalchemy.orm import Session

from service.questions.browsing import list_sets
from ui.pages.state import settings
from ui.pages.state.database import cached
from ui.pages.widgets import layout

DEMO = "tagrpo ui --demo"


@cached
def _question_sets(session: Session) -> list[str]:
    return [stored.name for stored, _, _ in list_sets(session)]


def no_questions(heading: str) -> None:
    """Show how to import questions."""
    layout.empty_state(
        heading,
        "Import questions, or look at the results of the demo:",
        commands=(settings.command("questions import FILE --name NAME"), DEMO),
    )


def no_neighbors(heading: str, question_set: str = "") -> None:
    """Show how to create neighbors: of this question set or the first one, else starting with questions."""
    names = [question_set] if question_set else _question_sets()
    if not names:
        no_questions(heading)
        return
    layout.empty_state(
        heading,
        "Propose some; rules need no model:",
        commands=(settings.command(f"rephrase run {names[0]} --name NAME proposer=rules"),),
    )
