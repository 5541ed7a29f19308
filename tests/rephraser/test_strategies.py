"""Strategies: shipped ones, files of the user's, headers, hashes."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

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


def test_a_file_without_a_header_is_the_instruction(tmp_path: Path) -> None:
    strategy = own(tmp_path, "  Say it anew.\n\n---\n\nKeep numbers.\n")
    assert strategy.text == "Say it anew.\n\n---\n\nKeep numbers."
    assert (strategy.name, strategy.version) == ("own", "1")


def test_a_header_names_version_and_summary(tmp_path: Path) -> None:
    strategy = own(tmp_path, "version: 7\n\nsummary: with a colon: here\n---\nSay it anew.")
    assert (strategy.version, strategy.summary) == ("7", "with a colon: here")
    assert strategy.text == "Say it anew."


def test_windows_line_ends_and_a_byte_order_mark_change_nothing(tmp_path: Path) -> None:
    plain = own(tmp_path, "version: 2\n---\nSay it\nanew.")
    windows = own(tmp_path, b"\xef\xbb\xbfversion: 2\r\n---\r\nSay it\r\nanew.\r\n", "windows.txt")
    assert (windows.text, windows.version, windows.hash) == (plain.text, "2", plain.hash)


def test_lines_that_are_no_header_stay_in_the_instruction(tmp_path: Path) -> None:
    assert own(tmp_path, "version: 2\ntone: dry\n---\nSay it.").text == "version: 2\ntone: dry\n---\nSay it."


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


def test_neither_a_name_nor_a_file(tmp_path: Path) -> None:
    for reference in ("perspective", str(tmp_path), ""):
        with pytest.raises(InputError, match="neither a built-in strategy"):
            load_strategy(reference)


@given(
    st.text(alphabet=st.characters(exclude_categories=["C"]), min_size=1).filter(lambda text: text.strip())
)
def test_any_text_survives(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    path = tmp_path_factory.getbasetemp() / "any.txt"
    path.write_bytes(text.encode())
    assert load_strategy(str(path)).text == text.strip()
