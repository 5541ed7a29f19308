"""Parse candidates from a model's reply: tags, JSON, lists or plain text, including faulty ones.

Nothing here raises on any text: what cannot be used is named by an `Outcome`, and the request is sent again
with another seed.
"""

import json
import re
from enum import StrEnum
from itertools import pairwise
from typing import Any, NamedTuple

from evaluator.grading.extraction import after_thinking
from rephraser.checks.language import check_language
from rephraser.checks.shape import MARKUP
from rephraser.checks.wording import skeleton


class Outcome(StrEnum):
    """What parsing found in one answer."""

    OK = "ok"
    PARTIAL = "fewer candidates than requested"
    UNREADABLE = "unreadable items"
    EMPTY = "empty answer"
    REFUSED = "refused"
    TRUNCATED = "truncated"
    ECHOED = "echoed the question or the prompt"
    LANGUAGE = "written in another language"
    MALFORMED = "no readable candidate"


class Parsed(NamedTuple):
    """The usable candidates of an answer, at most as many as asked, and what was wrong if some lack."""

    candidates: tuple[str, ...]
    outcome: Outcome


_NUMBER = re.compile(r"[*_]{0,2}\(?(\d{1,2})[.):][*_]{0,2}[ \t]+(?=\S)")
_SECOND = re.compile(r"(?:^|\s)[*_]{0,2}\(?2[.):][*_]{0,2}\s")
_FENCE = re.compile(r"```[a-zA-Z]*[ \t]*\n?(.*?)```", re.S)
# What stands between two tags where an echo or a model thinking aloud repeats the request's words.
_MENTION = frozenset({"", "and", "or", "to", "...", "…"})
_REWRITE = (
    r"re-?phras(?:ing|e|ed)|re-?writ(?:e|ten|ing)|paraphras(?:e|ed|ing)|renamed|reformatted|version|variant"
)
_LABEL = rf"(?:{_REWRITE}|candidate|option|alternative)"
# A line of its own, marked as a heading: "**Option 1**" or the bare line "Version 1" may be a problem's own.
_HEADING = (
    r"[ \t]*+(?:#{1,6}[ \t]*+[*_]{0,3}|[*_]{2,3})"
    rf"(?:{_REWRITE})"
    r"(?:[ \t]+(?:question|problem|version))?[ \t]*+#?\d*+[*_]{0,3}[ \t]*+\n\s*+"
)
_ITEM = re.compile(
    rf"^(?:{_HEADING}|[ \t>*#_]*(?:"
    + _LABEL
    + r"(?:[ \t]+(?:question|problem|version))?[ \t]*+(?:it[ \t]*+)?+#?\d*+[ \t]*[*_]*[:.)\-–—][*_]*"
    + r"|\(?\d{1,2}[.):][*_]*)[ \t]*)",
    re.I | re.M,
)
_PREFIX = re.compile(
    rf"^(?:{_HEADING}|[ \t>*#_\"“]*"
    + _LABEL
    + r"(?:[ \t]+(?:question|problem|version|it))*[ \t]*+#?\d*[ \t]*[*_]*:[*_]*[ \t]*)",
    re.I,
)
_OPENING = re.compile(
    r"(?:sure|certainly|of course|absolutely|here(?:'s| is| are)|here you go|below (?:is|are)|okay|ok)\b",
    re.I,
)
_ABOUT_REWRITES = re.compile(
    r"re-?phras|re-?writ|re-?word|re-?stat|reformulat|paraphras|revis|modif|correct|simplif|version|question|problem"
    r"|variation|sentence|\btext\b|paragraph|response|happy to help",
    re.I,
)
_SPEAKS = re.compile(r"\b(?:i|i(?:'|’)(?:m|d|ll|ve)|let(?:'|’)?s|here|below|please|you|your)\b", re.I)
_ONLY_OPENING = re.compile(r"\w+(?: \w+){0,2}[,!.:]{1,2}", re.I)
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
_LIST_KEYS = ("rephrasings", "rephrases", "rephrased", "rewrites", "questions", "paraphrases", "candidates")
_JSON_STRING = re.compile(r'"(?:[^"\\]|\\.)*"', re.S)
_JSON_ARRAY = re.compile(
    r'\s*(?:\{\s*"(?:'
    + "|".join(_LIST_KEYS)
    + rf')"\s*:\s*)?\[(?P<strings>(?:[\s,]*{_JSON_STRING.pattern})*)',
    re.S,
)
_REMARKS = frozenset(
    "answer changes comment explanation note notes original reason reasoning solution".split()  # noqa: SIM905
)
_TEXT_KEYS = (
    *("rephrasing", "rephrased_question", "rewritten_question", "rephrased", "rewritten", "rewrite"),
    *("rephrased_problem", "rewritten_problem", "paraphrase", "text", "question", "content"),
)


def parse_candidates(text: str, *, question: str, count: int, truncated: bool) -> Parsed:
    """Return up to `count` candidates found in `text`, a model's answer to a request for `count`.

    `truncated` says that the model stopped at its token limit: candidates that are whole are kept, the last
    open one is not.
    """
    if not text.strip():
        return Parsed((), Outcome.EMPTY)
    reply = after_thinking(text)
    if reply is None:
        return Parsed((), Outcome.TRUNCATED)
    body = reply.strip()
    if not body:
        return Parsed((), Outcome.EMPTY)
    items = _without_numbers(_read(body, count, truncated))
    if not any(items) or (len(items) == 1 and _REFUSAL.match(items[0])):
        if _REFUSAL.match(body):
            return Parsed((), Outcome.REFUSED)
        if _repeats_prompt(body):
            return Parsed((), Outcome.ECHOED)
        return Parsed((), Outcome.TRUNCATED if truncated else Outcome.MALFORMED)
    usable: list[str] = []
    echoes = foreign = 0
    for item in items:
        if not item or _REFUSAL.match(item):
            continue
        if skeleton(item) == skeleton(question) or _repeats_prompt(item):
            echoes += 1
        elif check_language(question, item):
            foreign += 1
        elif skeleton(item) not in {skeleton(other) for other in usable}:
            usable.append(item)
    usable = usable[:count]
    if len(usable) == count:
        return Parsed(tuple(usable), Outcome.OK)
    if truncated:
        return Parsed(tuple(usable), Outcome.TRUNCATED)
    if not usable and (echoes or foreign):
        return Parsed((), Outcome.ECHOED if echoes else Outcome.LANGUAGE)
    if usable and "" in items:
        return Parsed(tuple(usable), Outcome.UNREADABLE)
    return Parsed(tuple(usable), Outcome.PARTIAL if usable else Outcome.MALFORMED)


def _repeats_prompt(text: str) -> bool:
    return any(mark in text for mark in _PROMPT_ECHO)


def _read(body: str, count: int, truncated: bool) -> list[str]:
    if MARKUP.search(body):
        return _between_tags(body, count, truncated)
    from_json = _from_json(body)
    if from_json is not None:
        return [_clean(item) for item in from_json]
    items = _from_text(body, count)
    if truncated:
        items.pop()  # it broke off
    return [_clean(_without_opening(_strip_fences(item.strip()).strip())) for item in items]


def _between_tags(body: str, count: int, truncated: bool) -> list[str]:
    """Return the texts after opening tags, each up to the next tag or the end of a reply that is complete.

    A tag that was not closed counts only where too few were. A text that opens none may begin inside of one.
    """
    tags = list(MARKUP.finditer(body))
    opening = [tag for tag in tags if not (tag["end"] or tag["bracket_end"])]
    if not opening:
        first = _without_opening(body[: tags[0].start()].strip())
        rest = [body[tag.end() : after.start()] for tag, after in pairwise(tags)]
        return [_clean(item) for item in (first, *rest) if item.strip("`* \n") not in _MENTION]
    # "<rephrasings>" around all of them opens none, unless nothing else does.
    single = [tag for tag in opening if not (tag["word"] or tag["bracket_word"] or "").lower().endswith("s")]
    opens = {tag.start() for tag in single or opening}
    pieces = [
        (body[tag.end() : after.start()], bool(after["end"] or after["bracket_end"]))
        for tag, after in pairwise(tags)
        if tag.start() in opens
    ]
    if not truncated and tags[-1].start() in opens:
        pieces.append((body[tags[-1].end() :], False))
    pieces = [(item, closed) for item, closed in pieces if item.strip("`* \n") not in _MENTION]
    enough = sum(closed for _, closed in pieces) >= count
    return [_clean(item) for item, closed in pieces if closed or not enough]


def _from_json(body: str) -> list[str] | None:
    """Return the strings of a JSON answer; None where the answer is not JSON, [] where it holds none."""
    if body in {"{}", "[]"}:
        return []
    for piece in [*_FENCE.findall(body), body]:
        start = min((i for i in (piece.find("{"), piece.find("[")) if i >= 0), default=-1)
        if start < 0 or not re.match(r"[{\[]\s*[\"{\[]", piece[start:]):
            continue
        prepared = double_latex_backslashes(piece[start:])
        try:
            value, _ = json.JSONDecoder(strict=False).raw_decode(prepared)
        except RecursionError:  # a model that went on opening brackets
            continue
        except ValueError:
            array = _JSON_ARRAY.match(prepared)  # it breaks off or is badly closed
            if array is not None:
                return [json.loads(text, strict=False) for text in _JSON_STRING.findall(array["strings"])]
            continue
        strings = _strings(value)
        if strings is not None and (any(strings) or not piece[:start].strip()):
            return strings
    return None


def _strings(value: Any) -> list[str] | None:
    """Return the candidates in a JSON value, "" for an item that cannot be read; None where it has none."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, list):
        items = [_strings(item) for item in value]
        return [item[0] if item and len(item) == 1 else "" for item in items]
    if isinstance(value, dict):
        for key in _LIST_KEYS:
            if isinstance(value.get(key), list | dict):
                return _strings(value[key])
        for key in (*_TEXT_KEYS, *_LIST_KEYS):
            if isinstance(value.get(key), str):
                return [value[key]]
        if value and all(isinstance(item, dict) for item in value.values()):
            return _strings(list(value.values()))
        texts = [item for item in value.values() if isinstance(item, str)]
        if texts and len(texts) == len(value):
            return texts
        sentences = [
            item
            for key, item in value.items()
            if isinstance(item, str) and " " in item.strip() and key.lower() not in _REMARKS
        ]
        return sentences if len(sentences) == 1 else None
    return None


def _from_text(body: str, count: int) -> list[str]:
    body = _strip_fences(_without_opening(body)).strip()
    starts = [match for match in _ITEM.finditer(body) if body[match.end() : match.end() + 1].strip()]
    # The options of a problem itself stand behind its first words.
    leads = len(starts) >= 2 and not body[: starts[0].start()].strip(" \t\n*#_")
    if count > 1 and leads:
        ends = [match.start() for match in starts[1:]] + [len(body)]
        return [body[match.end() : end] for match, end in zip(starts, ends, strict=True)]
    if count > 1:
        paragraphs = [part for part in re.split(r"\n[ \t]*(?:-{3,}[ \t]*)?\n", body) if part.strip(" \t\n-*")]
        if len(paragraphs) == count:
            return paragraphs
    if count == 1 and leads and all(_PREFIX.match(match.group()) for match in starts):
        return [body[starts[0].end() : starts[1].start()]]
    return [body]


def _strip_fences(body: str) -> str:
    fenced = _FENCE.findall(body)
    if len(fenced) == 1 and not _FENCE.sub("", body).strip():
        return str(fenced[0])
    return body


def _without_opening(text: str) -> str:
    """Return a text without a first line that only announces a rewrite; a problem may begin "Here is" too.

    A whole sentence announces where it speaks of writer or reader; "Sure! It is about 5 pens." does not.
    """
    first, _, rest = text.partition("\n")
    first = first.rstrip()
    if not rest.strip() or not first.endswith((":", ".", "!")) or not _OPENING.match(first):
        return text
    announces = _ABOUT_REWRITES.search(first) and (first.endswith(":") or _SPEAKS.search(first))
    return rest.lstrip("\n") if announces or _ONLY_OPENING.fullmatch(first) else text


def _clean(item: str) -> str:
    item = _strip_fences(item.strip()).strip()
    item = _PREFIX.sub("", item, count=1).strip()
    for opening, closing in (('"', '"'), ("“", "”"), ("**", "**")):
        inner = item[len(opening) : len(item) - len(closing)]
        if item.startswith(opening) and item.endswith(closing) and inner and opening not in inner:
            item = inner.strip()
    return item


def _without_numbers(items: list[str]) -> list[str]:
    """Return items without the numbers 1, 2, ... before them; a list of facts inside of one keeps its own."""
    starts = [_NUMBER.match(item) if item else None for item in items]
    if not items or _SECOND.search(items[0]):
        return items
    if any(
        item and (start is None or int(start[1]) != place)
        for place, (item, start) in enumerate(zip(items, starts, strict=True), 1)
    ):
        return items
    return [item[start.end() :] if start else item for item, start in zip(items, starts, strict=True)]


# Commands that begin with a letter JSON gives a meaning to (b, f, n, r, t, u).
_COMMANDS = frozenset(
    """
    bar beta begin bf big Big bigcap bigcup bigg binom bmod boldsymbol bot bowtie box boxed boxplus
    bullet backslash because bigl bigr Bigl Bigr biggl biggr bigtriangleup flat fbox forall frac frown
    footnotesize nabla natural ne nearrow neg neq newline nexists ngeq ni nleq nmid noindent nonumber
    not notin nu nparallel nsubseteq nwarrow nolimits nless ngtr normalsize rangle rbrace rbrack
    rceil Re ref relax rfloor rho right rightarrow Rightarrow rightharpoonup rightleftharpoons rlap
    rm root rvert rVert rtimes raisebox tan tanh tau tag text textbf textit textnormal textrm textsf
    textstyle textsc texttt textup tfrac tbinom theta therefore thickspace thinspace tilde times to
    top triangle triangledown triangleleft triangleq triangleright tiny underbrace underline
    underset uparrow updownarrow uplus upsilon unit
    """.split()  # noqa: SIM905
)
_LINE_OR_COMMAND = frozenset({"ne", "ni", "nless", "nmid", "nu"})
"""What is a new line before a name or word as well: "Facts:\ni. ..."."""
_ESCAPE = re.compile(r"\\(\\|u[0-9a-fA-F]{4}|[A-Za-z]+|.|$)", re.S)
_DOUBLED = re.compile(r"(?<!\\)\\\\[A-Za-z]")
_SINGLE = re.compile(r"(?<!\\)\\[ac-eg-mo-qsv-zA-Z]")


def double_latex_backslashes(text: str) -> str:
    r"""Return `text`, a JSON document, with single backslashes of LaTeX commands doubled.

    JSON reads `"\frac"` as a form feed and "rac", `"\times"` as a tab and "imes": valid JSON, a destroyed
    formula. What stands after the backslash tells: a known command is LaTeX; "\nu" and the like are only in a
    formula or behind a space, in a document that does not double its backslashes.
    """
    doubled = _DOUBLED.search(text) is not None and _SINGLE.search(text) is None
    pieces: list[str] = []
    end, in_formula = 0, False
    for match in _ESCAPE.finditer(text):
        between, rest = text[end : match.start()], match.group(1)
        _, quote, string = between.rpartition('"')
        in_formula = (in_formula and not quote) != (string.count("$") % 2 == 1)
        in_formula = rest in {"(", "["} or (in_formula and rest not in {")", "]"})
        is_latex = _is_latex(rest)
        if rest in _LINE_OR_COMMAND:
            bare = between.endswith(" ") and text[match.end() : match.end() + 1] not in {".", ")"}
            is_latex = not doubled and (in_formula or bare)
        pieces += [between, "\\" if is_latex else "", match.group(0)]
        end = match.end()
    return "".join(pieces) + text[end:]


def _is_latex(rest: str) -> bool:
    """Say whether what follows a backslash in JSON is no escape."""
    if rest in {"\\", '"', "/"} or re.fullmatch(r"u[0-9a-fA-F]{4}", rest):
        return False
    # A real escape, as in "first line\nSecond line"; but \u without four digits can only be LaTeX.
    return rest[:1] not in {"b", "f", "n", "r", "t"} or rest in _COMMANDS
