"""Programs as answers: find them in responses, and run them against the tests of the gold.

Nothing here parses a program, because parsing hostile text can crash a process: the candidates are tried in
turn in an enclosure (`service.enclosure`).
"""

import math
import re
from collections.abc import Sequence

from evaluator.grading.compare import WorkerTask
from evaluator.grading.extraction import after_thinking
from evaluator.grading.types import CRASHED, NO_ANSWER, NO_GOLD, Grade, GradeCase, GradeValue
from service.enclosure.running import Enclosure, Limits, ProgramResult
from service.program_gold import ProgramGold, read_gold

_FENCE = re.compile(r"^[ \t]{0,12}(`{3,}|~{3,})[ \t]*([\w+#.-]*)[^\n`]*$", re.MULTILINE)
_PYTHON = ("", "python", "python3", "py", "py3", "python2", "python3.11", "code", "pycon", "sage")
_CODE_LINE = re.compile(r"^(?:def |class |import |from \w[\w.]* import |@\w|async def )", re.MULTILINE)
_UNINDENTED = re.compile(r"^(?=\S)", re.MULTILINE)
_DEFINED = re.compile(r"^(?:async[ \t]+)?(?:def|class)[ \t]+(\w+)", re.MULTILINE)
_DEFINES = r"^[ \t]*(?:(?:async[ \t]+)?def|class)[ \t]+{0}\b|^{0}[ \t]*="
_MOST = 100_000  # characters of a program
_MOST_CANDIDATES = 6


def find_programs(response: str, gold: ProgramGold) -> tuple[Sequence[str], str]:
    """Return programs that a response may mean, and where they were, of `PROGRAM_SOURCES`.

    The last fenced block that defines what is asked for comes first, after those before it that define what
    it uses; then earlier ones, and the last block. A block, or a response without any, that continues
    where the prompt ends is appended to it.
    """
    text = (after_thinking(response) or "").replace("\r\n", "\n")
    if not text.strip():
        return (), ""
    if blocks := _blocks(text):
        where = "code block"
        defined = [set(_DEFINED.findall(block)) for block in blocks]
        defining = [place for place in reversed(range(len(blocks))) if _defines(blocks[place], gold)]
        sources = [_with_used(blocks, defined, place) for place in defining[:_MOST_CANDIDATES]]
        if not defining and gold.prompt:
            sources += _completions(blocks[-1], gold)
        sources.append(blocks[-1])
    elif _defines(text, gold) or not gold.prompt:
        where, sources = "text", [text]
        if start := _CODE_LINE.search(text):
            sources.append(text[start.start() :])
    else:
        where, sources = "completion", _completions(text, gold)
    usable = [each for each in dict.fromkeys(sources) if each.strip() and len(each) <= _MOST]
    return usable[:_MOST_CANDIDATES], where


def _blocks(text: str) -> list[str]:
    """The fenced blocks in Python or in no named language; the last one may lack its end."""
    blocks: list[str] = []
    opened: re.Match[str] | None = None
    for fence in (*_FENCE.finditer(text), None):
        if opened is None:
            opened = fence
        elif fence is None or (fence.group(1)[0] == opened.group(1)[0] and not fence.group(2)):
            content = text[opened.end() : fence and fence.start()].strip("\n")
            if opened.group(2).lower() in _PYTHON and content.strip():
                indent, lines = opened.group()[: opened.start(1) - opened.start()], content.split("\n")
                if all(not line.strip() or line[: len(indent)].isspace() for line in lines):
                    lines = [line[len(indent) :] for line in lines]
                blocks.append("\n".join(lines))
            opened = None
    return blocks


def _with_used(blocks: list[str], defined: list[set[str]], place: int) -> str:
    """A block behind the earlier ones that define what it uses and does not define."""
    words = set(re.findall(r"\w+", blocks[place])) - defined[place]
    used = [blocks[earlier] for earlier in range(place) if not words.isdisjoint(defined[earlier])]
    return "\n\n".join([*used, blocks[place]])


def _defines(source: str, gold: ProgramGold) -> bool:
    if not gold.names:
        return _CODE_LINE.search(source) is not None
    return any(re.search(_DEFINES.format(re.escape(name)), source, re.MULTILINE) for name in gold.names)


def _completions(text: str, gold: ProgramGold) -> list[str]:
    """The prompt with the text behind it: up to the first line of something else; indented; all of it."""
    prompt = gold.prompt.rstrip("\n") + "\n"
    lines = text.strip("\n").split("\n")
    later = [line for line in lines[1:] if line.strip()]
    indented = prompt + "\n".join("    " + line for line in lines)
    if not lines[0][:1].isspace():
        if not later or not later[0][:1].isspace():
            return [indented]
        lines[0] = "    " + lines[0]  # servers and chat models strip the blanks before the first line
    body = "\n".join(lines)
    end = _UNINDENTED.search(body)
    return [prompt + (body[: end.start()] if end else body), prompt + body, indented]


PASSES = "passes the tests"
"""The answer shown for a correct program; others say how they fail."""
_REASONS = {
    "passed": "tests passed",
    "failed": "tests failed",
    "raised": "error raised",
    "ended": "ended early",
    "too large": "too much memory",
}
"""Reasons that have another name than the result of the enclosure."""
_VALUES = {
    "passed": GradeValue.CORRECT,
    "bad tests": GradeValue.UNKNOWN,
    "not run": GradeValue.UNKNOWN,
}
"""Grades by results of the enclosure; all others are wrong."""
_NO_PYTHON = ("SyntaxError", "IndentationError")
_MOST_TOLD = 200


class ProgramWorker:
    """Grades one program at a time in an enclosure; the time limit counts a program's CPU seconds."""

    died = is_used_up = False

    def __init__(self, time_limit_s: float, memory_limit_mb: int) -> None:
        seconds = max(1, math.ceil(time_limit_s))
        self._limits = Limits(seconds, 3.0 * seconds, min(memory_limit_mb, 1024))
        self._enclosure = Enclosure()

    def receive(self, limit_s: float, task: WorkerTask | None = None) -> Grade | None:
        """Return the grade of a program by the tests of its gold; None without a task."""
        try:
            return self._grade(task) if isinstance(task, GradeCase) else None
        except Exception:
            return CRASHED

    def stop(self) -> None:
        """End the enclosure."""
        self._enclosure.close()

    def _grade(self, case: GradeCase) -> Grade:
        if not case.gold.strip():
            return NO_GOLD
        gold = read_gold(case.gold)
        sources, where = find_programs(case.response, gold)
        if not sources:
            return NO_ANSWER
        result = self._enclosure.run(sources, gold, self._limits)
        if where != "code block" and result.text.startswith(_NO_PYTHON):
            return NO_ANSWER  # prose
        value = _VALUES.get(result.value, GradeValue.WRONG)
        return Grade(value, describe(result, gold), _REASONS.get(result.value, result.value), where)


def describe(result: ProgramResult, gold: ProgramGold) -> str:
    """Say in a line how a program did: the test that said no, the error that it raised."""
    if result.value == "passed":
        return PASSES
    lines = gold.tests.split("\n")
    place = lines[result.line - 1].strip() if result.line and result.line <= len(lines) else ""
    how = ": ".join(filter(None, (_REASONS.get(result.value, result.value), " ".join(result.text.split()))))
    return (f"{how} at `{place}`" if place else how)[:_MOST_TOLD]
