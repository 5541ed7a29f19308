"""What changes around the question: the answer-format request, facts as a list, number words."""

from __future__ import annotations

import re

from rephraser.proposing.rules.mask import FORMULA

_WORDS = ["two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"]
_VALUE = {word: str(index + 2) for index, word in enumerate(_WORDS)}
_WORD = re.compile(r"\b(three|four|five|six|seven|eight|nine|ten|eleven|twelve)\b", re.I)
_WORD_BEFORE_NOUN = re.compile(
    r"(?<=[a-z,] )(three|four|five|six|seven|eight|nine|ten|eleven|twelve)(?= (?!digits|numbers)[a-z]{4,}s\b)"
)
_DIGIT = re.compile(r"(?<![\w.,/:%-])\d[\d.,/:]*(?<![.,:])(?![\w%/-])|\d")
_DIGIT_BEFORE_NOUN = re.compile(r"(?<=[a-z,] )([2-9]|1[0-2])(?= (?!digits|numbers)[a-z]{4,}s\b(?! of\b))")
_NOT_COUNTED = re.compile(
    r"\b(?:base|number|digits?|by|of|to|than|or|and|mod|modulo|times|plus|minus|is|are) \d"
)
_UNIT = re.compile(
    r"\d (?:inches|\w*meters|square|cubic|ounces|miles|hours|minutes|seconds|degrees|"
    r"cents|dollars|units|pounds|liters|grams|yards)\b"
)
_REQUEST = re.compile(
    r"(?:express|give|write|state) your answer (as an? [^.]+|in terms of [^.]+|in simplest [^.]+ form)\.",
    re.I,
)
_LEADS = (
    "Consider the following facts:",
    "The following is known:",
    "You are given the following:",
)


def joined_request(ask: str, request: str) -> str | None:
    """ "Find A." and "Express your answer as B." -> "Find A, and express your answer as B."; or None."""
    if not re.match(
        r"(?:Express|Give|Write|Round|Enter|State|Leave) your answer\b", request
    ) or not request.endswith("."):
        return None
    if not re.match(rf"[A-Z][a-z]+ (?:the|all|{FORMULA})", ask) or "," in ask or not ask.endswith("."):
        return None
    if re.search(r"\. |, (?:then|so)\b", request) or len(ask.split()) > 30:
        return None
    return f"{ask[:-1]}, and {request[0].lower()}{request[1:]}"


def leading_request(ask: str, request: str) -> str | None:
    """ "What is A?" and "Express your answer as B." -> "Expressed as B, what is A?"; or None."""
    found = _REQUEST.fullmatch(request)
    if (
        found is None
        or not re.match(r"What (?:is|are) (?:the|all)", ask)
        or len(found[1].split()) > 6
        or "," in found[1]
    ):
        return None
    how = found[1] if found[1].startswith("in ") else f"expressed {found[1]}"
    return f"{how[0].upper()}{how[1:]}, {ask[0].lower()}{ask[1:]}"


def listed(facts: list[str | None], pick: int) -> str | None:
    """Two to six facts as a list with a heading; None where a fact leans on its neighbor's words."""
    if not 2 <= len(facts) <= 6:
        return None
    whole = [fact for fact in facts if fact is not None]
    if len(whole) < len(facts):
        return None
    for fact in whole:
        if (
            not fact.endswith(".") or len(fact.split()) < 3 or fact[0].isdigit()
        ):  # "- 8 cats" reads as minus 8
            return None
        if re.match(
            r"(?:However|Meanwhile|Finally|But|Then|And|Also|So|Thus|For example|"
            r"Instead|Now|Note|Recall|Next|Or|Here)\b",
            fact,
        ):
            return None
        if re.search(r"[\"“”:`]|\bfor example\b|\bbelow\b|\bfollowing\b|\bshown\b", fact):
            return None
    return "\n".join([_LEADS[pick % len(_LEADS)], *(f"- {fact[0].upper()}{fact[1:]}" for fact in whole)])


def listed_formulas(formulas: list[str], pick: int) -> str | None:
    """Relations as a list with a heading; None for fewer than two."""
    if len(formulas) < 2:
        return None
    return "\n".join([_LEADS[pick % len(_LEADS)], *(f"- {formula}" for formula in formulas)])


def respell_numbers(text: str) -> tuple[str, str] | None:
    """(text, rule) with every small count written the other way; None where only some could be."""
    words = _WORD.findall(text)
    if words:
        if len(_WORD_BEFORE_NOUN.findall(text)) != len(words) or re.search(r"\btwo\b", text, re.I):
            return None
        return _WORD_BEFORE_NOUN.sub(lambda m: _VALUE[m[0]], text), "digits"
    digits = _DIGIT.findall(text)
    counted = _DIGIT_BEFORE_NOUN.findall(text)
    if not digits or len(counted) != len(digits) or _NOT_COUNTED.search(text) or _UNIT.search(text):
        return None
    return _DIGIT_BEFORE_NOUN.sub(lambda m: _WORDS[int(m[0]) - 2], text), "number_words"
