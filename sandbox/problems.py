"""The problems: a count of things at a price, and an extra charge; their numbers, stories and answers.

The answer is count * price + charge. A problem can be broken in four ways into another one with the same
numbers or some of them, whose answer differs; `Kind` names these.
"""

import random
from dataclasses import dataclass
from enum import StrEnum
from itertools import product

COUNTS, PRICES, CHARGES = range(2, 7), range(11, 40), range(2, 31)
LOWEST, HIGHEST = 2, 39
"""Numbers of any problem, asked or broken, lie between these (the count in `COUNTS`)."""

NAMES = ("Tom", "Ada", "Ben", "Eva", "Max", "Lea", "Sam", "Mia")
ITEMS = ("pen", "book", "cup", "lamp", "hat", "plant", "chair", "ticket")
EXTRAS = ("delivery", "wrapping", "parking", "service")

SPLIT_SEED = 20260122
RESERVED = 1000
"""Problems that no policy is pre-trained on: training and held-out questions are drawn from them."""


class Kind(StrEnum):
    """What is asked about the numbers."""

    TOTAL = "total"  # the problem itself: count * price + charge
    NO_CHARGE = "no_charge"  # the charge is left out: count * price
    NOT_EACH = "not_each"  # the price is that of all things together: price + charge
    DIFFERENCE = "difference"  # how much more the things cost than the extra: count * price - charge
    PRICE = "price"  # reversed: the price from the total


@dataclass(frozen=True)
class Story:
    """Who buys what, and what the charge is for."""

    name: str
    item: str
    extra: str


@dataclass(frozen=True)
class WordProblem:
    """Three numbers and a story; amounts are whole dollars."""

    count: int
    price: int
    charge: int
    story: Story

    @property
    def numbers(self) -> tuple[int, int, int]:
        return self.count, self.price, self.charge

    @property
    def total(self) -> int:
        return self.count * self.price + self.charge


def answer(problem: WordProblem, kind: Kind = Kind.TOTAL) -> int:
    """Return the right answer; a difference may be negative."""
    goods = problem.count * problem.price
    return {
        Kind.TOTAL: goods + problem.charge,
        Kind.NO_CHARGE: goods,
        Kind.NOT_EACH: problem.price + problem.charge,
        Kind.DIFFERENCE: goods - problem.charge,
        Kind.PRICE: problem.price,
    }[kind]


def split_numbers() -> tuple[list[tuple[int, int, int]], list[tuple[int, int, int]]]:
    """Return the numbers reserved for questions and those for pre-training, always the same split."""
    numbers = list(product(COUNTS, PRICES, CHARGES))  # all 4,205
    random.Random(SPLIT_SEED).shuffle(numbers)
    return numbers[:RESERVED], numbers[RESERVED:]


def draw_story(draw: random.Random) -> Story:
    return Story(draw.choice(NAMES), draw.choice(ITEMS), draw.choice(EXTRAS))
