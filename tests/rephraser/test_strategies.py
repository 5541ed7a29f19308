"""What a model is asked for: strategies from files, and its prompt; candidates from files."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from rephraser.config import FileProposer
from rephraser.proposing.file import FileCandidates, read_candidates
from rephraser.proposing.parsing import ParseResult, parse_candidates
from rephraser.proposing.strategies import SHIPPED, Earlier, Strategy, build_messages, load_strategy
from service.asks.remote import RemoteEndpoint
from service.asks.request import Choice
from service.errors import InputError
from service.models.access import Model
from service.questions.question import make_question


def own(folder: Path, content: str | bytes, name: str = "own.txt") -> Strategy:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return load_strategy(str(path))


def test_shipped_strategies_differ_and_perspectives_is_version_5():
    loaded = [load_strategy(name) for name in SHIPPED]
    assert len({strategy.hash for strategy in loaded}) == len(SHIPPED)
    assert {strategy.name: strategy.version for strategy in loaded}["perspectives"] == "5"
    assert not [strategy.name for strategy in loaded if "---" in strategy.text or "version:" in strategy.text]


def test_the_hash_covers_the_text_and_nothing_else(tmp_path):
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


def test_an_echo_of_the_request_is_no_candidate_and_does_not_hide_one():
    for structured in (False, True):
        echo = user(structured=structured)
        alone = parse_candidates(Choice(echo, "stop"), question=QUESTION, count=1)
        assert alone == ((), ParseResult.ECHOED)
    answered = user() + "\n\n<rephrasing>Add one to $\\frac{1}{2}$.</rephrasing>"
    parsed, _ = parse_candidates(Choice(answered, "stop"), question=QUESTION, count=1)
    assert parsed == ("Add one to $\\frac{1}{2}$.",)


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
def test_tags_are_asked_for_unless_the_provider_enforces_a_schema(monkeypatch, model, api_base, form):
    for name in ("OPENAI_BASE_URL", "OPENAI_API_BASE"):
        monkeypatch.delenv(name, raising=False)
    bases = (api_base,) if api_base else ()
    endpoint = RemoteEndpoint(Model(model=model, sampler="remote", base_url=bases))
    assert endpoint.enforces_schema == (form == "json")


FIRST, SECOND = make_question("What is $1+1$?", "2"), make_question("What is $2+2$?", "4")


def read(folder: Path, rows: Sequence[Any]) -> FileCandidates:
    path = folder / "c.jsonl"
    path.write_text("\n".join(json.dumps(row) for row in rows))
    return read_candidates(FileProposer(kind="file", candidates=str(path)), [FIRST, SECOND])


def test_a_pair_is_understood_by_the_side_that_is_known(tmp_path):
    pair = {"question": "Add $1$ and $1$.", "original_question": "What is $1+1$?"}
    assert read(tmp_path, [pair]).by_question == {FIRST.id: ("Add $1$ and $1$.",)}
    other = {"question": "What is $1+1$?", "rephrased_question": "Add $1$ and $1$."}
    assert read(tmp_path, [other]).by_question == {FIRST.id: ("Add $1$ and $1$.",)}


def test_lists_objects_and_several_rows_add_up_in_order(tmp_path):
    rows = [
        {"question_id": FIRST.id, "candidates": ["a", {"text": "b"}]},
        {"question_id": SECOND.id, "candidates": "d"},
        {"question_id": FIRST.id, "candidates": ["b", "c"]},
    ]
    assert read(tmp_path, rows).by_question == {FIRST.id: ("a", "b", "c"), SECOND.id: ("d",)}


def test_a_row_without_text_is_refused(tmp_path):
    for column, value in (("candidate", " "), ("candidates", [])):
        with pytest.raises(InputError, match=rf'c\.jsonl:1: "{column}" contains no text'):
            read(tmp_path, [{"question": FIRST.text, column: value}])
