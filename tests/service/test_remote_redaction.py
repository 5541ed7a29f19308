"""No key in any text."""

import pytest

from service.models.remote import redact
from service.models.remote.redaction import BLOT, redact_values, secret_values

SECRET = "zq81-Tangerine/77+w=="


@pytest.mark.parametrize(
    "text",
    [
        "Incorrect API key provided: Bearer {}. Find yours at https://example.org",
        "header Authorization: bearer {}",
        'api_key="{}"',
        "Incorrect API key provided: {}.",
        "https://user:{}@host/v1 refused",
    ],
)
def test_keys_are_blotted_out_where_they_usually_stand(text: str) -> None:
    key = "abcDEF123456"
    assert key not in redact(text.format(key))
    assert BLOT in redact(text.format(key))


@pytest.mark.parametrize("key", ["sk-proj-abc123DEF456ghi", "hf_abcdefghijklmnop", "gsk_abcdefghijklmnop"])
def test_keys_are_known_by_their_prefixes(key: str) -> None:
    assert redact(f"I was sent {key} today") == f"I was sent {BLOT} today"


def test_keys_of_the_environment_are_blotted_out_anywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_PROVIDER_API_KEY", SECRET)
    assert redact(f"you said {SECRET}!") == f"you said {BLOT}!"
    assert redact_values(f'{{"x": "{SECRET}"}}', secret_values()) == f'{{"x": "{BLOT}"}}'


def test_short_values_do_not_blot_out_ordinary_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_TOKEN", "1")
    assert redact("1 apple, 11 pears") == "1 apple, 11 pears"


@pytest.mark.parametrize(
    "text",
    [
        "no key in the environment: set OPENAI_API_KEY",
        "Find the basic solution of 3x + 5 = 11 with sk = 4.",
        "the bearer of bad news",
        "maximum context length is 4096 tokens",
    ],
)
def test_ordinary_texts_stay(text: str) -> None:
    assert redact(text) == text
