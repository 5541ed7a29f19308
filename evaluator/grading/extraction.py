r"""Finds the final answer in a response. Pure and linear in the length of the text.

The last `\boxed{...}` wins; without one, what the final statement is about (see `statement`). That is what
follows the last marker ("final answer is ...", "answer: ...", "A: ...", "#### ..."), else the last sentence
that states something: a number, a formula, something in bold, or a conclusion.
"""

import re
from itertools import pairwise
from typing import NamedTuple

from evaluator.grading.exact import choice_letters
from evaluator.grading.statement import formulas, is_option, stated, states_something
from evaluator.grading.types import AnswerKind, GradeCase
from service.boxes import boxed_answer, last_boxed

_LONGEST_GOLD = 200

_CLOSING = "The final answer is "
_VERDICT = re.compile(r"\W*(?:indeed |also )?correct\b", re.IGNORECASE)
"""What may follow "the answer is" at the end of a check, without being an answer."""
LONGEST_RESPONSE = 200_000
"""Only so many characters at the end of a response are searched."""
_LETTER = re.compile(
    r"(?:option|choice|answer)s?(?:[ \t]is)?:?[ \t]*[(*]{0,4}([A-J])\b|\(([A-J])\)"
    r"|(?:^|\n)[ \t*]{0,6}([A-J])[.)]?[ \t*]{0,6}(?:\n|$)"
)
_LONGEST_END = 2_000  # characters at the end of a response, or behind a marker
_UNESCAPED = re.compile(r"[\x08\x0c](?=[a-z])")  # what JSON makes of the beginning of \boxed and \frac


class FinalAnswer(NamedTuple):
    """An answer and where it was found, one of `types.SOURCES`."""

    text: str
    source: str


def find_answer(
    response: str, kind: AnswerKind = AnswerKind.LATEX, boxed_only: bool = False
) -> FinalAnswer | None:
    r"""Return the final answer of a response and where it was found; None if there is none.

    The last box; else, unless `boxed_only`, what the response states last. Thinking between `<think>` and
    `</think>` is never an answer; a response that was cut off inside it has none.

    >>> find_answer("3 + 4 = 7, so he has 7 apples for his 2 sisters.")
    FinalAnswer(text='7', source='last sentence')
    """
    text = after_thinking(response)
    if text is None:
        return None
    if "\x08" in text or "\x0c" in text:
        text = _UNESCAPED.sub(lambda match: r"\b" if match.group() == "\x08" else r"\f", text)
    text = _first_reply(text)
    boxed = boxed_answer(text)
    if boxed is not None and kind is AnswerKind.CHOICE and not boxed_only and not choice_letters(boxed):
        return _chosen_elsewhere(text) or FinalAnswer(boxed, "box")
    closing = text.rfind(_CLOSING) if boxed is not None else -1
    # Minerva's closing sentence comes after the boxes of the working.
    closed = (
        closing >= 0 and "box" not in text[closing:] and not _VERDICT.match(text, closing + len(_CLOSING))
    )
    if boxed is not None and (boxed_only or not closed):
        return FinalAnswer(boxed, "box")
    if boxed_only:
        return None
    statement = final_statement(_spaced(text))
    if statement is None:
        return None
    answer = stated(statement.text, statement.before)
    if kind is AnswerKind.CHOICE and not statement.marked and not is_option(answer):
        letters = [next(filter(None, match.groups())) for match in _LETTER.finditer(text[-_LONGEST_END:])]
        return FinalAnswer(letters[-1], "last sentence") if letters else None
    return FinalAnswer(answer, "marker" if statement.marked else "last sentence")


def _chosen_elsewhere(text: str) -> FinalAnswer | None:
    r"""Return the option after a box that names none: `\boxed{42}`, then "The answer is (B)"."""
    box = max(text.rfind("\\boxed"), text.rfind("\\fbox"))
    statement = final_statement(_spaced(text[box:]))
    answer = stated(statement.text, statement.before) if statement is not None and statement.marked else ""
    return FinalAnswer(answer, "marker") if len(choice_letters(answer)) == 1 else None


_THOUGHT = re.compile(
    r"[<\[](?P<tag>/?)(?i:think(?:ing)?)[>\]]"
    r"|<\|channel\|>\s*(?P<channel>[a-z]+)"
    r"(?:[^<\n]{0,100}(?:<\|constrain\|>[^<\n]{0,30})?<\|(?:message|end)\|>)?"
    r"|(?P<final>assistantfinal(?![a-z]))|\A\s*(?:assistant)?(?:analysis|commentary)(?=[^\W\d_a-z]|<\|message\|>)"
)
"""Tags around thoughts, and channels of gpt-oss: without its tokens "analysisWe ...assistantfinal..."."""
_MESSAGE_END = re.compile(r"<\|(?:end|return|call|start)\|>")


def after_thinking(response: str) -> str | None:
    """Return the response without its thinking, at most its last characters; None if that never ends.

    The reply follows the last closing tag. There may be no opening tag: chat templates of many models put it
    at the end of the prompt. Of channels only the final one is the reply.

    >>> after_thinking("so 5</think> It is 5."), after_thinking("[THINK]so 5")
    (' It is 5.', None)
    >>> after_thinking("analysisWe add 2 and 3.assistantfinalIt is 5.")
    'It is 5.'
    """
    if not any(mark in response for mark in ("hink", "HINK", "<|channel|>", "assistantfinal")) and not (
        "analysis" in response[:30] or "commentary" in response[:30]
    ):
        return response[-LONGEST_RESPONSE:]  # quicker than the pattern, and most have none
    start, opened, in_channel = 0, False, False
    for mark in _THOUGHT.finditer(response):
        if mark["tag"] or mark["final"] or mark["channel"] == "final":
            start, in_channel = mark.end(), mark["channel"] is not None
        else:
            opened = True
    ending = _MESSAGE_END.search(response, start) if in_channel else None
    end = ending.start() if ending is not None else len(response)
    return None if opened and not start else response[start:end][-LONGEST_RESPONSE:]


_WIDE_SCRIPT = "\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"  # Chinese, Japanese, Korean
_WIDE_SIGNS = str.maketrans(
    {"（": " (", "％": "%"}
    | {wide: f"{plain} " for wide, plain in zip("。！？：，、；）", ".!?:,,;)", strict=True)}
)
_JOINT = re.compile(rf"(?<=[{_WIDE_SCRIPT}])(?=[-+A-Za-z\d\\$(])|(?<=[A-Za-z\d$)}}%°])(?=[{_WIDE_SCRIPT}])")


def _spaced(text: str) -> str:
    """Put spaces around foreign parts of a text in a script without spaces, and plain signs into it."""
    if text.isascii() or not re.search(f"[{_WIDE_SCRIPT}]", text):
        return text
    return _JOINT.sub(" ", text.translate(_WIDE_SIGNS))


_NEXT_QUESTION = re.compile(r"^[ \t*#]{0,6}(?:Question|Problem|Q)\**:", re.MULTILINE)


def _first_reply(text: str) -> str:
    """Return the text before a question that the model added by itself after its answer.

    A text whose first question comes before any answer repeats its prompt and stays whole.
    """
    if "Question" not in text and "Problem" not in text and "Q:" not in text:
        return text
    match = _NEXT_QUESTION.search(text)
    if match is None:
        return text
    before = text[: match.start()]
    marker = last_marker(before)
    answered = marker is not None and any(map(str.isalnum, before[marker:]))
    return before if answered or last_boxed(before) is not None else text


_MARKER = re.compile(
    r"####[ \t]?(?=[-−$\\\d(.√]|[A-J][.)]?[ \t]*(?:\n|\Z))(?!\d{1,2}[.)]\s)"
    r"|(?:^|(?<=\n))[ \t]{0,20}A:"
    r"|\bfinal[ \t]answer(?:[ \t][^\n.:$]{0,60}?)??(?:[ \t]is\b|[ \t]?:)"
    r"|\b(?:the|my|our)(?:[ \t](?:correct|right|best))?[ \t](?:answer|option|choice)"
    r"(?:[ \t][^\n.:$]{0,60}?)??[ \t]is\b"
    r"|\banswer(?:\*\*)?[ \t]?(?::|(?=\$|\\\(|\\\[))"
    r"|\bfinal[ \t]answer\b(?=[*_#]{0,4}[ \t]{0,4}\n)"
    r"|(?:答案|答え|정답|คำตอบ|\bответ)[*_]{0,4}[ \t]?(?:(?:应该?)?[是为為选選]|は|은|คือ)?[*_]{0,4}[ \t]?"
    r"(?:(?<=[是为為选選は은])|(?<=คือ)|:)|故[选選]"
    r"|(?<!例如)(?<!例如:)(?<!例如: )(?<!写在)[【\[](?:正确|参考|标准|最终)?答案[】\]][*_]{0,4}[ \t]?:?",
    re.IGNORECASE,
)
_NEXT_HEADING = re.compile(r"(?<=[^ \t])[ \t]*(?:[【\[][\u3400-\u9fff]{2,8}[】\]]|【[\u3400-\u9fff]{0,8}\Z)")
_MARKER_WORDS = ("answer", "####", "a:", "option", "choice")
_FOREIGN_WORDS = ("答案", "答え", "정답", "คำตอบ", "ответ", "选", "選")
_BEFORE_WORD, _AFTER_WORD = 40, 100  # no marker reaches further
_MOST_WORDS = 30
_MOST_WORDS_STATED = 12  # a longer sentence without a number, a formula or a conclusion states no answer

_JSON_ANSWER = re.compile(
    r'"(?:final[ _]?)?answer"[ \t]*:\s*'
    r'(?:"((?:[^"\\]|\\.){1,500})"|(-?[\d.][^,}\s]{0,60})|\[([^\[\]]{1,200})\])',
    re.IGNORECASE | re.DOTALL,
)
_TAGGED = re.compile(r"<answer>((?:(?!<answer>).)*?)</answer>", re.DOTALL)
_DISPLAY = re.compile(r"\\\[(.{0,1000}?)\\\]|\$\$(.{0,1000}?)\$\$", re.DOTALL)
_SENTENCE_END = re.compile(r"(?<!\\)(?<!\bM[rs])(?<!\bDr)[.!?]\**(?=\s|$)")
_BULLET = re.compile(r"[-*+>#•]+\s+")
_BULLETS = re.compile(
    r'\A(?:```[a-z]*(?=\s)|"""|[ \t\r\n*_:#>]|-(?=[\s-]))+'
)  # a minus before a number is none
_POLITE = re.compile(r"\bI (?:do not|don't|cannot|can't|am not|'m not)\b", re.IGNORECASE)
_CONCLUSION = re.compile(r"\W*(?:so|therefore|thus|hence|finally|however)\b", re.IGNORECASE)


class Statement(NamedTuple):
    """A final statement, the text before it, and whether a marker introduces it."""

    text: str
    before: str
    marked: bool


def final_statement(text: str) -> Statement | None:
    """Return what follows the last marker, else the last sentence that states something, else None."""
    if (answer := _json_answer(text)) is not None:
        return Statement(answer, "", True)
    closed = text.rfind("</answer>")
    if closed >= 0 and (last_marker(text) or 0) <= closed and (tagged := _tagged(text)) is not None:
        return tagged
    end: int | None = len(text)
    for _ in range(3):  # a response cut off behind a marker may state its answer behind an earlier one
        end = last_marker(text[:end])
        if end is None:
            break
        answer = _first_line(_NEXT_HEADING.split(text[end : end + _LONGEST_END], maxsplit=1)[0])
        if any(map(str.isalnum, answer)) and not _VERDICT.fullmatch(answer.rstrip(".*! ")):
            return Statement(answer, text[:end], True)
        end = text.rfind("\n", 0, end) + 1
    tail = text[-_LONGEST_END:]
    if len(tail) == _LONGEST_END and len(tail.split(None, 1)) == 1:
        return Statement(text, "", False)  # no sentence, and too long to be read
    sentence = last_sentence(tail)
    return Statement(sentence, tail[: tail.rfind(sentence)], False) if sentence is not None else None


def _json_answer(text: str) -> str | None:
    """Return the last value of a key "answer" if a text ends as a JSON object, else None."""
    if not text[-20:].rstrip(" \n`").endswith("}"):
        return None
    matches = _JSON_ANSWER.findall(text[text.find("{") :])
    value = next(filter(None, matches[-1])) if matches else None
    return value and _ESCAPED.sub(lambda match: match[1] or chr(int(match[2], 16)), value)


_ESCAPED = re.compile(r"\\(?:([\\\"/])|u(?!d[89a-f])([\da-f]{4}))", re.IGNORECASE)


def _tagged(text: str) -> Statement | None:
    """Return what the last `<answer>...</answer>` states, None if all are empty."""
    matches = list(_TAGGED.finditer(text))
    if matches and "</answer>" in text[matches[-1].end() :]:
        return None  # an answer without its opening tag
    for match in reversed(matches):
        line = _first_line(match[1])
        if len(line) >= len(match[1].strip(" \t\n*_:")):
            inside: Statement | None = Statement(line, text[: match.start()], True)
        else:
            inside = final_statement(match[1])
        if inside is not None and any(map(str.isalnum, inside.text)):
            return inside._replace(marked=True)
    return None


def last_marker(text: str) -> int | None:
    """Return where the last marker of an answer ends, None without one.

    Only the surroundings of a word that every marker holds are searched, from the last one on.
    """
    lowered = text.lower()
    place = len(text)
    words = _MARKER_WORDS if text.isascii() else _MARKER_WORDS + _FOREIGN_WORDS
    for _ in range(_MOST_WORDS):
        place = max([lowered.rfind(word, 0, place) for word in words])
        if place < 0:
            return None
        end = _last_match(text, max(0, place - _BEFORE_WORD), place + _AFTER_WORD)
        if end is not None:
            return end
    return _last_match(text, 0, place)


def _last_match(text: str, start: int, stop: int) -> int | None:
    return max((match.end() for match in _MARKER.finditer(text, start, stop)), default=None)


def _first_line(tail: str) -> str:
    below = tail.lstrip(" \t*_:#>").startswith(("\n", "```", '"""'))
    tail = _BULLETS.sub("", tail) if below else tail.lstrip(" \t*_:")
    display = _DISPLAY.match(tail)
    if display is not None:
        return f"${next(filter(None, display.groups()), '').strip()}$"
    line = tail.split("\n", 1)[0].removesuffix('"""').removesuffix("```")
    return sentences_of(line)[0] if line.strip() else ""


def last_sentence(text: str) -> str | None:
    """Return the last sentence that states something."""
    text = _DISPLAY.sub(lambda match: f"${' '.join(''.join(filter(None, match.groups())).split())}$", text)
    last = None
    for line in reversed(text.splitlines()):
        line = line.strip()
        line = line[bullet.end() :] if (bullet := _BULLET.match(line)) else line
        for sentence in reversed(sentences_of(line)):
            if sentence.rstrip("* ").endswith("?") or _POLITE.search(sentence):
                continue
            if any(map(str.isalnum, _CONCLUSION.sub("", sentence, count=1))):
                if states_something(sentence) or _CONCLUSION.match(sentence):
                    return sentence
                last = last or sentence
    return last if last and len(last.split()) <= _MOST_WORDS_STATED else None


def sentences_of(line: str) -> list[str]:
    """Return the sentences of a line; a full stop inside a formula or after `Mr` ends none."""
    inside = [formula.span() for formula in formulas(line)]
    ends = [
        match.end()
        for match in _SENTENCE_END.finditer(line)
        if not any(start < match.end() < stop for start, stop in inside)
    ]
    cuts = [0, *ends, len(line)]
    parts = [line[start:stop].strip() for start, stop in pairwise(cuts)]
    return [part for part in parts if part]


def answer_of(case: GradeCase) -> FinalAnswer | None:
    """Return the answer in the response of a case; all of a response that is only the gold."""
    if not case.boxed_only and case.gold and case.response.strip() == case.gold.strip():
        return FinalAnswer(gold_answer(case.gold), "last sentence")
    return find_answer(case.response, case.kind, boxed_only=case.boxed_only)


def gold_answer(gold: str) -> str:
    r"""Return the answer in a gold: the content of its last `\boxed{}` (or boxes in a row), else the gold.

    Of a gold that is a long text, return the answer that it states.
    """
    if "box" not in gold and len(gold) < _LONGEST_GOLD:
        return gold
    answer = find_answer(gold)
    return gold if answer is None else answer.text
