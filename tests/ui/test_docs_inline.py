"""Commands and options in the prose and tables of the docs exist."""

import re
from collections.abc import Sequence

import pytest
from doc_pages import FENCE, NAMES, ROOT, commands
from typer.core import TyperCommand, TyperGroup

from ui.cli.app import commands as all_commands

OTHER_TOOLS = {  # options of other programs that pages name
    *("--api-key", "--reasoning-parser"),  # vllm serve
    *("--requeue", "--signal"),  # sbatch
    *("--build-arg", "--cap-add", "--security-opt"),  # podman, docker
    "--log_samples",  # lm-evaluation-harness
    "--no-push",  # prime
}

_SPAN = re.compile(r"(?<!`)`([^`]+)`(?!`)")


def find_command(words: Sequence[str]) -> tuple[TyperCommand, list[str]]:
    """Return the command or group that `words` name, and the words after its name."""
    command, rest = all_commands(), list(words)
    while isinstance(command, TyperGroup) and rest and rest[0] in command.commands:
        command = command.commands[rest.pop(0)]
    return command, rest


def options(command: TyperCommand) -> set[str]:
    """Return the options of a command, or of all commands of a group."""
    own = {name for option in command.params for name in (*option.opts, *option.secondary_opts)} | {"--help"}
    if isinstance(command, TyperGroup):
        own |= set().union(*(options(each) for each in command.commands.values()))
    return own


def options_of_scripts(source: str, *, depth: int = 2) -> set[str]:
    """Return the options of the modules of benchmarks/ that `source` names, and of what these import."""
    found: set[str] = set()
    source = re.sub(r"from (benchmarks[\w.]*) import (\w+)", r"\1 \1.\2", source)
    for name in set(re.findall(r"\bbenchmarks[./]\w[\w./]*\w", source)):
        script = ROOT / (name if name.endswith(".py") else f"{name.replace('.', '/')}.py")
        if depth and script.is_file():
            code = script.read_text(encoding="utf-8")
            found |= {*re.findall(r'"(--[a-z][\w-]*)"', code), *options_of_scripts(code, depth=depth - 1)}
    return found


@pytest.mark.parametrize("page", NAMES)
def test_inline_commands_and_options_exist(page: str) -> None:
    """An option in backticks belongs to a command or a script that the page names."""
    content = (ROOT / page).read_text(encoding="utf-8")
    spans = [span.split() for span in _SPAN.findall(FENCE.sub("", content)) if span.strip()]
    known = OTHER_TOOLS | options_of_scripts(content) | {"--help", "--version", "--quiet", "--verbose"}
    if "python -m sandbox" in content:
        known |= set(re.findall(r'"(--[a-z][\w-]*)"', (ROOT / "sandbox" / "__main__.py").read_text()))
    for words in [*(found.words for found in commands(page)), *spans]:
        command, rest = find_command(words[words[0] == "tagrpo" :])
        if command is not all_commands():
            known |= options(command)
    for words in spans:
        shown = f"{page}: `{' '.join(words)}`"
        command, rest = find_command(words[words[0] == "tagrpo" :])
        if isinstance(command, TyperGroup) and (words[0] == "tagrpo" or command is not all_commands()):
            assert not (rest and re.fullmatch(r"[a-z][a-z-]*", rest[0])), f"{shown}: no such command"
        if words[0] == "tagrpo" or command is not all_commands():
            # `resume` takes the options of the command that it continues.
            allowed = options(all_commands() if command.name == "resume" else command)
        elif words[0].startswith("--"):
            allowed = known
        else:
            continue
        named = {word.partition("=")[0].rstrip(".,") for word in rest if re.match("--[a-z][^.]*(=|$)", word)}
        assert named <= allowed, f"{shown}: no command or script on this page has {sorted(named - allowed)}"
