r"""How problems are solved: four strategies written out as short chains of thought, right or wrong.

Each strategy has a planted mistake on about half of the (count, price) cells: there its product is 10 too
high or too low, whichever strategy makes the mistake. Which cells these are is a hash of the cell and the
strategy, so that strategies fail independently of each other and a policy can learn where.
"""

import hashlib
import random

from sandbox.phrasings import Phrasing
from sandbox.problems import Kind, WordProblem, answer
from sandbox.worlds import World

STRATEGIES = ("Multiply", "Add", "Split", "Direct")
"""A trace begins with the name of its strategy."""

MULTIPLY, ADD, SPLIT, DIRECT = range(len(STRATEGIES))
MISTAKEN_SHARE = 0.5
SLIP = 10


def has_mistake(problem: WordProblem, strategy: int) -> bool:
    """Return whether the strategy has a planted mistake on this problem's cell."""
    return _hash("mistake", problem, strategy) % 1000 < 1000 * MISTAKEN_SHARE


def slip(problem: WordProblem) -> int:
    """Return by how much the product is off where a mistake is made: 10 or -10, by the cell."""
    return SLIP if _hash("slip", problem, 0) % 2 else -SLIP


def dominant_strategy(problem: WordProblem, phrasing: Phrasing, world: World) -> int:
    """Return the place in `STRATEGIES` of the strategy that most traces of this question follow."""
    if world.chosen_by == "phrasing":
        return phrasing.dominant
    return _hash("cell", problem, 0) % len(STRATEGIES)


def write_trace(problem: WordProblem, strategy: int, *, wrong: bool = False) -> str:
    r"""Return the solution of the problem by this strategy, its answer in `\boxed{}`.

    A wrong one makes the strategy's slip in the product, whether or not it is planted on this cell.
    """
    n, p, f = problem.numbers
    off = slip(problem) if wrong else 0
    goods = n * p + off
    boxed = f"\\boxed{{{goods + f}}}"
    if strategy == MULTIPLY:
        steps = f"{n}*{p}={goods}, {goods}+{f}="
    elif strategy == ADD:
        steps = f"{_multiples(n, p, off)}+{f}="
    elif strategy == SPLIT:
        tens, ones = n * (p // 10 * 10) + off, n * (p % 10)
        steps = f"{tens}+{ones}={goods}, {goods}+{f}="
    else:
        steps = " "
    return f"{STRATEGIES[strategy]}:{steps}{boxed}"


def write_other_trace(problem: WordProblem, kind: Kind, *, wrong: bool = False) -> str:
    """Return a solution of one of the broken kinds of the problem; each has one strategy.

    A wrong one makes the slip in the product, where it has a product to find (not for `NOT_EACH`, `PRICE`).
    """
    n, p, f = problem.numbers
    off = slip(problem) if wrong else 0
    goods = n * p + off
    if kind is Kind.NO_CHARGE:
        return f"{STRATEGIES[MULTIPLY]}:{n}*{p}=\\boxed{{{goods}}}"
    if kind is Kind.DIFFERENCE:
        return f"{STRATEGIES[MULTIPLY]}:{n}*{p}={goods}, {goods}-{f}=\\boxed{{{goods - f}}}"
    boxed = f"\\boxed{{{answer(problem, kind)}}}"
    if kind is Kind.NOT_EACH:
        return f"{STRATEGIES[ADD]}:{p}+{f}={boxed}"
    return f"{STRATEGIES[SPLIT]}:{problem.total}-{f}={n * p}, {n * p}/{n}={boxed}"


def draw_strategy(problem: WordProblem, phrasing: Phrasing, world: World, draw: random.Random) -> int:
    """Draw the strategy of one trace."""
    dominant = dominant_strategy(problem, phrasing, world)
    if draw.random() < world.dominance:
        return dominant
    return draw.choice([other for other in range(len(STRATEGIES)) if other != dominant])


def draw_trace(problem: WordProblem, phrasing: Phrasing, world: World, draw: random.Random) -> str:
    """Draw one trace of the world for a question."""
    strategy = draw_strategy(problem, phrasing, world, draw)
    wrong = has_mistake(problem, strategy) and draw.random() < world.wrong_share
    return write_trace(problem, strategy, wrong=wrong)


def draw_other_trace(problem: WordProblem, kind: Kind, world: World, draw: random.Random) -> str:
    """Draw one trace of the world for a broken kind of problem: multiplication fails where it always does."""
    wrong = has_mistake(problem, MULTIPLY) and draw.random() < world.wrong_share
    return write_other_trace(problem, kind, wrong=wrong)


def _multiples(count: int, price: int, off: int) -> str:
    return ",".join(str(i * price + (off if i == count else 0)) for i in range(1, count + 1))


def _hash(about: str, problem: WordProblem, strategy: int) -> int:
    text = f"{about} {problem.count} {problem.price} {strategy}"
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big")
