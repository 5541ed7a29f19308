"""One string for formulas that differ only in ways that cannot matter.

Terms of a sum are sorted with their signs and factors joined by an explicit multiplication sign are sorted;
`a > b` is written `b < a`, and the sides of an equation are sorted. Everything else keeps its order: `a - b`
and
`b - a`, `f(g(x))` and `g(f(x))`, `(3, -4)` and `(-4, 3)` stay different.
"""

from __future__ import annotations

from dataclasses import dataclass

from rephraser.checks.reading.latex import SEPARATOR, Token

RELATIONS = {"=", "<", ">", "≤", "≥", "≠", "\\equiv", "\\in", "\\sim", "\\approx", "\\cong", "\\subset",
"\\subseteq",
             "\\parallel", "\\perp", "→", "⇒", "⇔", "\\propto", "\\notin", "\\not"}  # fmt: skip
_TURNED = {">": "<", "≥": "≤"}
_OPENING = {"(", "[", "\\{", "⟨", "⌊", "⌈"}
_CLOSING = {")", "]", "\\}", "⟩", "⌋", "⌉"}
_DEEPEST = 60


@dataclass(frozen=True)
class Piece:
    """An atomic statement or expression: its tokens, its canonical key and the keys of its sides."""

    tokens: tuple[Token, ...]
    key: str
    sides: tuple[str, ...]

    @property
    def is_relation(self) -> bool:
        return len(self.sides) == 2


def opens(token: Token) -> bool:
    return token in _OPENING or token.startswith("⟦")


def closes(token: Token) -> bool:
    return token in _CLOSING or token.startswith("⟧")


def pieces(tokens: tuple[Token, ...]) -> list[Piece]:
    """Split a formula at commas and words on the outermost level and chains of relations into single ones."""
    singles: list[Piece] = []
    for part in _split(tokens, {",", SEPARATOR, "\\\\", "&", "\\land", "⇒", "⇔", ":"} - _ratio(tokens)):
        members, signs = _relation_members(part)
        if not signs:
            if part:
                singles.append(Piece(part, canonical(part), ()))
            continue
        for i, sign in enumerate(signs):
            left, right = members[i], members[i + 1]
            singles.append(_relation(left, sign, right))
    return singles


def _ratio(tokens: tuple[Token, ...]) -> set[Token]:
    return {":"} if all(t == ":" or t[:1].isalnum() or t in {"(", ")"} for t in tokens) else set()


def _relation(left: tuple[Token, ...], sign: Token, right: tuple[Token, ...]) -> Piece:
    first, second = canonical(left), canonical(right)
    tokens = (*left, sign, *right)
    if sign in _TURNED:
        first, second, sign = second, first, _TURNED[sign]
    elif sign in {"=", "≠", "\\sim", "\\cong", "\\parallel", "\\perp", "\\approx"}:
        first, second = sorted((first, second))
    return Piece(tokens, f"{first} {sign} {second}", (canonical(left), canonical(right)))


def _relation_members(tokens: tuple[Token, ...]) -> tuple[list[tuple[Token, ...]], list[Token]]:
    members: list[tuple[Token, ...]] = []
    signs: list[Token] = []
    current: list[Token] = []
    level = 0
    for token in tokens:
        level += opens(token) - closes(token)
        if level == 0 and token in RELATIONS:
            if signs and not current:
                signs[-1] += token
                continue
            members.append(tuple(current))
            signs.append(token)
            current = []
        else:
            current.append(token)
    members.append(tuple(current))
    return members, signs


def _split(tokens: tuple[Token, ...], separators: set[Token]) -> list[tuple[Token, ...]]:
    parts: list[tuple[Token, ...]] = []
    current: list[Token] = []
    level = 0
    cases = 0
    for token in tokens:
        if token in {"⟦cases", "⟧cases"} or (token[:1] in "⟦⟧" and token[1:].startswith(("align", "gather"))):
            # Lines of a case distinction or an aligned block are statements of their own.
            cases += 1
            parts.append(tuple(current))
            current = []
            continue
        level = max(0, level + opens(token) - closes(token))
        if token == "\\{" and cases == 0 and "⟦cases" in tokens:
            level -= 1
            continue
        if level == 0 and token in separators:
            parts.append(tuple(current))
            current = []
        else:
            current.append(token)
    parts.append(tuple(current))
    return [part for part in parts if part]


def canonical(tokens: tuple[Token, ...]) -> str:
    """The canonical spelling of an expression; unbalanced brackets are taken as they come."""
    stack: list[tuple[Token, list[str]]] = [("", [])]
    for token in tokens:
        if opens(token) and len(stack) < _DEEPEST:
            stack.append((token, []))
        elif closes(token) and len(stack) > 1:
            opener, nodes = stack.pop()
            stack[-1][1].append(_group(opener, nodes, token))
        else:
            stack[-1][1].append(token)
    while len(stack) > 1:
        opener, nodes = stack.pop()
        stack[-1][1].append(_group(opener, nodes, ""))
    return _level(stack[0][1])


def _group(opener: Token, nodes: list[str], closer: Token) -> str:
    inner = _level(nodes)
    return inner if opener == "(" and closer == ")" and len(nodes) == 1 else f"{opener} {inner} {closer}"


def _level(nodes: list[str]) -> str:
    if any(n in {",", "&", "\\\\"} or n in RELATIONS for n in nodes):
        out: list[str] = []
        start = 0
        for i, node in enumerate([*nodes, ""]):
            if i == len(nodes) or node in {",", "&", "\\\\"} or node in RELATIONS:
                out.append(_sum(nodes[start:i]))
                if node:
                    out.append(node)
                start = i + 1
        return " ".join(filter(None, out))
    return _sum(nodes)


def _sum(nodes: list[str]) -> str:
    terms: list[str] = []
    sign, current = "+", list[str]()
    for i, node in enumerate(nodes):
        if node in {"+", "-"} and not (i > 0 and nodes[i - 1] in {"^", "_", "/", "*"}):
            if current:
                terms.append(sign + _product(current))
                sign = node
            elif node == "-":
                sign = "-" if sign == "+" else "+"
            current = []
        else:
            current.append(node)
    if current:
        terms.append(sign + _product(current))
    if any("..." in n for n in nodes):
        # The order of the written terms of an endless or shortened sum tells how it goes on.
        return " ".join(terms)
    return " ".join(sorted(terms)) if len(terms) > 1 else "".join(terms).removeprefix("+")


def _product(nodes: list[str]) -> str:
    if len(nodes) == 1 and nodes[0].startswith("( ") and nodes[0].endswith(" )"):
        inner = nodes[0][2:-2]
        if (
            not any(mark in inner for mark in (" +", " -", ",", "=", "<", "≤", "(", ")"))
            and inner[:1] not in "+-"
        ):
            return inner
    if "*" not in nodes:
        return " ".join(nodes)
    factors: list[list[str]] = [[]]
    for node in nodes:
        if node == "*":
            factors.append([])
        else:
            factors[-1].append(node)
    if any("..." in n for n in nodes):
        return " * ".join(" ".join(f) for f in factors)
    return " * ".join(sorted(" ".join(f) for f in factors))
