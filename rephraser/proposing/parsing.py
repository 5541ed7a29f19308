"""Parse candidates from a model's reply: between tags, in JSON, or a single one as plain text.

No text raises an error. An `Outcome` names what cannot be used, and the request is sent again with another
seed.
"""

import json
import re
from collections.abc import Iterator
from enum import StrEnum
from itertools import zip_longest
from typing import Any

from evaluator.grading.extraction import after_thinking
from rephraser.checks.structure import MARKUP, check_chatter
from rephraser.checks.text import find_other_language, skeleton
from service.asks.request import Choice


class ParseResult(StrEnum):
    """What parsing found in one reply."""

    OK = "ok"
    PARTIAL = "fewer candidates than requested"
    EMPTY = "empty answer"
    REFUSED = "refused"
    TRUNCATED = "truncated"
    ECHOED = "echoed the question or the prompt"
    LANGUAGE = "written in another language"
    MALFORMED = "no readable candidate"


Parsed = tuple[tuple[str, ...], ParseResult]
"""The usable candidates of a reply, at most as many as requested, and the reason if some are missing."""

_FENCE = re.compile(r"```[a-zA-Z]*[ \t]*\n?(.*?)```", re.S)
# Text between two tags where an echo or a model thinking aloud repeats the request's words.
_MENTION = frozenset({"", "and", "or", "to", "...", "…"})
_REFUSAL = re.compile(
    r"^\W*(?:i(?:'|’)?m (?:very )?sorry|i am sorry|sorry,|as an ai\b|i must decline"
    r"|(?:unfortunately, )?(?:i (?:can(?:'|’)?t|cannot|can not|won(?:'|’)?t|am (?:unable|not able))"
    r"|i(?:'|’)m (?:unable|not able))\b"
    r"(?![^.?!\n]*[\d$\\])"  # a problem may begin "I cannot find 3 of my keys" too
    r"|(?:unfortunately, )?i\b[^.?!\n]{0,20}\b(?:cannot|not able|unable|(?:can|won)(?:'|’)?t)\b[^.?!\n]{0,80}"
    r"\b(?:request|prompt|image|help|assist|version|re-?phras|re-?writ|re-?word|paraphras))",
    re.I,
)
_PROMPT_ECHO = (
    "<problem>",
    "</problem>",
    "<earlier>",
    "Write one rewrite of the problem",
    "differ from each other in",
)
_STRING = r'"(?:[^"\\]|\\.)*"'
_STRINGS = re.compile(rf'(?:\{{\s*"\w+"\s*:\s*)?\[((?:[\s,]*{_STRING})*)', re.S)


def parse_candidates(reply: Choice, *, question: str, count: int) -> Parsed:
    """Return up to `count` candidates found in a model's reply to a request for `count`.

    If the reply was cut off, keep complete candidates and drop the last one.
    """
    candidates, outcome = _parse(reply.text, question, count, truncated=reply.finish_reason == "length")
    refused = reply.finish_reason in {"content_filter", "refusal"}
    return candidates, ParseResult.REFUSED if refused else outcome


def _parse(text: str, question: str, count: int, *, truncated: bool) -> Parsed:
    body = after_thinking(text)
    if body is None:
        return (), ParseResult.TRUNCATED
    if not (body := body.strip()):
        return (), ParseResult.EMPTY
    if not (items := list(filter(None, map(_clean, _read(body, question, count, truncated))))):
        outcome = ParseResult.TRUNCATED if truncated else ParseResult.MALFORMED
        if _REFUSAL.match(body):
            outcome = ParseResult.REFUSED
        elif _repeats_prompt(body) or skeleton(body) == skeleton(question):
            outcome = ParseResult.ECHOED
        return (), outcome
    usable: dict[str, str] = {}
    faults: set[ParseResult] = set()
    for item in items:
        if _REFUSAL.match(item):
            faults.add(ParseResult.REFUSED)
        elif skeleton(item) == skeleton(question) or _repeats_prompt(item):
            faults.add(ParseResult.ECHOED)
        elif find_other_language(question, item):
            faults.add(ParseResult.LANGUAGE)
        else:
            usable.setdefault(skeleton(item), item)
    candidates = tuple(usable.values())[:count]
    if len(candidates) == count:
        return candidates, ParseResult.OK
    if truncated:
        return candidates, ParseResult.TRUNCATED
    if candidates:
        return candidates, ParseResult.PARTIAL
    order = (ParseResult.ECHOED, ParseResult.LANGUAGE, ParseResult.REFUSED)
    return (), next((fault for fault in order if fault in faults), ParseResult.MALFORMED)


def _repeats_prompt(text: str) -> bool:
    return any(mark in text for mark in _PROMPT_ECHO)


def _read(body: str, question: str, count: int, truncated: bool) -> list[str]:
    if MARKUP.search(body):
        return _between_tags(body, count, truncated)
    if (from_json := _from_json(body)) is not None:
        return from_json
    alone = count == 1 and not truncated and not check_chatter(question, _clean(body))
    return [body] if alone and not _REFUSAL.match(body) else []


def _between_tags(body: str, count: int, truncated: bool) -> list[str]:
    """Return the texts after opening tags, each up to the next tag or the end of a complete reply.

    A tag without a closing one counts only if too few have one.
    """
    tags = list(MARKUP.finditer(body))
    pieces: list[tuple[str, bool]] = []
    for tag, after in zip_longest(tags, tags[1:]):
        if _closes(tag) or (after is None and truncated):
            continue
        piece = body[tag.end() : after and after.start()]
        if piece.strip("`* \n") not in _MENTION:
            pieces.append((piece, after is not None and _closes(after)))
    enough = sum(closed for _, closed in pieces) >= count
    return [piece for piece, closed in pieces if closed or not enough]


def _closes(tag: re.Match[str]) -> bool:
    return bool(tag["end"] or tag["bracket_end"])


def _from_json(body: str) -> list[str] | None:
    """Return the strings of a JSON reply; None if the reply is not JSON."""
    if body in {"{}", "[]"}:
        return []
    for piece in [*_FENCE.findall(body), body]:
        if (start := re.search(r"[{\[]\s*[\"{\[]", piece)) is None:
            continue
        document = double_latex_backslashes(piece[start.start() :])
        strings: list[str] = []
        try:
            strings = list(_strings(json.JSONDecoder(strict=False).raw_decode(document)[0]))
        except RecursionError:  # a model that went on opening brackets
            continue
        except ValueError:  # it breaks off or is badly closed
            if match := _STRINGS.match(document):
                strings = [json.loads(text, strict=False) for text in re.findall(_STRING, match[1], re.S)]
        if strings or not piece[: start.start()].strip():  # a text may contain brackets, such as a matrix
            return strings
    return None


def _strings(value: Any) -> Iterator[str]:
    """Yield the candidates in a JSON value; of an object those under "rephrasings" or its only key."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for item in value:
            yield from _strings(item)
    elif isinstance(value, dict):
        for item in value.values() if len(value) == 1 else [value.get("rephrasings")]:
            yield from _strings(item)


def _clean(item: str) -> str:
    """Return a candidate without the fence, quotation marks or asterisks around it."""
    fenced = _FENCE.fullmatch(item.strip())
    item = (fenced[1] if fenced else item).strip()
    for opening, closing in (('"', '"'), ("“", "”"), ("**", "**")):
        inner = item[len(opening) : len(item) - len(closing)]
        if item.startswith(opening) and item.endswith(closing) and inner and opening not in inner:
            item = inner.strip()
    return item


_DOUBLED = re.compile(r"(?<!\\)\\\\[A-Za-z]")
_SINGLE = re.compile(r"(?<!\\)\\[ac-eg-mo-qsv-zA-Z]")
_LATEX = (
    r"[bfr][A-Za-z]"  # nobody wants a backspace, form feed or carriage return before a letter
    r"|t(?:anh?|au|ag|ext[a-z]*|frac|binom|heta|herefore|imes|ilde|op?|riangle[a-z]*|iny|hickspace|hinspace)(?![A-Za-z])"
    r"|n(?:abla|atural|earrow|eg|eq|ewline|exists|geq|gtr|leq|oindent|olimits|ormalsize|onumber|ot|otin"
    r"|parallel|subseteq|warrow)(?![A-Za-z])|u(?![0-9a-fA-F]{4})|[^\"\\/bfnrtu]"
)


def double_latex_backslashes(text: str) -> str:
    r"""Return `text`, a JSON document, with single backslashes of LaTeX commands doubled.

    JSON reads `"\frac"` as a form feed and "rac", `"\times"` as a tab and "imes": valid JSON, a destroyed
    formula. `\ne` and `\nu` may also begin a line; they do in a document that doubles its backslashes.
    """
    doubles = _DOUBLED.search(text) and not _SINGLE.search(text)
    latex = _LATEX if doubles else rf"{_LATEX}|n(?:[eu]|mid|less)(?![A-Za-z])|ni(?![A-Za-z.)])"
    return re.sub(rf"\\\\|\\(?={latex})", r"\\\\", text)
