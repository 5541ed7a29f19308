"""Take the asking sentence apart into condition and core, and say where the condition may stand instead."""

from __future__ import annotations

import re
from dataclasses import dataclass

from rephraser.proposing.rules.mask import BLOCK, DISPLAY, FORMULA, INLINE, Masked

_CORE = (
    r"(?:what (?:is|are|was)|how many|in how many|for (?:what|which|how many)|find|compute|determine|"
    r"calculate|evaluate|simplify|express|expand|factor|solve|write)\b"
)
_LEAD = re.compile(rf"(.+?), (?:then )?({_CORE}.+)", re.I)
_KEYWORD = re.compile(r"(if|when|given that|assuming that|assuming|suppose that|suppose) (.+)", re.I)
_TRAIL = re.compile(r"(.+?),? (if|when|given that) (.+)")
_ANAPHOR = re.compile(
    r"\b(?:it|its|itself|he|him|his|she|her|hers|they|them|their|theirs|this|these|those|such|both|each|other|others|"
    r"another|same|remaining|resulting|result|respectively|then|one|ones|former|latter|here|there|also|instead|"
    r"we|you|I|my|your|our|above|following|original|new|rest|together|left|more|again|now|all)\b"
    r"|\bthat (?:is|are|was|were)\b(?<!such that is)",
    re.I,
)
_THE = re.compile(r"\b(?:the|that)((?: [a-z-]+){1,4})", re.I)
_INTRODUCED = re.compile(
    r"(?<!is )(?<!are )(?<!be )(?<!not )(?<!represents )(?<!denotes )(?<!as )"
    r"\b(?:an?|two|three|four|five|six|several|some|every|any|no)"
    r" [a-z]",
    re.I,
)
_RELATIVE = re.compile(r"\b(?:that|which|who|whose|where|such|for which|if|when|given)\b")
_SMALL = frozenset(
    [
        "the",
        "of",
        "a",
        "an",
        "and",
        "or",
        "in",
        "on",
        "to",
        "is",
        "are",
        "that",
        "for",
        "with",
        "by",
        "at",
        "as",
        "from",
        "value",
        "number",
        "sum",
    ]
)
_SUPPOSED = re.compile(r"(Let|Suppose|Suppose that|Assume|Assume that) ((?!that ).+)", re.S)
_RELATION = re.compile(r"=|<|>|\\(?:le|ge|ne|equiv|leq|geq|neq|lt|gt)(?![A-Za-z])")


@dataclass(frozen=True)
class Ask:
    """The asking sentence: core (lower case start), optional condition with its keyword, and where it stands.

    `place` is "front", "back" or "none"; `prefix` is a fixed opening such as "in the figure".
    """

    core: str
    keyword: str = ""
    condition: str = ""
    place: str = "none"
    prefix: str = ""


def parse(sentence: str) -> Ask | None:
    """Condition and core of an asking sentence (masked, with its end mark); None for several cores."""
    text = re.sub(r"[.?!:]$", "", sentence).strip()
    if re.search(r"[.?!] |[\"“”]", text) or text[:1].islower():  # the rest of a sentence cut by a table
        return None
    if re.match(_CORE, text, re.I):
        core = text[0].lower() + text[1:]
        trail = _TRAIL.fullmatch(core)
        if (
            trail
            and not re.search(r" (?:if|when|given that) ", trail[3])
            and movable_to_front(trail[1], trail[3])
        ):
            return Ask(trail[1], trail[2], trail[3], "back")
        return Ask(core)
    lead = _LEAD.fullmatch(text)
    if lead is None or re.search(rf", (?:then |and )?{_CORE}", lead[2]):
        return None
    core = lead[2][0].lower() + lead[2][1:]
    said = _KEYWORD.fullmatch(lead[1])
    if said is None:
        return None if lead[1].startswith("Let ") else Ask(core, prefix=lead[1])
    keyword = said[1].lower()
    return Ask(core, "if" if keyword.startswith("suppose") else keyword, said[2], "front")


def movable_to_front(core: str, condition: str) -> bool:
    """Whether "core if condition" also reads "if condition, core"."""
    return (
        re.match(rf"(?:{FORMULA}|the |an? |[A-Z])", condition) is not None
        and not _ANAPHOR.search(condition)
        and not _RELATIVE.search(core)
        and not _shares_definite(condition, core)
        and re.search(rf" (?:is|are|has|have|[a-z]+s)\b|{FORMULA}", condition) is not None
    )


def movable_to_back(core: str, condition: str, *, question: bool) -> bool:
    """Whether "if condition, core" also reads "core if condition", with no word pointing at what follows."""
    return (
        not _ANAPHOR.search(core)
        and not re.search(r"\b(?:if|when|given|where|for which|assuming|express|terms of)\b|: |, ", core)
        and re.search(FORMULA, core) is not None
        and not (question and re.search(rf"[{DISPLAY}]$", condition))
        and not _INTRODUCED.search(condition)
        and not _shares_definite(core, condition)
        and not re.search(rf"[{BLOCK};:]|\bthen\b|\bbut\b", condition)
        and len(core.split()) <= 25
    )


def is_formulas(condition: str, masked: Masked) -> list[str]:
    """The formulas of a condition that is nothing but a list of relations ("A, B, and C"); else []."""
    if not re.fullmatch(rf"{FORMULA}(?:(?:,| and|, and) {FORMULA})*", condition):
        return []
    chars = re.findall(FORMULA, condition)
    return chars if all(_RELATION.search(masked.formula(char)) for char in chars) else []


def fact_as_condition(fact: str, core: str, masked: Masked) -> tuple[str, str] | None:
    """(condition, rule) for a fact that may become "if condition, core"; None where none is safe."""
    text = fact.rstrip(".")
    if not fact.endswith(".") or re.search(r"[.?!:;\"“”()]|--|\bbut\b", text) or len(text.split()) > 32:
        return None
    if re.match(_SUPPOSED, text):
        said = as_statement(text, masked)
        if said is None or not re.match(rf"{FORMULA}|the |an? |we ", said) or _names_only(core, text, masked):
            return None
        return said, "let_to_if" if text.startswith("Let") else "suppose_to_if"
    if not re.match(rf"(?:The|An?) [a-z]|[{INLINE}] ", text) or _ANAPHOR.search(text):
        return None
    if not re.search(r" (?:is|are|has|have|satisfy|satisfies|contains) ", text) or re.search(
        r", (?!and\b)|\b(?:was|were|will|can|did|had|let|but|so|if|when|while|because|shown|called|known)\b",
        text,
    ):
        return None
    start = text if re.match(f"[{INLINE}]", text) else text[0].lower() + text[1:]
    return start, "fact_to_condition"


def as_statement(fact: str, masked: Masked) -> str | None:
    """ "Let x be A" or "Suppose that x is A" -> "x is A"; other statements stay; None if clumsy."""
    if re.match(r"(?:Define|Consider|Note|Recall|Imagine|Call|Denote|Draw|Given)\b", fact):
        return None
    supposed = re.fullmatch(_SUPPOSED, fact)
    if supposed is None:
        return fact
    rest = supposed[2]
    if not fact.startswith("Let"):
        return rest
    lone = re.match(rf"({FORMULA})(?:\.?$|, where )", rest)
    if is_formulas(rest.rstrip("."), masked) or (lone and _RELATION.search(masked.formula(lone[1]))):
        return rest
    defined = re.fullmatch(rf"((?:[{INLINE}],? (?:and )?)+)be (.+)", rest)
    if defined is None or (be := _be(defined[1], defined[2], masked)) is None:
        return None
    return f"{defined[1].strip()} {be} {defined[2]}"


def as_where(fact: str, core: str, masked: Masked, *, question: bool) -> str | None:
    """ "Let x be A." with "find B" -> "x is A", for ", where x is A" behind the core; None if unsafe."""
    let = re.fullmatch(rf"Let ((?:[{INLINE}],? (?:and )?)+)be ([^:;]+)\.", fact)
    if (
        let is None
        or re.search(r"\b(?:where|if|when|such that|for which|given)\b|,", core)
        or _ANAPHOR.search(core)
    ):
        return None
    if (
        _ANAPHOR.search(let[2])
        or re.search(r"\bwhere\b", let[2])
        or (question and re.search(rf"[{DISPLAY}]$", let[2]))
        or _shares_definite(core, let[2])
        or _names_only(core, fact, masked)
        or (be := _be(let[1], let[2], masked)) is None
    ):
        return None
    return f"{let[1].strip()} {be} {let[2]}"


def _names_only(core: str, fact: str, masked: Masked) -> bool:
    """Whether the core only asks for what the fact names ("Let N be A. Find N.")."""
    asked, named = re.findall(FORMULA, core), re.match(rf"Let ({FORMULA})", fact)
    return named is not None and len(asked) == 1 and masked.formula(asked[0]) == masked.formula(named[1])


def _be(names: str, what: str, masked: Masked) -> str | None:
    chars = re.findall(FORMULA, names)
    inside = masked.formula(chars[0]).strip()
    many = len(chars) > 1 or ("," in inside and not re.search(r"[(\[{]", inside))
    if re.search(r"\blet\b", what) or (many and len(chars) == 1 and re.match(r"an? ", what)):
        return None
    if re.match(r"(?:an?|the) ", what):
        return "are" if many else "is"
    return "are" if many and re.match(r"[a-z]", what) else None


def _shares_definite(earlier: str, later: str) -> bool:
    """Whether `earlier` says "the X" of an X that `later` (till now the first) speaks of."""
    known = {_stem(word) for word in re.findall(r"[a-z]{3,}", later.lower())} - _SMALL
    told = {_stem(w) for m in _THE.finditer(earlier) for w in m[1].split()} - _SMALL
    return bool(known & told)


def _stem(word: str) -> str:
    return word[:-1] if word.endswith("s") and len(word) > 3 else word
