r"""Finds the quantity or the word that a sentence states: `6` in "We need 6 vans for our 40 members". Pure.

A number in bold, just worked out, or after an equals sign comes first. A number that only limits the
statement ("in 3 days", "the 5 friends", "more than 2") is not what it is about.
"""

import re
from functools import lru_cache
from typing import NamedTuple

from evaluator.grading.quantity import FOREIGN, FOREIGN_NUMERAL, is_measure
from evaluator.grading.structure import NUMBER_WORDS

_CHUNK = re.compile(
    r"(?<!\\)\$\$?(?=\S)([^$]{0,2000}?[^\s$\\])\$\$?(?!\d)"
    r"|(?<!\\)\$ ([^$]{0,2000}?[\\=^_<>][^$]{0,2000}?) \$(?!\d)"
    r"|\\\((.{1,2000}?)\\\)|\\\[(.{1,2000}?)\\\]",
    re.DOTALL,
)
_LONGEST = 800  # characters of a sentence that are searched
_TEXT = re.compile(r"\\[A-Za-z]+ ?\{[^{}]*\}")
_LIST_GLUE = re.compile(r"\s*(?:,|;|,?\s*\b(?:and|or)\b)\s*", re.IGNORECASE)
_STRONG = re.compile(r"\*\*(?!\s)([^*]{1,200}?)\*\*(?!\*)|__(?!\s)([^_]{1,200}?)__")

# Mathematics in a sentence without dollar signs: `4√3`, `7 − 2i`, `[2, 5)`, `\frac{5}{36}`.
_SIGN = r"[-−–+±]?"
_DIGITS = (
    r"(?:\d{1,3}(?:,\d{3}(?!\d))+(?:\.\d+)?|[1-9]\d{0,2}(?:[ \u00a0\u2009\u202f]\d{3}(?!\d))+(?:\.\d+)?"
    r"|\d{1,2}:\d\d(?!\d)|\d+,\d{1,2}(?![\d.]*,?\d)|\d+(?:\.\d+)?|\.\d+)"
)
_MONEY = r"(?:\\?[$€£]\s?)"
_POWER = r"(?:[⁰¹²³⁴-⁹⁻]+|\^(?:\{[^{}]{1,20}\}|\(?[-−]?\w{1,6}\)?)|!|[₀-₉]+|<su[bp]>[^<]{1,12}</su[bp]>)"
_SYMBOLS = r"(?:[-−+±*/^√π∞\d.\s²³]|(?<![A-Za-z\\])[A-Za-z](?![A-Za-z])|\\[a-z]+){1,40}"
_BRACES = r"\{(?:[^{}]|\{(?:[^{}]|\{[^{}]*\})*\})*\}"
_LATEX = (
    r"(?:[-−\d.(\[]|\\[({]){0,20}"
    r"\\(?:[dtc]?frac|sqrt|pi|binom|left|log|ln|sin|cos|tan|infty|begin)(?![A-Za-z])"
    rf"(?:{_BRACES}|\\[A-Za-z]+ ?|[^\s{{}},;$*]|,(?=\S)|\s(?=[-+=<>^_\\])|(?<=[-+=<>])\s)*"
)
_ATOM = (
    rf"(?:{_LATEX}|{_DIGITS}(?:[eE][-+]?\d{{1,3}}(?!\w))?|[¼-¾⅐-⅞]"
    rf"|√\s?(?:{_DIGITS}|\([^()]{{1,40}}\)|[A-Za-zπ](?![a-z]))|√|[π∞]"
    rf"|[\[(]{_SYMBOLS}(?:,{_SYMBOLS}){{1,5}}[\])](?!\w)|\({_SYMBOLS}\)(?!\w)"
    rf"|\\?\{{{_SYMBOLS}(?:,{_SYMBOLS}){{0,9}}\\?\}}|[A-Za-z](?![A-Za-z'’]))"
)
_FACTOR = rf"{_ATOM}{_POWER}{{0,3}}"
_OPERATOR = r"(?:\s?[-−–+*/×·÷⋅^:±≤≥<>]\s?|\s[x]\s(?=\d)|(?=[√π(A-Za-z¼-¾⅐-⅞]))"
_EXPRESSION = re.compile(
    rf"(?<![\w.,\\/)^])(?<!\d[-−]){_SIGN}{_MONEY}?{_SIGN}{_FACTOR}"
    rf"(?:{_OPERATOR}{_SIGN}{_MONEY}?{_FACTOR}){{0,20}}"
    r"(?P<tail>\s?(?:\\?%|°|[Pp]er ?cent\b|[AaPp]\.?[Mm]\b\.?))?"
)
_NUMERIC = re.compile(r"[\d¼-¾⅐-⅞⁰²³⁴-⁹√π∞\\]|[A-Za-z]\s?[-−+*/×^]\s?[A-Za-z]")
_PLAIN = re.compile(_SIGN + _DIGITS)
_NAME = r"\\?[A-Za-z]{1,6}'*(?:_\w|_\{\w+\}|[₀-₉])?"
_NAME_ONLY = re.compile(rf"{_NAME}(?:\({_NAME}\))?|\({_NAME}(?:, ?{_NAME})*\)")

# Answers in words.
_OPTION = re.compile(r"\W{0,3}\(?[A-J]\)[\s:.]*[^\s,(]|[A-J][.:]\s+\S")
_ORDINAL = re.compile(r"(?<![\w.])(\d+)(?:st|nd|rd|th)\b")
_NUMBER_WORD = re.compile(
    rf"(?<!-)\b({'|'.join(sorted(NUMBER_WORDS.keys() - {'one'}, key=len, reverse=True))}"
    r"|(?<!each )(?<!every )(?<!any )(?<!the )one(?= (?!who|that|of|which|is|and|or)[a-z]))\b(?!-)",
    re.IGNORECASE,
)
_WORDS = re.compile(r"(?<![\\A-Za-z])[A-Za-z]{2,}")
_FOREIGN_LETTER = re.compile(f"[{FOREIGN}]")
_COUNTED = re.compile(rf" ?(?:{FOREIGN_NUMERAL})")
_NO_WORDS = frozenset(("and", "or", "sqrt", "pi", "ln", "log", "exp", "sin", "cos", "tan"))
"""An entry of a list of formulas typed without LaTeX: `sqrt(6)/3`."""
_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3})")
_VARIABLE = re.compile(r"(?<![\\A-Za-z])[A-Za-z](?![A-Za-z])")
_COMMAND = re.compile(r"\\[A-Za-z]{2,}")
_UNIT = re.compile(r"\s?\*{0,2}((?:square |sq\.? |cubic )?[A-Za-z]+\.?(?:\^?[23²³])?)")
_LEADING = re.compile(r"^(?:(?:so|thus|hence|therefore)(?:,\s*|\s+))+", re.IGNORECASE)

# Parts of a sentence that are not its statement: a reason, a condition, a remark in parentheses.
_REASON = re.compile(
    r"\s*(?:,\s*(?:which|where|since|because|as|not|rather than|while|assuming|instead|regardless)\b"
    r"(?!\s+(?:(?:is|are|equals?|equal to|was)\s+(?:[-\d$*√\\(]|sqrt|US\$)|give|yield|leave|make|total|"
    r"result|amount|come|mean))|(?<!and )(?<!but )\b(?:because|since|due to the fact)\b"
    r"|(?<=[\w)$*])(?<!\bso)(?<!\band)(?<!\bbut)(?<!\bthat)\s(?:when|if|where|given that|assuming)\b).*",
    re.IGNORECASE | re.DOTALL,
)
_REPLY = re.compile(r"(?:^|[,:] )(?:(?:so|thus|therefore|hence),? )?\**(yes|no)\**(?:, |$)", re.IGNORECASE)
_QUOTED = re.compile(r'["“]([^"“”]{1,40})["”]')
_REMARK = re.compile(r"(?<=[\w.,%*$]\s)\([^()]*[A-Za-z]{3}[^()]*\)")
_CONDITION = re.compile(
    r"^\W*(?:(?:so|thus|hence|therefore|then),?\s+)?(?:since|because|as|if|when|given|after|for|to|with|in|by|on|"
    r"at|before|over|during|based|out of|[a-z]+ing)\b"
    r"(?:[^,=]|,(?=\d))*,\s+",
    re.IGNORECASE,
)
_BEFORE_SO = re.compile(
    r".*[,;] (?:and )?(?:so|therefore|thus|hence|which means|meaning)\b(?! that)", re.IGNORECASE
)

# What stands before a number that only limits the statement: "in 3 days", "each of the 5", "his 2".
_LIMITS = re.compile(
    r"(?:\b(?:not|in|after|for|within|during|over|by|from|with|at|per|every|each|to|than|on|between|before|until|"
    r"among|under|above|below|when|if|given|through|across|into|out of|as|first|last|next|another|additional|"
    r"than the|compared to|instead of)"
    r"|\b(?:\d+|each|out|all|one|some|most|half|rest|none|both|any|third|quarter|%|percent|members?|people)"
    r" of(?: the)?|\b(?:the|these|those|its|his|her|their|all|both|your|my|our))\s[*$\\(]{0,4}$",
    re.IGNORECASE,
)
_NEGATED = re.compile(r"\bnot\s[*$\\(]{0,4}$", re.IGNORECASE)
_LEAD = re.compile(
    r"\W*(?:(?:so|thus|hence|therefore|consequently|then|and|but|in total|in conclusion|finally|overall|"
    r"altogether)(?:,\s*|\s+))*(?:[*_$\\(]{0,4})",
    re.IGNORECASE,
)
_ANCHOR = re.compile(
    r"(?:=|\b(?:is|are|was|were|equals?|be|becomes?|gives?|giving|gave|yields?|yielding|leaves|leaving|makes|"
    r"making|total(?:l?ing|s)?|results? in|resulted in|resulting in|amounts? to|comes? (?:out )?to|"
    r"simplifies to|(?:leaves?|leaving) \w+ with|(?:to )?(?:gets?|obtain)|or|"
    r"(?:total|sum|maximum|minimum|average|profit) of)\b)\s*"
    r"(?:(?:about|approximately|roughly|exactly|only|just|now|still|currently|simply|equal to|us|him|her|"
    r"them|at least|at most|(?:a|an|the)(?: \w+){0,3} of)\s+){0,2}(?:US)?[*$\\(]{0,4}$",
    re.IGNORECASE,
)
_RESULT = re.compile(rf"=\s*[*\\$({{]{{0,6}}({_SIGN}{_MONEY}?{_DIGITS})(?![\d.]*\s?[-+*/×·÷]\s?[\d$(])")
_GLUE = re.compile(
    rf"[*)\\]*(?:\s[a-z]{{2,20}}){{0,2}}(?:,? (?:and|or) |, )[*\\(]*(?:{_NAME}\s?=\s?)?", re.IGNORECASE
)


class _Part(NamedTuple):
    """A formula or number in a sentence."""

    start: int
    end: int
    text: str


def states_something(sentence: str) -> bool:
    """Return True for a number, a formula, something in bold or in quotation marks."""
    return bool(_parts(sentence[-_LONGEST:]) or strong_parts(sentence[-_LONGEST:]))


def is_option(text: str) -> bool:
    """Return True for a letter with the text of its option: `(D) 5^x = 2`, `B. three`."""
    return _OPTION.match(text) is not None


def strong_parts(sentence: str) -> list[str]:
    """Return what is set in bold or in quotation marks inside a sentence."""
    bold = [next(filter(None, match.groups())) for match in _STRONG.finditer(sentence)]
    return bold or _QUOTED.findall(sentence)


def stated(sentence: str, before: str = "") -> str:
    """Return the quantity or the word that a sentence states; `before` is the text before it.

    >>> stated("So the club needs 6 vans for its 40 members.")
    '6'
    >>> stated("12, which is even")
    '12'
    """
    sentence = _unwrapped(sentence.replace('\\"', '"'))
    if reply := _REPLY.search(sentence):
        return reply.group(1)
    without = _REMARK.sub("", sentence)
    without = without if _parts(without) else sentence
    short = _unwrapped(_REASON.sub("", without))
    for option in (short, *strong_parts(short)[-1:]):
        if is_option(option):
            return option
    if not short or not _parts(short):
        short = without
    if (whole := _whole(short)) is not None:
        return _value(whole)
    short = _main_clause(short[-_LONGEST:])
    ordinals = (_Part(match.start(), match.end(), match.group(1)) for match in _ORDINAL.finditer(short))
    parts = [part for part in _parts(short) or ordinals if not _NEGATED.search(short[: part.start])]
    if not parts:
        return _word(short)
    return _value(_listed(short, parts, _chosen(short, parts, before)))


def _value(text: str) -> str:
    """Return the last side of a calculation: `5` of `m + n = 2 + 3 = 5`, but `x^2 + y^2 = 5` is a circle."""
    sides = [side.strip() for side in re.split(r"(?<![<>!])=|≡|\\equiv(?![a-z])", text)]
    names = set(_VARIABLE.findall(_COMMAND.sub("", sides[0])))
    curve = bool(names) and names <= set("xyzr") and ("^" in sides[0] or len(names) > 1)
    named = _NAME_ONLY.fullmatch(sides[0]) is not None
    if (len(sides) == 2 and (curve or named)) or "," in _THOUSANDS.sub("", text):
        return text
    return text if _VARIABLE.search(_COMMAND.sub("", sides[-1])) else sides[-1]


def _main_clause(sentence: str) -> str:
    """Drop the premise or the condition before a sentence if a number is left."""
    for before in (_BEFORE_SO, _CONDITION):
        match = before.match(sentence)  # of a pattern with .* before it, `sub` would try every place in vain
        rest = sentence[match.end() :] if match is not None else sentence
        sentence = rest if _parts(rest) else sentence
    return sentence


def _unwrapped(text: str) -> str:
    """Drop the emphasis around all of a text, white space and closing signs."""
    text = text.strip().rstrip(".,;").strip()
    if not any(mark in text.strip("*_`") for mark in ("**", "__", "`")):
        text = text.strip("*_`")
    return text.strip().rstrip(".,;").strip()


def _whole(text: str) -> str | None:
    """Return a statement that is only an answer: formulas in a list, a number with its unit; else None."""
    if _FOREIGN_LETTER.search(text):
        return None
    chunks = formulas(text)
    if not chunks:
        words = [word for word in _WORDS.findall(text) if word.lower() not in _NO_WORDS]
        words = [word for word in words if not is_measure(word)]
        return text if len(words) <= (3 if _COMMAND.search(text) else 0) else None
    ends = [0, *(end for chunk in chunks for end in chunk.span()), len(text)]
    first, *between, last = [text[start:stop] for start, stop in zip(ends[::2], ends[1::2], strict=True)]
    if first.strip(" *") or not all(_LIST_GLUE.fullmatch(piece.replace("*", "")) for piece in between):
        return None
    contents, rest = ", ".join(map(_content, chunks)), last.strip(" *")
    if rest and (between or not re.fullmatch(r"[\w%]{1,20}", rest)):
        return None
    return f"{contents} {rest}".rstrip()


def formulas(text: str) -> list[re.Match[str]]:
    """Return what is between dollar signs or LaTeX's brackets, but not what is between two prices."""
    return [
        match
        for match in _CHUNK.finditer(text)
        if len(re.findall(r"(?<![\\A-Za-z{])[A-Za-z]{3,}", _TEXT.sub("", _content(match)))) < 3
    ]


def _content(chunk: re.Match[str]) -> str:
    return next(group for group in chunk.groups() if group is not None).strip(" \n\t,;")


@lru_cache(maxsize=8)  # each statement asks for its own again and again
def _parts(sentence: str) -> tuple[_Part, ...]:
    chunks = [_Part(match.start(), match.end(), _content(match)) for match in formulas(sentence)]
    parts = list(chunks)
    for match in _EXPRESSION.finditer(sentence):
        inside = any(match.start() < chunk.end and chunk.start < match.end() for chunk in chunks)
        text = match.group()[: match.start("tail") - match.start()] if match["tail"] else match.group()
        if inside or not _NUMERIC.search(text) or _glued(sentence, match):
            continue
        if (tail := (match["tail"] or "").strip().lower())[:1] in ("a", "p") and not tail.startswith("per"):
            text += f" {tail}"
        elif tail and tail != "°":
            text += r"\%"
        parts.append(_Part(match.start(), match.end(), text.strip()))
    parts.sort(key=lambda part: part.start)
    named = tuple(part for part in parts if not _NAME_ONLY.fullmatch(part.text))
    return named or tuple(parts)


def _glued(sentence: str, match: re.Match[str]) -> bool:
    """Return whether a number is part of a name or of a larger one: `P1`, `3D`, `5 млн`, but not `5cm`."""
    if _COUNTED.match(sentence, match.end()):
        return True
    tail = re.match(r"[A-Za-z]+", sentence[match.end() :])
    return tail is not None and match.group()[-1].isalnum() and not is_measure(tail.group())


def _chosen(sentence: str, parts: list[_Part], before: str) -> _Part:
    """Choose the stated part: in bold, after a verb of result, just worked out, or not only limiting."""
    strong = [match.span() for match in _STRONG.finditer(sentence)]
    parts = [part for part in parts if any(a <= part.start and part.end <= b for a, b in strong)] or parts
    for part in reversed(parts):
        if "=" in part.text or _ANCHOR.search(sentence, max(0, part.start - 60), part.start):
            return part
    free = [part for part in parts if not _LIMITS.search(sentence[: part.start])]
    lead = _LEAD.match(sentence)
    later = [part for part in free if lead is None or part.start > lead.end()]
    if results := _RESULT.findall(before[-1_500:]):
        first = lead is not None and parts[0].start <= lead.end()
        same = [part for part in parts[first:] if _digits(part.text) == _digits(results[-1])]
        if len(same) == 1:
            return same[0]
    return (later or free or parts)[0]


def _digits(text: str) -> str:
    """Return the digits of a number without its signs of currency and grouping."""
    return re.sub(r"[\\$€£,%\s{}]", "", text.rpartition("=")[2])


def _listed(sentence: str, parts: list[_Part], chosen: _Part) -> str:
    """Return the chosen part with the rest of its list, or with its unit."""
    place = parts.index(chosen)
    first = last = place
    while first > 0 and _together(sentence, parts[first - 1], parts[first]):
        first -= 1
    while last + 1 < len(parts) and _together(sentence, parts[last], parts[last + 1]):
        last += 1
    if first < last:
        return ", ".join(part.text for part in parts[first : last + 1])
    unit = _UNIT.match(sentence, chosen.end)
    rest = sentence[unit.end() :] if unit is not None else ""
    if unit is not None and _is_unit(unit.group(1), rest):
        name, value = unit.group(1), chosen.text.rpartition("=")[2].strip()
        plain = _PLAIN.fullmatch(value) is not None and len(name) > 1
        return f"{value} {name}" if plain else f"{value} \\text{{{name}}}"
    return chosen.text


def _is_unit(word: str, rest: str) -> bool:
    """Tell a unit (`7 in` at the end of a sentence) from other words (`7 in April`, `7 M&Ms`)."""
    preposition = word in ("in", "am", "at") and rest.strip(" *")[:1].isalnum()
    return is_measure(word) and not preposition and not rest[:1].strip(" .,;:!?*)$")


def _together(sentence: str, first: _Part, second: _Part) -> bool:
    """Return whether two parts belong to one list; `5x = 30 and x = 6` is a derivation."""
    names = [part.text.partition("=")[0].strip() for part in (first, second) if "=" in part.text]
    listed = _GLUE.fullmatch(sentence, first.end, second.start) is not None
    return listed and all(_NAME_ONLY.fullmatch(name) for name in names)


def _word(sentence: str) -> str:
    """Return what a sentence without any number states: a number word, the bold part, else all of it."""
    strong = strong_parts(sentence)
    for text in (*strong[-1:], sentence):
        words = _NUMBER_WORD.findall(text)
        if len(words) == 1:
            return str(words[0]).lower()
    if strong:
        return strong[-1].strip(" .,:;")
    return _LEADING.sub("", sentence)
