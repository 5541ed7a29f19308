"""Render requests: chat template or raw text, special tokens once, a fixed date, room for the response."""

from pathlib import Path
from typing import Any

import pytest
from tiny_model import save_tiny_tokenizer

from service.asks.request import CONTEXT_LENGTH, Fault, Message, Request
from service.engines.prompts import Prompt, Renderer
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


def test_a_chat_prompt_comes_from_the_template(tokenizer: Any) -> None:
    prompt = Renderer(tokenizer, "tiny").render(chat("1+1?", system="Be brief."))
    assert prompt.text == (
        "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\n1+1?<|im_end|>\n<|im_start|>assistant\n"
    )
    assert tokenizer.decode(prompt.token_ids) == prompt.text
    assert prompt.token_ids[0] == tokenizer.convert_tokens_to_ids("<|im_start|>")


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


def test_the_context_limits_a_response() -> None:
    prompt = Prompt("b" * 90, (9,) * 90)
    assert [prompt.room(50, context) for context in (None, 1000, 100, 91)] == [50, 50, 10, 1]
    for empty_or_long in (Prompt("", ()), Prompt("b" * 100, (9,) * 100)):
        with pytest.raises(Fault) as raised:
            empty_or_long.room(50, 100)
        assert raised.value.kind == CONTEXT_LENGTH
