r"""Takes normalized answers apart: lists, brackets, matrices, named values, letters, words. Pure text."""

import re
from typing import NamedTuple

_OPEN, _CLOSE = "([{", ")]}"
_LIST_WORD = re.compile(r"\\text\{,? ?(?:and|or),? ?\}|(?<![A-Za-z\\])(?:and|or)(?![A-Za-z])")
_MATRIX = re.compile(r"\\begin ?\{([pbBv]?matrix|array)\}(?:\{[lcr| ]*\})?(.*)\\end ?\{\1\}", re.DOTALL)
_NAME = re.compile(
    r"(?:[a-zA-Z]{0,2} ?\\(?:angle|triangle|text\{[A-Za-z ]+\}|math(?:bb|cal) ?\{[A-Z]\}|[a-z]+) ?|[A-Za-z])"
    r"(?: ?[A-Za-z])*'*(?:_(?:\w|\{[^{}]*\}))?"
    r"(?:\^\{-1\}|\^\{?\\circ\}?|\^-1)?(?:\([A-Za-z0-9,\\ ]*\)|\[[A-Za-z]\])?"
)
_MEASURED = re.compile(r"\|[A-Za-z]+\||[A-Za-z]+(?:_(?:\w|\{\w+\}))?:[A-Za-z]+(?:_(?:\w|\{\w+\}))?")
_RELATION = re.compile(r"<|>|=|\\(?:le|ge|ne|in|equiv|approx|subset)(?![A-Za-z])")
_CHOICE = re.compile(r"(?:\\text\{)? ?\(?(?:\\text\{)? ?([A-Z]) ?\}? ?\)?[.:]? ?\}?")
_LABELLED = re.compile(
    r"(?:\\text\{ ?\(([A-Z])\) ?\}|\(([A-Z])\)|\\text\{ ?([A-Z])(?:\}[.:)]|[.:)] ?\})|([A-Z])[.:)]) ?(.+)"
)
_BASE = re.compile(r"([-+]?[0-9A-Za-z.]+|\\text\{[0-9A-Z]+\})_(?:\{?(?:\\text\{)?\(?(\d+)\)?\}?\}?)")


def split_top(text: str, separators: str = ",;") -> list[str]:
    r"""Split at separators outside all brackets and braces.

    Parentheses need not match by kind, since `[0,1)` is an interval; escaped braces count as brackets.
    """
    parts, depth, start = [], 0, 0
    for position, char in enumerate(text):
        if char in _OPEN:
            depth += 1
        elif char in _CLOSE:
            depth = max(0, depth - 1)
        elif char in separators and depth == 0:
            parts.append(text[start:position].strip())
            start = position + 1
    parts.append(text[start:].strip())
    return parts


def split_list(text: str) -> list[str]:
    r"""Return the elements of a list: by comma, semicolon, "and", "or"; `a \pm b` is two elements."""
    if (inner := _whole_text(text)) is not None and ("," in inner or _LIST_WORD.search(inner)):
        pieces = split_top(_LIST_WORD.sub(",", inner))
        return [f"\\text{{{piece}}}" for piece in pieces if piece]
    text = _at_top(text, _LIST_WORD, ",")
    parts = [part for part in split_top(text) if part]
    elements: list[str] = []
    for part in parts:
        if part.count(r"\pm") == 1 and "_" not in part and bracketed(part) is None:
            before, after = map(str.strip, part.split(r"\pm"))
            name, equals, value = before.rpartition("=")
            elements += [f"{name}{equals}{value}+{after}" if value else f"{name}{equals}{after}"]
            elements += [f"{name}{equals}{value}-{after}"]
        else:
            elements.append(part)
    return [element.removeprefix("+").strip() for element in elements]


def solutions(text: str) -> list[str]:
    r"""Return the elements of a list; `p=5,q=2;p=7,q=2` is two pairs, and a repeated pair counts once."""
    groups = [split_list(group) for group in split_top(text, ";") if group] if ";" in text else []
    if len(groups) > 1 and all(_assigns_each(group, groups[0]) for group in groups):
        return [f"({','.join(named_value(part)[1] for part in group)})" for group in groups]
    elements = split_list(text)
    if len(elements) > 2 and all(element.startswith("(") for element in elements):
        return list(dict.fromkeys(elements))
    return elements


def _assigns_each(group: list[str], first: list[str]) -> bool:
    names, first_names = ([named_value(part)[0] for part in parts] for parts in (group, first))
    return len(set(names)) == len(names) > 1 and None not in names and names == first_names


def approximated(text: str) -> tuple[str, str] | None:
    r"""Split `1/3 \approx 0.33` into both sides; None for anything else."""
    exact, about, rest = (part.strip() for part in text.partition(r"\approx"))
    alone = exact and rest and r"\approx" not in rest and len(split_top(text)) == 1
    return (exact, rest) if about and alone else None


def _whole_text(text: str) -> str | None:
    match = re.fullmatch(r"\\text\{([^{}]*)\}", text)
    return match.group(1).strip() if match else None


def _at_top(text: str, pattern: re.Pattern[str], replacement: str) -> str:
    pieces, last = [], 0
    for match in pattern.finditer(text):
        before = text[: match.start()]
        if sum(map(before.count, _OPEN)) == sum(map(before.count, _CLOSE)):
            pieces += [text[last : match.start()], replacement]
            last = match.end()
    return "".join([*pieces, text[last:]])


class Bracketed(NamedTuple):
    """A text inside one pair of brackets: the pair and the elements."""

    pair: str
    elements: tuple[str, ...]


def bracketed(text: str) -> Bracketed | None:
    r"""Read `(1,2)`, `[0,1)`, `\{1,2\}`, `\langle 1,2\rangle`; None when no such pair spans the text."""
    text = text.replace(r"\langle ", "(").replace(r"\langle", "(").replace(r"\rangle", ")")
    brace = text.startswith(r"\{") and text.endswith(r"\}")
    if brace:
        text = "{" + text[2:-2] + "}"
    if len(text) < 2 or text[0] not in _OPEN or text[-1] not in _CLOSE:
        return None
    depth = 0
    for position, char in enumerate(text):
        depth += (char in _OPEN) - (char in _CLOSE)
        if depth == 0 and position < len(text) - 1:
            return None
    if depth != 0:
        return None
    pair = text[0] + text[-1]
    return Bracketed(pair, tuple(split_list(text[1:-1]) if pair == "{}" else split_top(text[1:-1])))


def matrix_rows(text: str) -> list[list[str]] | None:
    """Return the cells of a matrix or column vector, else None; determinants (vmatrix) are no matrices."""
    match = _MATRIX.fullmatch(text.strip("()[] "))
    if match is None or match.group(1) == "vmatrix" or r"\begin" in match.group(2):
        return None
    rows = [row.strip() for row in re.split(r"\\\\(?: ?\[[^\]]*\])?", match.group(2))]
    return [[cell.strip() for cell in row.split("&")] for row in rows if row]


def named_value(text: str) -> tuple[str | None, str]:
    r"""Split `x = 5`, `f(x) = x+1`, `x \in [0,1]` into name and value; (None, text) otherwise.

    Of a chain `x = 2+3 = 5` the last part is the value. `2+3 = 5` has no name but a value, 5; an equation
    such as `x+y = 5` is no named value.
    """
    parts = sides(text)
    if len(parts) < 2 or re.search(r"<|>|\\(?:le|ge|ne)(?![A-Za-z])", text):
        return None, text
    first, last = parts[0].strip(), parts[-1].strip()
    if not last:
        return None, text
    if _MEASURED.fullmatch(first):
        return first, last
    if _NAME.fullmatch(first) and not re.search(r"\\(?:frac|sqrt|pi|cdot|times)", first):
        return first.replace(" ", ""), last
    if not re.search(r"[A-Za-z]", re.sub(r"\\[A-Za-z]+", "", first)) and first:
        return None, last
    return None, text


def sides(text: str) -> list[str]:
    r"""Return the sides of a chain of `=` and `\in`, without those inside braces as in `\sum_{k=0}`."""
    closed, depth, last = [], 0, 0
    for token in re.finditer(r"[{}]|(?<![<>!\\])=|\\in(?![A-Za-z])", text):
        if token.group() in "{}":
            depth = max(0, depth + (1 if token.group() == "{" else -1))
        elif depth == 0:
            closed.append(text[last : token.start()])
            last = token.end()
    return [*closed, text[last:]]


def has_relation(text: str) -> bool:
    """Return True for equations, inequalities and memberships."""
    return _RELATION.search(text) is not None


def has_inequality(text: str) -> bool:
    """Return True for inequalities and memberships."""
    return re.search(r"<|>|\\(?:le|ge|ne|in)(?![A-Za-z])", text) is not None


def membership(text: str) -> str:
    r"""Return the set of `x \in [0,1]`; any other text unchanged."""
    return re.split(r"\\in(?![A-Za-z])", text, maxsplit=1)[-1].strip()


def is_region(text: str) -> bool:
    r"""Return True for inequalities, intervals and unions."""
    return any(
        has_relation(part) or r"\cup" in part or bracketed(part) is not None for part in split_list(text)
    )


def choice_letter(text: str) -> str | None:
    r"""Return the letter of `B`, `(B)`, `\text{(B)}`, `B.`; None otherwise."""
    match = _CHOICE.fullmatch(text)
    return match.group(1) if match else None


def labelled_choice(text: str) -> tuple[str, str] | None:
    r"""Return letter and content of `(B) 42` or `\text{(B)}42`; None otherwise."""
    match = _LABELLED.fullmatch(text)
    if match is None:
        return None
    return next(letter for letter in match.groups()[:4] if letter), match.group(5)


def number_in_base(text: str) -> tuple[str, int] | None:
    """Return digits and base of `203_7`; None otherwise."""
    match = _BASE.fullmatch(text)
    if match is None or not re.search(r"\d", match.group(1)):
        return None
    digits = match.group(1).removeprefix("\\text{").removesuffix("}")
    return digits.upper().lstrip("0") or "0", int(match.group(2))


_SMALL_NUMBERS = (
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven",
    "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen",
)  # fmt: skip
_TENS = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
NUMBER_WORDS = {word: number for number, word in enumerate(_SMALL_NUMBERS)} | {
    word: 10 * number for number, word in enumerate(_TENS, start=2)
}
NUMBER_WORDS |= {
    f"{tens}-{ones}": NUMBER_WORDS[tens] + number
    for tens in _TENS
    for number, ones in enumerate(_SMALL_NUMBERS[1:10], start=1)
}

_TRUTH = {"yes": "true", "no": "false"}
_DENIAL = re.compile(r"\b(?:not|never|neither|nor|cannot)\b|n't\b")


def same_words(first: str, second: str) -> bool:
    """Return whether two answers in words are the same: `The East` and `east`, a name and its sentence.

    A sentence is about the word that it starts or ends with, unless it denies something.
    """
    shorter, longer = sorted((_spelled(first), _spelled(second)), key=len)
    if shorter == longer:
        return True
    sentence, words = longer.split(), shorter.split()
    if len(words) > 3 or len(sentence) < len(words) + 2 or _DENIAL.search(longer):
        return False
    after = sentence[len(words)]
    starts = sentence[: len(words)] == words and after not in _JOINS
    return starts or (sentence[-len(words) :] == words and sentence[-len(words) - 1] not in _JOINS)


def is_sentence(text: str) -> bool:
    """Return True for four words or more without mathematics."""
    return not re.search(r"[\\=^_<>$\d]", text) and len(re.findall(r"[A-Za-z]{2,}", text)) >= 4


_JOINS = frozenset(("and", "or", "than", "not", "nor", "of", "but", "versus", "'s"))


def _spelled(text: str) -> str:
    """Words without case, signs and articles."""
    words = " ".join(re.sub(r"[^\w'%$+ -]", " ", text).split())
    plain = re.sub(r"^(?:the|a|an) ", "", words.casefold())
    return _TRUTH.get(plain, plain)


def words_of(text: str, *, wanted: bool = False) -> str | None:
    r"""Return the answer as plain words in one spelling, None for mathematics.

    `\text{Evelyn}`, `east`, `two lines` and `CBAD` are words; `xy` and `abc` are products of variables,
    unless `wanted` says that the other side is words.
    """
    whole = _whole_text(text)
    plain = whole if whole is not None else text.replace("\\text{", " ").replace("}", " ")
    plain = " ".join(plain.split()).strip(" .,;:!?\"'")
    if whole is None:
        if "\\" in plain or not re.fullmatch(r"[A-Za-z][A-Za-z' .-]*|[A-Z][a-z]+ \d{1,2}", plain):
            return None
        product = re.fullmatch(r"[a-z]{1,3}|[A-Z]{1,2}|[A-Z]|[a-z] [a-z]", plain) is not None
        if product and not wanted and plain not in NUMBER_WORDS:
            return None
        if "-" in plain and not re.fullmatch(r"[A-Za-z]{2,}(?:-[A-Za-z]{2,})*(?: .*)?", plain):
            return None
    elif len(plain) == 1 and not wanted:
        return None
    lowered = plain if re.fullmatch(r"[A-Z]{2,}", plain) else plain.casefold()
    return re.sub(r"^(?:the|a|an) ", "", lowered)
