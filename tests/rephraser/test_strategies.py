"""Strategies: shipped ones, files of the user's, headers, hashes."""

from pathlib import Path

import pytest

from rephraser.proposing.strategies import SHIPPED, Strategy, load_strategy
from service.errors import InputError


def own(folder: Path, content: str | bytes, name: str = "own.txt") -> Strategy:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return load_strategy(str(path))


def test_shipped_strategies_differ_and_perspectives_is_version_5() -> None:
    loaded = [load_strategy(name) for name in SHIPPED]
    assert len({strategy.hash for strategy in loaded}) == len(SHIPPED)
    assert {strategy.name: strategy.version for strategy in loaded}["perspectives"] == "5"
    assert not [strategy.name for strategy in loaded if "---" in strategy.text or "version:" in strategy.text]


def test_a_header_names_version_and_summary(tmp_path: Path) -> None:
    strategy = own(tmp_path, "version: 7\n\nsummary: with a colon: here\n---\nSay it anew.")
    assert (strategy.version, strategy.summary) == ("7", "with a colon: here")
    assert strategy.text == "Say it anew."


def test_the_hash_covers_the_text_and_nothing_else(tmp_path: Path) -> None:
    base = own(tmp_path, "Say it anew.")
    assert own(tmp_path, "version: 9\nsummary: x\n---\nSay it anew.", "other.txt").hash == base.hash
    assert own(tmp_path, "Say it anew!").hash != base.hash
    assert len(base.hash) == 16


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "own.txt: the instruction is empty"),
        (b" \n\t\n", "own.txt: the instruction is empty"),
        (b"version: 3\n---\n", "own.txt: the instruction is empty"),
        (b"caf\xe9", "own.txt: not UTF-8 at byte 3"),
        (b"one\ntwo\nth\x00ree", "contains the control character"),
    ],
)
def test_files_that_cannot_be_used(tmp_path: Path, content: bytes, message: str) -> None:
    with pytest.raises(InputError, match=message.replace("(", r"\(")):
        own(tmp_path, content)
