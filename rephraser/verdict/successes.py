"""A solver's success on a question and on its neighbor, from answers already drawn for the verdict."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import sqrt
from pathlib import Path
from typing import Any, Literal

Difficulty = Literal["easier", "level", "harder"]
COUNTS = ("question_right", "question_drawn", "neighbor_right", "neighbor_drawn")


@dataclass(frozen=True)
class Successes:
    """Correct answers of the solvers to a question and to its neighbor; unreadable ones count as wrong."""

    solver: str
    question_right: int
    question_drawn: int
    neighbor_right: int
    neighbor_drawn: int

    def __post_init__(self) -> None:
        for side in ("question", "neighbor"):
            right, drawn = getattr(self, f"{side}_right"), getattr(self, f"{side}_drawn")
            if not 0 <= right <= drawn or drawn == 0:
                raise ValueError(f"{right} correct answers out of {drawn} to the {side} are impossible")

    @property
    def difficulty(self) -> Difficulty:
        """The neighbor's difficulty compared with its question's.

        Level if the shrunken rates, (right + 1/2) / (drawn + 1), differ by no more than one standard error of
        their difference.
        """
        question, of_question = _posterior(self.question_right, self.question_drawn)
        neighbor, of_neighbor = _posterior(self.neighbor_right, self.neighbor_drawn)
        if abs(neighbor - question) <= sqrt(of_question + of_neighbor):
            return "level"
        return "easier" if neighbor > question else "harder"


def read_successes(counts: Mapping[str, Any] | None, solvers: Iterable[str]) -> Successes | None:
    """Return the successes of a verdict; None if answers were not compared or no class is the gold's."""
    gold = None if counts is None else counts.get("gold")
    if counts is None or gold is None:
        return None
    sides: dict[str, int] = {}
    for side, stored in (("question", "original"), ("neighbor", "candidate")):
        drawn = sum(counts[stored]) + counts[f"{stored}_unparsed"]
        if drawn == 0:
            return None
        sides |= {f"{side}_right": int(counts[stored][gold]), f"{side}_drawn": int(drawn)}
    return Successes(" + ".join(solvers), **sides)


def solver_name(solver: Mapping[str, Any]) -> str:
    """Return a solver's model; for a local checkpoint, its folder's name and its weights' hash."""
    model, weights = str(solver.get("model")), (solver.get("engine") or {}).get("weights")
    return f"{Path(model).name} ({weights})" if weights else model


def _posterior(right: int, drawn: int) -> tuple[float, float]:
    """Return mean and variance of a rate under Jeffreys' prior."""
    mean = (right + 0.5) / (drawn + 1)
    return mean, mean * (1 - mean) / (drawn + 2)
