"""Formulas of the original must be in the candidate: as formulas, in other spellings, or in words.

Formulas are split into pieces (`canonical.pieces`) and matched as sets, so that repeating, joining and
splitting formulas is free. What stays unmatched on both sides and looks alike is a change; what stays
unmatched on one side is missing or added, unless words say the same.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass

from rephraser.checks.canonical import Piece, pieces
from rephraser.checks.finding import Finding, fatal, shorten, warning
from rephraser.checks.latex import Token, is_number, is_variable, tokenize
from rephraser.checks.numbers import NumberFacts, implied_by_run
from rephraser.checks.text import Question

_MOST_PIECES = 300
_WORDS_FOR: dict[Token, str] = {
    "+": r"plus|sums?|add(?:s|ed|ing|ition)?|total|more|increased?|exceeds?|combined|together|greater|"
         r"older|longer",
    "-": r"minus|differences?|subtract\w*|less|fewer|decreased?|reduced|negative|below|opposite|from|"
         r"remain\w*|left",
    "*": r"times|products?|multipl\w*|twice|double\w*|triple\w*|thrice|each|by|factorial|dozen",
    "/": r"divid\w*|over|quotients?|ratios?|per|fractions?|half|halves|thirds?|quarters?|fourths?|fifths?|"
         r"sixths?|"
    r"sevenths?|eighths?|ninths?|tenths?|reciprocals?|out of|to|mixed",
    "^": r"squared?s?|cubed?s?|powers?|exponents?|raised|degree|superscript|inverse",
    "<": r"less|smaller|below|under|between|fewer|greater|larger|more|above|exceed\w*|positive|negative|"
         r"beyond|over|"
    r"before|after|increasing|decreasing|order|inside|within|outside",
    ">": r"less|smaller|below|under|between|fewer|greater|larger|more|above|exceed\w*|positive|negative|"
         r"beyond|over|"
    r"increasing|decreasing|order|inside|within|outside",
    "≤": r"at most|no more|no greater|between|inclusive|not exceed\w*|up to|from|through|maximum|"
         r"nonpositive|or less|"
    r"or equal|at least|no less|no fewer|non-?negative|interval|or more|or fewer|non-?decreasing|"
    r"not greater|not more",
    "≥": r"at least|no less|no fewer|between|inclusive|or more|minimum|non-?negative|from|or greater|"
         r"or equal|"
    r"at most|no more|interval|through|not less|not below",
    "≠": r"not|non-?zero|distinct|different|unequal|none|except|other than|never|undefined",
    "\\sqrt": r"roots?|radicals?",
    "|": r"absolute|magnitude|modulus|divides|divisible|distance|given|norm|factors?|divisor",
    "\\sin": r"sines?", "\\cos": r"cosines?", "\\tan": r"tangents?", "\\log": r"log\w*",
    "\\sec": r"secants?", "\\csc": r"cosecants?", "\\cot": r"cotangents?",
    "\\arcsin": r"inverse sine|arcsine", "\\arccos": r"inverse cosine|arccosine",
    "\\arctan": r"inverse tangent|arctangent",
    "\\gcd": r"greatest common|gcd|highest common|largest common", "\\det": r"determinants?",
    "\\max": r"maximum|greatest|largest|larger",
    "\\min": r"minimum|least|smallest|smaller", "\\ln": r"log\w*|ln",
    "!": r"factorials?", "%": r"percent\w*|%", "\\mod": r"modulo|mod|remainders?|congruent",
    "\\equiv": r"congruent|remainders?|equivalent|identical\w*|modulo|mod|leaves|equal",
    "\\in": r"in|on|element|belong\w*|real|integers?|members?|lies?|from|between|domain|interval",
    "\\choose": r"choose|choos\w*|combinations?|binomial|select\w*", "\\sum": r"sums?|add\w*|summation",
    "\\parallel": r"parallel", "\\perp": r"perpendicular|right angles?|orthogonal|altitude|normal",
    "\\pm": r"plus or minus|both", "\\cap": r"intersection|and|both|common", "\\cup": r"union|or",
    "\\cong": r"congruent", "\\sim": r"similar", "⌊": r"floor|greatest integer|rounded",
    "⌈": r"ceiling|least integer|rounded",
    "→": r"rounded|from|to|maps?|mapping|becomes|approaches", "\\approx": r"approximately|about|roughly",
    "\\overline": r"repeating|bar|segment|line|conjugate|digits?|arc", "\\infty": r"infinite\w*|infinity|"
        r"forever|endless",
    "\\propto": r"proportional", "\\notin": r"not", "\\not": r"not|non-?zero", "\\emptyset": r"empty",
    "\\neg": r"not", "\\subset": r"subset|contained", "\\subseteq": r"subset|contained", "\\to": r"to|maps?",
}  # fmt: skip
_SUPPORT = {token: re.compile(rf"\b(?:{words})(?!\w)") for token, words in _WORDS_FOR.items()}
_PART = "⟨part⟩"
_INVERSE_WORD = re.compile(r"\b(?:inverse|reciprocal)s?\b")
_FREE = {"=", "(", ")", "[", "]", "_", ",", ":", "°", "\\angle", "\\triangle", "'", "...", "¤", ".", "?",
"&", "\\\\",
         "\\{", "\\}", "\\circ", "\\pi", "\\square", "\\odot", ";", "\\therefore"}  # fmt: skip
_PLAIN_FORMULA = re.compile(
    r"(?:(?<![A-Za-z\\'])[A-Za-z]{1,2}(?![A-Za-z'])|\\[a-zA-Z]+|\d[\d,]*(?:\.\d+)?|[()+*/^=<>|_!%\[\]:-]|,(?=\s?-?\d)|\s)+"
)
_OPERATOR = re.compile(r"[=+*/^<>_(\[-]")


@dataclass(frozen=True)
class FormulaFacts:
    """The pieces of a question's formulas: those between delimiters, and those standing bare in the prose."""

    firm: dict[str, Piece]
    bare: dict[str, Piece]
    labels: frozenset[str]
    variables: Counter[Token]
    flat: str
    words: str
    small: frozenset[str] = frozenset()

    @property
    def equated(self) -> set[str]:
        """The sides of all equations."""
        return {
            side for p in (*self.firm.values(), *self.bare.values()) if "=" in p.tokens for side in p.sides
        }

    @property
    def keys(self) -> set[str]:
        known = set(self.firm) | set(self.bare) | self.small
        for piece in (*self.firm.values(), *self.bare.values()):
            known.update(piece.sides)
        return known


def formula_facts(question: Question) -> FormulaFacts:
    """All formulas of a question, in pieces."""
    return facts_of(question, question.formulas)


def facts_of(question: Question, formulas: tuple[tuple[Token, ...], ...]) -> FormulaFacts:
    """As `formula_facts`, with the formulas given (used to try a renaming of the variables)."""
    bare_formulas = _bare_formulas(question.prose)
    firm: dict[str, Piece] = {}
    labels: set[str] = set()
    variables: Counter[Token] = Counter()
    small: set[str] = set()
    for tokens in formulas:
        variables.update(t for t in tokens if is_variable(t))
        for piece in pieces(tokens):
            if _is_label(piece.tokens):
                name = "".join(t for t in piece.tokens if t.isupper())
                labels.add(min(name, name[::-1]))
            elif not _is_trivial(piece.tokens):
                firm.setdefault(piece.key, piece)
            else:
                small.add(piece.key)
    bare: dict[str, Piece] = {}
    for tokens in bare_formulas:
        for piece in pieces(tokens):
            if not _is_trivial(piece.tokens):
                bare.setdefault(piece.key, piece)
    flat = " | | ".join(f" {' '.join(tokens)} " for tokens in (*formulas, *bare_formulas))
    return FormulaFacts(firm, bare, frozenset(labels), variables, flat, question.reading, frozenset(small))


def _bare_formulas(prose: str) -> tuple[tuple[Token, ...], ...]:
    found = []
    for match in _PLAIN_FORMULA.finditer(prose):
        text = match.group(0).strip()
        if 3 <= len(text) <= 400 and _OPERATOR.search(text) and any(c.isalnum() for c in text):
            found.append(tokenize(text))
    return tuple(found[:_MOST_PIECES])


def _is_trivial(tokens: tuple[Token, ...]) -> bool:
    content = [
        t for t in tokens if t not in {"¤", "%", "°", "-", ".", "...", "(", ")", "'", "\\triangle", "?", "!"}
    ]
    content = [t for t in content if t != "\\angle"]
    if not content:
        return True
    if tokens[-1] == "!" or (len(content) > 1 and "(" in tokens):
        return False
    if all(is_number(t) for t in content):
        return len(content) == 1
    return all(is_variable(t) for t in content) and len(content) <= 1


def _is_label(tokens: tuple[Token, ...]) -> bool:
    content = [t for t in tokens if t not in {"\\triangle", "\\angle", "'"}]
    return len(content) >= 2 and all(len(t) == 1 and t.isupper() for t in content)


def check_formulas(
    original: FormulaFacts, candidate: FormulaFacts, numbers: NumberFacts, original_numbers: NumberFacts
) -> list[Finding]:
    """Findings formula_changed, formula_missing, formula_added (fatal or warning) and formula_in_words.

    `numbers` are those of the candidate, `original_numbers` those of the original (a formula may be told in
    words).
    """
    known, available = original.keys, candidate.keys
    few = len(original.firm) + len(candidate.firm) <= _MOST_PIECES
    lost = [
        p for k, p in original.firm.items()
        if not (_occurs(k, p, available, candidate.flat if few else "") or _told(p, candidate, available,
        numbers))
    ]  # fmt: skip
    gained = [
        p for k, p in candidate.firm.items()
        if not (_occurs(k, p, known, original.flat if few else "") or _told(p, original, known,
        original_numbers))
    ]  # fmt: skip
    findings: list[Finding] = []
    if not few:
        return [fatal("formula_missing", f"{len(lost)} formulas of the original are missing")] if lost else []
    for piece in list(gained):
        partner = max(lost, key=lambda p: (_likeness(p, piece), p.key), default=None)
        if partner is not None and _likeness(partner, piece) >= 0.5:
            if not _same_content(partner, piece):
                findings.append(
                    fatal("formula_changed", f"'{_show(partner)}' of the original became '{_show(piece)}'")
                )
            gained.remove(piece)
            lost.remove(partner)
    for piece in lost:
        findings.append(_missing(piece, candidate, numbers))
    for piece in gained:
        findings.append(_added(piece, original, original_numbers))
    return [f for f in findings if f is not None]


def _occurs(key: str, piece: Piece, keys: set[str], flat: str) -> bool:
    return key in keys or bool(flat and f" {' '.join(piece.tokens)} " in flat)


def _told(piece: Piece, other: FormulaFacts, keys: set[str], numbers: NumberFacts) -> bool:
    """Both sides of an equation may stand apart ('x^2 + 1 is 5'), unless one equals something else."""
    if not piece.is_relation or "=" not in piece.tokens or set(piece.sides) & other.equated:
        return False
    return all(
        side in keys or (is_number(side) and " " not in side and numbers.has(side)) for side in piece.sides
    )


def _same_content(first: Piece, second: Piece) -> bool:
    """The same expression with a relation to a number or name split off or put in front."""
    return any(
        a.sides and not b.sides and b.key in a.sides and "=" in a.tokens
        for a, b in ((first, second), (second, first))
    )


def _likeness(first: Piece, second: Piece) -> float:
    a, b = Counter(first.tokens), Counter(second.tokens)
    return 2 * sum((a & b).values()) / (len(first.tokens) + len(second.tokens))


def _unsupported(piece: Piece, words: str) -> list[Token]:
    missing = []
    tokens = " ".join(piece.tokens)
    if _INVERSE_WORD.search(words):
        tokens = tokens.replace("^ ( - 1 )", "")
    for token in dict.fromkeys(tokens.split()):
        if token in _FREE or token == _PART or is_number(token) or is_variable(token):
            continue
        pattern = _SUPPORT.get(token)
        if pattern is None or not pattern.search(words):
            missing.append(token)
    return missing


def _rest(piece: Piece, other: FormulaFacts) -> Piece:
    """What remains to be told in words when parts of a formula stand in the other text as formulas.

    Of "$7 x^3$" in "seven times $x^3$" there remains a product, of "$a/b - c/d$" in "subtract $c/d$ from
    $a/b$" a difference.
    """
    text = f" {' '.join(piece.tokens)} "
    for known in sorted(other.firm.values(), key=lambda p: -len(p.tokens)):
        if 3 <= len(known.tokens) < len(piece.tokens):
            text = text.replace(f" {' '.join(known.tokens)} ", f" {_PART} ")
    tokens = tuple(text.split())
    if _PART in tokens and not any(t in _WORDS_FOR for t in tokens):
        tokens = (*tokens, "*")
    return Piece(tokens, piece.key, piece.sides)


def _missing(piece: Piece, candidate: FormulaFacts, numbers: NumberFacts) -> Finding:
    operators = _unsupported(_rest(piece, candidate), candidate.words)
    implied = {str(n) for n in implied_by_run(" ".join(piece.tokens))}
    absent = [t for t in piece.tokens if is_number(t) and not numbers.has(t) and t not in implied]
    if operators or absent:
        return fatal("formula_missing", f"the formula '{_show(piece)}' of the original is missing")
    return warning(
        "formula_in_words", f"the formula '{_show(piece)}' of the original is told in words, if at all"
    )


def _added(piece: Piece, original: FormulaFacts, numbers: NumberFacts) -> Finding:
    operators = [
        t
        for t in _unsupported(_rest(piece, original), original.words)
        if t not in {"/", "-"} or any(is_variable(other) for other in piece.tokens)
    ]
    if operators:
        return fatal("formula_added", f"the formula '{_show(piece)}' states something the original does not")
    return warning("formula_added", f"the formula '{_show(piece)}' is not in the original, its words may be")


def _show(piece: Piece) -> str:
    return shorten(" ".join(piece.tokens))
