"""The pages of the docs, and the blocks and commands in them."""

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
NAMES = [str(page.relative_to(ROOT)) for page in PAGES]
SHELLS = ("bash", "console", "sh")

FENCE = re.compile(r"^```([^\n]*)\n(.*?)^```$", re.M | re.S)
LINK = re.compile(r"\]\(([^)\s]+)\)")


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, the words after it, and its content."""

    language: str
    words: tuple[str, ...]
    text: str


@dataclass(frozen=True)
class Command:
    """A command of a page without `tagrpo` or `python -m`, and its expected exit code."""

    words: tuple[str, ...]
    exit_code: int
    runs: bool


def blocks(page: str) -> list[Block]:
    found = []
    for info, inside in FENCE.findall((ROOT / page).read_text(encoding="utf-8")):
        language, *words = info.split() or [""]
        found.append(Block(language, tuple(words), inside))
    return found


def lines(block: Block) -> list[str]:
    """Return the lines of a shell block without prompts, with continued lines joined."""
    joined = block.text.replace("\\\n", " ").splitlines()
    return [line.removeprefix("$ ").strip() for line in joined]


def command(line: str, *, runs: bool) -> Command | None:
    words = shlex.split(line, comments=True)
    if words[:3] == ["python", "-m", "sandbox"]:
        words = words[1:]
    elif words[:1] != ["tagrpo"]:
        return None
    comment = line.partition(" # ")[2]
    return Command(tuple(words[1:]), 3 if "exit code 3" in comment else 0, runs)


def commands(page: str) -> list[Command]:
    return [
        found
        for block in blocks(page)
        if block.language in SHELLS
        for line in lines(block)
        if (found := command(line, runs="no-run" not in block.words)) is not None
    ]
