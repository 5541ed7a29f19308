"""Prompts: through the chat template or as raw text, special tokens once, room for the answer."""

from pathlib import Path
from typing import Any

import pytest
from eval_runs import make_problems
from tiny_model import save_tiny_tokenizer

from evaluator.evals.problems import RunProblem
from service.errors import InputError
from service.hashing import content_id
from service.models.rendering import Renderer, plan_prompts
from service.models.settings import PromptSpec

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


def spec(**settings: Any) -> PromptSpec:
    return PromptSpec(**{"template": "{question}", **settings})


def problems(*texts: str) -> list[RunProblem]:
    made = make_problems(len(texts))
    return [
        RunProblem(10 + place, place, one.id, one.id, 0, None, None, text, one.answer, one.kind, None)
        for place, (one, text) in enumerate(zip(made, texts, strict=True))
    ]


def test_a_chat_prompt_is_what_the_template_makes_of_it(tokenizer: Any) -> None:
    prompt = Renderer(tokenizer, "tiny").render(
        "1+1?", spec(template="{question} Box it.", system="Be brief.")
    )
    assert prompt.text == (
        "<|im_start|>system\nBe brief.<|im_end|>\n"
        "<|im_start|>user\n1+1? Box it.<|im_end|>\n<|im_start|>assistant\n"
    )
    assert tokenizer.decode(prompt.token_ids) == prompt.text
    assert prompt.token_ids[0] == tokenizer.convert_tokens_to_ids("<|im_start|>")


def test_raw_text_is_the_text_itself(tokenizer: Any) -> None:
    prompt = Renderer(tokenizer, "tiny").render("1+1?", spec(form="raw", template="Q: {question}\nA:"))
    assert prompt.text == "Q: 1+1?\nA:"
    assert len(prompt.token_ids) == len("Q: 1+1?\nA:")  # one token a byte


def test_arguments_reach_the_template(tokenizer: Any) -> None:
    tokenizer.chat_template = THINKS
    renderer = Renderer(tokenizer, "tiny")
    assert renderer.render("x", spec()).text == "x"
    silent = spec(chat_template_kwargs={"enable_thinking": False})
    assert renderer.render("x", silent).text == "x</think>"
    assert renderer.notices(silent) == []


def test_an_argument_that_the_template_never_reads_is_told(tokenizer: Any) -> None:
    (notice,) = Renderer(tokenizer, "tiny").notices(spec(chat_template_kwargs={"enable_thinking": False}))
    assert "never reads enable_thinking" in notice


def test_without_a_template_prompts_are_raw_text_with_a_notice(tokenizer: Any) -> None:
    tokenizer.chat_template = None
    renderer = Renderer(tokenizer, "tiny")
    assert renderer.template_id is None
    assert renderer.render("1+1?", spec()).text == "1+1?"
    assert "raw text" in renderer.notices(spec())[0]
    assert "enable_thinking" in renderer.notices(spec(chat_template_kwargs={"enable_thinking": False}))[1]
    assert renderer.notices(spec(form="raw")) == []
    with pytest.raises(InputError, match="no place for a system prompt"):
        renderer.notices(spec(system="Be brief."))


def test_templates_have_ids_of_their_own(tokenizer: Any) -> None:
    first = Renderer(tokenizer, "tiny").template_id
    tokenizer.chat_template = THINKS
    assert first is not None
    assert Renderer(tokenizer, "tiny").template_id != first
    tokenizer.chat_template = {"default": THINKS, "tool_use": WITH_BOS}
    assert Renderer(tokenizer, "tiny").render("x", spec()).text == "x"


def test_a_template_that_asks_for_the_day_gets_the_same_one_every_day(tokenizer: Any) -> None:
    tokenizer.chat_template = "{{ strftime_now('%d %b %Y') }}: {{ messages[-1]['content'] }}"
    dated = Renderer(tokenizer, "m")
    assert dated.render("2 + 2?", spec()).text == "26 Jul 2024: 2 + 2?"
    assert dated.template_id not in (None, content_id("template", tokenizer.chat_template))


def test_a_prompt_that_opens_a_thought_says_so(tokenizer: Any) -> None:
    for end, opens in (("<think>\n", True), ("<think>\n\n</think>\n\n", False), ("", False)):
        tokenizer.chat_template = "{{ messages[-1]['content'] }}" + end
        renderer = Renderer(tokenizer, "m")
        assert renderer.render("<think>?", spec()).opens_thought is opens
        assert (renderer.template_id != content_id("template", tokenizer.chat_template)) is opens


@pytest.mark.parametrize(
    ("template", "reason"), [(REJECTS_SYSTEM, "System role not supported"), (DROPS_SYSTEM, "leaves out")]
)
def test_a_system_prompt_that_the_template_does_not_take_is_an_error(
    tokenizer: Any, template: str, reason: str
) -> None:
    tokenizer.chat_template = template
    renderer = Renderer(tokenizer, "tiny")
    with pytest.raises(InputError, match=rf"{reason}.*leave out --system"):
        renderer.render("x", spec(system="Be brief."))
    assert renderer.render("x", spec()).text == "x"


def test_bos_stands_once(with_bos: Any) -> None:
    with_bos.chat_template = WITH_BOS
    renderer = Renderer(with_bos, "tiny")
    assert renderer.render("ab", spec()).token_ids.count(0) == 1
    assert renderer.render("ab", spec(form="raw")).token_ids.count(0) == 1
    own = spec(form="raw", template="<|endoftext|>{question}")
    assert renderer.render("ab", own).token_ids == renderer.render("ab", spec(form="raw")).token_ids


def test_responses_are_capped_where_the_context_ends(tokenizer: Any) -> None:
    renderer = Renderer(tokenizer, "tiny")
    planned = plan_prompts(
        renderer, lambda _: spec(form="raw"), problems("a" * 10, "b" * 90), max_tokens=50, context=100
    )
    assert {id: one.max_tokens for id, one in planned.by_problem.items()} == {10: 50, 11: 10}
    (notice,) = planned.notices
    assert notice == (
        "1 of 2 prompts leave less than 50 tokens in the context of 100: their responses are cut earlier, "
        "the shortest after 10 tokens."
    )
    unlimited = plan_prompts(
        renderer, lambda _: spec(form="raw"), problems("b" * 90), max_tokens=50, context=None
    )
    assert unlimited.by_problem[10].max_tokens == 50
    assert unlimited.notices == []


def test_a_prompt_without_room_for_one_token_names_the_problem(tokenizer: Any) -> None:
    renderer = Renderer(tokenizer, "tiny")
    with pytest.raises(InputError, match=r"prompt of problem 2 \(p_.*\) has 100 tokens, .* context is 100"):
        plan_prompts(
            renderer, lambda _: spec(form="raw"), problems("a", "b" * 100), max_tokens=5, context=100
        )
