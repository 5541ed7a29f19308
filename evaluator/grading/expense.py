"""Tells from the text of an answer that comparing it may take long. Pure; a hint, never a verdict."""

import re

_LONG = 400
_DEEP = 16
_EXPENSIVE = re.compile(
    r"\\(?:int|iint|oint|sum|prod|lim)(?![A-Za-z])"
    r"|\\(?:binom|choose)(?![A-Za-z]).{0,60}(?:\d{3}|\^)"
    r"|\d{60}"  # a long number
    r"|\^ ?\{[^{}]{0,40}[\^!]|\^ ?\w ?[\^!]"  # a tower of powers
    r"|\^ ?\{? ?\d{4}|\d{4} ?\)? ?\^ ?\{?\d{3}"  # a large power
    r"|\)\^ ?\{? ?\d{2}"  # a power that multiplies out into many terms
    r"|\^[^!]{1,20}\) ?!|\d{3} ?\)? ?!|! ?\)? ?!"  # a large factorial, a factorial of a factorial
)


def looks_expensive(text: str) -> bool:
    """True for long or deeply nested texts, integrals and sums, towers of powers and large factorials."""
    if len(text) > _LONG:
        return True
    depth = deepest = 0
    for char in text:
        if char in "({[":
            depth += 1
            deepest = max(deepest, depth)
        elif char in ")}]":
            depth -= 1
    return deepest > _DEEP or _EXPENSIVE.search(text) is not None
