r"""Finds the final answer in a response. Pure and linear in the length of the text.

The last `\boxed{...}` wins; without one, the last of "final answer is ...", "answer: ...", "A: ...",
"#### ...". A response with none of these has no answer: guessing a number from prose would grade
"I checked 1331 and 1728" as an answer.
"""

import re
from dataclasses import dataclass

_BOX_TOKEN = re.compile(r"\\+(?:boxed|fbox)(?![A-Za-z])|\\.|[{}]", re.DOTALL)
_BARE_BOX = re.compile(r"[ \t]{0,20}([^\s${}\\]{1,200}|\\[A-Za-z]{1,30}(?:\{[^{}]{0,200}\}){1,2})")
_BOX_GLUE = re.compile(r"[\s$]{0,20}(?:,|;|\\text\{ ?and ?\}|\b(?:and|or)\b|[\s$]){0,3}[\s$]{0,20}")
_MARKER = re.compile(
    r"(?:^|(?<=\n))[ \t>*#_-]{0,20}####[ \t]?"
    r"|(?:^|(?<=\n))[ \t]{0,20}A:"
    r"|\bfinal[ \t]answer(?:[ \t][^\n.:$]{0,60}?)?(?:[ \t]is\b|[ \t]?:)"
    r"|\b(?:the|my|our)[ \t]answer(?:[ \t][^\n.:$]{0,60}?)?[ \t]is\b"
    r"|\banswer(?:\*\*)?[ \t]?:"
    r"|\bfinal[ \t]answer\b(?=[*_#]{0,4}[ \t]{0,4}\n)",
    re.IGNORECASE,
)
_SENTENCE_END = re.compile(r"(?<=[^\s.])\.(?=\s|$)")
_MATH = re.compile(r"\$\$?([^$]+)\$\$?|\\\((.+?)\\\)|\\\[(.+?)\\\]", re.DOTALL)
_LIST_GLUE = re.compile(r"\s*(?:,|;|,?\s*\b(?:and|or)\b)\s*", re.IGNORECASE)
_LONGEST_TAIL = 2_000


def last_boxed(text: str) -> str | None:
    r"""The content of the last complete `\boxed{...}` or `\fbox{...}`, or of a bare `\boxed 5`.

    Braces are balanced; escaped braces (`\{`) do not count. Returns "" for an empty box and None when
    there is none. A box that is never closed (a response cut off) is passed over. Of nested boxes the
    inner one counts, since it starts last.
    """
    boxes = _boxes(text)
    return boxes[-1].content if boxes else None


def boxed_answer(text: str) -> str | None:
    r"""The last box, together with those just before it: `\boxed{2} and \boxed{3}` is the answer `2, 3`.

    Taking 3 alone would count a response that names two answers as one that found the right one.
    """
    boxes = _boxes(text)
    if not boxes:
        return None
    joined = [boxes[-1]]
    for box in reversed(boxes[:-1]):
        if box.end > joined[0].start or not _BOX_GLUE.fullmatch(text, box.end, joined[0].start):
            break
        joined.insert(0, box)
    return ", ".join(dict.fromkeys(box.content for box in joined))


@dataclass(frozen=True)
class _Box:
    start: int
    end: int
    content: str


def _boxes(text: str) -> list[_Box]:
    """All complete boxes by their start, in one pass over the text."""
    if "boxed" not in text and "fbox" not in text:
        return []
    open_braces: list[int] = []
    openings: dict[int, int] = {}  # position of an opening brace -> start of its \boxed
    found: list[_Box] = []
    for match in _BOX_TOKEN.finditer(text):
        token = match.group()
        if token == "{":
            open_braces.append(match.start())
        elif token == "}":
            if open_braces:
                opening = open_braces.pop()
                if opening in openings:
                    content = text[opening + 1 : match.start()].strip()
                    found.append(_Box(openings[opening], match.end(), content))
        elif len(token) > 2:
            opening = match.end()
            while opening < len(text) and opening < match.end() + 20 and text[opening].isspace():
                opening += 1
            if text[opening : opening + 1] == "{":
                openings[opening] = match.start()
            elif bare := _BARE_BOX.match(text, match.end()):
                found.append(_Box(match.start(), bare.end(), bare.group(1).rstrip(".,;")))
    return sorted(found, key=lambda box: box.start)


def extract_answer(response: str) -> str | None:
    r"""The final answer of a response, or None when it gives none.

    Thinking between `<think>` and `</think>` is no answer; one that was cut off inside it gives none.

    >>> extract_answer(r"so we get \boxed{\frac{1}{2}}")
    '\\frac{1}{2}'
    >>> extract_answer("3 + 4 = 7\nA: 7")
    '7'
    """
    _, closed, after = response.rpartition("</think>")
    if closed:
        response = after
    elif "<think>" in response:
        return None
    boxed = boxed_answer(response)
    if boxed is not None:
        return boxed
    last = None
    for match in _MARKER.finditer(response):
        last = match
    if last is None:
        return None
    tail = _first_line(response[last.end() : last.end() + _LONGEST_TAIL])
    return _clean(tail) or None


def _first_line(tail: str) -> str:
    tail = tail.lstrip(" \t\r\n*_:#>-" if tail.lstrip(" \t*_:#>").startswith("\n") else " \t*_:")
    if tail.startswith(("$$", "\\[")):
        closing = tail.find("$$" if tail.startswith("$$") else "\\]", 2)
        if closing > 0:
            return tail[2:closing]
    return tail.split("\n", 1)[0]


def _clean(line: str) -> str:
    line = line.strip()
    if end := _SENTENCE_END.search(line):
        line = line[: end.start()]
    line = line.strip().strip("*_`").strip()
    chunks = [next(group for group in found.groups() if group is not None) for found in _MATH.finditer(line)]
    if chunks:
        between = _MATH.split(line)[:: _MATH.groups + 1]
        # "$2$ and $3$" is one answer with two parts; "$x = 3$ after dividing by $2$" is the first part.
        if len(chunks) > 1 and all(_LIST_GLUE.fullmatch(part) for part in between[1:-1]):
            return ", ".join(chunk.strip() for chunk in chunks)
        if not between[0].strip():
            rest = between[1].strip() if len(chunks) == 1 else ""
            return (
                f"{chunks[0].strip()} {rest}".strip()
                if re.fullmatch(r"[\w%]{1,20}", rest)
                else chunks[0].strip()
            )
        if re.fullmatch(r"[A-Za-z][\w ,'()]*", between[0].strip()) and len(chunks) == 1:
            return chunks[0].strip()
    return line.strip().rstrip(".,;").strip()
