"""Help texts, messages and page texts are free of the worst patterns of unclear English."""

import ast
import inspect
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from language import find_faults

from ui.cli.app import commands

ROOT = Path(__file__).resolve().parents[1]
MESSAGES = (
    "service/database", "service/questions", "service/web",
    "evaluator/benchmarks", "evaluator/exchange", "evaluator/grading", "evaluator/judging",
    "evaluator/passk", "evaluator/reports", "evaluator/serving", "evaluator/signal",
    "rephraser/checks", "rephraser/proposing", "rephraser/reviews", "rephraser/sets", "rephraser/verdict",
    "rephraser/views",
    "trainer_adapter/methods", "trainer_adapter/plans", "trainer_adapter/record", "trainer_adapter/runs",
    "trainer_adapter/verl",
    "ui/charts", "ui/cli", "ui/demo_report", "ui/pages",
)  # fmt: skip
"""Packages whose messages are checked."""

SHOWN = ("evaluator/reports", "ui/charts", "ui/demo_report", "ui/pages")
"""Packages whose texts go to functions of their own, so the arguments of all calls are checked."""

SPEAKING = {
    "say", "print", "note", "complain", "print_error", "needs_attention", "failed", "warn", "warning", "info",
    "error", "emit", "BadParameter",
}  # fmt: skip
"""Functions whose arguments a user reads."""


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
        elif isinstance(node, ast.Call) and _speaks(node.func, page=page):
            for argument in (*node.args, *(keyword.value for keyword in node.keywords)):
                yield from _texts(argument)


def _speaks(function: ast.expr, *, page: bool) -> bool:
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    return page or name in SPEAKING


def _texts(node: ast.AST) -> Iterator[tuple[int, str]]:
    if isinstance(node, ast.Constant):
        if isinstance(node.value, str):
            yield node.lineno, node.value
    elif isinstance(node, ast.JoinedStr):
        values = [each.value if isinstance(each, ast.Constant) else "`value`" for each in node.values]
        yield node.lineno, "".join(map(str, values))
        for each in node.values:
            if isinstance(each, ast.FormattedValue):
                yield from _texts(each.value)
    else:
        for child in ast.iter_child_nodes(node):
            yield from _texts(child)


def modules() -> list[Path]:
    """Return the modules whose messages are checked."""
    return [path for package in MESSAGES for path in sorted((ROOT / package).rglob("*.py"))]


def test_help_has_no_unclear_sentence() -> None:
    faults = [
        f"{where}: {fault.name}: {fault.sentence}"
        for where, text in read_help(commands())
        for paragraph in inspect.cleandoc(text).split("\n\n")
        if not paragraph.startswith("Example:")
        for fault in find_faults(paragraph)
    ]
    _report(faults)


@pytest.mark.parametrize("package", MESSAGES)
def test_messages_have_no_unclear_sentence(package: str) -> None:
    faults = [
        f"{path.relative_to(ROOT)}:{line}: {fault.name}: {fault.sentence}"
        for path in modules()
        if path.is_relative_to(ROOT / package)
        for line, text in messages(path.read_text(encoding="utf-8"), page=package in SHOWN)
        for fault in find_faults(text)
    ]
    _report(faults)


def _report(faults: list[str]) -> None:
    if faults:
        pytest.fail("Rewrite these sentences:\n" + "\n".join(faults), pytrace=False)


def test_values_are_no_words_and_what_is_raised_or_shown_is_found() -> None:
    source = 'raise InputError(f"{path}: it stands behind {other}.")\nst.caption("Nobody")\nname = "anew"\n'
    found = {
        (line, fault.name) for line, text in messages(source, page=True) for fault in find_faults(text, line)
    }
    assert found == {(1, "stands"), (1, "behind"), (2, "nobody")}
