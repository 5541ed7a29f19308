"""A text as the checks read it: its words, numbers, language, length, and likeness to another text.

A text *states* numbers in digits and in words. It *offers* these and others that its words imply: "second"
offers 2, "60%" offers 0.6, and "3/5" offers both 0.6 and 60.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
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


_PIECE = re.compile(r"[A-Za-z]+|\d|[^\sA-Za-z\d]|\n")


def estimate_tokens(text: str) -> int:
    """Return the estimated tokens of a text: one per six letters of a word, one per digit and sign.

    Vocabularies of the Qwen and Llama kind split digits singly and keep most English words whole, so that the
    estimate is seldom too low on mathematics.
    """
    return sum(1 if len(piece) <= 6 else -(-len(piece) // 6) for piece in _PIECE.findall(text))


# Likeness

_WORDING = re.compile(r"\\?[^\W\d_]+|\d+(?:[.,]\d+)*")


@lru_cache(maxsize=256)
def _wording(text: str) -> tuple[str, ...]:
    """Return the words, LaTeX commands and numbers of a text in order, in lower case, without figure code.

    Figure code has to be kept as it is, so that it says nothing about the wording.
    """
    return tuple(_WORDING.findall(FIGURE.sub(" ", text).casefold()))


def likeness(first: str, second: str) -> float:
    """Return the share of words that two texts have in common in the same order, 0 to 1, to 4 digits.

    Twice the longest common subsequence of words over the words of both (rapidfuzz's `fuzz.ratio` of word
    sequences), so that another order of the information counts as much as other words. 1 for two texts
    without words.
    """
    from rapidfuzz.distance import Indel

    return round(Indel.normalized_similarity(_wording(first), _wording(second)), 4)


def distance(first: str, second: str) -> float:
    """Return 1 - likeness."""
    return round(1 - likeness(first, second), 4)


def choose_apart(
    question: str,
    candidates: Sequence[str],
    ranks: Sequence[tuple[int, ...]],
    n: int | None,
    min_distance: float,
) -> tuple[list[int], int]:
    """Return the places of up to `n` candidates, as far as can be from all that is chosen, in their order.

    Greedy: each next one is, of those of the lowest rank, that whose nearest among the question and what is
    chosen is furthest away; of equals the earlier one. None is nearer than `min_distance` to any of them:
    how many of those left over are, is returned too.
    """
    nearest = {place: distance(question, text) for place, text in enumerate(candidates)}
    chosen: list[int] = []
    while True:
        far = [place for place, apart in nearest.items() if apart >= min_distance]
        if not far or len(chosen) == n:
            return chosen, len(nearest) - len(far)
        best = min(far, key=lambda place: (ranks[place], -nearest[place], place))
        chosen.append(best)
        del nearest[best]
        for place in nearest:
            nearest[place] = min(nearest[place], distance(candidates[place], candidates[best]))


_KEPT = re.compile(r"\\[a-z]+|\w|[-+*/=<>^_|!%&()\[\]]")
_IGNORED = re.compile(
    r"\$|\\[()\[\],;:! ]|\\(?:left|right|d(?=frac)|t(?=frac)|q?quad|displaystyle)\b|\bd(?=frac)"
)


def skeleton(text: str) -> str:
    """The text without white space, case, punctuation and dollar signs; the signs of formulas stay."""
    plain = unicodedata.normalize("NFKC", text).casefold()
    plain = _IGNORED.sub("", plain.replace("\\dfrac", "\\frac").replace("\\tfrac", "\\frac"))
    return "".join(_KEPT.findall(plain.replace("{", "").replace("}", "")))


# Numbers

_UNITS = [
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
    "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen",
]  # fmt: skip
_TENS = ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]
_SMALL = {word: place for place, word in enumerate(_UNITS)} | {
    word: 10 * place for place, word in enumerate(_TENS, start=2)
}
_SCALES = {"thousand": 1000, "million": 10**6, "billion": 10**9}
_CARDINAL = "|".join((*_SMALL, "hundred", *_SCALES))
_SPELLED = re.compile(rf"\b(?:{_CARDINAL})(?:(?:[ -]| and )(?:{_CARDINAL})){{0,12}}\b")
_ORDINALS = [
    "first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth", "eleventh",
    "twelfth",
]  # fmt: skip
_HALF = Fraction(1, 2)
_OFFERED_WORDS: dict[str, tuple[int | Fraction, ...]] = {
    **{word + end: (place,) for place, word in enumerate(_ORDINALS, start=1) for end in ("", "s")},
    "half": (2, _HALF, 50, 30), "halves": (2, _HALF), "halved": (2, _HALF), "quarter": (4, 25, 3),
    "quarters": (4, 25), "pair": (2,), "pairs": (2,), "both": (2,), "couple": (2,), "either": (2,),
    "neither": (2,), "twice": (2,), "double": (2,), "doubled": (2,), "doubles": (2,), "thrice": (3,),
    "triple": (3,), "tripled": (3,), "triples": (3,), "quadruple": (4,), "quadrupled": (4,), "dozen": (12,),
    "square": (2,), "squared": (2,), "cube": (3,), "cubed": (3,), "percent": (100,), "week": (7,),
    "weeks": (7,), "weekly": (7,), "fortnight": (2, 14), "day": (24,), "hour": (60,), "year": (12,),
    "decade": (10,), "perpendicular": (90,), "right": (90,), "origin": (0,),
}  # fmt: skip
_LETTERS = re.compile(r"[a-z]+")
_DIGITS = re.compile(r"(?:\d{1,3}(?:,\d{3})+(?!\d)|\d+)(?:\.\d+)?|\.\d+")
_PERCENT = re.compile(r"(\d+(?:\.\d+)?) ?(?:%|percent)")
_RATIO = re.compile(r"(\d+) ?/ ?(\d+)")
_LONGEST = 40
_LEAST_SPELLED = 4
"""Smaller numbers in words come and go in a rephrasing: "the two numbers" are "both" or "the numbers"."""


@dataclass(frozen=True)
class Numbers:
    """The numbers of a text: those that it states, and all that it offers."""

    stated: frozenset[Fraction]
    offered: frozenset[Fraction]


def numbers_of(text: str) -> Numbers:
    """Return the numbers of a text, in digits and in words; figure code is left out."""
    plain = read(text)
    words = _LETTERS.findall(plain)
    stated = {_number(digits) for digits in _DIGITS.findall(plain)}
    spelled = {Fraction(value) for phrase in _SPELLED.findall(plain) for value in _spelled(phrase)}
    stated |= {value for value in spelled if value >= _LEAST_SPELLED}
    implied = {Fraction(value) for word in words for value in _OFFERED_WORDS.get(word, ())} | spelled
    implied.update(_number(digits) / 100 for digits in _PERCENT.findall(plain))
    implied.update(100 * value for value in stated if value < 1)
    for above, below in _RATIO.findall(plain):
        if _number(below):
            ratio = _number(above) / _number(below)
            implied.update((ratio, 100 * ratio))
    always = {Fraction(0), Fraction(1)}
    return Numbers(frozenset(stated - always), frozenset(stated | implied | always))


def _number(digits: str) -> Fraction:
    return Fraction(digits.replace(",", "")[:_LONGEST].rstrip("."))


def _spelled(phrase: str) -> list[int]:
    """Return the numbers of a phrase of number words: "two hundred and five", or "three and four"."""
    values: list[int] = []
    total = current = 0
    for word in phrase.replace("-", " ").split():
        if word == "hundred":
            current = max(current, 1) * 100
        elif word in _SCALES:
            total, current = total + max(current, 1) * _SCALES[word], 0
        elif word in _SMALL:
            follows = current % 100 == 0 or (current % 100 >= 20 and current % 10 == 0 and _SMALL[word] < 10)
            if not follows:
                values.append(total + current)
                total = current = 0
            current += _SMALL[word]
    return [*values, total + current]


# Language

_SAMPLE = 20_000
_WORD = re.compile(r"[^\W\d_]+")
_COMMAND = re.compile(r"\\[a-z]+")
_COMMON = {
    code: frozenset(words.split())
    for code, words in {
        "en": (
            "the of and to is in that for it with as be on by are what how many if find this from "
            "at an each which have has was when does number value determine there they given "
            "where can a no do so or let die me compute calculate evaluate express simplify solve "
            "common fraction simplest form your answer write its all these"
        ),
        "es": (
            "el la los las de que y en un una por con para es cuántos cuántas cuál son se del al "
            "como si qué tiene cada encuentra calcula valor número más"
        ),
        "fr": (
            "le la les de des du et est un une que qui dans pour par combien quel quelle sont au "
            "aux si il elle avec sur chaque trouvez calculer nombre valeur"
        ),
        "de": (
            "der die das und ist ein eine den dem von zu mit wie viele was für auf wenn sind "
            "nicht hat jede jeder wert zahl bestimme berechne"
        ),
        "pt": (
            "o a os as de que e em um uma por com para é quantos quantas qual são se do da no na "
            "como cada encontre calcule valor número"
        ),
        "it": (
            "il lo la i gli le di che e in un una per con è quanti quante quale sono se del della "
            "come ogni trova calcola valore numero"
        ),
        "nl": "de het een en van is in dat op te met voor hoeveel wat als zijn niet aan er",
        "pl": "i w na z jest że do się nie ile jaka jaki jeśli dla od po oraz",
        "tr": "ve bir bu için ile kaç ne kadar ise olan değeri sayı",
        "vi": "và của là có một các cho bao nhiêu được trong với",
        "id": "dan yang di ke dari adalah berapa jika dengan untuk pada nilai",
    }.items()
}
"""Frequent words by language, of those in Latin letters."""


def _script(text: str) -> str:
    """Return the script of most letters (`LATIN`, `CJK`, ...); empty without letters."""
    counts: Counter[str] = Counter()
    for character, number in Counter(text).items():
        if character.isalpha():
            first = unicodedata.name(character, "").split(" ")[0].split("-")[0]
            counts["CJK" if first in {"HIRAGANA", "KATAKANA"} else first] += number
    return counts.most_common(1)[0][0] if counts else ""


def _language(text: str) -> str:
    """Return the language whose frequent words cover a Latin text best; empty if none clearly does."""
    words = [word.lower() for word in _WORD.findall(text)]
    if len(words) < 4:
        return ""
    shares = {}
    for code, common in _COMMON.items():
        frequent = [word for word in words if word in common]
        # Names of variables and points ("a", "o", "e") and a single short word show no language.
        enough = len({word for word in frequent if len(word) > 1}) >= 2
        shares[code] = len(frequent) / len(words) if enough else 0.0
    (best, share), (_, second) = sorted(shares.items(), key=lambda item: -item[1])[:2]
    return best if share >= 0.12 and share > 1.2 * second else ""


def _foreign_share(text: str) -> float:
    """Return the share of letters that are neither Latin nor Greek."""
    letters = [c for c in text if c.isalpha()]
    foreign = [c for c in letters if c > "\u03ff" and not "\u1e00" <= c <= "\u1eff"]
    return len(foreign) / len(letters) if letters else 0.0


def find_other_language(original: str, candidate: str) -> str | None:
    """Say if a candidate, or a large part of it, is in another script or language than its original."""
    before, after = (_COMMAND.sub(" ", read(text)[:_SAMPLE]) for text in (original, candidate))
    scripts, languages = (tuple(map(kind, (before, after))) for kind in (_script, _language))
    if all(scripts) and scripts[0] != scripts[1]:
        return f"the candidate is written in {scripts[1].title()} letters"
    if scripts[0] == "LATIN" and _foreign_share(after) > max(0.1, 2 * _foreign_share(before)):
        return "a part of the candidate is not written in Latin letters"
    if all(languages) and languages[0] != languages[1]:
        return f"the candidate is in '{languages[1]}', not '{languages[0]}'"
    return None
