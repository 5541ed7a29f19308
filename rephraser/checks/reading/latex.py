"""LaTeX formulas as normalised tokens: spellings that render the same give the same tokens.

`\\dfrac12`, `\\frac{1}{2}` and `1/2` are the tokens `1 / 2`; `\\left(`, spacing and style commands vanish;
`\\le` and `\\leqslant` are one relation. Words inside `\\text{...}` separate formulas and are read as prose.
"""

from __future__ import annotations

import re

Token = str

_RAW = re.compile(
    r"\\begin\s*\{[a-zA-Z]+\*?\}(?:\s*\{[lcr|@. ]{0,40}\})?|\\end\s*\{[a-zA-Z]+\*?\}"
    r"|\\[a-zA-Z]+|\\.|(?<!\d)\d{1,3}(?:,\d{3})+(?!\d)(?:\.\d+)?|\d+(?:\.\d+)?|\.\d+|\.\.\.|[A-Za-z]|\S",
    re.DOTALL,
)
_DROPPED = {
    "\\left", "\\right", "\\big", "\\Big", "\\bigg", "\\Bigg", "\\bigl", "\\bigr", "\\Bigl", "\\Bigr",
    "\\biggl",
    "\\biggr", "\\,", "\\;", "\\:", "\\!", "\\ ", "\\>", "\\quad", "\\qquad", "\\displaystyle", "\\textstyle",
    "\\limits", "\\nolimits", "\\nonumber", "\\notag", "~", "\\mathbf", "\\boldsymbol", "\\bold", "\\bf",
    "\\rm",
    "\\mathit", "\\mathsf", "\\vec", "\\overrightarrow", "\\mathbb", "\\mathcal", "\\mathop", "\\middle",
    "\\it", "\\/", "\\mathrm", "\\operatorname", "\\textbf", "\\bm", "\\mathstrut", "\\hfill", "\\noindent",
    "\\scriptstyle", "\\\n", "\\\t", "\\centering", "\\hline", "\\lim\\limits", "\\allowbreak", "\\bigm",
    "\\!\\!",
}  # fmt: skip
_RENAMED = {
    "\\dfrac": "\\frac", "\\tfrac": "\\frac", "\\cfrac": "\\frac", "\\dbinom": "\\binom",
    "\\tbinom": "\\binom",
    "\\le": "≤", "\\leq": "≤", "\\leqslant": "≤", "\\ge": "≥", "\\geq": "≥", "\\geqslant": "≥", "\\lt": "<",
    "\\gt": ">", "\\ne": "≠", "\\neq": "≠", "\\cdot": "*", "\\times": "*", "\\ast": "*", "\\div": "/",
    "\\ldots": "...", "\\dots": "...", "\\cdots": "...", "\\dotsc": "...", "\\dotsb": "...", "\\vdots": "...",
    "\\ddots": "...", "\\colon": ":", "\\mid": "|", "\\vert": "|", "\\lvert": "|", "\\rvert": "|",
    "\\Vert": "\\|", "\\lVert": "\\|", "\\rVert": "\\|", "\\lbrace": "\\{", "\\rbrace": "\\}",
    "\\varnothing": "\\emptyset", "\\degree": "°", "\\prime": "'", "\\%": "%", "\\$": "¤", "\\to": "→",
    "\\rightarrow": "→", "\\Rightarrow": "⇒", "\\implies": "⇒", "\\iff": "⇔", "\\lbrack": "[",
    "\\rbrack": "]",
    "\\varepsilon": "\\epsilon", "\\varphi": "\\phi", "\\wedge": "\\land", "\\bmod": "\\mod",
    "\\pmod": "\\mod",
    "\\setminus": "\\setminus", "\\backslash": "\\setminus", "\\triangle": "\\triangle", "\\Delta": "\\Delta",
    "\\measuredangle": "\\angle", "\\widehat": "\\overline", "\\overarc": "\\overline", "\\&": "&",
    "\\lfloor": "⌊", "\\rfloor": "⌋", "\\lceil": "⌈", "\\rceil": "⌉", "\\langle": "⟨", "\\rangle": "⟩",
}  # fmt: skip
_TEXT = {"\\text", "\\mbox", "\\textrm", "\\textit", "\\hbox", "\\textnormal"}
_TWO_ARGUMENTS = {"\\frac", "\\binom"}
_SKIPPED_ARGUMENT = {"\\hspace", "\\vspace", "\\phantom", "\\hphantom", "\\label", "\\color", "\\tag"}
SEPARATOR = ";"
_DEEPEST = 40


def tokenize(formula: str) -> tuple[Token, ...]:
    """The normalised tokens of a formula written without its delimiters. Any text is accepted."""
    cleaned = formula.replace("{,}", ",").replace(",\\!", ",").replace("\\!", "")
    raw = [t for t in (_rename(t) for t in _RAW.findall(cleaned)) if t]
    tokens = _Reader(raw).read()
    while (
        tokens
        and tokens[-1] in {".", ",", "?", SEPARATOR, ":", "!"}
        and not (tokens[-1] == "!" and len(tokens) > 1)
    ):
        tokens.pop()
    return tuple(tokens)


def is_number(token: Token) -> bool:
    return token[:1].isdecimal()


def is_variable(token: Token) -> bool:
    """A Latin letter or a Greek letter command."""
    return (len(token) == 1 and token.isalpha() and token.isascii()) or token in GREEK


GREEK = {
    "\\" + name
    for name in [
        "alpha",
        "beta",
        "gamma",
        "delta",
        "epsilon",
        "zeta",
        "eta",
        "theta",
        "iota",
        "kappa",
        "lambda",
        "mu",
        "nu",
        "xi",
        "rho",
        "sigma",
        "tau",
        "upsilon",
        "phi",
        "chi",
        "psi",
        "omega",
        "Gamma",
        "Delta",
        "Theta",
        "Lambda",
        "Xi",
        "Sigma",
        "Phi",
        "Psi",
        "Omega",
        "ell",
    ]
}


def _rename(token: str) -> str:
    if token in _DROPPED:
        return ""
    if token[0].isdecimal() or (token[0] == "." and token[1:2].isdecimal()):
        return canonical_number(token)
    return _RENAMED.get(token, token)


def canonical_number(digits: str) -> str:
    """`1,200` and `1200`, `3.0` and `3`, `.5` and `0.5` are the same number."""
    plain = digits.replace(",", "")
    if "." in plain:
        whole, _, decimals = plain.partition(".")
        decimals = decimals.rstrip("0")
        whole = whole.lstrip("0") or "0"
        return f"{whole}.{decimals}" if decimals else whole
    return plain.lstrip("0") or "0"


class _Reader:
    """Reads raw tokens into flat ones: groups become parentheses only where they hold more than one token."""

    def __init__(self, raw: list[str]) -> None:
        self.raw = raw
        self.at = 0

    def read(self) -> list[Token]:
        out: list[Token] = []
        while self.at < len(self.raw):
            if self.raw[self.at] == "}":
                self.at += 1
                continue
            out.extend(self.item(0))
        return out

    def item(self, depth: int) -> list[Token]:
        token = self.raw[self.at]
        self.at += 1
        if token == "{":
            return self.group(depth)
        if token in _TWO_ARGUMENTS:
            first, second = self.argument(depth), self.argument(depth)
            joint = "/" if token == "\\frac" else "\\choose"
            return (
                ["(", *_wrap(first), joint, *_wrap(second), ")"] if joint != "/" else _fraction(first, second)
            )
        if token == "\\sqrt":
            index: list[Token] = []
            if self.at < len(self.raw) and self.raw[self.at] == "[":
                self.at += 1
                while self.at < len(self.raw) and self.raw[self.at] != "]":
                    index.extend(self.item(depth + 1))
                self.at += 1
            return [
                "\\sqrt",
                *(["[", *index, "]"] if index and index != ["2"] else []),
                *_wrap(self.argument(depth)),
            ]
        if token in {"^", "_"}:
            argument = self.argument(depth)
            if token == "^" and argument in (["\\circ"], ["°"]):
                return ["°"]
            if token == "^" and argument and all(t == "'" for t in argument):
                return argument
            return [token, *_wrap(argument)]
        if token == "\\overline":
            argument = self.argument(depth)
            # A bar over two points is a way to write a segment; over digits it repeats them.
            return argument if all(t.isupper() for t in argument) else [token, *_wrap(argument)]
        if token in _TEXT:
            self.skip_argument()
            return [SEPARATOR]
        if token in _SKIPPED_ARGUMENT:
            self.skip_argument()
            return []
        if token.startswith("\\begin"):
            return [_environment(token, "⟦")]
        if token.startswith("\\end") and "{" in token:
            return [_environment(token, "⟧")]
        return [token]

    def argument(self, depth: int) -> list[Token]:
        if self.at >= len(self.raw) or self.raw[self.at] == "}":
            return []
        token = self.raw[self.at]
        if token != "{" and is_number(token) and len(token) > 1 and "." not in token:
            # \frac12 takes one digit at a time; the rest stays in the stream.
            self.raw[self.at] = token[1:]
            return [token[0]]
        return self.item(depth + 1)

    def group(self, depth: int) -> list[Token]:
        if depth > _DEEPEST:
            return []
        out: list[Token] = []
        while self.at < len(self.raw) and self.raw[self.at] != "}":
            out.extend(self.item(depth + 1))
        self.at += 1
        return out

    def skip_argument(self) -> None:
        if self.at >= len(self.raw) or self.raw[self.at] != "{":
            return
        level = 0
        while self.at < len(self.raw):
            level += {"{": 1, "}": -1}.get(self.raw[self.at], 0)
            self.at += 1
            if level == 0:
                return


def _wrap(tokens: list[Token]) -> list[Token]:
    if len(tokens) == 1:
        return tokens
    if len(tokens) >= 2 and tokens[0] == "(" and tokens[-1] == ")" and _closes_at_end(tokens):
        return tokens
    return ["(", *tokens, ")"]


def _closes_at_end(tokens: list[Token]) -> bool:
    level = 0
    for i, token in enumerate(tokens):
        level += {"(": 1, ")": -1}.get(token, 0)
        if level == 0:
            return i == len(tokens) - 1
    return False


def _fraction(above: list[Token], below: list[Token]) -> list[Token]:
    return [*_wrap(above), "/", *_wrap(below)]


def _environment(token: str, mark: str) -> Token:
    name = re.sub(r"\\(?:begin|end)\s*\{([a-zA-Z]+)\*?\}.*", r"\1", token, flags=re.DOTALL)
    return mark + ("cases" if name in {"cases", "array"} else name)
