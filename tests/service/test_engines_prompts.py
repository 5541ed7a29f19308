"""Render requests: chat template or raw text, special tokens once, a fixed date, room for the response."""

from pathlib import Path
from typing import Any

import pytest
from tiny_model import save_tiny_tokenizer

from service.asks.request import Message, Request
from service.engines.prompts import Renderer
from service.errors import InputError

REJECTS_SYSTEM = (
    "{% if messages[0]['role'] == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}"
    "{{ messages[0]['content'] }}"
)
DROPS_SYSTEM = "{% for m in messages %}{% if m['role'] == 'user' %}{{ m['content'] }}{% endif %}{% endfor %}"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny_tokenizer(tmp_path_factory.mktemp("tokenizer"))


@pytest.fixture
def tokenizer(folder: Path) -> Any:
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(folder)


def chat(text: str, *, system: str | None = None, **kwargs: Any) -> Request:
    messages = [Message("system", system)] if system else []
    extra = {"chat_template_kwargs": kwargs} if kwargs else {}
    return Request("m", (*messages, Message("user", text)), sampling={"max_tokens": 5}, extra=extra)


def test_a_model_without_a_template_continues_one_user_message(tokenizer: Any) -> None:
    tokenizer.chat_template = None
    renderer = Renderer(tokenizer, "tiny")
    assert renderer.template_id is None
    assert [renderer.render(chat(text)).text for text in ("1+1?", "2+2?")] == ["1+1?", "2+2?"]
    assert [notice.startswith("tiny has no chat template") for notice in renderer.notices] == [True]
    with pytest.raises(InputError, match="accepts only a single user message"):
        renderer.render(chat("1+1?", system="Be brief."))


def test_a_template_that_prints_the_date_prints_the_same_every_day(tokenizer: Any) -> None:
    tokenizer.chat_template = "{{ strftime_now('%d %b %Y') }}: {{ messages[-1]['content'] }}"
    assert Renderer(tokenizer, "m").render(chat("2 + 2?")).text == "26 Jul 2024: 2 + 2?"


@pytest.mark.parametrize(
    ("template", "reason"),
    [(REJECTS_SYSTEM, "System role not supported"), (DROPS_SYSTEM, "drops the system")],
)
def test_a_system_message_that_the_template_does_not_take_is_an_error(
    tokenizer: Any, template: str, reason: str
) -> None:
    tokenizer.chat_template = template
    renderer = Renderer(tokenizer, "tiny")
    with pytest.raises(InputError, match=reason):
        renderer.render(chat("x", system="Be brief."))
    assert renderer.render(chat("x")).text == "x"
