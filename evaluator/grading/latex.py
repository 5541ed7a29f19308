r"""What a tidy answer is as LaTeX for the parser, or that it is no mathematics at all. Pure text.

Fences off what latex2sympy reads wrongly: words as products of letters, `3 4` as a sum, `203_7` as 203, and
`2(3)` as 2 + 3.
"""

import re

_FUNCTIONS = (
    "sqrt", "sin", "cos", "tan", "cot", "sec", "csc", "arcsin", "arccos", "arctan", "sinh", "cosh",
    "tanh", "log", "ln", "exp", "lim", "max", "min", "gcd", "lcm", "pi", "theta", "alpha", "beta",
    "gamma", "phi", "infty", "det", "mod", "binom",
)  # fmt: skip
_BARE_FUNCTION = re.compile(rf"(?<![A-Za-z\\])({'|'.join(_FUNCTIONS)})(?![a-z])")
_WORD = re.compile(r"(?<![A-Za-z\\])[A-Za-z]{4,}")
_PRODUCT = re.compile(r"(?<![_^\d.])(\d+(?:\.\d+)?) ?\((?=[-\d.])")  # 2(3) would be read as 2 + 3
_DIGIT_GAP = re.compile(r"(?<!_)[\d.] +[\d.]")
_DIGIT_BASE = re.compile(r"\d_")


def latex_of(text: str) -> str | None:
    """The text as the parser should get it; None when it cannot be read as mathematics."""
    latex = _BARE_FUNCTION.sub(lambda found: f"\\{found.group(1)} ", text)
    latex = re.sub(r"\\text\{([A-Za-z])\}", r"\1", latex)
    latex = re.sub(r"\\log ?_(\w) ?", r"\\log_{\1} ", latex)
    latex = _PRODUCT.sub(r"\1\\cdot (", latex)
    latex = re.sub(r"\\sqrt ?\(([^()]*)\)", r"\\sqrt{\1}", latex).replace("\\pi ", "\\pi  ")
    if _DIGIT_GAP.search(latex) or _DIGIT_BASE.search(latex) or _WORD.search(_without_commands(latex)):
        return None
    if r"\text" in latex or latex.count("{") != latex.count("}") or "'" in latex:
        return None
    return latex


def _without_commands(latex: str) -> str:
    return re.sub(r"\\(?:begin|end) ?\{[a-z]+\}|\\[A-Za-z]+", " ", latex)
