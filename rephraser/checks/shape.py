"""The outer shape of a candidate: not empty, not too long, whole, clean, and nothing but the problem."""

from __future__ import annotations

import re
import unicodedata

from rephraser.checks.finding import CheckOptions, Finding, noticed
from rephraser.checks.text import Question

LONGEST_TEXT = 20_000
"""Texts with more characters are not compared; they are far beyond any prompt."""

_PIECE = re.compile(r"[A-Za-z]+|\d|[^\sA-Za-z\d]|\n")
_DANGLING = re.compile(
    r"(?:\b(?:the|a|an|of|and|or|to|in|with|is|are|by|for|that|from|if|than|as|at|on|its|their|which|"
    r"where|when|and the|"
    r"let|such|be|equal|between|into|per)|[,:;(=+*<]|-)\s*$",
    re.IGNORECASE,
)
_CHATTER = re.compile(
    r"^\W{0,4}(?:rephras\w*|re-?worded|rewritten|re-?stated|paraphras\w*|new|modified|alternative|variant|version|candidate|"
    r"output|response|reformulat\w*|transformed|perturbed|assistant|user)\b[^.?!\n]{0,60}?(?::|\n)"
    r"|^\W{0,4}(?:sure|certainly|of course|absolutely|okay|ok|great)\b[^.?!\n]{0,80}"
    r"[:!.,]|^\W{0,4}here you (?:go|are)\b"
    r"|^\W{0,4}(?:here(?:'s| is| are|’s))\b[^.?!\n]{0,60}\b(?:rephras\w*|version|question|problem|"
    r"rewrit\w*|re-?word\w*|paraphras\w*|re-?stat\w*|candidate|alternative|reformulat\w*)\b"
    r"|\brephras(?:ed|ing|e)\b[^.?!\n]{0,40}\b(?:question|problem|version|above|original)\b"
    r"|\b(?:original|above) (?:question|problem)\b|\bas an ai\b|\blanguage model\b|\bi (?:cannot|can't|"
    r"am unable|won't)\b|"
    r"\bi'm (?:sorry|unable|happy)\b|\blet me know\b|\bi hope this\b|"
    r"\bnote:[^.\n]{0,80}\b(?:i|rephras\w*|original|wording|re-?worded|rewritten|unchanged|version|meaning)\b|<\/?(?:question|answer|think|"
    r"rephrased?)>|```|"
    r"\bstrategy \d|\bthis (?:version|rephrasing)\b",
    re.IGNORECASE | re.MULTILINE,
)
_LABELLED = re.compile(r"^\W{0,4}(?:question|problem|q)\s*\d*\s*[:.]\s", re.IGNORECASE)
_WORDS = re.compile(r"[a-z]{2,}")
_BIDIRECTIONAL = {"\u200e", "\u200f", "\u202a", "\u202b", "\u202c", "\u202d", "\u202e", "\u2066", "\u2067",
"\u2068",
                  "\u2069", "\u200b", "\ufeff", "\ufffd"}  # fmt: skip


def estimate_tokens(text: str) -> int:
    """Tokens of `text`, estimated: a word counts one per six letters begun, every digit and sign one.

    Vocabularies of the Qwen and Llama kind split digits singly and keep most English words whole, so that the
    estimate is seldom too low on mathematics.
    """
    return sum(1 if len(piece) <= 6 else -(-len(piece) // 6) for piece in _PIECE.findall(text))


def check_length(original: Question, candidate: Question) -> list[Finding]:
    """Finding text_missing: of a longer original less than two fifths of the words are left.

    Among the real rephrasings measured (docs/structural-checks.md) none that keeps its problem comes near.
    """
    before, after = len(_WORDS.findall(original.reading)), len(_WORDS.findall(candidate.reading))
    if before >= 15 and after < 0.4 * before:
        return [noticed("text_missing", f"the candidate has {after} words, the original {before}")]
    return []


def check_shape(original: str, candidate: str, options: CheckOptions) -> list[Finding]:
    """Findings empty, too_long, truncated, control_characters and prompt_chatter."""
    if not any(c.isalnum() for c in candidate):
        return [noticed("empty", "the candidate has no words")]
    findings: list[Finding] = []
    if len(candidate) > LONGEST_TEXT or len(original) > LONGEST_TEXT:
        longer = max(len(candidate), len(original))
        findings.append(
            noticed("too_long", f"{longer} characters are more than the {LONGEST_TEXT} that can be compared")
        )
    else:
        count = (options.count_tokens or estimate_tokens)(candidate)
        if count > options.token_limit:
            findings.append(noticed("too_long", f"{count} tokens are more than {options.token_limit}"))
    control = _control(candidate) - _control(original)
    if control:
        shown = ", ".join(f"U+{ord(c):04X}" for c in sorted(control)[:5])
        findings.append(noticed("control_characters", f"the candidate contains {shown}"))
    where = _cut(original, candidate)
    if where:
        findings.append(noticed("truncated", where))
    chatter = _CHATTER.search(candidate[:20_000])
    if chatter and not _CHATTER.search(original[:20_000]):
        findings.append(
            noticed("prompt_chatter", f"'{chatter.group(0).strip()[:40]}' is not part of a problem")
        )
    elif _LABELLED.match(candidate) and not _LABELLED.match(original):
        findings.append(noticed("prompt_chatter", "the candidate begins with a label such as 'Question:'"))
    return findings


def _control(text: str) -> set[str]:
    return {
        c
        for c in set(text)
        if c in _BIDIRECTIONAL or (unicodedata.category(c) in {"Cc", "Cs"} and c not in "\n\r\t")
    }


def _cut(original: str, candidate: str) -> str:
    for what, measure in _BALANCE.items():
        if measure(candidate) and not measure(original):
            return what
    end = candidate.rstrip().rstrip("*_")
    if _DANGLING.search(end[-40:]) and not _DANGLING.search(original.rstrip()[-40:]):
        return "the candidate ends in the middle of a sentence"
    return ""


def _odd_dollars(text: str) -> bool:
    dollars = len(re.findall(r"(?<!\\)\$", text)) - len(
        re.findall(r"(?<![\\$])\$\d[\d,.]*(?=[\s.,?!]|$)(?![^$]*\$)", text)
    )
    # One dollar sign before a price is money; money is told apart only where formulas are marked too.
    return dollars % 2 == 1 and re.search(r"\$\s*[A-Za-z\\(]", text) is not None


def _open_braces(text: str) -> bool:
    return len(re.findall(r"(?<!\\)\{", text)) != len(re.findall(r"(?<!\\)\}", text))


def _open_environment(text: str) -> bool:
    return text.count("\\begin{") != text.count("\\end{") or text.count("[asy]") != text.count("[/asy]")


def _open_display(text: str) -> bool:
    opened = len(re.findall(r"(?<!\\)\\\[", text))
    return opened != len(re.findall(r"(?<!\\)\\\]", text)) or text.count("\\(") != text.count("\\)")


_BALANCE = {
    "a formula is left open (odd number of dollar signs)": _odd_dollars,
    "a brace is left open": _open_braces,
    "a \\begin or [asy] has no end": _open_environment,
    "a displayed formula is left open": _open_display,
}
