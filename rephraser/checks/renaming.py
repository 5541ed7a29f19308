"""Renamed variables: a one-to-one renaming that turns the original's formulas into the candidate's."""

from __future__ import annotations

from dataclasses import dataclass

from rephraser.checks.canonical import pieces
from rephraser.checks.latex import Token, is_variable

Formulas = tuple[tuple[Token, ...], ...]
_MOST_STEPS = 20_000
_MOST_PIECES = 60


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
    if not before or not after or len(before) > _MOST_PIECES or len(after) > _MOST_PIECES:
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


def _variables(found: list[tuple[Token, ...]]) -> set[Token]:
    return {t for tokens in found for t in tokens if is_variable(t)}


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
                found = self.solve(at + 1, extended)
                if found is not None:
                    return found
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
