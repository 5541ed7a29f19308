"""Texts as sequences of words: what is left when spelling, formatting and punctuation are taken away."""

import re
import unicodedata

_DROPPED = re.compile(
    r"\\(?:left|right|displaystyle|mathrm|mathbf|text(?:bf|it)?|mbox|big+l?r?|quad|qquad)(?![a-z])"
    r"|\\[,;:!\s]|[$~.,;:!?\"'`]"
)
_FRACTION = re.compile(r"\\[dt]?frac(?![a-z])\s*(?:(\d)\s*(\d))?")
_THOUSANDS = re.compile(r"(?<=\d)(?:,|\{,\}|,\\!)(?=\d{3}(?!\d))")
_DECIMAL_POINT = re.compile(r"(?<=\d)\.(?=\d)")
_WORD = re.compile(r"\d+(?:\.\d+)?|\\?[^\W\d_]+|[^\s\w]|_")
_NUMBER = re.compile(r"\d+(?:\.\d+)?")
_POINT = "\x00"  # stands for the point of a decimal while full stops are dropped
# "one" is left out: it is a pronoun as well.
_NUMBER_WORDS = frozenset(
    {"two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve", "twenty"}
    | {"fifty", "hundred", "thousand"}
)


def words(text: str) -> list[str]:
    r"""Return the words, numbers, commands and operators of a text, in lower case.

    Left out: dollars, punctuation, spacing and font commands, braces around a single word. `\dfrac12` and
    `\frac{1}{2}` are the same, and so are `1,000` and `1000`.
    """
    plain = _THOUSANDS.sub("", unicodedata.normalize("NFKC", text).casefold())
    plain = _FRACTION.sub(lambda match: rf"\frac {match[1] or ''} {match[2] or ''} ", plain)
    plain = _DROPPED.sub(" ", _DECIMAL_POINT.sub(_POINT, plain)).replace(_POINT, ".")
    return _without_lone_braces(_WORD.findall(plain))


def numbers(sequence: list[str]) -> list[str]:
    """Return the numbers among words, in order, those from two on in letters too."""
    return [word for word in sequence if word in _NUMBER_WORDS or _NUMBER.fullmatch(word)]


def _without_lone_braces(sequence: list[str]) -> list[str]:
    kept: list[str] = []
    for word in sequence:
        if word == "}" and len(kept) >= 2 and kept[-2] == "{" and kept[-1] not in "{}":
            kept[-2:] = [kept[-1]]
        elif word == "}" and kept and kept[-1] == "{":
            kept.pop()
        else:
            kept.append(word)
    return kept
