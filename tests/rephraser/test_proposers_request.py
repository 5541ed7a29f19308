"""What a model is sent to get candidates."""

import pytest

from rephraser.proposing.parsing import Outcome, parse_candidates
from rephraser.proposing.request import Earlier, build_messages
from rephraser.proposing.strategies import Strategy
from service.asks.providers import Provider

STRATEGY = Strategy("own", "1", "mine", "Say it anew.")
QUESTION = "What is $\\frac{1}{2}+1$?"


def user(count: int = 1, *, structured: bool = False, avoid: tuple[Earlier, ...] = ()) -> str:
    system, asked = build_messages(STRATEGY, QUESTION, count, structured=structured, avoid=avoid)
    assert (system["role"], system["content"]) == ("system", "Say it anew.")
    assert asked["role"] == "user"
    return asked["content"]


def test_earlier_candidates_are_shown_whole() -> None:
    asked = user(avoid=(Earlier("First\nway."), Earlier("Second {way}.")))
    assert "these earlier rewrites:\n\n<earlier>\nFirst\nway.\n</earlier>" in asked
    assert "<earlier>\nSecond {way}.\n</earlier>" in asked
    assert "wrong" not in asked.casefold()
    assert "earlier" not in user()


def test_what_was_wrong_with_an_earlier_candidate_stands_below_it() -> None:
    asked = user(avoid=(Earlier("First."), Earlier("Second.", "the number {7} is missing")))
    assert "<earlier>\nFirst.\n</earlier>\n\n<earlier>\nSecond.\n</earlier>\nWrong: the number {7}" in asked
    assert "make none of these mistakes again" in asked


def test_an_echo_of_the_request_is_no_candidate_and_does_not_hide_one() -> None:
    for structured in (False, True):
        echo = user(structured=structured)
        alone = parse_candidates(echo, question=QUESTION, count=1, truncated=False)
        assert (alone.candidates, alone.outcome) == ((), Outcome.ECHOED)
    answered = user() + "\n\n<rephrasing>Add one to $\\frac{1}{2}$.</rephrasing>"
    parsed = parse_candidates(answered, question=QUESTION, count=1, truncated=False)
    assert parsed.candidates == ("Add one to $\\frac{1}{2}$.",)


@pytest.mark.parametrize(
    ("model", "api_base", "form"),
    [
        ("gpt-4o-mini", None, "json"),
        ("openai/gpt-4o", None, "json"),
        ("gpt-4-turbo", None, "tags"),  # it knows JSON, but keeps to no schema
        ("openai/gpt-4o", "http://localhost:8000/v1", "tags"),  # whatever answers there under this name
        ("hosted_vllm/Qwen/Qwen3-4B", "http://localhost:8000/v1", "tags"),
        ("anthropic/claude-3-haiku-20240307", None, "tags"),
    ],
)
def test_tags_are_asked_for_unless_the_provider_enforces_a_schema(
    monkeypatch: pytest.MonkeyPatch, model: str, api_base: str | None, form: str
) -> None:
    for name in ("OPENAI_BASE_URL", "OPENAI_API_BASE"):
        monkeypatch.delenv(name, raising=False)
    provider = Provider(model, api_base)
    assert provider.enforces_schema == (form == "json")
