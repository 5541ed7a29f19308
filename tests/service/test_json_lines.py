"""One JSON object a line: what is read, and how a line that is none is named."""

from pathlib import Path

import pytest

from service.errors import InputError
from service.json_lines import read_objects


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'{"a": 1}\n{"a"', r"a\.jsonl:2: not JSON .*Is the file cut off\?"),
        (b"[" * 100_000, r"a\.jsonl:1: not JSON"),
        (b'{"a": "\xe9"}', r"a\.jsonl:1: not UTF-8 at byte 7 of it; save it as UTF-8"),
        (b"[1]", r"a\.jsonl:1: not a JSON object with an a\."),
    ],
)
def test_a_line_that_is_none_is_named(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(content)
    with pytest.raises(InputError, match=message):
        list(read_objects(path, "with an a"))
