"""What structure says beside the answers: it makes a verdict ask for more, and never decides alone."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Structure:
    """What was found to differ between a candidate and its question.

    Attributes:
        groups: groups of findings that speak against the candidate (numbers, formulas, premises, ...).
        premises_dropped: a premise of the question was found to be dropped.
    """

    groups: frozenset[str] = frozenset()
    premises_dropped: bool = False

    @property
    def flagged(self) -> bool:
        """Whether the verdict asks for more agreement."""
        return bool(self.groups)

    @property
    def named(self) -> str:
        """The groups in words."""
        *others, last = sorted(self.groups)
        return f"{', '.join(others)} and {last}" if others else last


NOTHING_FOUND = Structure()
