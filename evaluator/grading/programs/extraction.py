"""Finds programs in a response: pure, linear in its length, and without parsing anything.

What it returns are candidates, the likeliest first. Which of them is Python at all is found out in the
enclosure, since parsing hostile text can take a process down.
"""

import re
from typing import NamedTuple

from evaluator.grading.extraction import after_thinking
from service.program_gold import ProgramGold

_FENCE = re.compile(r"^[ \t]{0,12}(`{3,}|~{3,})[ \t]*([\w+#.-]*)[^\n`]*$", re.MULTILINE)
_PYTHON = ("", "python", "python3", "py", "py3", "python2", "python3.11", "code", "pycon", "sage")
_CODE_LINE = re.compile(r"^(?:def |class |import |from \w[\w.]* import |@\w|async def )", re.MULTILINE)
_UNINDENTED = re.compile(r"^(?=\S)", re.MULTILINE)
_DEFINED = re.compile(r"^(?:async[ \t]+)?(?:def|class)[ \t]+(\w+)", re.MULTILINE)
_DEFINES = r"^[ \t]*(?:(?:async[ \t]+)?def|class)[ \t]+{0}\b|^{0}[ \t]*="
_MOST = 100_000  # characters of a program
_MOST_CANDIDATES = 6


class Programs(NamedTuple):
    """Programs that a response may mean, the likeliest first, and where they stood, of `PROGRAM_SOURCES`."""

    sources: tuple[str, ...]
    source: str


def find_programs(response: str, gold: ProgramGold) -> Programs | None:
    """Return the programs of a response; None where there is none.

    The last fenced block that defines what is asked for comes first, behind those before it that define what
    it uses; then earlier ones, and the last block. A block, or a response without any, that goes on where the
    prompt ends is put behind it.
    """
    text = after_thinking(response)
    if text is None or not text.strip():
        return None
    text = text.replace("\r\n", "\n")
    blocks = _blocks(text)
    if blocks:
        defined = [set(_DEFINED.findall(block)) for block in blocks]
        defining = [place for place in reversed(range(len(blocks))) if _defines(blocks[place], gold)]
        sources = [_with_used(blocks, defined, place) for place in defining[:_MOST_CANDIDATES]]
        if not defining and gold.prompt:
            sources += _completions(blocks[-1], gold)
        sources.append(blocks[-1])
        return _programs(sources, "code block")
    if _defines(text, gold) or not gold.prompt:
        start = _CODE_LINE.search(text)
        return _programs([text, *([text[start.start() :]] if start and start.start() else [])], "text")
    return _programs(_completions(text, gold), "completion")


def _programs(sources: list[str], source: str) -> Programs | None:
    kept = [each for each in dict.fromkeys(sources) if each.strip() and len(each) <= _MOST]
    return Programs(tuple(kept[:_MOST_CANDIDATES]), source) if kept else None


def _blocks(text: str) -> list[str]:
    """The fenced blocks in Python or in no named language; the last one may lack its end."""
    blocks: list[str] = []
    opened: re.Match[str] | None = None
    for fence in _FENCE.finditer(text):
        if opened is None:
            opened = fence
        elif fence.group(1)[0] == opened.group(1)[0] and not fence.group(2):
            _keep(blocks, opened, text[opened.end() : fence.start()])
            opened = None
    if opened is not None:
        _keep(blocks, opened, text[opened.end() :])
    return blocks


def _with_used(blocks: list[str], defined: list[set[str]], place: int) -> str:
    """A block behind the earlier ones that define what it uses and does not define."""
    words = set(re.findall(r"\w+", blocks[place])) - defined[place]
    used = [blocks[earlier] for earlier in range(place) if not words.isdisjoint(defined[earlier])]
    return "\n\n".join([*used, blocks[place]])


def _keep(blocks: list[str], opened: re.Match[str], content: str) -> None:
    if opened.group(2).lower() in _PYTHON and content.strip():
        indent = len(opened.group()) - len(opened.group().lstrip())
        lines = content.strip("\n").split("\n")
        if indent and all(not line.strip() or line[:indent].isspace() for line in lines):
            lines = [line[indent:] for line in lines]
        blocks.append("\n".join(lines))


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
