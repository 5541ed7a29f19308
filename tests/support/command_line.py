"""The command line inside the test's own process: the imports of litellm and datasets are paid once."""

import io
import json
import shlex
import sys
from collections.abc import Iterator, Mapping
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
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
    """`run_here(...)` runs a command and returns how it ended; other methods check its exit code, too."""

    group: tuple[str, ...] = ()  # words before those of each call

    def within(self, *group: str) -> "CommandLine":
        """Return the command line of a group, as `tagrpo sets`."""
        return CommandLine(group)

    def __call__(self, *arguments: object) -> Done:
        out, err, code = io.StringIO(), io.StringIO(), 0
        with pytest.MonkeyPatch.context() as patched, redirect_stdout(out), redirect_stderr(err):
            patched.setenv("COLUMNS", "300")
            patched.setattr(sys, "argv", ["tagrpo", *self.group, *map(str, arguments)])
            try:
                if sys.argv[1:2] == ["sandbox"]:  # for `python -m sandbox`
                    code = sandbox(sys.argv[2:])
                else:
                    main()
            except SystemExit as leaving:
                code = int(leaving.code or 0)
        return Done(code, out.getvalue(), err.getvalue())

    def ok(self, *arguments: object, code: int = 0) -> Done:
        """Run a command that has to end with this exit code."""
        done = self(*arguments)
        assert done.code == code, done.err
        return done

    def warned(self, *arguments: object) -> Done:
        """Run a command that ends, but something needs attention."""
        return self.ok(*arguments, code=3)

    def refused(self, *arguments: object) -> str:
        """Run a command that has to be refused; return its error without line breaks."""
        done = self.ok(*arguments, code=2)
        assert (done.out, "Traceback" in done.err) == ("", False), done
        return words(done.err)

    def refuses(self, messages: Mapping[str, str]) -> None:
        """Run commands, each a line of words, that have to be refused with their messages."""
        for line, message in messages.items():
            error = self.refused(*shlex.split(line))
            assert message in error, (line, error)

    def json(self, *arguments: object, code: int = 0) -> dict[str, Any]:
        """Run a command with --json and return its object."""
        value: dict[str, Any] = json.loads(self.ok(*arguments, "--json", code=code).out)
        return value


run_here = CommandLine()


def walk_commands(group: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield all commands of a group with the words that name them."""
    for name, inner in group.commands.items():
        if hasattr(inner, "commands"):
            yield from walk_commands(inner, (*path, name))
        else:
            yield (*path, name), inner


def words(text: str) -> str:
    """Return the text without line breaks, boxes and runs of blanks, to search for sentences in it."""
    return " ".join(text.translate(str.maketrans("│╭╮╰╯─", "      ")).split())


def squeezed(text: str) -> list[str]:
    """Return the lines with single blanks between words, as `name value` of a record."""
    return [" ".join(line.split()) for line in text.splitlines()]
