"""Check the question of a candidate: present, single, and with the original's answer form."""

import re

from rephraser.checks.finding import Finding
from rephraser.checks.reading import read

_ASKING = re.compile(
    r"[?]|\b(?:find|determine|compute|calculate|evaluate|simplify|solve|what|how|which|who|whose|why|express|"
    r"prove|show|identify|factor|expand|convert|rationali[sz]e|describe|construct|figure out|work out|"
    r"factori[sz]e|ascertain|deduce|establish|derive|obtain|verify|enumerate|estimate|approximate)\b|"
    # Verbs that are not only requests, at the start of a sentence or after a formula.
    r"(?:^|[.!:;,}] ?|\b(?:please|then|and|to) )(?:write|give|state|round|list|name|graph|sketch|choose|"
    r"select|decide|add|subtract|multiply|divide|count|explain|rewrite|represent|complete|report|enter|specify|"
    r"tell|order|arrange|reduce|perform|provide|translate|answer|combine|match|change|transform|"
    r"fill in|pick|use|when|where|is|are|does|do|can|will|must)\b"
)
_ALSO = re.compile(
    r"\b(?:also|in addition|additionally),? "
    r"(?:find|determine|compute|calculate|evaluate|solve|give|state|say)\b"
)


def count_questions(text: str) -> int:
    """Return how many questions a text certainly asks: question marks, and what is to be found "also".

    Consecutive requests are one: "Determine the fraction m/n in lowest terms. Compute m + n."
    """
    words = read(text)
    return words.count("?") + len(_ALSO.findall(words))


def asks(text: str) -> bool:
    """Return whether a text asks anything."""
    return _ASKING.search(read(text)) is not None


def check_requests(original: str, candidate: str) -> list[Finding]:
    """Return findings question_missing, and question_added if the original asks one thing."""
    if not asks(candidate):
        return [Finding("question_missing", "the candidate asks nothing")] if asks(original) else []
    before, after = count_questions(original), count_questions(candidate)
    if before <= 1 < after:
        return [Finding("question_added", f"the candidate asks {after} things, the original {before}")]
    return []


_PLACE = re.compile(
    r"(?:nearest|closest) (?P<nearest>(?:(?:ten|hundred)[- ]?)?(?:tenth|hundredth|thousandth)|\d[\d,]*|ten|"
    r"hundred|thousand|million|whole|full|integer|unit|one|cent|penny|dollar|degree|percent|minute|second|hour|"
    r"day|year|inch|foot|mile|pound|meter)|"
    r"(?P<decimals>one|two|three|four|\d)[- ](?:decimal (?:place|digit)|(?:digits?|places?) after)|"
    r"\b(?P<figures>\w{1,20}) significant (?:figure|digit)"
)
_COUNTS = {"one": "1", "two": "2", "three": "3", "four": "4"}
_NEAREST = {
    "tenth": "1 decimal places", "hundredth": "2 decimal places", "thousandth": "3 decimal places",
    "10": "ten", "100": "hundred", "1000": "thousand", "whole": "integer", "unit": "integer",
    "one": "integer", "full": "integer",
}  # fmt: skip
_ROUNDING = re.compile(
    r"\bround|\bapproximat|\bcorrect to\b|\bestimat|\bnearest\b|\bclosest\b|decimal places?|\btruncat"
)
_BASE_WORDS = ["two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]
_BASE = re.compile(rf"\bbase[- ]?(\d+|{'|'.join(_BASE_WORDS)})\b")
_SUBSCRIPT = re.compile(r"_ ?\{? ?(\d+)")
_ASKED_AS = r"(?:as an?|in|into an?|to an?|form of an?|an?) (?:\w+ )?"
_EXCLUSIVE = {
    "fraction": re.compile(
        rf"\b{_ASKED_AS}(?:common|simplified|reduced|irreducible|improper) fraction|\bas a fraction"
    ),
    "mixed number": re.compile(r"\bmixed (?:number|fraction|numeral)"),
    "decimal": re.compile(rf"\b{_ASKED_AS}decimal\b(?! places?| digits?)"),
    "percent": re.compile(r"\b(?:as|in) (?:a |an )?(?:\w+ )?percent(?:age)?\b"),
    "scientific notation": re.compile(r"\bscientific notation"),
}  # fmt: skip
_MENTIONED = {
    "fraction": re.compile(r"fraction|lowest terms|numerator|reduced|\bratio"),
    "decimal": re.compile(r"decimal"),
    "percent": re.compile(r"percent|%"),
}


def check_answer_form(original: str, candidate: str) -> list[Finding]:
    """Return finding answer_format_changed: another rounding, base, or exclusive form of the answer.

    A form that only one of the texts asks for is no finding, except rounding, which changes the answer.
    """
    before, after = read(original), read(candidate)
    what = _changed_form(before, after)
    return [Finding("answer_format_changed", what)] if what else []


def _changed_form(before: str, after: str) -> str | None:
    places = _places(before), _places(after)
    if places[1] and places[0] != places[1] and (places[0] or not _ROUNDING.search(before)):
        asked, not_asked = (", ".join(sorted(each)) or "exact" for each in reversed(places))
        return f"the candidate's rounding is {asked}, not {not_asked}"
    bases = _bases(before), _bases(after)
    # A subscript ($A3_7$) names a base too, and base 10 need not be named.
    unknown = bases[1] - bases[0] - {"10", *_SUBSCRIPT.findall(before)}
    lost_bases = bases[0] - bases[1] - {"10", *_SUBSCRIPT.findall(after)}
    if all(bases) and unknown | lost_bases:
        asked, not_asked = (", ".join(sorted(each)) for each in reversed(bases))
        return f"the candidate's base is {asked}, not {not_asked}"
    forms = [{name for name, form in _EXCLUSIVE.items() if form.search(text)} for text in (before, after)]
    lost = [name for name in forms[0] - forms[1] if not _mentions(name, after)]
    gained = [name for name in forms[1] - forms[0] if not _mentions(name, before)]
    if lost and gained:
        return f"the candidate asks for the answer as {gained[0]}, the question as {lost[0]}"
    return None


def _places(text: str) -> set[str]:
    """Return the places that a text rounds to."""
    rounded_to = set()
    for match in _PLACE.finditer(text):
        if match["figures"]:
            rounded_to.add(f"{match['figures']} significant digits")
        elif match["decimals"]:
            rounded_to.add(f"{_COUNTS.get(match['decimals'], match['decimals'])} decimal places")
        else:
            place = match["nearest"].replace(",", "")
            rounded_to.add(_NEAREST.get(place, place))
    return rounded_to


def _bases(text: str) -> set[str]:
    """Return the bases that a text names in words."""
    return {str(_BASE_WORDS.index(base) + 2) if base in _BASE_WORDS else base for base in _BASE.findall(text)}


def _mentions(form: str, text: str) -> bool:
    return form in _MENTIONED and _MENTIONED[form].search(text) is not None
