"""Structural checks: does a candidate keep what its question is made of? Pure functions, no model, no I/O."""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

from rephraser.checks.text import (
    FIGURE,
    distance,
    estimate_tokens,
    find_other_language,
    numbers_of,
    read,
    skeleton,
)
from service.questions.images import PLACEHOLDER

CHECKS_VERSION = "6"
"""Stored with the evidence of every verdict. Change it if a check may decide differently."""

LONGEST_TEXT = 20_000
"""Texts with more characters are not compared; they are far beyond any prompt."""

FATAL = (
    *("empty", "same_as_original", "same_as_sibling", "too_like_original", "too_like_sibling"),
    *("question_missing", "question_added", "answer_leaked", "solution_included", "answer_format_changed"),
    *("options_missing", "figure_missing", "image_missing", "image_added", "signature_changed"),
    *("language_changed", "too_long", "truncated", "control_characters", "prompt_chatter"),
)
"""Findings that are certain and invisible to answers; `docs/reference/checks.md` explains each."""

FINDINGS = (*FATAL, "number_missing", "number_added", "example_missing")


@dataclass(frozen=True)
class Finding:
    """A name of `FINDINGS` and one readable sentence."""

    name: str
    detail: str

    @property
    def severity(self) -> str:
        """`fatal` rejects the candidate. `evidence` prevents acceptance only if no solver answers."""
        return "fatal" if self.name in FATAL else "evidence"


def check_candidate(
    question: str,
    candidate: str,
    *,
    answer: str | None = None,
    names: Sequence[str] | None = None,
    siblings: Sequence[str] = (),
    token_limit: int = 512,
    min_distance: float = 0.0,
) -> tuple[Finding, ...]:
    """Return the differences between a candidate and its question that matter, in a fixed order.

    A candidate with a fatal finding is to be rejected. With the gold `answer`, candidates that state it are
    found; a candidate must differ from its `siblings`, in wording by `min_distance`. No text raises an error;
    texts longer than `LONGEST_TEXT` are only checked for equality.

    With `names`, the question asks for functions or classes of these names. Then numbers and formulas are not
    compared: in code they are examples, and the tests see what was changed.
    """
    images = list(_check_images(question, candidate))
    question, candidate, *siblings = (
        text.replace(PLACEHOLDER, " ") for text in (question, candidate, *siblings)
    )
    findings = list(_check_shape(question, candidate, token_limit))
    if any(finding.name == "empty" for finding in findings):
        return tuple(findings)
    findings += images
    if max(len(question), len(candidate)) > LONGEST_TEXT:
        if question == candidate:
            findings.append(Finding("same_as_original", "the candidate repeats the original"))
        return tuple(findings)
    findings += check_chatter(question, candidate)
    findings += _check_sameness(question, candidate, siblings, min_distance)
    if names is not None:
        # A function without its body ends in the middle, as far as prose is concerned.
        findings = [finding for finding in findings if finding.name != "truncated"]
        return tuple(dict.fromkeys([*findings, *_check_program(question, candidate, names)]))
    if other := find_other_language(question, candidate):
        findings.append(Finding("language_changed", other))
    findings += _check_parts(question, candidate)
    findings += _check_requests(question, candidate)
    if form := _changed_form(read(question), read(candidate)):
        findings.append(Finding("answer_format_changed", form))
    findings += _check_solution(question, candidate)
    if answer is not None and _states_answer(answer, question, candidate):
        findings.append(Finding("answer_leaked", f"the candidate contains the answer {answer.strip()}"))
    findings += _check_numbers(question, candidate)
    return tuple(dict.fromkeys(findings))


# Shape

_BIDIRECTIONAL = frozenset(
    "\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200b\ufeff\ufffd"
)
_DANGLING = re.compile(
    r"(?:\b(?:the|a|an|of|and|or|to|in|with|is|are|by|for|that|from|if|than|as|at|on|its|their|which|where|when|"
    r"let|such|be|equal|between|into|per)|[,:;(=+*<-])\s*$",
    re.IGNORECASE,
)
_DOLLAR = re.compile(r"(?<!\\)\$")
_PRICE_AT_END = re.compile(r"(?<![\\$])\$\d[\d,.]*(?=[\s.,?!]|$)(?![^$]*\$)")
_PAIRS = {
    "a brace is left open": (r"(?<!\\)\{", r"(?<!\\)\}"),
    "a displayed formula is left open": (r"(?<!\\)\\\[", r"(?<!\\)\\\]"),
    "a formula is left open": (r"(?<!\\)\\\(", r"(?<!\\)\\\)"),
    "a \\begin block has no end": (r"\\begin\{", r"\\end\{"),
    "an [asy] block has no end": (r"\[asy\]", r"\[/asy\]"),
}


def _check_shape(original: str, candidate: str, token_limit: int) -> Iterator[Finding]:
    if not any(c.isalnum() for c in candidate):
        yield Finding("empty", "the candidate has no words")
        return
    longer = max(len(candidate), len(original))
    if longer > LONGEST_TEXT:
        detail = f"{longer} characters are more than the limit of {LONGEST_TEXT} for comparison"
        yield Finding("too_long", detail)
    elif (count := estimate_tokens(candidate)) > token_limit:
        yield Finding("too_long", f"{count} tokens are more than the limit of {token_limit}")
    if control := _control_characters(candidate) - _control_characters(original):
        codes = ", ".join(f"U+{ord(c):04X}" for c in sorted(control)[:5])
        yield Finding("control_characters", f"the candidate contains {codes}")
    if faults := [fault for fault in _cut_off(candidate) if fault not in _cut_off(original)]:
        yield Finding("truncated", faults[0])


def _control_characters(text: str) -> set[str]:
    return {
        c
        for c in set(text)
        if c in _BIDIRECTIONAL or (unicodedata.category(c) in {"Cc", "Cs"} and c not in "\n\r\t")
    }


def _cut_off(text: str) -> list[str]:
    """Return how a text is cut off: what it leaves open, and whether it ends within a sentence."""
    faults = [
        what
        for what, (opening, closing) in _PAIRS.items()
        if len(re.findall(opening, text)) != len(re.findall(closing, text))
    ]
    dollars = len(_DOLLAR.findall(text)) - len(_PRICE_AT_END.findall(text))
    # In a text without marked formulas, dollar signs are money.
    if dollars % 2 == 1 and re.search(r"\$\s*[A-Za-z\\(]", text):
        faults.append("a formula is left open (odd number of dollar signs)")
    if _DANGLING.search(text.rstrip().rstrip("*_")[-40:]):
        faults.append("the candidate ends in the middle of a sentence")
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


def _check_sameness(
    question: str, candidate: str, siblings: Sequence[str], min_distance: float
) -> list[Finding]:
    mine = skeleton(candidate)
    findings = []
    if mine == skeleton(question):
        findings.append(Finding("same_as_original", "the candidate repeats the original"))
    if same := [place for place, text in enumerate(siblings, start=1) if mine == skeleton(text)]:
        findings.append(Finding("same_as_sibling", f"the candidate repeats its sibling number {same[0]}"))
    for place, text in enumerate((question, *siblings) if min_distance and not findings else ()):
        apart = distance(text, candidate)
        if apart < min_distance:
            name = f"sibling number {place}" if place else "original"
            detail = (
                f"{apart:.0%} of its words differ from those of the {name}, but at least {min_distance:.0%} "
                "must differ: change structure, order or setting, not single words"
            )
            return [Finding("too_like_sibling" if place else "too_like_original", detail)]
    return findings


# Parts

_OPTION = re.compile(
    r"\\(?:textbf|mathbf|text|mathrm|mathsf)\s*\{\s*(?:\(\s*([A-H])\s*\)?|([A-H])\s*[).:])\s*\}|\(([A-H])\)|"
    r"(?:^|(?<=\s))([A-H])[.):](?=\s)",
    re.MULTILINE,
)


def _check_images(original: str, candidate: str) -> Iterator[Finding]:
    """Compare the numbers of images; swapped images are not seen."""
    before, after = original.count(PLACEHOLDER), candidate.count(PLACEHOLDER)
    if after != before:
        name = "image_missing" if after < before else "image_added"
        yield Finding(name, f"{after} {PLACEHOLDER} for {before} of the original")


def _check_parts(original: str, candidate: str) -> Iterator[Finding]:
    before, after = (sum(1 for _ in FIGURE.finditer(text)) for text in (original, candidate))
    if after < before:
        yield Finding("figure_missing", f"{before - after} of {before} figures are missing")
    if missing := _options_of(original).removeprefix(_options_of(candidate)):
        yield Finding("options_missing", f"the answer options {', '.join(missing)} are missing")


def _options_of(text: str) -> str:
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


def _check_numbers(original: str, candidate: str) -> Iterator[Finding]:
    """Compare the numbers; a missing one is stated by the original and not offered by the candidate."""
    before, after = numbers_of(original), numbers_of(candidate)
    for number in sorted(before.stated - after.offered):
        yield Finding("number_missing", f"the number {_show(number)} of the original is missing")
    for number in sorted(after.stated - before.offered):
        yield Finding("number_added", f"the number {_show(number)} is not in the original")


def _show(number: Fraction) -> str:
    return str(number.numerator) if number.denominator == 1 else f"{float(number):g}"


# What is asked

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


def _check_requests(original: str, candidate: str) -> Iterator[Finding]:
    """Check that a candidate asks, and no more than the original if that asks one thing.

    Questions are counted by question marks, and by what is to be found "also". Consecutive requests are one:
    "Determine the fraction m/n in lowest terms. Compute m + n."
    """
    before, after = read(original), read(candidate)
    if not _ASKING.search(after):
        if _ASKING.search(before):
            yield Finding("question_missing", "the candidate asks nothing")
        return
    asked, asks = (words.count("?") + len(_ALSO.findall(words)) for words in (before, after))
    if asked <= 1 < asks:
        yield Finding("question_added", f"the candidate asks {asks} things, the original {asked}")


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


def _changed_form(before: str, after: str) -> str | None:
    """Say if a candidate asks for another rounding, base, or exclusive form of the answer.

    A form that only one of the texts asks for is no difference, except rounding, which changes the answer.
    """
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


# What is given away

_TELLS = re.compile(
    r"\b(?:the|its|our|final|correct) (?:final |correct |numerical )?(?:answer|solution) ?"
    r"(?:is|=|:|equals|would be|must be|turns out to be)\s*(?!(?:what|asked|to be|requested|required|"
    r"expressed|in|an?|given|not|unique|of|the|written|desired|needed|represented|rounded)\b)(?=\S)|"
    r"^[ \t]*final answer ?:|"
    r"\banswer ?:\s*(?!(?:an?|as|in|the|common|simplified|exact|decimal|ordered|simplest|lowest|round|give|"
    r"express|write|list|enter)\b)(?=\S)",
    re.IGNORECASE | re.MULTILINE,
)
_SOLVES = {
    "a boxed result": re.compile(r"\\(?:boxed|fbox)\s*\{"),
    "numbered steps": re.compile(r"\bstep\s*(?:1|one)\s*[:.)]|\bstep[- ]by[- ]step\b", re.IGNORECASE),
    "the word solution": re.compile(
        r"^[ \t]*(?:\*\*)?(?:solution|explanation|proof|hint|reasoning)(?:\*\*)?\s*[:.]",
        re.IGNORECASE | re.MULTILINE,
    ),
    "a conclusion": re.compile(
        r"\b(?:therefore|thus|hence|so|consequently),?\s+(?:the (?:final )?(?:answer|result|solution)\b|"
        r"we (?:get|have|find|obtain|conclude)\b|it follows|\$(?P<formula>[^$]+)\$|\w{1,2}\s*=)",
        re.IGNORECASE,
    ),
    "a step of a solution": re.compile(
        r"\b(?:we (?:get|obtain|find that|can solve|first note|compute|simplify|calculate|substitute)|"
        r"which (?:gives us|simplifies to)|let(?:'s| us) (?:solve|start|first|calculate|compute|find|begin)|"
        r"to solve this|by the quadratic formula|sides\b[^.?!]{0,40}\b(?:gives|yields))\b",
        re.IGNORECASE,
    ),
}
_LEAST_NUMBER = 13
"""Smaller numbers come into a rephrasing as counts and indices; then they are `number_added`."""


def _check_solution(original: str, candidate: str) -> Iterator[Finding]:
    """Look for phrases of answers and solutions that the original does not have."""
    if _TELLS.search(candidate) and not _TELLS.search(original):
        yield Finding("answer_leaked", "the candidate says what the answer is")
    for what, pattern in _SOLVES.items():
        formulas = (match.groupdict().get("formula") for match in pattern.finditer(candidate))
        if not pattern.search(original) and any(_is_new(formula, original) for formula in formulas):
            yield Finding("solution_included", f"the candidate contains {what}")
            return


def _is_new(formula: str | None, original: str) -> bool:
    """Return whether a conclusion is more than a formula that the original states."""
    return formula is None or "".join(formula.split()).rstrip(".,;") not in "".join(original.split())


def _states_answer(answer: str, original: str, candidate: str) -> bool:
    """Return whether the candidate states the gold answer and the original does not."""
    text, after, before = skeleton(answer), skeleton(candidate), skeleton(original)
    if text and after.endswith(f"={text}") and f"={text}" not in before:
        return True
    if re.fullmatch(r"-?[\d.,]+", text):
        new = numbers_of(answer).stated & numbers_of(candidate).stated - numbers_of(original).offered
        return any(number >= _LEAST_NUMBER or number.denominator > 1 for number in new)
    return 3 <= len(text) <= 400 and bool(re.search(r"[\d\\]", text)) and text in after and text not in before


# Programs

_EXAMPLE = re.compile(r"^[ \t]*((?:>>>|assert)[ \t].+)$", re.MULTILINE)
_STATEMENT = re.compile(r"^[ \t]+(?:return|yield|for .+:|while .+:|if .+:|[\w, ]+ [-+*/]?= .+)", re.MULTILINE)


def _check_program(question: str, candidate: str, names: Sequence[str]) -> Iterator[Finding]:
    """Compare the signatures of the functions and classes of these names, the examples, and the code."""
    flat = _flat(candidate)
    changed = (_changed_signature(question, candidate, flat, name) for name in names)
    if detail := next(filter(None, changed), None):
        yield Finding("signature_changed", detail)
    if added := sorted(_statements(candidate) - _statements(question)):
        yield Finding("solution_included", f"the candidate contains solution code: {added[0]}")
    if missing := [line for line in _EXAMPLE.findall(question) if _flat(line) not in flat]:
        yield Finding("example_missing", f"an example is missing: {_shorten(missing[0])}")


def _changed_signature(question: str, candidate: str, flat: str, name: str) -> str | None:
    word = re.escape(name)
    signature = re.search(rf"^[ \t]*(?:async )?(?:def|class) {word}\b[^\n]*", question, re.MULTILINE)
    if signature is not None and _flat(signature.group()) not in flat:
        return f"the candidate does not have `{_shorten(signature.group())}`"
    if signature is None and not re.search(rf"\b{word}\b", candidate):
        return f"the candidate does not name {name}"
    return None


def _statements(text: str) -> set[str]:
    """Return the lines that look like the body of a function, outside of docstrings."""
    code = re.sub(r'"""[\s\S]*?(?:"""|$)|\'\'\'[\s\S]*?(?:\'\'\'|$)', "", text)
    return {match.strip() for match in _STATEMENT.findall(code)} if "def " in code else set()


def _flat(text: str) -> str:
    return "".join(text.split())


def _shorten(text: str, limit: int = 80) -> str:
    """Return `text` on one line, cut in the middle to at most `limit` characters."""
    line, keep = " ".join(text.split()), (limit - 3) // 2
    return line if len(line) <= limit else f"{line[:keep]}...{line[-keep:]}"
