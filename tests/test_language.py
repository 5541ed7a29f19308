"""Docs, help texts, messages and page texts are free of the worst patterns of unclear English.

Fenced blocks, inline code, addresses and values do not count. A table cell is a text of its own.
"""

import ast
import inspect
import re
from collections.abc import Iterator
from itertools import groupby, pairwise
from pathlib import Path

import click
import pytest

from ui.cli.app import commands

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]
ROOMS = ("service", "evaluator", "rephraser", "trainer_adapter", "sandbox", "ui")
SHOWN = ("evaluator/reports", "ui/charts", "ui/demo_report", "ui/pages")
"""Packages whose texts go to functions of their own, so the arguments of all calls are checked."""

SPEAKING = {
    "say", "print", "note", "complain", "print_error", "needs_attention", "failed", "warn", "warning", "info",
    "error", "emit", "BadParameter",
}  # fmt: skip
"""Functions whose arguments a user reads."""

LONGEST_SENTENCE = 30
"""Words. Numbers, inline code and addresses are no words."""

_UNITS = (
    "row line file question prompt problem response sample neighbor step run seed page panel world second"
)
_UNIT = f"(?:{'|'.join(_UNITS.split())}|minute)"
_PHRASES = {
    name: re.compile(rf"(?<![\w-])(?:{pattern})(?![\w-])".replace(" ", r"\s+"), re.I)
    for name, pattern in {
        "stands": r"stands?|stood",
        "behind": r"behind(?! an? (?:reverse )?proxy)",
        "beside": r"besides?",
        "is told": r"(?:is|are|was|were|be|been) told",
        "is said": r"(?:is|are|was|were|be|been) said",
        "nobody": r"nobody",
        "anew": r"anew",
        "comes to": r"comes? to|came to",
        "in place of": r"in place of",
        "but for": r"but for",
        "of which": r"of which",
        "a row a": rf"(?:an?|one|two|three|\d+) {_UNIT}s? an? {_UNIT}",
    }.items()
}
_NOT_PROSE = re.compile(r"^ *(`{3,}|~{3,})[^\n]*\n.*?^ *\1 *$|<!--.*?-->", re.M | re.S)
_NO_WORDS = re.compile(r"(?<!`)(`+)(?!`).+?(?<!`)\1(?!`)|(?<=\])\([^()\s]*\)|https?://\S+", re.S)
_SENTENCE_END = re.compile(r"(?<=[.!?])[\"')*_\]]*\s+")
_BLOCK_START = re.compile(r"\s*(?:#+ |[-*+] |\d+\. |> ?|!!! |\||!\[)")

Fault = tuple[int, str, str]
"""The line where a sentence begins, what is wrong with it, and the sentence."""


def find_faults(prose: str, first_line: int = 1) -> Iterator[Fault]:
    """Yield the faults of one text: a help text, a message, a paragraph, a cell of a table."""
    masked = _NO_WORDS.sub(lambda match: re.sub(r"[^\n]", "·", match[0]), prose)
    ends = [match.end() for match in _SENTENCE_END.finditer(masked)]
    for start, end in pairwise([0, *ends, len(masked)]):
        line = first_line + prose[:start].count("\n")
        sentence = " ".join(prose[start:end].split())
        for name, pattern in _PHRASES.items():
            if pattern.search(masked, start, end):
                yield line, name, sentence
        words = sum(any(letter.isalpha() for letter in word) for word in masked[start:end].split())
        if words > LONGEST_SENTENCE:
            yield line, f"{words} words", sentence


def find_page_faults(page: Path) -> Iterator[Fault]:
    """Yield the faults of a Markdown page by its paragraphs, list items, headings and cells of tables."""
    content = _NOT_PROSE.sub(lambda match: "\n" * match[0].count("\n"), page.read_text(encoding="utf-8"))
    block, numbered = 0, []
    for number, line in enumerate(content.splitlines(), 1):
        block += not line.strip() or _BLOCK_START.match(line) is not None
        numbered.append((block, number, line))
    for _, lines in groupby(numbered, key=lambda entry: entry[0]):
        (_, first, _), *_ = kept = list(lines)
        text = "\n".join(line for _, _, line in kept)
        for part in text.split("|") if text.startswith("|") else [text]:
            yield from find_faults(part, first)


def read_help(group: click.Group, path: str = "tagrpo") -> Iterator[tuple[str, str]]:
    """Yield each command or option with its help."""
    yield path, group.help or ""
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from read_help(command, f"{path} {name}")
            continue
        yield f"{path} {name}", command.help or ""
        for parameter in command.params:
            yield f"{path} {name} {parameter.name}", getattr(parameter, "help", None) or ""


def messages(source: str, *, page: bool) -> Iterator[tuple[int, str]]:
    """Yield the texts of a module that its users read, each with its line; values are left out as code."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Raise) and node.exc is not None:
            yield from _texts(node.exc)
        elif isinstance(node, ast.Call):
            name = getattr(node.func, "attr", getattr(node.func, "id", ""))
            if page or name in SPEAKING:
                for argument in (*node.args, *(keyword.value for keyword in node.keywords)):
                    yield from _texts(argument)


def _texts(node: ast.AST) -> Iterator[tuple[int, str]]:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.lineno, node.value
    children = list(ast.iter_child_nodes(node))
    if isinstance(node, ast.JoinedStr):
        values = [each.value if isinstance(each, ast.Constant) else "`value`" for each in node.values]
        yield node.lineno, "".join(map(str, values))
        children = [each for each in children if isinstance(each, ast.FormattedValue)]
    for child in children:
        yield from _texts(child)


def report(faults: list[str]) -> None:
    if faults:
        pytest.fail("Rewrite these sentences:\n" + "\n".join(faults), pytrace=False)


@pytest.mark.parametrize("page", [str(page.relative_to(ROOT)) for page in PAGES])
def test_a_page_has_no_unclear_sentence(page):
    faults = find_page_faults(ROOT / page)
    report([f"{page}:{line}: {name}: {sentence}" for line, name, sentence in faults])


def test_help_has_no_unclear_sentence():
    faults = [
        f"{where}: {name}: {sentence}"
        for where, text in read_help(commands())
        for paragraph in inspect.cleandoc(text).split("\n\n")
        if not paragraph.startswith("Example:")
        for _, name, sentence in find_faults(paragraph)
    ]
    report(faults)


@pytest.mark.parametrize("room", ROOMS)
def test_messages_have_no_unclear_sentence(room):
    faults = [
        f"{name}:{line}: {fault}: {sentence}"
        for path in sorted((ROOT / room).rglob("*.py"))
        for name in [str(path.relative_to(ROOT))]
        for line, text in messages(path.read_text(encoding="utf-8"), page=name.startswith(SHOWN))
        for _, fault, sentence in find_faults(text)
    ]
    report(faults)


def test_faults_are_found_in_prose_pages_and_messages(tmp_path):
    text = "It stands here. We understand. Outstanding requests finish.\nOne row a problem. Use `beside` now."
    assert [fault[:2] for fault in find_faults(text)] == [(1, "stands"), (2, "a row a")]
    page, words = tmp_path / "page.md", "word " * 30
    page.write_text(
        f"# Title\n\n{words}`tagrpo behind` 7 [6.5, 18.3].\n\n- {words}more.\n\n"
        f"```bash\n{words * 2}\n```\n\n| {words} | {words} |\n",
        encoding="utf-8",
    )
    assert [fault[:2] for fault in find_page_faults(page)] == [(5, "31 words")]
    source = 'raise InputError(f"{path}: it stands behind {other}.")\nst.caption("Nobody")\nname = "anew"\n'
    found = {fault[:2] for line, said in messages(source, page=True) for fault in find_faults(said, line)}
    assert found == {(1, "stands"), (1, "behind"), (2, "nobody")}
