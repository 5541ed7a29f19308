"""Questions that ask for programs, and a model that rephrases and answers them, rightly or not."""

from collections.abc import Sequence
from typing import Any

import world

ROWS: list[dict[str, Any]] = [
    {
        "prompt": 'def shout(text):\n    """Return the text in capitals, with a mark behind it."""\n',
        "entry_point": "shout",
        "test": "def check(candidate):\n    assert candidate('no') == 'NO!'\n",
        "canonical_solution": "    return text.upper() + '!'\n",
    },
    {
        "prompt": "Write a function to add up the digits of a number.",
        "test_list": ["assert digits(123) == 6", "assert digits(0) == 0"],
        "code": "def digits(number):\n    return sum(map(int, str(number)))",
    },
]
_TEST = "\n\nThe code has to pass this test:\n\n    assert digits(123) == 6"
REWRITES = {
    "shout": [
        'def shout(text):\n    """Give what is said in upper case letters; an exclamation mark ends it."""',
        'def shout(text):\n    """Give what is said in lower case letters; an exclamation mark ends it."""',
        'def yell(text):\n    """Make capitals of all letters and let an exclamation mark follow."""',
    ],
    "digits": [
        "Which sum do the digits of a given number have? Write code that tells it." + _TEST,
        "Let code find out how many digits a given number has, all of them counted." + _TEST,
        "For a whole number, let a function `digits` find the sum that its digits have.",
    ],
}
_RIGHT = {
    "shout": "def shout(text):\n    return text.upper() + '!'",
    "digits": "def digits(number):\n    return sum(map(int, str(number)))",
}
_OTHER = {
    "lower": "def shout(text):\n    return text.lower() + '!'",
    "many": "def digits(n):\n    return len(str(n))",
}


def answer(messages: list[dict[str, Any]], n: int, seed: int | None) -> Sequence[str]:
    """Rephrase a problem in tags, else write programs; nine of ten do what is asked."""
    asked = str(messages[-1]["content"])
    name = "shout" if "(text)" in asked else "digits"
    if "<problem>" in asked:
        return ["\n".join(f"<rephrasing>{text}</rephrasing>" for text in REWRITES[name])] * n
    meant = next((source for word, source in _OTHER.items() if word in asked), _RIGHT[name])
    return [_program(meant, asked, seed, place) for place in range(n)]


def _program(source: str, asked: str, seed: int | None, place: int) -> str:
    luck = world.drawn("program", asked, seed, place)
    if luck > 0.9:
        source = source.replace("return ", "return not ")
    return f"This does it:\n```python\n{source}\n```" if luck > 0.05 else "I am sorry."
