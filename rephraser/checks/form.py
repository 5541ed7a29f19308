"""What stands beside the words: figure code, answer options, and the form the answer is asked in."""

from __future__ import annotations

import re

from rephraser.checks.finding import Finding
from rephraser.checks.reading.latex import tokenize
from rephraser.checks.reading.text import Question
from service.questions.images import PLACEHOLDER, count_placeholders


def check_figures(original: Question, candidate: Question) -> list[Finding]:
    """Findings figure_missing, figure_added and figure_changed; figures may change places."""
    before = sorted("".join(f.split()) for f in original.figures)
    after = sorted("".join(f.split()) for f in candidate.figures)
    if before == after:
        return []
    if len(after) < len(before):
        return [Finding("figure_missing", f"{len(before) - len(after)} of {len(before)} figures are missing")]
    if len(after) > len(before):
        return [Finding("figure_added", f"{len(after) - len(before)} figures were added")]
    return [Finding("figure_changed", "the code of a figure differs from the original's")]


_MENTION = re.compile(
    r"\b(?:figures?|diagrams?|pictures?|images?|graphs?|drawings?|sketch(?:es)?|charts?|photos?|maps?|shown|pictured|"
    r"illustrated|illustrat(?:ion|ions|es)|depicted|depicts|drawn|above|below|plot(?:s|ted)?)\b",
    re.IGNORECASE,
)


def check_images(original: str, candidate: str) -> list[Finding]:
    """Findings image_missing, image_added and image_unmentioned.

    Which of several images stands in a place cannot be seen.
    """
    before, after = count_placeholders(original), count_placeholders(candidate)
    if after < before:
        return [Finding("image_missing", f"{after} {PLACEHOLDER} for {before} of the original")]
    if after > before:
        return [Finding("image_added", f"{after} {PLACEHOLDER} for {before} of the original")]
    mentioned, again = (_MENTION.search(text.replace(PLACEHOLDER, " ")) for text in (original, candidate))
    if before and mentioned and not again:
        return [Finding("image_unmentioned", f"nothing refers to '{mentioned.group(0)}'")]
    return []


_LABEL = re.compile(
    r"\\(?:textbf|mathbf|text|mathrm|mathsf)\s*\{\s*(?:\(\s*([A-H])\s*\)?|([A-H])\s*[).:])\s*\}\s*\)?|\(([A-H])\)|"
    r"(?:^|(?<=\s))([A-H])[.):](?=\s)",
    re.MULTILINE,
)
_SEPARATORS = re.compile(r"\\q?quad|\\[()\[\]]|\$|~|\\ |\\[,;]|\s|\*\*|[,;.]+(?=\s|$)|\bor\b|\band\b")


def options(text: str) -> dict[str, str]:
    """The options of a text by letter; empty unless at least (A) and (B) occur in alphabetical order."""
    marks = [(m.start(), m.end(), next(filter(None, m.groups()))) for m in _LABEL.finditer(text)]
    best: list[tuple[int, int, str]] = []
    run: list[tuple[int, int, str]] = []
    for mark in marks:
        if mark[2] == chr(ord("A") + len(run)):
            run.append(mark)
        else:
            run = [mark] if mark[2] == "A" else []
        if len(run) > len(best):
            best = list(run)
    if len(best) < 2 or (len(best) < 3 and text[best[0][0]] not in "\\("):
        # Two of 'A.' may end sentences about a point A; three in a row are options.
        return {}
    ends = [start for start, _, _ in best[1:]]
    last = text.find("\n\n", best[-1][1])
    ends.append(last if last >= 0 else min(len(text), best[-1][1] + 200))
    return {letter: _content(text[end:stop]) for (_, end, letter), stop in zip(best, ends, strict=True)}


def _content(text: str) -> str:
    return " ".join(tokenize(_SEPARATORS.sub(" ", text))).strip(" .;,$?").lower()


def check_options(original: str, candidate: str) -> list[Finding]:
    """Findings options_missing, options_added and options_changed."""
    before, after = options(original), options(candidate)
    if not before:
        return [Finding("options_added", f"answer options {', '.join(after)} were added")] if after else []
    if not after:
        return [Finding("options_missing", f"the answer options {', '.join(before)} are missing")]
    if list(before) != list(after):
        return [Finding("options_changed", f"options {', '.join(before)} became {', '.join(after)}")]
    last = list(before)[-1]
    changed = [
        k for k in before if before[k] != after[k] and not (k == last and _starts_alike(before[k], after[k]))
    ]
    return [Finding("options_changed", f"option {k} differs from the original's") for k in changed[:1]]


def _starts_alike(first: str, second: str) -> bool:
    """The last option has no end mark: text after it may follow."""
    short, long = sorted((first, second), key=len)
    return bool(short) and long.startswith(short)


_PLACES = {"one": "tenth", "1": "tenth", "two": "hundredth", "2": "hundredth", "three": "thousandth",
"3": "thousandth",
           "four": "ten-thousandth", "4": "ten-thousandth"}  # fmt: skip
_NEAREST = re.compile(
    r"(?:nearest|closest) ((?:ten|hundred)[- ]?thousandths?|whole|[a-z]+|\d[\d,]*)|"
    r"(one|two|three|four|\d)[- ](?:decimal (?:places?|digits?)|digits? after|places? after)|"
    r"\b(\w{1,20}) significant (?:figures?|digits?)"
)
_NEAREST_NAMES = {"10": "ten", "100": "hundred", "1000": "thousand", "whole": "integer",
"whole number": "integer", "unit": "integer", "one": "integer", "ones": "integer",
                  "full": "integer"}  # fmt: skip
_BASE = re.compile(
    r"\bbase[- ]{1,3}(\d+|two|three|four|five|six|seven|eight|nine|ten|twelve|sixteen|[a-z]\b)"
)
_BASE_WORDS = {"two": "2", "three": "3", "four": "4", "five": "5", "six": "6", "seven": "7", "eight": "8",
"nine": "9",
               "ten": "10", "twelve": "12", "sixteen": "16"}  # fmt: skip
_SUBSCRIPT = re.compile(r"_\s*(?:\{\s*(\d+)\s*\}|(\d))")
_IN_TERMS = re.compile(
    r"\bin terms of|as (?:a|an) (?:function|expression|polynomial|multiple)\w* (?:of|in|involving)|"
    r"(?:using|involving|leav\w+|"
    r"contain\w+|keep\w*) (?:only )?(?:the )?(?:variables? |constants? |symbol )?(?:\\?pi\b|[b-hj-z]\b)|"
    r"multiple of \\?pi|with respect to"
)
_ASKS = (
    r"(?:\bas an?\b|\bas the\b|\bin\b|\binto an?\b|\bto an?\b|\bform of an?\b|\bfor an?\b|\bis an?\b|"
    r"\ban?\b|\busing\b)"
)
_FORMS: dict[str, str] = {
    "fraction": rf"{_ASKS} (?:\w+ )?(?:(?:common|simplified|reduced|proper|improper|irreducible|single|"
                rf"exact|simple|vulgar|"
    r"lowest[- ]terms|fully reduced) )+fractions?|\bas a fraction|(?:common|simplified|irreducible|"
    r"reduced|improper) fractions?|"
    r"fraction(?:al)? form|fractions? in (?:its |the )?(?:simplest|lowest|reduced)",
    "mixed number": r"mixed (?:number|fraction|numeral)s?",
    "decimal": r"\bas (?:a|an) (?:\w+ )?(?:\w+ )?decimal|in decimal (?:form|notation)|\bdecimal (?:form|"
               r"number|answer|"
    r"equivalent|representation|value)|(?:into|to) (?:a )?decimal|decimal expansion|expressed? as decimals?",
    "percent": r"\b(?:as|in) (?:a |an )?(?:\w+ )?(?:percent|percentage)\b|percentage form",
    "scientific notation": r"scientific notation|standard form notation",
    "interval notation": r"interval notation|\b(?:as|using) (?:an |a )?(?:union of )?intervals?",
    "radical": r"radical form|simplest radical|simplified radical",
    "mixed radical": r"\bmixed radical",
    "degrees form": r"\b(?:answer|result|expressed|express|measured?) (?:\w+ )?(?:\w+ )?in (?:degrees|"
                    r"radians)",
    "factored": r"factored form|as a product of|factori[sz]ed form|in factored",
}  # fmt: skip
_PATTERNS = {name: re.compile(words) for name, words in _FORMS.items()}
_LIGHT = re.compile(
    r"simplest form|simplified|lowest terms|reduced|simplify|ordered (?:pair|triple)|separated by|"
    r"list (?:all|your|the)|"
    r"exact (?:value|form|answer)"
)
_EXCLUSIVE = {"fraction", "mixed number", "decimal", "percent", "scientific notation"}
_ROUNDING = re.compile(
    r"\bround|\bapproximat|\bcorrect to\b|\bestimat|\bnearest\b|\bclosest\b|"
    r"decimal places?|\btruncat"
)
_MENTIONED = {
    "fraction": re.compile(r"fraction|lowest terms|numerator|reduced|\bratio"),
    "decimal": re.compile(r"decimal"),
    "percent": re.compile(r"percent|%"),
    "radical": re.compile(r"radical|simplest form|simplif"),
    "factored": re.compile(r"factor|product"),
    "degrees form": re.compile(r"degree|radian"),
    "mixed radical": re.compile(r"radical"),
}  # fmt: skip


def answer_formats(question: Question) -> dict[str, str]:
    """The forms a question asks its answer in, each with its detail (place rounded to, base) or nothing."""
    text = _spoken(question)
    forms: dict[str, str] = {}
    nearest = sorted({_place(m) for m in _NEAREST.finditer(text)} - {""})
    if nearest:
        forms["rounding"] = ", ".join(nearest)
    bases = sorted({_BASE_WORDS.get(b, b) for b in _BASE.findall(text)})
    if bases:
        forms["base"] = ", ".join(bases)
    if _IN_TERMS.search(text):
        forms["in terms of"] = ""
    for name, pattern in _PATTERNS.items():
        if pattern.search(text):
            forms[name] = ""
    return forms


def check_answer_format(original: Question, candidate: Question) -> list[Finding]:
    """Findings answer_format_missing, answer_format_changed and answer_format_added.

    A rounding that the original does not ask for changes the form, since it changes the answer.
    """
    before, after = answer_formats(original), answer_formats(candidate)
    text_before, text_after = _spoken(original), _spoken(candidate)
    lost = [f for f in before if f not in after and not _mentioned(f, text_after)]
    gained = [f for f in after if f not in before and not _mentioned(f, text_before)]
    findings: list[Finding] = []
    for name in before:
        if name in after and before[name] != after[name]:
            if name == "base" and _same_bases(before[name], after[name], original, candidate):
                continue
            findings.append(
                Finding("answer_format_changed", f"the {name} asked for is {after[name]}, not {before[name]}")
            )
    for name in lost:
        other = next((g for g in gained if name in _EXCLUSIVE and g in _EXCLUSIVE), None)
        if name in {"base", "in terms of"} and not other and _formula_shows(name, original, candidate):
            continue
        if other:
            findings.append(
                Finding("answer_format_changed", f"the answer is asked as {other}, not as {name}")
            )
        else:
            findings.append(Finding("answer_format_missing", f"the request for the form '{name}' is missing"))
    for name in gained:
        rounds = name == "rounding" and not _ROUNDING.search(text_before)
        finding = "answer_format_changed" if rounds else "answer_format_added"
        findings.append(Finding(finding, f"the form '{name}' is asked for only here"))
    if _LIGHT.search(text_before) and not _LIGHT.search(text_after) and not lost:
        findings.append(Finding("answer_format_missing", "the request to simplify, order or list is missing"))
    return findings


def _mentioned(form: str, text: str) -> bool:
    pattern = _MENTIONED.get(form)
    return pattern is not None and pattern.search(text) is not None


def _formula_shows(form: str, original: Question, candidate: Question) -> bool:
    """A subscript ($243_5$) names the base too, and 'x = ...' the variable; the words are then not needed."""
    return form == "base" and "_" in _formula_text(candidate) and "_" not in _formula_text(original)


def _same_bases(before: str, after: str, original: Question, candidate: Question) -> bool:
    """Numbers are written in base 10 whether or not the text says so; a subscript ($A3_7$) tells it too."""
    old, new = set(before.split(", ")), set(after.split(", "))
    return new - old <= {"10"} | _subscripts(original) and old - new <= {"10"} | _subscripts(candidate)


def _subscripts(question: Question) -> set[str]:
    return {a or b for a, b in _SUBSCRIPT.findall(_formula_text(question))}


def _formula_text(question: Question) -> str:
    return " ".join(segment.text for segment in question.segments if segment.is_formula)


def _spoken(question: Question) -> str:
    return question.reading.replace("$", "").replace("-", " ").replace("\\pi", "pi")


def _place(match: re.Match[str]) -> str:
    place, decimals, figures = match.groups()
    if figures:
        return f"{figures} significant digits"
    if decimals:
        return _PLACES.get(decimals, f"{decimals} decimals")
    place = place.replace(",", "")
    place = (
        place[:-1]
        if place.endswith("ths") or place in {"dollars", "cents", "degrees", "integers", "tens"}
        else place
    )
    return _NEAREST_NAMES.get(place, place)
