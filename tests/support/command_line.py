"""The command line inside the test's own process: the imports of litellm and datasets are paid once."""

import sys
from dataclasses import dataclass
from typing import Any

import pytest

from ui.cli.app import main


@dataclass(frozen=True)
class Done:
    """What a command left: its exit code and what it wrote."""

    code: int
    out: str
    err: str


@dataclass(frozen=True)
class CommandLine:
    """`tagrpo(...)` runs a command and returns how it ended."""

    monkeypatch: pytest.MonkeyPatch
    capsys: pytest.CaptureFixture[str]

    def __call__(self, *arguments: object) -> Done:
        self.monkeypatch.setenv("COLUMNS", "300")
        self.monkeypatch.setattr(sys, "argv", ["tagrpo", *map(str, arguments)])
        self.capsys.readouterr()
        code: Any = 0
        try:
            main()
        except SystemExit as leaving:
            code = leaving.code or 0
        out, err = self.capsys.readouterr()
        return Done(int(code), out, err)


def words(text: str) -> str:
    """Return the text without line breaks, boxes and runs of blanks, to search for sentences in it."""
    return " ".join(text.translate(str.maketrans("│╭╮╰╯─", "      ")).split())
