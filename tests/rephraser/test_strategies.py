"""What a model is asked for: strategies from files, and its prompt."""

from pathlib import Path

import pytest

from rephraser.proposing.parsing import ParseResult, parse_candidates
from rephraser.proposing.strategies import SHIPPED, Strategy, load_strategy
from rephraser.run.requests import Earlier, build_messages
from service.asks.remote import RemoteEndpoint


def own(folder: Path, content: str | bytes, name: str = "own.txt") -> Strategy:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return load_strategy(str(path))


def test_shipped_strategies_differ_and_perspectives_is_version_5() -> None:
    loaded = [load_strategy(name) for name in SHIPPED]
    assert len({strategy.hash for strategy in loaded}) == len(SHIPPED)
    assert {strategy.name: strategy.version for strategy in loaded}["perspectives"] == "5"
    assert not [strategy.name for strategy in loaded if "---" in strategy.text or "version:" in strategy.text]


def test_the_hash_covers_the_text_and_nothing_else(tmp_path: Path) -> None:
    base = own(tmp_path, "Say it anew.")
    assert own(tmp_path, "version: 9\nsummary: x\n---\nSay it anew.", "other.txt").hash == base.hash
    assert own(tmp_path, "Say it anew!").hash != base.hash
    assert len(base.hash) == 16


STRATEGY = Strategy("own", "1", "mine", "Say it anew.")
QUESTION = "What is $\\frac{1}{2}+1$?"


def user(count: int = 1, *, structured: bool = False, avoid: tuple[Earlier, ...] = ()) -> str:
    system, asked = build_messages(STRATEGY, QUESTION, count, structured=structured, avoid=avoid)
    assert (system.role, system.content, asked.role) == ("system", "Say it anew.", "user")
    return asked.content


def test_an_echo_of_the_request_is_no_candidate_and_does_not_hide_one() -> None:
    for structured in (False, True):
        echo = user(structured=structured)
        alone = parse_candidates(echo, question=QUESTION, count=1, truncated=False)
        assert (alone.candidates, alone.outcome) == ((), ParseResult.ECHOED)
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
    endpoint = RemoteEndpoint(model, [api_base] if api_base else [])
    assert endpoint.enforces_schema == (form == "json")
