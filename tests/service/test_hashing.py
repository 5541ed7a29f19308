"""Content hashes and JSON lines: one spelling for one content, and lines that are none."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.errors import InputError
from service.hashing import canonical_json, canonical_text, content_hash, content_id
from service.json_lines import read_objects


def test_ids_are_stable_across_versions() -> None:
    assert (
        content_id("q", {"text": "1+1?", "answer": "2"})
        == "q_" + content_hash("q", {"answer": "2", "text": "1+1?"})[:24]
    )
    assert content_hash("q", {"text": "1+1?", "answer": "2"}) == (
        "0d51d9d35dfc3f9cee1895d990695d4fecacd32b365e5c4367783619a023c9e4"
    )


@given(st.text())
def test_canonical_text_is_idempotent(text: str) -> None:
    assert canonical_text(canonical_text(text)) == canonical_text(text)


def test_nan_has_no_canonical_form() -> None:
    with pytest.raises(ValueError):
        canonical_json({"x": float("nan")})


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'{"a": 1}\n{"a"', r"a\.jsonl:2: not valid JSON .*the file may be cut off"),
        (b"[" * 100_000, r"a\.jsonl:1: not valid JSON"),
        (b'{"a": "\xe9"}', r"a\.jsonl:1: not UTF-8: byte 0xe9 at byte 8 of the line\. Save the file"),
        (b"[1]", r"a\.jsonl:1: not a JSON object with an a\."),
    ],
)
def test_a_line_that_is_none_is_named(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(content)
    with pytest.raises(InputError, match=message):
        list(read_objects(path, "with an a"))


def test_objects_come_with_their_lines(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes('\ufeff{"a": "x\u2028y"}\n\n  \r\n{"a": 2}\r\n'.encode())
    assert list(read_objects(path)) == [(1, {"a": "x\u2028y"}), (4, {"a": 2})]
