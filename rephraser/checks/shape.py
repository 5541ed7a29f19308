"""The outer shape of a candidate: whole, not too long, with its figures and options, and without chatter."""

import re
import unicodedata

from rephraser.checks.finding import CheckOptions, Finding
from rephraser.checks.reading import FIGURE
from service.questions.images import PLACEHOLDER, count_placeholders

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
    elif (count := estimate_tokens(candidate)) > options.token_limit:
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


_REWRITE = (
    r"(?:problem|question|prompt|version|variant|rewrite|rephrasing|sentence|text|statement|paragraph)s?"
)
_CHATTER = re.compile(
    r"^\W{0,4}(?:rephras\w*|re-?worded|rewritten|re-?stated|paraphras\w*|reformulat\w*)\b"
    rf"(?:[^.?!\n]{{0,40}}?\b{_REWRITE}\b[^.?!\n:]{{0,20}}|\W{{0,4}}\d{{0,2}}\W{{0,4}})(?::|\n)"
    r"|\A\W{0,4}(?:new|modified|alternative|variant|version|candidate|output|response|transformed|perturbed|"
    rf"assistant|user)\b[^.?!\n]{{0,40}}?\b{_REWRITE}\b[^.?!\n:]{{0,20}}(?::|\n)"
    r"|\A\W{0,4}(?:version|candidate|variant|output|response|assistant|user)\s?\d{0,2}\W{0,3}:(?!\W{0,5}\d)"
    r"|^\W{0,4}(?:response|assistant)\W{0,3}:(?!\W{0,5}\d)|^#{1,4}\s?user\W{0,3}:"
    r"|^\W{0,4}(?:sure|certainly|of course|absolutely|okay|ok|great(?=[ \t]*[!,.:]))\b[^.?!\n]{0,80}"
    r"[:!.,]|^\W{0,4}here you (?:go|are)\b"
    r"|^\W{0,4}(?:here(?:'s| is| are|’s))\b[^.?!\n]{0,60}\b(?:rephras\w*|version|question|problem|"
    r"rewrit\w*|re-?word\w*|paraphras\w*|re-?stat\w*|candidate|alternative|reformulat\w*)\b"
    r"|\brephras(?:ed|ing|e)\b[^.?!\n]{0,40}\b(?:question|problem|version|above|original)\b"
    r"|\b(?:original|above) (?:question|problem)\b|\bas an ai\b|\blanguage model\b|"
    r"\bi (?:cannot|can't|can’t|am unable to|won't)\s(?:\w+\s)?(?:help|assist|rephrase|rewrite|reword|comply|"
    r"fulfil\w*|(?:provide|generate|create)\s(?:\w+\s){0,2}(?:re-?phras|paraphras|re-?writ)\w*"
    r"|(?:provide|answer|do|solve|change)\s(?:this|that|the|it|your|any))\b|"
    r"\bi'm (?:sorry|unable|happy)\b|\blet me know\b|\bi hope this\b|"
    r"\bnote:[^.\n]{0,80}\b(?:i|rephras\w*|original|wording|re-?worded|rewritten|unchanged|version|meaning)\b|"
    r"</?(?:question|answer|think|rephrased?)>|```|\bstrategy \d|\bthis (?:version|rephrasing)\b",
    re.IGNORECASE | re.MULTILINE,
)
MARKUP = re.compile(
    r"(?:<|&lt;)\s{0,9}(?P<end>[/\\]?)\s{0,9}(?:rephras|rewrit)(?P<word>[a-z]{0,12})"
    r"(?:[\s_\d:=-][^<>&\n]{0,80})?(?:>|&gt;)"
    r"|\[\s{0,9}(?P<bracket_end>[/\\]?)\s{0,9}(?:rephras|rewrit)(?P<bracket_word>[a-z]{0,12})[\s_\d]{0,9}\]",
    re.IGNORECASE,
)
"""Tags that models write around a rewrite, asked for or not."""
_LABEL = re.compile(r"\A\W{0,4}(?:question|problem|q)\s*\d*\s*[:.]\s", re.IGNORECASE)


def check_chatter(original: str, candidate: str) -> list[Finding]:
    """Return finding prompt_chatter, unless the original has the same kind of text."""
    for pattern in (_CHATTER, MARKUP, _LABEL):
        if (match := pattern.search(candidate)) and not pattern.search(original):
            return [Finding("prompt_chatter", f"the candidate contains '{match.group().strip()[:40]}'")]
    return []


_OPTION = re.compile(
    r"\\(?:textbf|mathbf|text|mathrm|mathsf)\s*\{\s*(?:\(\s*([A-H])\s*\)?|([A-H])\s*[).:])\s*\}|\(([A-H])\)|"
    r"(?:^|(?<=\s))([A-H])[.):](?=\s)",
    re.MULTILINE,
)


def check_figures(original: str, candidate: str) -> list[Finding]:
    """Return finding figure_missing."""
    before, after = (sum(1 for _ in FIGURE.finditer(text)) for text in (original, candidate))
    if after < before:
        return [Finding("figure_missing", f"{before - after} of {before} figures are missing")]
    return []


def check_images(original: str, candidate: str) -> list[Finding]:
    """Return findings image_missing and image_added. Swapped images are not seen."""
    before, after = count_placeholders(original), count_placeholders(candidate)
    if after == before:
        return []
    name = "image_missing" if after < before else "image_added"
    return [Finding(name, f"{after} {PLACEHOLDER} for {before} of the original")]


def options_of(text: str) -> str:
    """Return the letters of the answer options: the longest run from A that is certainly a list.

    Two of "A." may end sentences about a point A; three in a row, or two of "(A)", are options.
    """
    best, run, in_brackets = "", "", False
    for match in _OPTION.finditer(FIGURE.sub(" ", text)):
        letter = match[match.lastindex or 0]
        run = run + letter if letter == chr(ord("A") + len(run)) else "A" * (letter == "A")
        if len(run) > len(best):
            best, in_brackets = run, match.lastindex != 4
    return best if len(best) >= (2 if in_brackets else 3) else ""


def check_options(original: str, candidate: str) -> list[Finding]:
    """Return finding options_missing."""
    missing = options_of(original).removeprefix(options_of(candidate))
    if missing:
        return [Finding("options_missing", f"the answer options {', '.join(missing)} are missing")]
    return []
