"""The asking sentence: its condition, the forms it can be asked in, and where the condition may stand."""

from __future__ import annotations

import re
from dataclasses import dataclass

from rephraser.proposing.rules.mask import BLOCK, DISPLAY, FORMULA

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
_SMALL = {
    "the", "of", "a", "an", "and", "or", "in", "on", "to", "is", "are", "that", "for", "with", "by", "at",
    "as", "from", "value", "number", "sum",
}  # fmt: skip
_COMPOUND = re.compile(
    r"\b(?:and|then|or|by) (?:then )?(?:find|determine|compute|express(?:ing)?|give|giving|writ(?:e|ing)|"
    r"enter|simplify|round|explain|state|what|how|which)\b|\bso that\b|[?;:]|\(s\)|\bwhat\b|"
    r"\bhow (?:many|much)\b"
    r"|, (?:express|giv|writ|round|simplif|if possible)"
)
_STOP = re.compile(
    rf" (?:of|such|that|which|for|in|with|to|between|when|where|if|from|on|at|whose|who|obtained|satisfying|"
    rf"less|greater|given|formed|so|than|through|by|as|after|containing|not)\b|{FORMULA}|[,(]"
)
_NOT_PLURAL = re.compile(
    r"(?:ss|us|sis|xis|ics)$|^(?:gcd's|its|this|plus|minus|times|modulus|class|yes|always|series|less)$"
)


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


@dataclass(frozen=True)
class Form:
    """One way to ask: text in lower case without end punctuation."""

    text: str
    is_question: bool


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
    clause = _KEYWORD.fullmatch(lead[1])
    if clause is None:
        return None if lead[1].startswith("Let ") else Ask(core, prefix=lead[1])
    keyword = clause[1].lower()
    return Ask(core, "if" if keyword.startswith("suppose") else keyword, clause[2], "front")


def forms(core: str) -> list[Form]:
    """The forms that ask what `core` asks (lower case, no end mark), the given one first; one if unknown."""
    own = Form(core, core.startswith(("what", "how many", "in how many", "for ")))
    if asked := re.fullmatch(r"what (?:is|are) (the .+)", core):
        phrase = asked[1]
        if _COMPOUND.search(phrase) or re.search(rf"(?:\bthe following|{FORMULA} equal to)$", phrase):
            return [own]
        return [own, Form(f"find {phrase}", False), *_how_many_of(phrase)]
    if asked := re.fullmatch(r"(?:find|compute|determine|calculate|evaluate) (the .+)", core):
        phrase = asked[1]
        plural = None if _COMPOUND.search(phrase) else is_plural(phrase)
        if plural is None:
            return [own]
        return [own, Form(f"what {'are' if plural else 'is'} {phrase}", True), *_how_many_of(phrase)]
    if asked := re.fullmatch(rf"(?:find|compute|calculate|evaluate) ({FORMULA})", core):
        return [own, Form(f"what is {asked[1]}", True)]
    counted = _counted(core)
    if counted is None or re.match(r"(?:more|fewer|less|times|of|such|additional|other)\b", counted):
        return [own]
    return [own, Form(f"find the number of {counted}", False), Form(f"what is the number of {counted}", True)]


def _counted(core: str) -> str | None:
    """What "how many A are there B" and "how many A does B have" count: "A B", "A that B has"."""
    if there := re.fullmatch(r"how many (.+?) are there\b(.*)", core):
        return f"{there[1]}{there[2]}"
    owned = re.fullmatch(r"how many (.+?) (does|do|did) (.+) have( .+)?", core)
    if owned is None or re.search(r" (?:to|that|who|which|does|do|did) ", f" {owned[3]}{owned[4] or ''} "):
        return None
    verb = {"does": "has", "do": "have", "did": "had"}[owned[2]]
    return f"{owned[1]} that {owned[3]} {verb}{owned[4] or ''}"


def is_plural(noun_phrase: str) -> bool | None:
    """Whether "the ..." takes "are"; None where the head noun cannot be told."""
    stop = _STOP.search(noun_phrase)
    head = noun_phrase[: stop.start()] if stop else noun_phrase
    words = head.split()
    if len(words) < 2 or " and " in head or " or " in head:
        return None
    last = words[-1].lower()
    if last in ("roots", "dice", "vertices", "foci", "radii", "matrices", "people", "children"):
        return True
    if last in ("greatest", "smallest", "largest", "least", "first", "all", "other", "real", "three", "two"):
        return None
    return last.endswith("s") and not _NOT_PLURAL.search(last)


def _how_many_of(phrase: str) -> list[Form]:
    """ "positive integers $n$ such that A" -> "how many positive integers $n$ are there such that A"."""
    number = re.fullmatch(r"the (?:total )?number of (.+)", phrase)
    if number is None:
        return []
    counted = number[1]
    split = re.search(
        r" (?:such that|for which|that|which|with|whose|between|less than|greater than|satisfying|in) ",
        counted,
    )
    head, rest = (counted[: split.start()], counted[split.start() :]) if split else (counted, "")
    noun = re.sub(rf" {FORMULA}$", "", head)
    if (
        not re.search(r"(?:[a-z]s|ways to .+)$", noun.split(" of ")[0])
        or len(head.split()) > 9
        or "," in head
    ):
        return []
    if to := re.fullmatch(r"((?:\w+ )?ways) (to .+)", counted):
        return [Form(f"how many {to[1]} are there {to[2]}", True)]
    return [] if " to " in head else [Form(f"how many {head} are there{rest}", True)]


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


def _shares_definite(earlier: str, later: str) -> bool:
    """Whether `earlier` says "the X" of an X that `later` (till now the first) speaks of."""
    mentioned = {_stem(word) for word in re.findall(r"[a-z]{3,}", later.lower())} - _SMALL
    named = {_stem(w) for m in _THE.finditer(earlier) for w in m[1].split()} - _SMALL
    return bool(mentioned & named)


def _stem(word: str) -> str:
    return word[:-1] if word.endswith("s") and len(word) > 3 else word
