"""A candidate must not state the answer or begin to solve."""

import re

from rephraser.checks.finding import Finding
from rephraser.checks.numbers import numbers_of
from rephraser.checks.wording import skeleton

_TELLS = re.compile(
    r"\b(?:the|its|our|final|correct) (?:final |correct |numerical )?(?:answer|solution) ?"
    r"(?:is|=|:|equals|would be|must be|turns out to be)\s*(?!(?:what|asked|to be|requested|required|"
    r"expressed|in|an?|given|not|unique|of|the|written|desired|needed|represented|rounded)\b)(?=\S)|"
    r"^[ \t]*final answer ?:|"
    r"\banswer ?:\s*(?!(?:an?|as|in|the|common|simplified|exact|decimal|ordered|simplest|lowest|round|give|"
    r"express|write|list|enter)\b)(?=\S)",
    re.IGNORECASE | re.MULTILINE,
)
_SOLVES = {
    "a boxed result": re.compile(r"\\(?:boxed|fbox)\s*\{"),
    "numbered steps": re.compile(r"\bstep\s*(?:1|one)\s*[:.)]|\bstep[- ]by[- ]step\b", re.IGNORECASE),
    "the word solution": re.compile(
        r"^[ \t]*(?:\*\*)?(?:solution|explanation|proof|hint|reasoning)(?:\*\*)?\s*[:.]",
        re.IGNORECASE | re.MULTILINE,
    ),
    "a conclusion": re.compile(
        r"\b(?:therefore|thus|hence|so|consequently),?\s+(?:the (?:final )?(?:answer|result|solution)\b|"
        r"we (?:get|have|find|obtain|conclude)\b|it follows|\$(?P<formula>[^$]+)\$|\w{1,2}\s*=)",
        re.IGNORECASE,
    ),
    "a step of a solution": re.compile(
        r"\b(?:we (?:get|obtain|find that|can solve|first note|compute|simplify|calculate|substitute)|"
        r"which (?:gives us|simplifies to)|let(?:'s| us) (?:solve|start|first|calculate|compute|find|begin)|"
        r"to solve this|by the quadratic formula|sides\b[^.?!]{0,40}\b(?:gives|yields))\b",
        re.IGNORECASE,
    ),
}
_LEAST_NUMBER = 13
"""Smaller numbers come into a rephrasing as counts and indices; then they are `number_added`."""


def check_solution(original: str, candidate: str) -> list[Finding]:
    """Return findings answer_leaked and solution_included by phrases that the original does not have."""
    findings = []
    if _TELLS.search(candidate) and not _TELLS.search(original):
        findings.append(Finding("answer_leaked", "the candidate says what the answer is"))
    for what, pattern in _SOLVES.items():
        if pattern.search(original):
            continue
        if any(_is_new(match.groupdict().get("formula"), original) for match in pattern.finditer(candidate)):
            findings.append(Finding("solution_included", f"the candidate contains {what}"))
            break
    return findings


def _is_new(formula: str | None, original: str) -> bool:
    """Return whether a conclusion is more than a formula that the original states."""
    return formula is None or "".join(formula.split()).rstrip(".,;") not in "".join(original.split())


def check_answer(answer: str, original: str, candidate: str) -> list[Finding]:
    """Return finding answer_leaked if the candidate states the gold answer and the original does not."""
    text, after, before = skeleton(answer), skeleton(candidate), skeleton(original)
    leaked = bool(text) and after.endswith(f"={text}") and f"={text}" not in before
    if re.fullmatch(r"-?[\d.,]+", text):
        new = numbers_of(answer).stated & numbers_of(candidate).stated - numbers_of(original).offered
        leaked |= any(number >= _LEAST_NUMBER or number.denominator > 1 for number in new)
    elif 3 <= len(text) <= 400 and re.search(r"[\d\\]", text):
        leaked |= text in after and text not in before
    return [Finding("answer_leaked", f"the candidate contains the answer {answer.strip()}")] if leaked else []
