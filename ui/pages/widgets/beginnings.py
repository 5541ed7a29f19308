"""Empty states: the next step, with existing names filled in."""

from rephraser.questions.store import list_sets
from ui.pages.state import settings
from ui.pages.state.database import fetch
from ui.pages.widgets import layout

DEMO = "tagrpo ui --demo"


def no_questions(heading: str) -> None:
    layout.empty_state(
        heading,
        "Import questions, or open the demo's results:",
        commands=(settings.command("questions import FILE --name NAME"), DEMO),
    )


def no_neighbors(heading: str, question_set: str = "") -> None:
    """Show how to create neighbors: of this question set or the first one, else starting with questions."""
    names = [question_set] if question_set else [stored.name for stored, _, _ in fetch(list_sets)]
    if not names:
        no_questions(heading)
        return
    layout.empty_state(
        heading,
        "Propose neighbors. Rules need no model:",
        commands=(settings.command(f"rephrase run {names[0]} --name NAME proposer=rules"),),
    )
