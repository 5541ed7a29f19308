"""A candidate must not tell the answer or begin to solve."""

from __future__ import annotations

import re

from rephraser.checks.finding import Finding
from rephraser.checks.formulas import FormulaFacts
from rephraser.checks.numbers import NumberFacts
from rephraser.checks.reading.latex import is_number, tokenize

_TELLS = re.compile(
    r"\b(?:the|its|our|final|correct)\s+(?:final\s+|correct\s+|numerical\s+)?(?:answer|solution|"
    r"result)\s*(?:is|=|:|equals|would be|"
    r"must be|turns out to be)\s*(?!what\b|asked\b|to be\b|requested\b|required\b|expressed\b|in\b|an?\b|"
    r"given\b|not\b|unique\b|of\b|"
    r"the\b|written\b|desired\b|needed\b|represented\b|of the form\b|rounded\b)\S|"
    r"^[ \t]*final\s+answer\s*:|\banswer\s*:\s*(?!an?\b|as\b|in\b|the\b|"
    r"(?:common|simplified|exact|decimal|ordered|simplest|lowest)\b|(?:round|give|express|write|list|enter))\S",
    re.IGNORECASE | re.MULTILINE,
)
_VALUE = re.compile(r"\s*(\$[^$]+\$|-?\d[\d,]*(?:\.\d+)?(?![\w/]))")
_SOLVES: dict[str, re.Pattern[str]] = {
    "a boxed result": re.compile(r"\\boxed\s*\{|\\fbox\s*\{"),
    "numbered steps": re.compile(r"\bstep\s*(?:1|one)\s*[:.)]|\bstep[- ]by[- ]step\b", re.IGNORECASE),
    "the word solution": re.compile(
        r"^[ \t]*(?:\*\*)?(?:solution|explanation|proof|hint|reasoning)(?:\*\*)?\s*[:.]",
        re.IGNORECASE | re.MULTILINE
    ),
    "a conclusion": re.compile(
        r"\b(?:therefore|thus|hence|so|consequently),?\s+(?:the\s+(?:final\s+)?(?:answer|result|solution)\b|we\s+(?:get|have|find|"
        r"obtain|conclude)|\$(?P<formula>[^$]+)\$|it\s+follows|\w{1,2}\s*=|\w+\s+(?:has|is|are|equals|gives)\s+[-\d§$¤]\S*\s*[.!]?\s*$)",
        re.IGNORECASE | re.MULTILINE,
    ),
    "a step of a solution": re.compile(
        r"\b(?:we (?:get|obtain|find that|can solve|first note|know that the answer|compute|simplify|"
        r"calculate|substitute)|which (?:gives us|simplifies to)\b|let(?:'s| us) (?:solve|start|first|"
        r"calculate|compute|find|begin)|to solve this|by the quadratic formula|"
        r"(?:both|the two) sides\b[^.?!]{0,40}\b(?:gives|yields))",
        re.IGNORECASE,
    ),
}  # fmt: skip


def check_solution(original: str, candidate: str) -> list[Finding]:
    """Findings solution_included and answer_leaked by phrases that a problem does not contain.

    A phrase that the original has too is no finding.
    """
    findings = []
    answers = [m for m in _TELLS.finditer(candidate) if not _intermediate(m, original)]
    if answers and not _TELLS.search(original):
        findings.append(Finding("answer_leaked", "the candidate says what the answer is"))
    for what, pattern in _SOLVES.items():
        if pattern.search(original):
            continue
        if any(not _in_original(match, original) for match in pattern.finditer(candidate)):
            findings.append(Finding("solution_included", f"the candidate contains {what}"))
            break
    return findings


def _intermediate(match: re.Match[str], original: str) -> bool:
    """'The result is $7$' tells no answer where the original has that 7 too, nor 'the result is even'."""
    if "answer" in match.group(0).lower() or "solution" in match.group(0).lower():
        return False
    start = match.end() - 1 if match.re is _TELLS else match.end()
    value = _VALUE.match(match.string, start)
    return value[1] in original if value else match.re is _TELLS


def _in_original(match: re.Match[str], original: str) -> bool:
    """'so $AB = CD$' concludes nothing where the original states that formula."""
    formula = match.groupdict().get("formula")
    if formula is None:
        return _intermediate(match, original)
    return _squeezed(formula) in _squeezed(original)


def _squeezed(text: str) -> str:
    return "".join(text.split()).rstrip(".,;")


def check_answer(
    answer: str,
    original: FormulaFacts,
    candidate: FormulaFacts,
    original_numbers: NumberFacts,
    candidate_numbers: NumberFacts,
) -> list[Finding]:
    """Finding answer_leaked: the candidate states the answer and the original does not.

    Integers below 13 are left out: counts and indices come in and out of a rephrasing. They are found as
    `number_added` where the original does not have them.
    """
    text = answer.strip().strip("$").strip()
    if not text or len(text) > 400:
        return []
    tokens = tokenize(text)
    words = [t for t in tokens if t not in {"°", "%", "¤", ";"}]
    if len(words) == 1 and is_number(words[0]):
        small = len(words[0]) < 2 or words[0] in {"10", "11", "12"}
        stated = candidate_numbers.has(words[0]) and _states(words[0], candidate_numbers)
        if stated and not small and not original_numbers.has(words[0]):
            return [Finding("answer_leaked", f"the candidate contains the answer {text}")]
        return []
    if len(tokens) < 3 or not any(is_number(t) or t.startswith("\\") for t in tokens):
        return []
    needle = f" {' '.join(tokens)} "
    if needle in candidate.flat and needle not in original.flat:
        return [Finding("answer_leaked", f"the candidate contains the answer {text}")]
    return []


def _states(digits: str, numbers: NumberFacts) -> bool:
    return any(str(n) == digits or f"{float(n):g}" == digits for n in numbers.stated if abs(n) < 10**12)
