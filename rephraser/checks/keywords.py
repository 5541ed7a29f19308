"""Words that turn a problem into another one: sum and product, largest and smallest, even and odd."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from itertools import pairwise

from rephraser.checks.finding import Finding, fatal, warning
from rephraser.checks.latex import tokenize
from rephraser.checks.lexicon import BY_NAME, named
from rephraser.checks.text import Question

_CONTRARY_ANYWHERE = {
    "extremum", "operation", "parity", "sign", "gcd", "bound", "replacement", "monotone", "statistic",
    "measure",
    "circle part", "angle pair", "scribed", "orientation", "turn", "angle kind", "arc", "fraction part",
    "place",
    "progression", "shape", "solid", "conic", "axis", "triangle kind", "prime", "number", "power",
    "function part",
    "conic part", "half of day", "distinct", "proportion", "order", "line part", "direction", "compass",
}  # fmt: skip
_NUMBERS_NAMED = re.compile(r"\b(?:integers?|numbers?|digits?|divisors?|factors?|multiples?|functions?|"
                            r"primes?|rolls?|dice|die|sums?|"
                            r"products?|divisible|whole|naturals?)\b")  # fmt: skip
_NEGATED = re.compile(r"n't\b")
_POSITIVE_BY_SYMBOL = re.compile(r">\s*0|0\s*<|\bgreater than (?:0|zero)\b|\babove zero\b")
_SIGN_IRRELEVANT = re.compile(
    r"digits?\b|\bdivisors?\b|\bfactors?\b|\bdifference\b|\bmultiples?\b|\bprimes?\b|\bpositive\b|"
    r"\bhow much\b"
)
_WHOLE_BY_CONTEXT = re.compile(r"digits?\b|\bprimes?\b|\bdivisors?\b|\bfactors?\b|\bmultiples?\b|"
                               r"\bconsecutive\b|\bremainders?\b|"
                               r"\beven\b|\bodd\b|\bperfect\b|\bdivisible\b|\binteger|\bwhole\b|"
                               r"\bnatural\b|\bfrom \d+ to\b")  # fmt: skip

_WHOLE_WORDS = re.compile(r"\binteg\w+|\bwhole[ -]numbers?|\bnatural numbers?|\bcounting numbers?|\blattice")
# 'The integers 12 and 35' says nothing that '12 and 35' does not.
_WHOLE_NUMBERS = re.compile(r"\b(?:integers?|whole numbers?|natural numbers?) (?=\d)(?!\d+ (?:to|through)\b)")
_OPERATOR_OF = {"sum": "+", "difference": "-", "product": "*"}
_NAMES_FORMULA = re.compile(
    r"\b(sum|difference|product)(?: of the (?:\w+ ){0,3}series)?[\s:,]*$", re.IGNORECASE
)
_BOUNDS = {"at least", "at most"}
# What else the words of a concept may be put as.
_TOLD_BY = {
    "lcm": re.compile(r"\b(?:smallest|least|lowest|minimum)\b.*\b(?:multiple|divisible|divided)\b"),
    "gcd": re.compile(
        r"\b(?:largest|greatest|highest|biggest|maximum)\b.*\b(?:divisors?|factors?|divides?)\b"
    ),
    "divisor": re.compile(r"\bfactor|\bdivi[ds]"),
}


@dataclass(frozen=True)
class KeywordFacts:
    """How often each concept of the lexicon is named, and the text it was read from.

    `bounded` says that a formula has a sign of "at most" or "at least"; `named_formulas` counts the
    words that only name the formula they stand before, as in "the sum $a + b$".
    """

    counts: Counter[str]
    text: str
    bounded: bool = False
    named_formulas: Counter[str] = field(default_factory=Counter)

    def adds_to(self, other: KeywordFacts) -> list[str]:
        """The concepts named here and not in `other`, without names of formulas ("the sum $a + b$")."""
        return [
            n for n, count in self.counts.items() if not other.counts[n] and count > self.named_formulas[n]
        ]


def keyword_facts(question: Question) -> KeywordFacts:
    """The concepts named in a question's prose (short formulas written out)."""
    text = question.reading
    bounded = any(token in {"≤", "≥"} for tokens in question.formulas for token in tokens)
    return KeywordFacts(Counter(named(_NEGATED.sub(" not", text))), text, bounded, _named_formulas(question))


def _named_formulas(question: Question) -> Counter[str]:
    found: Counter[str] = Counter()
    for before, formula in pairwise(question.segments):
        match = None if before.is_formula or not formula.is_formula else _NAMES_FORMULA.search(before.text)
        if match and _OPERATOR_OF[match[1].lower()] in tokenize(formula.text):
            found[match[1].lower()] += 1
    return found


def check_keywords(original: KeywordFacts, candidate: KeywordFacts, *, verbatim: bool) -> list[Finding]:
    """Findings keyword_changed, keyword_missing and keyword_added.

    `verbatim` says that the candidate repeats the original nearly word for word; then even a loose word that
    was exchanged for its contrary, a condition that vanished or a negation that came in is fatal.
    """
    lost, gained = original.adds_to(candidate), candidate.adds_to(original)
    fewer = [n for n in original.counts if candidate.counts[n] < original.counts[n]]
    further = [n for n in candidate.counts if candidate.counts[n] > original.counts[n]]
    findings: list[Finding] = []
    told: set[str] = set()
    for name in fewer:
        group = BY_NAME[name].group
        if not group:
            continue
        anywhere = group in _CONTRARY_ANYWHERE and name in lost and name != "all"
        partners = [n for n in further if BY_NAME[n].group == group and n != name]
        for other in partners:
            if not (verbatim or (anywhere and other in gained and other != "all")):
                continue
            if _same_by_context(name, other, original, candidate):
                continue
            findings.append(fatal("keyword_changed", f"'{name}' of the original became '{other}'"))
            told |= {name, other}
    for name in lost:
        if name not in told and not _told_otherwise(name, original, candidate):
            findings.append(_one_sided("keyword_missing", name, verbatim, "of the original is missing"))
    for name in gained:
        if name not in told and not _told_otherwise(name, candidate, original):
            findings.append(_one_sided("keyword_added", name, verbatim, "is not in the original"))
    return findings


_CONDITIONS = {"distinct", "positive", "negative", "integer", "consecutive", "inclusive", "probability"}
_HARMLESS = {"some", "exactly", "only", "and", "all", "first", "last", "before", "after", "left", "right",
"increase", "decrease",
             "permutation", "combination", "red", "blue", "real", "at least", "square shape", "quotient",
             "vertex", "interior",
             "exterior", "squares", "row", "column", "intercept", "median line"}  # fmt: skip
_LOOSELY_STRICT = {"extremum", "statistic", "monotone"}


def _one_sided(finding: str, name: str, verbatim: bool, what: str) -> Finding:
    concept = BY_NAME[name]
    strict = concept.strict and concept.group not in _LOOSELY_STRICT
    decides = strict or name in _CONDITIONS or (verbatim and name not in _HARMLESS)
    return (fatal if decides else warning)(finding, f"the word for '{name}' {what}")


def _same_by_context(name: str, other: str, original: KeywordFacts, candidate: KeywordFacts) -> bool:
    pair = {name, other}
    if (name in _BOUNDS and candidate.bounded) or (other in _BOUNDS and original.bounded):
        return True
    if pair == {"minimum", "at least"} or pair == {"maximum", "at most"}:
        return True
    if pair == {"units digit", "leading digit"}:
        return False
    return pair == {"positive", "nonnegative"} and "whole" in original.text + candidate.text


def _told_otherwise(name: str, has: KeywordFacts, lacks: KeywordFacts) -> bool:
    """Whether the text without the word says the same in another way, or nothing depends on the word."""
    text = lacks.text
    if name in _BOUNDS and lacks.bounded:
        return True
    if name == "positive":
        return bool(_POSITIVE_BY_SYMBOL.search(text) or _SIGN_IRRELEVANT.search(text))
    if name == "negative":
        return "-" in text or "minus" in text or "below" in text
    if name in {"even", "odd"}:
        return not _NUMBERS_NAMED.search(text + has.text)
    if name in {"minor", "major"}:
        return "arc" not in has.text and "ax" not in has.text
    if name == "consecutive":
        return bool(re.search(r"\bin a row\b|\bone after\b|\bfollow", text))
    if name == "integer":
        named = len(_WHOLE_WORDS.findall(has.text))
        return bool(_WHOLE_BY_CONTEXT.search(text)) or named == len(_WHOLE_NUMBERS.findall(has.text))
    if name in {"maximum", "minimum"}:
        return bool(
            re.search(r"\bat (?:most|least)\b|\bmost\b|\bleast\b|\bfirst\b|\blast\b|\bbest\b|\bonly\b", text)
        )
    if name == "inclusive":
        stated = lacks.bounded or "from" in text or "endpoint" in text
        return stated or not re.search(r"\binclusive\b", has.text)
    if name == "distinct":
        return not re.search(r"\bdistinct\b|\bno two\b|\brepe", has.text) or bool(
            re.search(
                r"\bdiffer|\brepe|\bno (?:two|pair)\b|\b(?:any|every) (?:two|pair)\b|\bpairwise\b", text
            )
        )
    if name in {"with replacement", "without replacement"}:
        return bool(
            re.search(
                r"\brepla|\brepe|\bno two\b|\bdistinct|\bdifferent|\bat (?:once|the same time)|\bsimultan",
                text,
            )
        )
    if name in _TOLD_BY:
        return bool(_TOLD_BY[name].search(text))
    if name == "probability":
        return bool(re.search(r"%|percent|portion|fraction|ratio\b|rate\b|weighted", text))
    if name == "mean":
        return "per" in text or "mean" in text
    return False
