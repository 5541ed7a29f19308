"""Pre-training data of a policy: a world's questions with traces, and some other problems."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sandbox.phrasings import PHRASINGS
from sandbox.problems import (
    CHARGES,
    COUNTS,
    HIGHEST,
    LOWEST,
    PRICES,
    Kind,
    WordProblem,
    draw_story,
    split_numbers,
)
from sandbox.traces import draw_other_trace, draw_trace
from sandbox.worlds import World

OTHER_SHARE = 0.2
"""Share of the examples that are broken kinds of problems, or have a price and a charge out of range.

Without them a policy would answer a broken question as if it were the usual one, and a comparison of answers
could not tell the two apart.
"""

_OTHERS = {Kind.NO_CHARGE: 2, Kind.NOT_EACH: 2, Kind.DIFFERENCE: 4, Kind.PRICE: 1, Kind.TOTAL: 3}
"""How often each is drawn; what the structural checks find anyway needs to be learnt least."""


@dataclass(frozen=True)
class Example:
    """A question and the response that the policy is to learn."""

    question: str
    response: str


def draw_examples(world: World, seed: int) -> Iterator[Example]:
    """Yield examples without end, the same ones for the same world and seed.

    None has the three numbers of a question that is reserved for training or evaluation.
    """
    draw = random.Random(f"{world.name} {seed}")
    reserved, numbers = split_numbers()
    forbidden = frozenset(reserved)
    while True:
        yield _other(world, draw, forbidden) if draw.random() < OTHER_SHARE else _usual(world, draw, numbers)


def _usual(world: World, draw: random.Random, numbers: Sequence[tuple[int, int, int]]) -> Example:
    problem = WordProblem(*draw.choice(numbers), draw_story(draw))
    phrasing = draw.choice(PHRASINGS)
    return Example(phrasing.text(problem), draw_trace(problem, phrasing, world, draw))


def _other(world: World, draw: random.Random, forbidden: frozenset[tuple[int, int, int]]) -> Example:
    kind = draw.choices(list(_OTHERS), list(_OTHERS.values()))[0]
    phrasing = draw.choice(PHRASINGS)
    while True:
        numbers = draw.choice(COUNTS), draw.randint(LOWEST, HIGHEST), draw.randint(LOWEST, HIGHEST)
        usual = numbers[1] in PRICES and numbers[2] in CHARGES
        if numbers not in forbidden and not (kind is Kind.TOTAL and usual):
            break
    problem = WordProblem(*numbers, draw_story(draw))
    if kind is Kind.TOTAL:
        return Example(phrasing.text(problem), draw_trace(problem, phrasing, world, draw))
    return Example(phrasing.text(problem, kind), draw_other_trace(problem, kind, world, draw))
