"""What tests of `tagrpo rephrase run` share: arguments, refusals."""

import json
from pathlib import Path

from command_line import CommandLine, words


def propose(*more: str, name: str = "r") -> list[str]:
    return ["rephrase", "run", "world", "--name", name, *more]


def llm(url: str, *more: str, model: str = "openai/test-model") -> list[str]:
    return propose("--model", model, "--base-url", url, *more)


def from_file(source: Path | str, *more: str, name: str = "r") -> list[str]:
    return propose("proposer=file", f"proposer.candidates={source}", *more, name=name)


def runs(cli: CommandLine) -> list[str]:
    return [run["run"] for run in json.loads(cli("runs", "list", "--json").out)["runs"]]


def refused(cli: CommandLine, arguments: list[str], message: str) -> None:
    """Assert that a command ends with 2 and this message, and that no run has taken the name."""
    done = cli(*arguments)
    assert (done.code, done.out) == (2, "")
    assert message in words(done.err)
    assert runs(cli) == []
