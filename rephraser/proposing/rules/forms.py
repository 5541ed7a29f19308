"""Imperative and interrogative forms of the core of a question ("find the X", "what is the X")."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from rephraser.proposing.rules.mask import FORMULA, INLINE, Masked


@dataclass(frozen=True)
class Form:
    """One way to ask: text in lower case without end punctuation; `shape` tells forms of one kind apart."""

    text: str
    shape: str
    is_question: bool


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
_FINITE = re.compile(
    r" (are|have|satisfy|contain|divide|lie|can be|do not|cannot be|could be|will be|must be|differ|appear|"
    r"leave|make|belong|consist|begin|end|start|remain) "
)
_SUBJECT = rf"(?:[{INLINE}]|the (?:(?!of |and |in |on )[a-z-]+ ){{1,3}}{FORMULA})"
_WHO = r"(?:he|she|it|they|you|we|I|[A-Z][a-z]+)"
_VALUE_OF = re.compile(r"[,=<>]|\\begin|\\mathbf|\\overrightarrow|\\vec|\\in\b|\\text\{proj")


def forms(core: str, masked: Masked) -> list[Form]:
    """All forms that ask what `core` asks (lower case, no end mark), the given one first; [] if unknown."""
    for pattern, build in _BUILDERS:
        if match := pattern.fullmatch(core):
            return build(match, masked)
    return []


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
    if last in (
        "greatest",
        "smallest",
        "largest",
        "least",
        "first",
        "all",
        "other",
        "sum",
        "real",
        "three",
        "two",
    ):
        return None if last != "sum" else False
    return last.endswith("s") and not _NOT_PLURAL.search(last)


def _what(match: re.Match[str], masked: Masked) -> list[Form]:
    verb, phrase = match[1], match[2]
    if _COMPOUND.search(phrase) or not re.match(rf"the [a-z{INLINE}]|{FORMULA}", phrase):
        return []
    if re.search(rf"(?:\bthe following|{FORMULA} equal to)$", phrase):
        return []
    result = [Form(f"what {verb} {phrase}", "what", True), Form(f"find {phrase}", "imperative", False)]
    if counted := re.fullmatch(r"the (?:total )?number of (.+)", phrase):
        result += _how_many_of(counted[1])
    return result


def _imperative(match: re.Match[str], masked: Masked) -> list[Form]:
    verb, phrase = match[1], match[2]
    own = Form(f"{verb} {phrase}", "imperative", False)
    if _COMPOUND.search(phrase):
        return []
    if counted := re.fullmatch(r"the (?:total )?number of (.+)", phrase):
        return [own, Form(f"what is {phrase}", "what", True), *_how_many_of(counted[1])]
    if phrase.startswith("the "):
        plural = is_plural(phrase)
        return (
            [] if plural is None else [own, Form(f"what {'are' if plural else 'is'} {phrase}", "what", True)]
        )
    if every := re.fullmatch(rf"all (?:the )?((?:[a-z-]+ )*)({FORMULA}.*|[a-z-]+s\b.*)", phrase):
        return _all(own, every[1] + every[2], masked)
    if lone := re.fullmatch(
        rf"({FORMULA})(| (?:if|when|given that|in terms of|to the nearest|in degrees|modulo) .+)", phrase
    ):
        of = (
            "the value of "
            if not _VALUE_OF.search(masked.formula(lone[1])) and _numeric(verb, lone, masked)
            else ""
        )
        return [own, Form(f"what is {of}{phrase}", "what", True)]
    return []


def _numeric(verb: str, lone: re.Match[str], masked: Masked) -> bool:
    inside = masked.formula(lone[1])
    return verb in ("compute", "calculate", "evaluate") or re.fullmatch(r"\s*[a-z]\s*", inside) is not None


def _all(own: Form, phrase: str, masked: Masked) -> list[Form]:
    relation = re.fullmatch(
        rf"((?:[a-z-]+ )*?(?:numbers|integers|solutions|values of) {FORMULA}) "
        rf"(?:such that|that satisfy|satisfying) ({FORMULA})",
        phrase,
    )
    if relation and re.search(r"[=<>]|\\[lg]e", masked.formula(relation[2])) and "solutions" not in phrase:
        return [own, Form(f"which {relation[1]} satisfy {relation[2]}", "what", True)]
    stop = _STOP.search(phrase)
    head = phrase[: stop.start()] if stop else phrase
    if head.endswith("s") and " and " not in head:
        return [own, Form(f"what are all the {phrase}", "what", True)]
    return []


def _how_many_of(counted: str) -> list[Form]:
    """ "positive integers $n$ such that A" -> "how many positive integers $n$ are there such that A"."""
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
        return [Form(f"how many {to[1]} are there {to[2]}", "how many", True)]
    return [] if " to " in head else [Form(f"how many {head} are there{rest}", "how many", True)]


def _how_many(match: re.Match[str], masked: Masked) -> list[Form]:
    rest = match[1]
    own = Form(f"how many {rest}", "how many", True)
    if re.match(r"(?:more|fewer|less|times|are|is|such|additional|other)\b", rest) or re.search(
        r"[?;:]", rest
    ):
        return []
    number = rest if rest.startswith("of ") else ""
    if there := re.fullmatch(r"(.+?) are there\b(.*)", rest):
        if number:
            return []
        return [own, *_count(f"{there[1]}{there[2]}")]
    if have := re.fullmatch(r"(.+?) (does|do|did) (.+) have( .+)?", rest):
        verb = {"does": "has", "do": "have", "did": "had"}[have[2]]
        if not number and not re.search(
            r" (?:to|that|who|which)\b| (?:does|do|did) ", f" {have[3]}{have[4] or ''}"
        ):
            return [own, *_count(f"{have[1]} that {have[3]} {verb}{have[4] or ''}")]
        return []
    if who := re.fullmatch(rf"(.+?) (will|can|must|should|could|would|was|is) ({_WHO}) (.+)", rest):
        if _FINITE.search(f" {who[1]} "):
            return []
        return [own, Form(f"determine how many {who[1]} {who[3]} {who[2]} {who[4]}", "imperative", False)]
    finite = _FINITE.search(f"{rest} ")
    if not finite or re.search(
        r" (?:does|do|did|can|will|that|which|who|is|would|could) ", f" {rest[: finite.start()]} "
    ):
        return []
    if re.match(r"(?:he|she|it|they|you|we|I|needed|required)\b", rest[finite.end() :]):
        return []
    plain = [own, Form(f"determine how many {rest}", "imperative", False)]
    if number or finite.start() == 0 or not re.search(rf"s(?: {FORMULA})?$", rest[: finite.start()]):
        return plain
    noun, said = rest[: finite.start()], rest[finite.start() :]
    place = re.match(
        r" are (?=(?:in|between|on|at) )", said
    )  # "numbers between", not "numbers that are between"
    return [own, *_count(f"{noun} {said[place.end() :]}" if place else f"{noun} that{said}")]


def _count(counted: str) -> list[Form]:
    phrase = f"the number of {counted}"
    return [Form(f"find {phrase}", "imperative", False), Form(f"what is {phrase}", "what", True)]


def _ways(match: re.Match[str], masked: Masked) -> list[Form]:
    ways, subject, rest = match[2], match[3], match[4]
    own = Form(match[0], "how many", True)
    if re.search(r" (?:be|if|that|which|so) ", f" {subject} ") or _COMPOUND.search(f"{subject} {rest}"):
        return []
    return [own, *_count(f"{ways} in which {subject} can {rest}")]


def _for_what(match: re.Match[str], masked: Masked) -> list[Form]:
    which, verb, subject, rest = match[1], match[2], match[3], match[4]
    own = Form(match[0], "for what", True)
    if _COMPOUND.search(rest) or re.search(r"\bwhich\b", rest) or re.search(r"\bof the(?:se)?\b", which):
        return []
    if verb in ("does", "do"):
        if not (have := re.fullmatch(r"(have|equal|satisfy|divide|represent)( .+)", rest)):
            return []
        third = {
            "have": "has",
            "equal": "equals",
            "satisfy": "satisfies",
            "divide": "divides",
            "represent": "represents",
        }
        said = f"{subject} {third[have[1]] if verb == 'does' else have[1]}{have[2]}"
    else:
        said = f"{subject} {verb} {rest}"
    count = re.fullmatch(r"how many (.+)", which)
    if count:
        return [own, *_count(f"{count[1]} for which {said}")]
    name = re.sub(r"^(?:what|which) ", "", which)
    be = "are" if re.match(r"(?:\w+ )*values\b", name) else "is"
    return [
        own,
        Form(f"find the {name} for which {said}", "imperative", False),
        Form(f"what {be} the {name} for which {said}", "what", True),
    ]


def _express(match: re.Match[str], masked: Masked) -> list[Form]:
    what, how = match[2], match[3]
    own = Form(f"{match[1]} {what} {how}", "imperative", False)
    if _COMPOUND.search(how) or how.startswith("in the form"):
        return []
    return [own, Form(f"what is {what} expressed {how}", "what", True)]


def _named_result(match: re.Match[str], masked: Masked) -> list[Form]:
    verb, what, rest = match[1], match[2], match[3]
    if re.search(r"[=<>]", masked.formula(what[-1])):
        return []
    result = {"simplify": "simplified", "expand": "expanded", "factor": "factored"}[verb]
    where = re.match(r"|, where .+|\. .+", rest)
    if rest and not (where and where[0]):
        return []
    own = Form(match[0], "imperative", False)
    return [own, Form(f"what is the {result} form of {what}{rest}", "what", True)]


def _solve(match: re.Match[str], masked: Masked) -> list[Form]:
    own = Form(match[0], "solve", False)
    return [own, Form(f"solve {match[2]} for {match[1]}", "imperative", False)]


_Build = Callable[[re.Match[str], Masked], list[Form]]
_BUILDERS: list[tuple[re.Pattern[str], _Build]] = [
    (re.compile(r"what (is|are|was) (.+)"), _what),
    (
        re.compile(r"determine how many (.+)"),
        lambda m, _: [Form(m[0], "imperative", False), Form(m[0][10:], "how many", True)],
    ),
    (re.compile(r"(find|compute|determine|calculate|evaluate):? (.+)"), _imperative),
    (re.compile(rf"(express|write) (the (?:[a-z]+ ){{0,4}}{FORMULA}|{FORMULA}) ((?:as|in) .+)"), _express),
    (
        re.compile(rf"(simplify|expand|factor):? ({FORMULA}|the (?:[a-z]+ ){{1,3}}{FORMULA})(.*)"),
        _named_result,
    ),
    (re.compile(rf"solve for ({FORMULA}): (?:the [a-z]+ )?({FORMULA})"), _solve),
    (
        re.compile(
            r"(in )?how many ((?:\w+ )?ways) can (.+?) "
            r"(be [a-z]+ed\b.*|be (?:chosen|written|drawn|put|made|split)\b.*)"
        ),
        _ways,
    ),
    (
        re.compile(
            rf"for ((?:what|which|how many) (?:[a-z-]+ ){{0,4}}(?:{FORMULA}|\w+)) "
            rf"(is|are|does|do|will|can) ({_SUBJECT}) (.+)"
        ),
        _for_what,
    ),
    (re.compile(r"how many (.+)"), _how_many),
]
