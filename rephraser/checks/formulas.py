"""Formulas of the original that stand in the candidate with another operator, relation, number or order.

Formulas are split into pieces (`canonical.pieces`) and matched as sets, so that repeating, joining and
splitting formulas is free; so are a consistent renaming of the variables, the order of terms and factors, and
another way of writing the same value or the same equation. A formula that is told in words, left out or added
is none of this check's business: on free rephrasings that happens as often in honest as in broken ones.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass

from evaluator.grading.arithmetic import same_value
from rephraser.checks.finding import Finding, shorten
from rephraser.checks.reading.canonical import Piece, pieces
from rephraser.checks.reading.latex import Token, is_number, is_variable, tokenize
from rephraser.checks.reading.text import Question

Formulas = tuple[tuple[Token, ...], ...]
_MOST_STEPS = 20_000
_MOST_RENAMED = 60


@dataclass(frozen=True)
class Renaming:
    """What is known of a renaming: the mapping original -> candidate, and whether it is one to one.

    `mapping` holds renamed variables only; it is empty when nothing was renamed. `consistent` is false when
    the shapes of all formulas agree but no one-to-one renaming explains them.
    """

    mapping: dict[Token, Token]
    consistent: bool = True


def find_renaming(original: Formulas, candidate: Formulas) -> Renaming:
    """The renaming between two questions' formulas, if their shapes agree; variables keep names they can."""
    before = _pieces(original)
    after = _pieces(candidate)
    if not before or not after or len(before) > _MOST_RENAMED or len(after) > _MOST_RENAMED:
        return Renaming({})
    if _variables(before) == _variables(after):
        return Renaming({})
    shapes: dict[tuple[Token, ...], list[tuple[Token, ...]]] = {}
    for piece in after:
        shapes.setdefault(_shape(piece), []).append(piece)
    wanted = [p for p in before if _shape(p) in shapes and any(is_variable(t) for t in p)]
    compound = [p for p in wanted if len(p) >= 3]
    if not compound or any(len(p) >= 3 and p not in wanted for p in before if any(is_variable(t) for t in p)):
        return Renaming({})
    compound.sort(key=lambda p: (len(shapes[_shape(p)]), -len(p), p))
    search = _Search(compound, shapes)
    mapping = search.solve()
    if mapping is None:
        return Renaming({}, consistent=search.steps >= _MOST_STEPS)
    return Renaming({old: new for old, new in mapping.items() if old != new})


def rename(formulas: Formulas, mapping: dict[Token, Token]) -> Formulas:
    """The formulas with every variable replaced by its image."""
    return tuple(tuple(mapping.get(token, token) for token in tokens) for tokens in formulas)


def _pieces(formulas: Formulas) -> list[tuple[Token, ...]]:
    return list(dict.fromkeys(piece.tokens for tokens in formulas for piece in pieces(tokens)))


def _variables(formulas: list[tuple[Token, ...]]) -> set[Token]:
    return {t for tokens in formulas for t in tokens if is_variable(t)}


def _shape(tokens: tuple[Token, ...]) -> tuple[Token, ...]:
    return tuple("x" if is_variable(t) else t for t in tokens)


class _Search:
    def __init__(
        self, wanted: list[tuple[Token, ...]], shapes: dict[tuple[Token, ...], list[tuple[Token, ...]]]
    ) -> None:
        self.wanted = wanted
        self.shapes = shapes
        self.steps = 0

    def solve(self, at: int = 0, mapping: dict[Token, Token] | None = None) -> dict[Token, Token] | None:
        mapping = mapping or {}
        if at == len(self.wanted):
            return mapping
        source = self.wanted[at]
        options = self.shapes[_shape(source)]
        for target in sorted(
            options, key=lambda t: (-sum(a == b for a, b in zip(source, t, strict=True)), t)
        ):
            self.steps += 1
            if self.steps > _MOST_STEPS:
                return None
            extended = _extend(mapping, source, target)
            if extended is not None:
                solution = self.solve(at + 1, extended)
                if solution is not None:
                    return solution
        return None


def _extend(
    mapping: dict[Token, Token], source: tuple[Token, ...], target: tuple[Token, ...]
) -> dict[Token, Token] | None:
    extended = dict(mapping)
    taken = {new: old for old, new in mapping.items()}
    for old, new in zip(source, target, strict=True):
        if not is_variable(old):
            continue
        if extended.setdefault(old, new) != new or taken.setdefault(new, old) != old:
            return None
    return extended


_MOST_PIECES = 300
_ALIKE = 0.5
_LEFT_OUT = {"¤", "%", "°", "-", ".", "...", "(", ")", "'", "\\triangle", "\\angle", "?", "!"}
_PLAIN_FORMULA = re.compile(
    r"(?:(?<![A-Za-z\\'])[A-Za-z]{1,2}(?![A-Za-z'])|\\[a-zA-Z]+|\d[\d,]*(?:\.\d+)?|[()+*/^=<>|_!%\[\]:-]|,(?=\s?-?\d)|\s)+"
)
_OPERATOR = re.compile(r"[=+*/^<>_(\[-]")


@dataclass(frozen=True)
class FormulaFacts:
    """The pieces of a question's formulas by canonical key, between delimiters and bare in the prose.

    `flat` is the text of all of them, `keys` their keys with those of the sides of equations and of single
    numbers and names.
    """

    firm: dict[str, Piece]
    keys: frozenset[str]
    flat: str


def formula_facts(question: Question, mapping: dict[Token, Token] | None = None) -> FormulaFacts:
    """All formulas of a question, in pieces, with the variables of `mapping` renamed."""
    formulas = rename(question.formulas, mapping) if mapping else question.formulas
    bare = _bare_formulas(question.prose)
    firm: dict[str, Piece] = {}
    keys: set[str] = set()
    for tokens in (*formulas, *bare):
        for piece in pieces(tokens):
            keys.update((piece.key, *piece.sides))
            if tokens in formulas and not _is_trivial(piece.tokens):
                firm.setdefault(piece.key, piece)
    flat = " | | ".join(f" {' '.join(tokens)} " for tokens in (*formulas, *bare))
    return FormulaFacts(firm, frozenset(keys), flat)


def _bare_formulas(prose: str) -> tuple[tuple[Token, ...], ...]:
    formulas = []
    for match in _PLAIN_FORMULA.finditer(prose):
        text = match.group(0).strip()
        if 3 <= len(text) <= 400 and _OPERATOR.search(text) and any(c.isalnum() for c in text):
            formulas.append(tokenize(text))
    return tuple(formulas[:_MOST_PIECES])


def _is_trivial(tokens: tuple[Token, ...]) -> bool:
    content = [token for token in tokens if token not in _LEFT_OUT]
    names = all(is_variable(token) for token in content)
    return not content or names or (len(content) == 1 and is_number(content[0]) and tokens[-1] != "!")


def check_formulas(original: Question, candidate: Question, answer: str | None) -> list[Finding]:
    """Findings formula_changed, variables_renamed and, fatal, answer_variable_renamed."""
    renaming = find_renaming(original.formulas, candidate.formulas)
    back = {new: old for old, new in renaming.mapping.items()}
    before, after = formula_facts(original), formula_facts(candidate, back)
    findings = _of_renaming(renaming, answer)
    if len(before.firm) + len(after.firm) > _MOST_PIECES:
        return findings
    lost = [piece for key, piece in before.firm.items() if not _occurs(key, piece, after)]
    for piece in [piece for key, piece in after.firm.items() if not _occurs(key, piece, before)]:
        partner = max(lost, key=lambda other: (_likeness(other, piece), other.key), default=None)
        if partner is None or _likeness(partner, piece) < _ALIKE:
            continue
        lost.remove(partner)
        if not _same_content(partner, piece):
            was, became = (shorten(" ".join(side.tokens)) for side in (partner, piece))
            findings.append(Finding("formula_changed", f"'{was}' of the original became '{became}'"))
    return findings


def _of_renaming(renaming: Renaming, answer: str | None) -> list[Finding]:
    if not renaming.consistent:
        return [Finding("formula_changed", "no one-to-one renaming of the variables explains the formulas")]
    if not renaming.mapping:
        return []
    pairs = ", ".join(f"{old} to {new}" for old, new in sorted(renaming.mapping.items()))
    inside = {token for token in tokenize(answer or "") if is_variable(token)} & set(renaming.mapping)
    if inside:
        names = ", ".join(sorted(inside))
        return [Finding("answer_variable_renamed", f"the answer is written in {names}, now renamed")]
    return [Finding("variables_renamed", f"variables are renamed: {pairs}")]


def _occurs(key: str, piece: Piece, other: FormulaFacts) -> bool:
    if key in other.keys or f" {' '.join(piece.tokens)} " in other.flat:
        return True
    # Both sides of an equation may stand apart: "$x^2 + 1$ is 5".
    return piece.is_relation and "=" in piece.tokens and all(side in other.keys for side in piece.sides)


def _same_content(first: Piece, second: Piece) -> bool:
    """The same expression with a name or number put in front, the same value, or the same equation."""
    for named, bare in ((first, second), (second, first)):
        if named.sides and not bare.sides and bare.key in named.sides and "=" in named.tokens:
            return True
    if first.is_relation != second.is_relation:
        return False
    if not first.is_relation:
        return same_value(_spelled(first.tokens), _spelled(second.tokens)) is True
    if "=" not in first.tokens or "=" not in second.tokens:
        return False
    return _same_equation(first, second)


def _same_equation(first: Piece, second: Piece) -> bool:
    """Whether the differences of the sides are equal up to their sign."""
    differences = [
        "({})-({})".format(*(_spelled(side) for side in _sides(piece.tokens))) for piece in (first, second)
    ]
    flipped = f"-({differences[1]})"
    return True in (same_value(differences[0], differences[1]), same_value(differences[0], flipped))


def _sides(tokens: tuple[Token, ...]) -> tuple[tuple[Token, ...], tuple[Token, ...]]:
    place = tokens.index("=")
    return tokens[:place], tokens[place + 1 :]


def _spelled(tokens: tuple[Token, ...]) -> str:
    return " ".join(tokens).replace("( ", "(").replace(" )", ")")


def _likeness(first: Piece, second: Piece) -> float:
    a, b = Counter(first.tokens), Counter(second.tokens)
    return 2 * sum((a & b).values()) / (len(first.tokens) + len(second.tokens))
