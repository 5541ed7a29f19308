r"""Finds boxed answers in a text. Pure and linear in its length."""

import re
from dataclasses import dataclass

_COMMAND = re.compile(r"\\(?:(?:begin)?boxed|fbox)(?![A-Za-z])")
_BOX_TOKEN = re.compile(rf"(?<!\\)\\*{_COMMAND.pattern}|\\.|[{{}}]", re.DOTALL)
_BARE_BOX = re.compile(r"[ \t]{0,20}([^\s${}\\]{1,200}|\\[A-Za-z]{1,30}(?:\{[^{}]{0,200}\}){1,2})")
_SPACE = r"(?:[\s$~]|\\q?quad\b|\\[,;: ]){0,20}"
_WORDS_AND = r"\\text ?\{[^{}]{0,40}?\b(?:and|or) ?\}|(?:[A-Za-z]{1,20} )?\band\b|\bor\b"
_BOX_GLUE = re.compile(rf"{_SPACE}(?:,|;|{_WORDS_AND}|{_SPACE}){{0,2}}{_SPACE}")


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
    starts = [match.start() for match in _COMMAND.finditer(text)]
    if not starts:
        return None
    tail = text[starts[-3:][0] :]
    boxes = _boxes(tail)
    joined = _joined(tail, boxes)
    if len(starts) > 3 and len(joined) == len(boxes):
        # All of them belong together, or none is complete: those before may belong to them as well.
        joined = _joined(text, _boxes(text))
    return ", ".join(dict.fromkeys(box.content for box in joined)) if joined else None


def _joined(text: str, boxes: list["_Box"]) -> list["_Box"]:
    joined = boxes[-1:]
    for box in reversed(boxes[:-1]):
        if box.end > joined[-1].start or not _BOX_GLUE.fullmatch(text, box.end, joined[-1].start):
            break
        joined.append(box)
    return joined[::-1]


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
    boxes: list[_Box] = []
    for match in _BOX_TOKEN.finditer(text):
        token = match.group()
        if token == "{":
            open_braces.append(match.start())
        elif token == "}":
            if open_braces:
                opening = open_braces.pop()
                if opening in openings:
                    content = text[opening + 1 : match.start()].strip()
                    boxes.append(_Box(openings[opening], match.end(), content))
        elif len(token) > 2:
            opening = match.end()
            while opening < len(text) and opening < match.end() + 20 and text[opening].isspace():
                opening += 1
            if text[opening : opening + 1] == "{":
                openings[opening] = match.start()
            elif bare := _BARE_BOX.match(text, match.end()):
                boxes.append(_Box(match.start(), bare.end(), bare.group(1).rstrip(".,;")))
    return sorted(boxes, key=lambda box: box.start)
