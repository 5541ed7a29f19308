"""The keys of the review queue. Letters only: C and R belong to Streamlit, others collide with text areas."""

from dataclasses import dataclass
from typing import Literal

Act = Literal["accept", "accept in words", "reject", "reject in words", "skip", "undo"]


@dataclass(frozen=True)
class Key:
    """A letter, what its button says, what it does, and the reason that is stored with a rejection.

    The reason is what the button explains itself with; that of another key is not stored. With a key "in
    words" the words that are typed are stored.
    """

    letter: str
    label: str
    act: Act
    reason: str = ""


DECIDING = (
    Key("A", "Accept", "accept"),
    Key("N", "Note", "accept in words", "accept, with a comment of your own"),
    Key("D", "Other answer", "reject", "another problem: its answer differs"),
    Key("M", "Missing", "reject", "a condition of the question is missing"),
    Key("X", "Added", "reject", "a condition was added"),
    Key("L", "Leaks", "reject", "the answer or a part of the solution is given away"),
    Key("B", "Broken", "reject", "broken text, formula or figure"),
    Key("W", "Other reason", "reject in words"),
    Key("S", "Skip", "skip"),
    Key("U", "Undo", "undo", "back to the one before, and what was decided about it is taken back"),
)
"""While decisions are written."""

LOOKING = (Key("S", "Next", "skip"), Key("U", "Back", "undo"))
"""On pages that only read."""

MAX_REASON = 500
"""Characters of a reason in words."""
