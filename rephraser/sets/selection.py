"""Selection of neighbors from candidates: which ones, and how many per question."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

from evaluator.signal.cost import needs_neighbors
from rephraser.checks.wording import choose_apart, wording
from rephraser.reviews.status import STATUSES, CandidateStatus
from rephraser.verdict.successes import Successes
from service.errors import InputError

Preference = Literal["any", "easier", "harder", "level"]
_ORDER: dict[Preference, tuple[str | None, ...]] = {
    "any": (),
    "easier": ("easier", "level", None, "harder"),
    "harder": ("harder", "level", None, "easier"),
    "level": ("level", None, "easier", "harder"),
}
"""Order of difficulties by preference; None is that of candidates without counts."""


@dataclass(frozen=True)
class Adaptive:
    """Neighbors only for questions that yield no gradient alone, by `needs_neighbors`.

    Attributes:
        g: responses of the group of the question alone.
        unmixed: minimum probability of an unmixed group for which a question gets neighbors.
        pilot: eval run whose responses to the questions count; None: the answers drawn for the verdicts.
    """

    g: int = 8
    unmixed: float = 0.5
    pilot: str | None = None

    def __post_init__(self) -> None:
        if self.g < 2 or not 0 < self.unmixed < 1:
            raise InputError(
                "adaptive needs a group of at least 2 responses and a probability between 0 and 1, not "
                f"{self.g} and {self.unmixed}."
            )

    def needs(self, rate: tuple[int, int] | None) -> bool:
        """Say whether a question needs neighbors; `rate` is correct and total answers, None if unknown."""
        return rate is None or needs_neighbors(*rate, self.g, self.unmixed)


@dataclass(frozen=True)
class Selection:
    """The candidates of the runs that become neighbors.

    Attributes:
        n: maximum per question; None includes all that qualify.
        include: statuses to include. If a question has more than n, earlier ones in this tuple come first.
        strategies, models: names to include; empty includes all.
        only_with_neighbors: leave out questions without any neighbor (otherwise they stay and train alone).
        min_distance: leave out candidates closer than this to their question or to a neighbor chosen before.
        prefer: within a status these come first; within a difficulty those that are furthest apart.
        adaptive: neighbors for some questions only; None: for all.
    """

    n: int | None = None
    include: tuple[str, ...] = ("accepted",)
    strategies: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    only_with_neighbors: bool = False
    min_distance: float = 0.0
    prefer: Preference = "any"
    adaptive: Adaptive | None = None

    def __post_init__(self) -> None:
        if self.n is not None and self.n < 1:
            raise InputError(f"n is {self.n}, but must be at least 1 neighbor per question.")
        unknown = [status for status in self.include if status not in STATUSES]
        if unknown or not self.include:
            raise InputError(
                f"cannot include {', '.join(unknown) or 'nothing'}. Choose from {', '.join(STATUSES)}."
            )
        if not 0 <= self.min_distance <= 1:
            raise InputError(f"a distance must be between 0 and 1, but is {self.min_distance}.")
        if self.prefer not in get_args(Preference):
            raise InputError(
                f"{self.prefer!r} is not a valid preference. Choose one of {', '.join(get_args(Preference))}."
            )

    def takes(self, status: CandidateStatus) -> bool:
        """Say whether a candidate may become a neighbor, before distances and n are applied."""
        if status.status not in self.include:
            return False
        if self.strategies and status.strategy not in self.strategies:
            return False
        return not self.models or status.model in self.models

    def to_json(self) -> dict[str, Any]:
        """Return the form stored in a version's spec."""
        return {key: list(v) if isinstance(v, tuple) else v for key, v in asdict(self).items()}


@dataclass(frozen=True)
class EligibleCandidate:
    """A candidate that may become a neighbor, with the data needed to choose among its siblings."""

    status: CandidateStatus
    text: str
    successes: Successes | None


def choose(
    question: str, fitting: Sequence[EligibleCandidate], selection: Selection
) -> tuple[list[EligibleCandidate], int]:
    """Return up to n candidates in training order, and how many were too similar.

    By status, then by preferred difficulty, then greedily those furthest from the question and from the
    chosen ones; among equals the one proposed earlier.
    """
    chosen, too_like = choose_apart(
        wording(question),
        [wording(candidate.text) for candidate in fitting],
        [_rank(candidate, selection) for candidate in fitting],
        selection.n,
        selection.min_distance,
    )
    return [fitting[place] for place in chosen], too_like


def _rank(candidate: EligibleCandidate, selection: Selection) -> tuple[int, ...]:
    """Return a candidate's rank by status and preferred difficulty, lowest first."""
    status = selection.include.index(str(candidate.status.status))
    order = _ORDER[selection.prefer]
    if not order:
        return (status,)
    return status, order.index(candidate.successes and candidate.successes.difficulty)
