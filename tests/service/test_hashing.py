"""Content hashes: one spelling for one content."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.hashing import canonical_json, canonical_text, content_hash, content_id


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
