"""The worlds: how strongly a phrasing leads to a strategy, and how often strategies fail."""

from dataclasses import dataclass
from typing import Literal

from service.errors import InputError


@dataclass(frozen=True)
class World:
    """What the traces look like that a policy of this world is pre-trained on."""

    name: str  # a letter
    about: str  # one line for users
    dominance: float  # probability of the dominant strategy; the other three share the rest equally
    # the dominant strategy is set by the phrasing, or by the numbers ("cell", a control)
    chosen_by: Literal["phrasing", "cell"]
    wrong_share: float  # share of traces with the planted mistake, where a strategy has one


WORLDS: dict[str, World] = {
    world.name: world
    for world in (
        World("A", "the phrasing sets the strategy in 95% of traces", 0.95, "phrasing", 0.98),
        World("B", "the phrasing sets the strategy in 99.8% of traces", 0.998, "phrasing", 0.98),
        World("C", "a control: the numbers set the strategy, the phrasing does not", 0.95, "cell", 0.98),
        World("D", "as A, but in 98% of traces, with more room at pass@32", 0.98, "phrasing", 0.98),
        World("E", "as A, but with planted mistakes in 90% of traces, not 98%", 0.95, "phrasing", 0.90),
    )
}


def find_world(name: str) -> World:
    """Return the world of this name, in either case."""
    world = WORLDS.get(name.upper())
    if world is None:
        raise InputError(f"there is no world {name!r}. Choose from {', '.join(WORLDS)}.")
    return world
