"""A question as the checks read it: its figure code, and the rest as plain lower-case words."""

import re
import unicodedata
from functools import lru_cache

FIGURE = re.compile(
    r"\[asy\].*?(?:\[/asy\]|\Z)|\\begin\{(tikzpicture|asy)\}.*?(?:\\end\{\1\}|\Z)", re.DOTALL | re.IGNORECASE
)
_VULGAR_FRACTION = re.compile(r"([¼-¾⅐-⅞])")
_SIGNS = str.maketrans({"⁄": "/", "−": "-", "–": "-", "‐": "-", "’": "'", "‘": "'"})
_TEXT = re.compile(r"\\(?:text\w*|mbox|hbox|mathrm|emph|underline|operatorname)\s*\{([^{}]*)\}")
_SHORT_FRACTION = re.compile(r"\\[dtc]?frac\s*(\d)\s*(\d)")
_FRACTION = re.compile(r"\\[dtc]?frac\s*\{([^{}]*)\}\s*\{([^{}]*)\}")
_COMMA = re.compile(r"\{,\}|,\\!")
_MARKUP = re.compile(
    r"\\[()\[\],;:! ]|\\q?quad\b|\\(?:left|right|displaystyle|textstyle)\b|\*\*|(?<!\\)\$|\\(?=[$%&])|~"
)


@lru_cache(maxsize=64)
def read(text: str) -> str:
    """Return the words of a text in lower case, without figure code, delimiters and spacing commands.

    Formulas stay as LaTeX; a fraction of two simple parts becomes `a/b`.
    """
    plain = _VULGAR_FRACTION.sub(r" \1 ", FIGURE.sub(" ", text))
    plain = unicodedata.normalize("NFKC", plain).translate(_SIGNS)
    plain = _COMMA.sub(",", _TEXT.sub(r" \1 ", plain))
    plain = _FRACTION.sub(r" \1/\2 ", _SHORT_FRACTION.sub(r" \1/\2 ", plain))
    return " ".join(_MARKUP.sub(" ", plain).lower().split())
