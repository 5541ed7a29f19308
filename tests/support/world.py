"""A small world behind the test server: a proposer and a solver that answer as models do, errors included.

Questions are sums in a sentence. The proposer says them in other words, sometimes refuses, echoes, answers
with less than asked, or changes the problem in a way that only answers can show. The solver adds the numbers
it reads and is wrong in a share of cases. All of it depends on the text and the seed alone.
"""

import hashlib
import json
import re
from collections.abc import Sequence
from typing import Any

NAMES = ("Ada", "Ben", "Cleo", "Dan", "Eva", "Finn", "Gina", "Hugo")
THINGS = ("apples", "pencils", "marbles", "stamps", "shells")

PHRASINGS = (
    "{name} has ${a}$ {things}. After {name} gets ${b}$ more {things}, how many {things} does {name} have?",
    "How many {things} does {name} have after getting ${b}$ more {things}, starting with ${a}$ {things}?",
    "Starting with ${a}$ {things}, {name} gets ${b}$ more {things}. How many {things} does {name} have?",
    "Find the number of {things} that {name} has if {name} had ${a}$ {things} and gets ${b}$ more {things}.",
    "{name} gets ${b}$ more {things} and already had ${a}$ {things}. How many {things} does {name} have?",
)
# The same numbers and words, another problem: only comparing answers can show it.
BROKEN = (
    "{name} had ${a}$ {things} and gives away ${b}$ more {things} than {name} kept; how many {things} stay?"
)

_NUMBERS = re.compile(r"\$(\d+)\$")
_PROBLEM = re.compile(r"<problem>\n(.*?)\n</problem>", re.S)
_REWRITE = re.compile(r"<rewrite>\n(.*?)\n</rewrite>", re.S)
_COUNT = re.compile(r"Write (\d+) rewrites")


def questions(count: int) -> list[dict[str, str]]:
    """Return rows with question and answer; all differ."""
    rows = []
    for index in range(count):
        a, b = 11 + index, 5 + (index * 7) % 90
        parts = {"name": NAMES[index % 8], "things": THINGS[index % 5], "a": a, "b": b}
        text = "{name} has ${a}$ {things} and gets ${b}$ more {things}. How many {things} does {name} have?"
        rows.append({"question": text.format(**parts), "answer": str(a + b)})
    return rows


def drawn(*parts: object) -> float:
    """Return a number in [0, 1) that depends on the parts alone."""
    digest = hashlib.sha256("|".join(map(str, parts)).encode()).digest()
    return int.from_bytes(digest[:8], "big") / 2**64


def answer(messages: list[dict[str, Any]], n: int, seed: int | None) -> Sequence[str]:
    """Answer as a proposer to a problem in tags, on the premises of a rewrite, as a solver otherwise."""
    asked = str(messages[-1]["content"])
    rewrite = _REWRITE.search(asked)
    if rewrite:
        return [_premises(rewrite.group(1), seed) for _ in range(n)]
    problem = _PROBLEM.search(asked)
    if problem:
        return [_propose(problem.group(1), asked, seed) for _ in range(n)]
    return [_solve(asked, seed, place) for place in range(n)]


def _propose(problem: str, asked: str, seed: int | None) -> str:
    luck = drawn("propose", problem, seed)
    if luck < 0.05:
        return "I'm sorry, but I can't help with that."
    if luck < 0.10:
        return problem
    match = _COUNT.search(asked)
    count = int(match.group(1)) if match else 1
    a, b = _NUMBERS.findall(problem)[:2]
    name = next(name for name in NAMES if name in problem)
    things = next(things for things in THINGS if things in problem)
    order = sorted(range(len(PHRASINGS)), key=lambda k: drawn("order", problem, seed, k))
    texts = []
    for place, phrasing in enumerate(order[:count]):
        fate = drawn("fate", problem, seed, place)
        template = BROKEN if fate < 0.10 else PHRASINGS[phrasing]
        changed = str(int(b) + 1) if fate > 0.95 else b
        texts.append(template.format(name=name, things=things, a=a, b=changed))
    if luck > 0.9:
        texts = texts[:-1] or texts
    if "JSON" in asked:
        return json.dumps({"rephrasings": texts})
    return "\n".join(f"<rephrasing>{text}</rephrasing>" for text in texts)


def _premises(rewrite: str, seed: int | None) -> str:
    if drawn("premises", rewrite, seed) < 0.1:
        return "All of it is there."
    gets = "changed" if "gives away" in rewrite else "kept"
    return f"<kept>what there was before</kept>\n<{gets}>that more is got</{gets}>"


def _solve(asked: str, seed: int | None, place: int) -> str:
    a, b = (int(number) for number in _NUMBERS.findall(asked)[:2])
    right = a - b if "gives away" in asked else a + b
    luck = drawn("solve", asked, seed, place)
    value = right if luck < 0.8 else right + 1 if luck < 0.9 else right + int(luck * 1000) % 50
    return f"Adding carefully, the result is $\\boxed{{{value}}}$."
