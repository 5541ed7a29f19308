"""One JSON object a line: what is read, and how a line that is none is named."""

from pathlib import Path

import pytest

from service.errors import InputError
from service.json_lines import read_objects


def test_objects_come_with_their_lines(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes('\ufeff{"a": "x\u2028y"}\n\n  \r\n{"a": 2}\r\n'.encode())
    assert list(read_objects(path)) == [(1, {"a": "x\u2028y"}), (4, {"a": 2})]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'{"a": 1}\n{"a"', r"a\.jsonl:2: not JSON .*Is the file cut off\?"),
        (b"[" * 100_000, r"a\.jsonl:1: not JSON"),
        (b'{"a": "\xe9"}', r"a\.jsonl:1: byte 8 is not valid UTF-8. Save the file as UTF-8"),
        (b"[1]", r"a\.jsonl:1: not a JSON object with an a\."),
    ],
)
def test_a_line_that_is_none_is_named(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(content)
    with pytest.raises(InputError, match=message):
        list(read_objects(path, "with an a"))


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="nothing: cannot be read"):
        list(read_objects(tmp_path / "nothing"))
