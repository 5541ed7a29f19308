"""Prompts and sampling of an evaluation: presets and what the user puts in their place."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluator.config import EvalConfig
from service.errors import InputError
from service.models.prompts import PRESETS, PromptConfig


def config(**settings: Any) -> EvalConfig:
    return EvalConfig(**{"benchmarks": ("aime24",), "model": "m", **settings})


@pytest.mark.parametrize("name", PRESETS)
def test_presets_ask_for_a_box_and_draw_as_the_public_evaluation_does(name: str) -> None:
    for choice in (False, True):
        asked = config(preset=name).prompt(choice=choice).fill("1 + 1?")
        assert asked == "1 + 1?" if name == "plain" else "\\boxed{}" in asked
    sampling = config(preset=name).drawing(at_once=8)
    assert (sampling.temperature, sampling.top_p, sampling.max_tokens, sampling.seed) == (0.6, 0.95, 3072, 0)


def test_the_presets_of_the_paper() -> None:
    paper = config(preset="paper").prompt()
    assert (paper.form, paper.chat_template_kwargs) == ("chat", {"enable_thinking": False})
    assert paper.fill("1 + 1?") == (
        "Please provide step-by-step reasoning, and enclose your final answer in the box: \\boxed{}.\n1 + 1?"
    )
    public = config(preset="paper-eval").prompt(choice=True)
    assert (public.form, config(preset="paper-eval").n, config(preset="paper", n=4).n) == ("raw", 128, 4)
    assert public.fill("1 + 1?").startswith("You FIRST think about the reasoning process")
    assert public.fill("1 + 1?").endswith("outputting the box.\n1 + 1?")


def test_a_letter_or_a_program_is_asked_for_where_every_problem_wants_one() -> None:
    assert "letter" in config().prompt(choice=True).template
    assert "letter" not in config().prompt().template
    assert "```python" in config().prompt(programs=True).template


def test_every_part_can_be_replaced(tmp_path: Path) -> None:
    file = tmp_path / "prompt.txt"
    file.write_text("Solve: {question}\nAnswer:\n")
    prompt = config(
        preset="paper",
        system="Be brief.",
        prompt_file=file,
        chat_template_kwargs={"enable_thinking": True},
    ).prompt()
    assert (prompt.template, prompt.system) == ("Solve: {question}\nAnswer:", "Be brief.")
    assert prompt.chat_template_kwargs == {"enable_thinking": True}
    own = {"temperature": 1.0, "top_p": 1.0, "max_tokens": 99, "seed": 7, "samples_per_request": 2}
    sampling = config(preset="paper", **own).drawing(at_once=8)
    assert {name: getattr(sampling, name) for name in own} == own


def test_published_settings_are_defaults_and_single_ones_win() -> None:
    sampling = config(sampling="qwen3-thinking", top_k=40, temperature=0.5).drawing(at_once=8)
    assert (sampling.temperature, sampling.top_p, sampling.max_tokens) == (0.5, 0.95, 32_768)
    assert (sampling.top_k, sampling.min_p) == (40, 0.0)


def test_raw_text_leaves_the_presets_chat_settings_out_but_not_the_users() -> None:
    raw = config(preset="paper", form="raw").prompt()
    assert (raw.form, raw.chat_template_kwargs) == ("raw", {})
    for given_too in ({"system": "x"}, {"chat_template_kwargs": {"a": 1}}):
        with pytest.raises(InputError, match="need form=chat"):
            config(form="raw", **given_too).prompt()


def test_greedy_responses_are_asked_for_one_at_a_time() -> None:
    assert config(temperature=0.0).drawing(at_once=8).samples_per_request == 1
    assert config(temperature=0.1).drawing(at_once=8).samples_per_request == 8


@pytest.mark.parametrize("content", [b"no place for it", b"\xff{question}"])
def test_a_prompt_file_has_to_be_text_with_the_placeholder(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "prompt.txt"
    file.write_bytes(content)
    with pytest.raises(InputError, match=r"prompt\.txt"):
        PromptConfig(prompt_file=file).prompt()
    with pytest.raises(InputError, match=r"gone\.txt"):
        PromptConfig(prompt_file=tmp_path / "gone.txt").prompt()


@given(st.text())
def test_a_problem_stands_in_the_prompt_as_it_is(question: str) -> None:
    for preset in PRESETS:
        assert question in config(preset=preset).prompt().fill(question)
