"""Prompts and sampling of an evaluation: presets and what the user puts in their place."""

from pathlib import Path
from typing import Any

import pytest

from evaluator.config import EvalConfig
from service.errors import InputError
from service.models.prompts import PromptConfig


def config(**settings: Any) -> EvalConfig:
    return EvalConfig(**{"benchmarks": ("aime24",), "model": "m", **settings})


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
