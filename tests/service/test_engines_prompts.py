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
THINKS = (
    "{{ messages[-1]['content'] }}"
    "{% if enable_thinking is defined and not enable_thinking %}</think>{% endif %}"
)
WITH_BOS = "{{ bos_token }}{{ messages[-1]['content'] }}"
SILENT = {"enable_thinking": False}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny_tokenizer(tmp_path_factory.mktemp("tokenizer"))


@pytest.fixture
def tokenizer(folder: Path) -> Any:
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(folder)


@pytest.fixture
def with_bos(tokenizer: Any) -> Any:
    """Return a tokenizer that puts `<|endoftext|>` before every text, as those of Llama do with their BOS."""
    from tokenizers.processors import TemplateProcessing

    tokenizer.bos_token = "<|endoftext|>"
    tokenizer.backend_tokenizer.post_processor = TemplateProcessing(
        single="<|endoftext|> $A", special_tokens=[("<|endoftext|>", 0)]
    )
    return tokenizer


def chat(text: str, *, system: str | None = None, **kwargs: Any) -> Request:
    messages = [Message("system", system)] if system else []
    extra = {"chat_template_kwargs": kwargs} if kwargs else {}
    return Request("m", (*messages, Message("user", text)), sampling={"max_tokens": 5}, extra=extra)


def raw(text: str) -> Request:
    return Request("m", prompt=text, sampling={"max_tokens": 5})


def test_a_chat_prompt_comes_from_the_template(tokenizer: Any) -> None:
    prompt = Renderer(tokenizer, "tiny").render(chat("1+1?", system="Be brief."))
    assert prompt.text == (
        "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\n1+1?<|im_end|>\n<|im_start|>assistant\n"
    )
    assert tokenizer.decode(prompt.token_ids) == prompt.text
    assert prompt.token_ids[0] == tokenizer.convert_tokens_to_ids("<|im_start|>")


def test_raw_text_is_not_changed(tokenizer: Any) -> None:
    prompt = Renderer(tokenizer, "tiny").render(raw("Q: 1+1?\nA:"))
    assert prompt.text == "Q: 1+1?\nA:"
    assert len(prompt.token_ids) == len("Q: 1+1?\nA:")  # one token per byte


def test_arguments_reach_the_template(tokenizer: Any) -> None:
    renderer = Renderer(tokenizer, "tiny")
    for text in ("x", "y"):
        renderer.render(chat(text, **SILENT))
    assert renderer.notices == ["The chat template of tiny does not use enable_thinking."]
    tokenizer.chat_template = THINKS
    renderer = Renderer(tokenizer, "tiny")
    assert renderer.render(chat("x")).text == "x"
    assert renderer.render(chat("x", **SILENT)).text == "x</think>"
    assert renderer.notices == []


def test_a_model_without_a_template_continues_one_user_message(tokenizer: Any) -> None:
    tokenizer.chat_template = None
    renderer = Renderer(tokenizer, "tiny")
    assert renderer.template_id is None
    assert [renderer.render(chat(text)).text for text in ("1+1?", "2+2?")] == ["1+1?", "2+2?"]
    assert [notice.startswith("tiny has no chat template") for notice in renderer.notices] == [True]
    with pytest.raises(InputError, match="accepts only a single user message"):
        renderer.render(chat("1+1?", system="Be brief."))


def test_every_template_has_its_own_id(tokenizer: Any) -> None:
    first = Renderer(tokenizer, "tiny").template_id
    tokenizer.chat_template = THINKS
    second = Renderer(tokenizer, "tiny").template_id
    tokenizer.chat_template = {"default": THINKS, "tool_use": WITH_BOS}
    named = Renderer(tokenizer, "tiny")
    assert None is not first != second == named.template_id
    assert named.render(chat("x")).text == "x"


def test_a_template_that_prints_the_date_prints_the_same_every_day(tokenizer: Any) -> None:
    tokenizer.chat_template = "{{ strftime_now('%d %b %Y') }}: {{ messages[-1]['content'] }}"
    assert Renderer(tokenizer, "m").render(chat("2 + 2?")).text == "26 Jul 2024: 2 + 2?"


@pytest.mark.parametrize(
    ("end", "restored"), [("<think>\n", "<think>\na b"), ("<think>\n\n</think>\n\n", "a b"), ("", "a b")]
)
def test_a_thought_that_the_prompt_opens_is_restored(tokenizer: Any, end: str, restored: str) -> None:
    tokenizer.chat_template = "{{ messages[-1]['content'] }}" + end
    prompt = Renderer(tokenizer, "m").render(chat("<think>?"))
    assert prompt.restore_thought("a b") == restored
    assert prompt.restore_thought("<think> a b") == "<think> a b"


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


def test_a_prompt_has_one_bos(with_bos: Any) -> None:
    with_bos.chat_template = WITH_BOS
    renderer = Renderer(with_bos, "tiny")
    assert renderer.render(chat("ab")).token_ids.count(0) == 1
    assert renderer.render(raw("ab")).token_ids.count(0) == 1
    assert renderer.render(raw("<|endoftext|>ab")).token_ids == renderer.render(raw("ab")).token_ids


def test_the_context_limits_a_response() -> None:
    prompt = Prompt("b" * 90, (9,) * 90)
    assert [prompt.room(50, context) for context in (None, 1000, 100, 91)] == [50, 50, 10, 1]
    for empty_or_long in (Prompt("", ()), Prompt("b" * 100, (9,) * 100)):
        with pytest.raises(Fault) as raised:
            empty_or_long.room(50, 100)
        assert raised.value.kind == CONTEXT_LENGTH
