r"""One spelling for answers that render alike, exact numbers and units. Pure text, no sympy.

Everything here may only join spellings of the same answer: `\dfrac12` and `\frac{1}{2}`, `1{,}000` and
`1000`, `5 \text{ cm}` and `5`. What would need algebra is left to `evaluator.grading.algebra`.
"""

import re
import unicodedata
from functools import lru_cache

LONGEST_ANSWER = 2_000
"""Answers with more characters than this (after joining white space) are not read."""

_CHARACTERS = str.maketrans(
    {
        "−": "-", "–": "-", "—": "-", "‐": "-", "‑": "-", "×": r"\times ", "·": r"\cdot ", "⋅": r"\cdot ",
        "÷": "/", "°": r"^\circ ", "π": r"\pi ", "∞": r"\infty ", "≤": r"\le ", "≥": r"\ge ", "≠": r"\ne ",
        "∪": r"\cup ", "∩": r"\cap ", "∈": r"\in ", "±": r"\pm ", "√": r"\sqrt ", "θ": r"\theta ",
        "α": r"\alpha ", "β": r"\beta ", "⟨": r"\langle ", "⟩": r"\rangle ", "∅": r"\emptyset ",
        "≈": r"\approx ", "⁄": "/", "∕": "/", "∗": "*", "’": "'", "′": "'", "∶": ":",
        "\u200b": "", "\ufeff": "", "\u2060": "", "、": ", ", "。": ".",
    }
    | {chr(wide): chr(wide - 0xFEE0) for wide in range(0xFF01, 0xFF5F)}  # ，：（）％Ａ１ as , : ( ) % A 1
    | {
        character: rf"\frac{{{top}}}{{{bottom}}}"
        for character in "¼½¾⅐⅑⅒⅓⅔⅕⅖⅗⅘⅙⅚⅛⅜⅝⅞"
        for top, bottom in [unicodedata.normalize("NFKC", character).split("⁄")]
    }
)  # fmt: skip
_NOT_ASCII = re.compile(r"[^\x00-\x7f]")
_ROOT = re.compile(r"√ ?(?:\(([^()]*)\)|(\d+(?:\.\d+)?|[A-Za-zπ](?![A-Za-z])))")
_RAISED = re.compile(r"[⁰¹²³⁴-⁹⁺⁻ⁿ]+")
_LOWERED = re.compile(r"[₀-₉₊₋ₙ]+")
_COMMANDS = {
    "dfrac": "frac", "tfrac": "frac", "cfrac": "frac", "leq": "le", "leqslant": "le", "geq": "ge",
    "geqslant": "ge", "neq": "ne", "lbrace": "{", "rbrace": "}", "lbrack": "[", "rbrack": "]",
    "varnothing": "emptyset", "infin": "infty", "lt": "<", "gt": ">", "land": "wedge", "mid": "|",
    "textbf": "text", "textit": "text", "textrm": "text", "textnormal": "text", "textsf": "text",
    "texttt": "text", "emph": "text", "mbox": "text", "hbox": "text", "mathrm": "text", "mathbf": "text",
    "mathit": "text", "mathsf": "text", "mathtt": "text", "boldsymbol": "text", "bm": "text",
    "operatorname": "text", "dots": "ldots", "cdots": "ldots",
}  # fmt: skip
_DROPPED = frozenset((
    "left", "right", "big", "Big", "bigg", "Bigg", "bigl", "bigr", "Bigl", "Bigr", "biggl", "biggr",
    "Biggl", "Biggr", "middle", "displaystyle", "textstyle", "scriptstyle", "limits", "rm", "bf",
    "it", "mathstrut", "strut", "nolimits", "quad", "qquad", "enspace", "thinspace", "hspace", "space",
))  # fmt: skip
_COMMAND = re.compile(r"\\([A-Za-z]+) ?")
_DOUBLED_SLASH = re.compile(r"\\\\(?=[A-Za-z]{2})")
_TIME = re.compile(r"(?<![\d.:])(\d{1,2})(:\d\d)? ?([AaPp])\.?[Mm]\b\.?")
_BARE_PI = re.compile(r"(?<![A-Za-z\\])pi(?![A-Za-z])")
_MARKDOWN = re.compile(r"(\*\*|__|`|\*)(.+)\1", re.DOTALL)
_TEXT_WITHOUT_WORDS = re.compile(r"\\text ?\{([^{}A-Za-z]*)\}")
_FRAC_SHORT = re.compile(r"\\frac ?(?:(\d|[A-Za-z]|\\pi)|\{([^{}]*)\}) ?(?:(\d|[A-Za-z]|\\pi)|\{([^{}]*)\})")
_SQRT_SHORT = re.compile(r"\\sqrt ?([A-Za-z0-9])")
_SINGLE_BRACES = re.compile(r"([\^_]) ?\{ ?([A-Za-z0-9]|\\circ) ?\}(?! ?[A-Za-z0-9.])")
_LOOSE_SPACE = re.compile(r"(?<![A-Za-z0-9.]) | (?![A-Za-z0-9.\\])")
_GROUPED = re.compile(r"(?<![\d.,])([1-9]\d{0,2})((?:,\d{3})+)(?![\d]|,\d)")
_BRACKET = re.compile(r"[(\[]|\\\{")
_SPACED_GROUPS = re.compile(r"([-+]?[1-9]\d{0,2}(?: \d{3})+)(?=$| [A-Za-z\\])")
_EMPTY_SET = re.compile(r"\\\{ ?\\\}")
_EDGE_LEFT = re.compile(r"^(?:=|:|\+|\\approx|\\sim|\\therefore)+ ?")


@lru_cache(maxsize=4096)
def normalize(text: str, *, join_thousands: bool = True) -> str:
    r"""Return one spelling of an answer; equal results mean equal answers.

    `join_thousands=False` leaves `1,200` as two numbers, for comparison with a list.
    Texts longer than four times `LONGEST_ANSWER` are cut to that before any work (they are not read).
    """
    text = " ".join(_typed(text[: 4 * LONGEST_ANSWER]).split())
    if match := _MARKDOWN.fullmatch(text):
        text = match[2].strip()
    if r"\begin" not in text:
        text = _DOUBLED_SLASH.sub(r"\\", text)
    text = _TIME.sub(lambda match: f"{match[1]}{match[2] or ':00'} {match[3].lower()}.m.", text)
    # `,\!000` marks a thousands separator for certain, so it is joined before `\!` is dropped.
    text = re.sub(r"(?<=\d) ?(?:\{,\}|,) ?(?:\\! ?)+(?=\d{3}(?!\d))", "", text)
    text = " ".join(re.sub(r"(?<!\\)\\[()\[\]]|(?<!\\)\$+", " ", text).split())
    text = _COMMAND.sub(_one_command, text)
    if "pi" in text:
        text = _BARE_PI.sub(r"\\pi ", text)
    text = text.replace("\\!", "").replace("{,}", "\0").replace("{:}", ":")
    text = re.sub(r"(?<!\\)\\[,;:>]|(?<!\\)\\ |~", " ", text)
    text = re.sub(r"(?<=\d) ?\0 ?(?=\d)|,(?=\x01)", "", text).replace("\0", ",")
    text = " ".join(_TEXT_WITHOUT_WORDS.sub(r" \1 ", text).split())
    text = text.replace("<=", r"\le ").replace(">=", r"\ge ").replace("!=", r"\ne ").replace("**", "^")
    text = _SINGLE_BRACES.sub(r"\1\2", _SQRT_SHORT.sub(r"\\sqrt{\1}", text))
    text = _FRAC_SHORT.sub(
        lambda match: rf"\frac{{{(match[1] or match[2]).strip()}}}{{{(match[3] or match[4]).strip()}}}", text
    )
    text = text.replace(r"^\circ", r"^\circ ").replace(r"\degree", r"^\circ ")
    if join_thousands:
        text = _join_thousands(text)
    text = _EMPTY_SET.sub(r"\\emptyset ", text)
    text = _EDGE_LEFT.sub("", " ".join(text.split()))
    text = _strip_punctuation(text)
    return _LOOSE_SPACE.sub("", text).strip()


def too_long(answer: str) -> bool:
    """Return True for answers that are too long to be read."""
    return len(answer) > LONGEST_ANSWER and (
        len(answer) > 50 * LONGEST_ANSWER or len(" ".join(answer.split())) > LONGEST_ANSWER
    )


def _typed(text: str) -> str:
    r"""Unicode mathematics as LaTeX: `4√38 x³` as `4\sqrt{38} x^{3}`, `b₂` as `b_{2}`."""
    if not _NOT_ASCII.search(text):
        return text
    text = _ROOT.sub(lambda match: rf"\sqrt{{{match[1] or match[2]}}}", text)
    text = _RAISED.sub(lambda match: f"^{{{_plain_digits(match[0])}}}", text)
    text = _LOWERED.sub(lambda match: f"_{{{_plain_digits(match[0])}}}", text)
    return text.translate(_CHARACTERS)


def _plain_digits(text: str) -> str:
    return unicodedata.normalize("NFKC", text).replace("−", "-")


def _one_command(match: re.Match[str]) -> str:
    name = match.group(1)
    if name in _DROPPED:
        return " "
    name = _COMMANDS.get(name, name)
    if name in ("<", ">", "[", "]", "|"):
        return name
    if name in ("{", "}"):
        return "\\" + name
    return f"\\{name} "


def _join_thousands(text: str) -> str:
    if grouped := _SPACED_GROUPS.match(text):
        text = grouped[1].replace(" ", "") + text[grouped.end() :]
    if "," not in text:
        return text
    bracket = _BRACKET.search(text)
    cut = bracket.start() if bracket else len(text)
    # Inside brackets `(5,100)` is a pair; outside, `5,100` is one number.
    return _GROUPED.sub(lambda match: match[1] + match[2].replace(",", ""), text[:cut]) + text[cut:]


def _strip_punctuation(text: str) -> str:
    while text and (text[-1] in ".;:," or text.endswith("\\\\")) and not text.endswith((" p.m.", " a.m.")):
        text = text[:-1].rstrip()
    if text.endswith("\\"):
        text = text[:-1].rstrip()
    return text
