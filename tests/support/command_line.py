"""The command line inside the test's own process: the imports of litellm and datasets are paid once."""

import io
import sys
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import pytest

from sandbox.__main__ import main as sandbox
from ui.cli.app import main


class Done(NamedTuple):
    """What a command left: its exit code and what it wrote."""

    code: int
    out: str
    err: str


@dataclass(frozen=True)
class CommandLine:
    """`cli(...)` runs a command and returns how it ended."""

    monkeypatch: pytest.MonkeyPatch
    capsys: pytest.CaptureFixture[str]
    group: tuple[str, ...] = ()  # words before those of each call

    def within(self, *group: str) -> "CommandLine":
        """Return the command line of a group, as `tagrpo sets`."""
        return replace(self, group=group)

    def __call__(self, *arguments: object) -> Done:
        self.monkeypatch.setenv("COLUMNS", "300")
        self.monkeypatch.setattr(sys, "argv", ["tagrpo", *self.group, *map(str, arguments)])
        self.capsys.readouterr()
        code = _run()
        out, err = self.capsys.readouterr()
        return Done(code, out, err)

    def ok(self, *arguments: object) -> Done:
        """Run a command that has to end with exit code 0."""
        done = self(*arguments)
        assert done.code == 0, done.err
        return done


def run_here(*arguments: object) -> Done:
    """Run a command where no test's own fixtures are at hand, as in one that several tests share."""
    out, err = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patched, redirect_stdout(out), redirect_stderr(err):
        patched.setenv("COLUMNS", "300")
        patched.setattr(sys, "argv", ["tagrpo", *map(str, arguments)])
        code = _run()
    return Done(code, out.getvalue(), err.getvalue())


def _run() -> int:
    """Run `sys.argv`, whose first argument may be `sandbox`, for `python -m sandbox`."""
    code: Any = 0
    try:
        if sys.argv[1:2] == ["sandbox"]:
            code = sandbox(sys.argv[2:])
        else:
            main()
    except SystemExit as leaving:
        code = leaving.code
    return int(code or 0)


def words(text: str) -> str:
    """Return the text without line breaks, boxes and runs of blanks, to search for sentences in it."""
    return " ".join(text.translate(str.maketrans("│╭╮╰╯─", "      ")).split())


def squeezed(text: str) -> list[str]:
    """Return the lines with single blanks between words, as `name value` of a record."""
    return [" ".join(line.split()) for line in text.splitlines()]
