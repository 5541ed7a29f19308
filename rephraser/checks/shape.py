"""The outer shape of a candidate: not empty, not too long, whole, and without control characters."""

import re
import unicodedata

from rephraser.checks.finding import CheckOptions, Finding

LONGEST_TEXT = 20_000
"""Texts with more characters are not compared; they are far beyond any prompt."""

_PIECE = re.compile(r"[A-Za-z]+|\d|[^\sA-Za-z\d]|\n")
_DANGLING = re.compile(
    r"(?:\b(?:the|a|an|of|and|or|to|in|with|is|are|by|for|that|from|if|than|as|at|on|its|their|which|where|when|"
    r"let|such|be|equal|between|into|per)|[,:;(=+*<-])\s*$",
    re.IGNORECASE,
)
_BIDIRECTIONAL = frozenset(
    "\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200b\ufeff\ufffd"
)


def estimate_tokens(text: str) -> int:
    """Return the estimated tokens of a text: one per six letters of a word, one per digit and sign.

    Vocabularies of the Qwen and Llama kind split digits singly and keep most English words whole, so that the
    estimate is seldom too low on mathematics.
    """
    return sum(1 if len(piece) <= 6 else -(-len(piece) // 6) for piece in _PIECE.findall(text))


def check_shape(original: str, candidate: str, options: CheckOptions) -> list[Finding]:
    """Return findings empty, too_long, truncated and control_characters."""
    if not any(c.isalnum() for c in candidate):
        return [Finding("empty", "the candidate has no words")]
    findings: list[Finding] = []
    longer = max(len(candidate), len(original))
    if longer > LONGEST_TEXT:
        too_long = f"{longer} characters are more than the limit of {LONGEST_TEXT} for comparison"
        findings.append(Finding("too_long", too_long))
    elif (count := (options.count_tokens or estimate_tokens)(candidate)) > options.token_limit:
        too_long = f"{count} tokens are more than the limit of {options.token_limit}"
        findings.append(Finding("too_long", too_long))
    if control := _control_characters(candidate) - _control_characters(original):
        codes = ", ".join(f"U+{ord(c):04X}" for c in sorted(control)[:5])
        findings.append(Finding("control_characters", f"the candidate contains {codes}"))
    findings += [Finding("truncated", what) for what in _cut_off(candidate) - _cut_off(original)][:1]
    return findings


def _control_characters(text: str) -> set[str]:
    return {
        c
        for c in set(text)
        if c in _BIDIRECTIONAL or (unicodedata.category(c) in {"Cc", "Cs"} and c not in "\n\r\t")
    }


_DOLLAR = re.compile(r"(?<!\\)\$")
_PRICE_AT_END = re.compile(r"(?<![\\$])\$\d[\d,.]*(?=[\s.,?!]|$)(?![^$]*\$)")
_PAIRS = {
    "a brace is left open": (r"(?<!\\)\{", r"(?<!\\)\}"),
    "a displayed formula is left open": (r"(?<!\\)\\\[", r"(?<!\\)\\\]"),
    "a formula is left open": (r"(?<!\\)\\\(", r"(?<!\\)\\\)"),
    "a \\begin block has no end": (r"\\begin\{", r"\\end\{"),
    "an [asy] block has no end": (r"\[asy\]", r"\[/asy\]"),
}


def _cut_off(text: str) -> set[str]:
    """Return how a text is cut off: what it leaves open, and whether it ends within a sentence."""
    faults = {
        what
        for what, (opening, closing) in _PAIRS.items()
        if len(re.findall(opening, text)) != len(re.findall(closing, text))
    }
    dollars = len(_DOLLAR.findall(text)) - len(_PRICE_AT_END.findall(text))
    # In a text without marked formulas, dollar signs are money.
    if dollars % 2 == 1 and re.search(r"\$\s*[A-Za-z\\(]", text):
        faults.add("a formula is left open (odd number of dollar signs)")
    if _DANGLING.search(text.rstrip().rstrip("*_")[-40:]):
        faults.add("the candidate ends in the middle of a sentence")
    return faults
