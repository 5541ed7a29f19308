"""Write reference/commands.md and reference/settings.md from what `tagrpo` says: python docs/commands.py."""

import re
import sys
from collections.abc import Iterator
from inspect import cleandoc
from pathlib import Path

from typer.core import TyperCommand, TyperGroup

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
PAGE = ROOT / "docs" / "reference" / "commands.md"
SETTINGS_PAGE = PAGE.with_name("settings.md")
INTRODUCTION = """\
# Commands

Find the command for a task on this page; `tagrpo COMMAND --help` shows its options and their defaults.

Every command that prints a list or a report takes `--json`. All commands take `-q` (print only results and
errors) and `-v` (also print the outcome of each request, and the traceback of an error), and have the same
[exit codes](../concepts.md#exit-codes). `python docs/commands.py` generates this page from the help.
"""


SETTINGS_INTRODUCTION = """\
# Settings

This page lists every setting of the commands that have a config. Set them as `KEY=VALUE` after the other
arguments, or in a file that you pass with `-c` ([how](../resume-and-cost.md#prices-and-settings)).
`tagrpo config VERB` prints the settings of one section as a file to start from.

Settings marked * do not affect results; you can change them with `tagrpo resume NAME KEY=VALUE`.
Settings marked (llm), (rules) or (file) apply only with this value of `proposer`.
`python docs/commands.py` generates this page from the configs.
"""


def settings_page() -> str:
    """Return the page: a table for each verb, with a row for each setting."""
    from service.config.fields import settings_of
    from ui.cli.configs import VERBS, find_verb, summary

    parts = [SETTINGS_INTRODUCTION]
    for verb in VERBS:
        kind = find_verb(verb).kind
        parts.append(f"## {verb}\n\n{summary(kind)}\n")
        parts.append("| setting | default | values | meaning |\n|---|---|---|---|")
        settings = list(settings_of(kind))
        choices = ", ".join(dict.fromkeys(setting.choice[1] for setting in settings if setting.choice))
        for setting in settings:
            star = "\\*" if setting.operational else ""
            default = "required" if setting.info.is_required() else ""
            if setting.default is not None:
                default = f"`{setting.default}`"
            name, values = f"`{setting.path}`{star}", setting.limits
            if setting.choice and setting.path == f"{setting.choice[0]}.kind":
                values = choices
            elif setting.choice:
                name += f" ({setting.choice[1]})"
            row = [name, default, values, setting.about]
            parts.append("| " + " | ".join(str(cell).replace("|", "\\|") for cell in row) + " |")
        parts.append("")
    return "\n".join(parts)


def commands_page() -> str:
    """Return the page: a table for each group, with a row for each command."""
    from ui.cli.app import commands

    root = commands()
    groups = {name: group for name, group in root.commands.items() if isinstance(group, TyperGroup)}
    alone = {name: command for name, command in root.commands.items() if name not in groups}
    parts = [INTRODUCTION, *_table("tagrpo", "", alone)]
    for name, group in groups.items():
        parts += _table(f"tagrpo {name}", f"{_paragraphs(group)[0]}\n\n", group.commands)
    return "\n".join(parts)


def _table(name: str, help: str, commands: dict[str, TyperCommand]) -> Iterator[str]:
    yield f"## {name}\n\n{help}| command | what it does | example |\n|---|---|---|"
    for word, command in commands.items():
        paragraphs = _paragraphs(command)
        examples = [text for text in paragraphs if text.startswith("Example: ")]
        example = examples[0].removeprefix("Example: ").replace("|", "\\|")
        yield f"| `{name} {word}` | {paragraphs[0]} | `{example}` |"
    yield ""


def _paragraphs(command: TyperCommand) -> list[str]:
    """Return the paragraphs of a help text, each in one line and without rich's markup."""
    text = re.sub(r"\[/?bold\]", "", cleandoc(command.help or ""))
    return [" ".join(paragraph.split()) for paragraph in text.split("\n\n")]


if __name__ == "__main__":
    PAGE.write_text(commands_page(), encoding="utf-8")
    SETTINGS_PAGE.write_text(settings_page(), encoding="utf-8")
